"""``ocrr`` on the command line."""
