"""Harder streams: a figure per study, tables, and what a practitioner should do."""
