"""OCRR: online correction recovery under distribution shift.

Data flows one way: texts -> embeddings -> scenario -> stream loop -> tidy
results -> tables and figures.  Each module imports only what stands before it
in that chain; ``ocrrlib.stream`` is the benchmark on one screen.
"""

import importlib.util

__version__ = "0.1.0"

if importlib.util.find_spec("scipy") is None:
    from ocrrlib.without_scipy import import_policies

    import_policies()
