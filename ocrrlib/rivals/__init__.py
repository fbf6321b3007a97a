"""Systems beyond the paper's, one file per family, with the proposed one, ``ledger_lda``."""
