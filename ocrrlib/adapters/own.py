"""Your own object with the methods of a system."""

import inspect

import numpy as np

from ocrrlib.adapters.base import Adapter
from ocrrlib.errors import InputError

CONTRACT = {"fit": ("X", "y", "classes"), "predict": ("X",), "correct": ("x", "y")}


class OwnSystem(Adapter):
    """An object that has the three methods of a system, and perhaps ``storage``."""

    def __init__(self, given, seed=0):
        super().__init__(given, seed)
        for method, names in CONTRACT.items():
            try:
                inspect.signature(getattr(given, method)).bind(*names)
            except TypeError:
                raise InputError(f"{self.title}.{method} must take ({', '.join(names)})") from None
            except ValueError:  # compiled code may not say what it takes
                pass

    def _fit(self, X, y):
        self.model = self._copied()
        self.model.fit(X, y, self.classes)

    def _predict(self, X):
        return self._ids(self.model.predict(X), len(X))

    def _correct(self, x, y):
        self.model.correct(x, y)

    def storage(self):
        """What the object's own ``storage`` says; 0 bytes where it has none."""
        if not callable(getattr(self.model, "storage", None)):
            return super().storage()
        held = self.model.storage()
        if not all(isinstance(getattr(held, name, None), (int, np.integer)) for name in ("bytes", "entries")):
            raise InputError(f"{self.title}.storage must give ocrrlib.systems.base.Storage; it gave {held!r}")
        return held
