"""The systems of the paper, and the registry of all systems by name."""

from ocrrlib.files import pick
from ocrrlib.systems.registry import SYSTEMS, Row

__all__ = ["SYSTEMS", "Row", "make"]


def make(name: str, seed: int = 0, encoder: str | None = None):
    """Make a fresh system by its name; ``encoder`` is the backbone of those that read sentences.

    Raises ``InputError`` if there is no such system, or it needs a library that is not installed.
    """
    return pick("system", name, SYSTEMS).make(seed, encoder)
