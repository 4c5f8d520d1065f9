"""The tables of the catalog (nightly/archive/catalog.py), and the rows that follow from a segment."""
