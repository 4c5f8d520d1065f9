"""`hmem upgrade`: a newer version of the program, with the way back kept first."""
