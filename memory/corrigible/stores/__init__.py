"""Where a ledger is kept: the interface of a store, SQLite, PostgreSQL."""
