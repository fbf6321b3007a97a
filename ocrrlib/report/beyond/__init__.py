"""The wider comparison: figures, tables, and the values that the paper quotes."""
