"""Commands for what is stored as a whole: given out, forgotten, copied, backed up, and brought back; releases."""
