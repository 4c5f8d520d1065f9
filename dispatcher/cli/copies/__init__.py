"""What is stored as a whole: out of here (`hmem export`), away (`hmem forget`), and back from copies (`hmem restore`)."""
