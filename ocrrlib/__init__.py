"""OCRR: online correction recovery under distribution shift.

Data flows one way: texts -> embeddings -> scenario -> stream loop -> tidy
results -> tables and figures.  Each module imports only what stands before it
in that chain; ``ocrrlib.stream`` is the benchmark on one screen.

``ocrrlib.evaluate`` takes all of these steps with a system, data or an encoder of yours.
"""

import importlib

__version__ = "0.1.0"

# What is reached from here, imported when it is first asked for: this module stays quick to import.
_HERE = {
    "Evaluation": "evaluation.outcome",
    "Stopped": "evaluation.outcome",
    "as_system": "adapters",
    "evaluate": "evaluation.evaluate",
    "published_cards": "cards",
    "read_card": "cards",
    "read_data": "own_data.reading",
    "write_card": "cards",
}


def __dir__():
    return sorted({*globals(), *_HERE})


def __getattr__(name):
    if name not in _HERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"ocrrlib.{_HERE[name]}"), name)
