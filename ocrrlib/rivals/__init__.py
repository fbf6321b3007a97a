"""Systems that the paper leaves out: one file per family of methods, the proposed one (``ledger_lda``) among them."""
