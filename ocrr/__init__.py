"""The benchmark with a classifier, an encoder or data of your own.

``evaluate`` runs it, ``read_data`` reads a file, ``as_system`` wraps a classifier, ``Refit`` one
that can only be fitted anew, an ``Evaluation`` is the result; the command ``ocrr`` does the same
from a shell.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ocrr.adapters import Refit, as_system
    from ocrr.data.read import read_data
    from ocrr.evaluation import Evaluation
    from ocrr.evaluator import evaluate

__all__ = ["Evaluation", "Refit", "as_system", "evaluate", "read_data"]


def __getattr__(name: str) -> Any:
    """Import what is public on first use: ``import ocrr`` stays quick."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from ocrr.adapters import Refit, as_system
        from ocrr.data.read import read_data
        from ocrr.evaluation import Evaluation
        from ocrr.evaluator import evaluate
    except ModuleNotFoundError as error:
        raise ImportError(
            f"the package {error.name} is not installed: run `pip install 'ocrrlib[run]'`"
        ) from error

    public = {
        "Evaluation": Evaluation,
        "Refit": Refit,
        "as_system": as_system,
        "evaluate": evaluate,
        "read_data": read_data,
    }
    return public[name]
