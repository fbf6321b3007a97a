"""The benchmark with a classifier, an encoder or data of your own."""
