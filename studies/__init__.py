"""Studies beyond the sweep, and the statistics of their results."""
