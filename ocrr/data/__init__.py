"""Readers of files of your own: texts or vectors, with labels."""
