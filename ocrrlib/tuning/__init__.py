"""How our own system was set, on training rows only."""
