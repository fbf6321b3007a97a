"""Evaluate a classifier, an encoder or data of your own."""
