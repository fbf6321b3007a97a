"""A system, data or an encoder of one's own on the benchmark: what is evaluated, on what, and what it came to."""
