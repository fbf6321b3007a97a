"""OCRR: online correction recovery under distribution shift.

Data flow one way: texts -> embeddings -> scenario -> stream loop -> results -> tables and figures.
``ocrrlib.stream`` is the benchmark on one screen; ``ocrr.evaluate`` runs it on your system, data
or encoder. ``docs/map.md`` shows the rooms of the library, and what to read first.
"""

import importlib
from typing import Any

__version__ = "0.1.0"

# Imported on first use: `import ocrrlib` stays quick.
_LAZY = {
    "evaluate": "own.evaluate",
    "as_system": "own.adapters",
    "Evaluation": "own.evaluation",
    "read_data": "own.data",
    "CorrectionMemory": "memory",
}


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"ocrrlib.{_LAZY[name]}"), name)
