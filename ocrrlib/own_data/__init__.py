"""Data of one's own, from a file to a dataset like the published ones."""
