"""Tables and figures from tidy results; nothing here runs an experiment."""
