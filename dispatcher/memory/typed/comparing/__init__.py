"""How statements are worded, and whether two of them say the same, correct each other or have nothing to do with each other."""
