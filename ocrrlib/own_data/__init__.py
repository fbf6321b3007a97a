"""Data of one's own, from a file or memory to a dataset like the published ones."""
