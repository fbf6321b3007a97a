"""Formats that show others what a ledger holds; none of them knows a store."""
