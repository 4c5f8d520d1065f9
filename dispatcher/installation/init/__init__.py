"""`hmem init`: the questions, and one module for each thing that it sets up."""
