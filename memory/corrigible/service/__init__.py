"""A memory behind HTTP, with a desk for people in the browser."""
