"""A ledger of entries in a store: verified as it is read, and only appended to."""
