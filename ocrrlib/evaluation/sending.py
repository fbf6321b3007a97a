"""What runs in other processes as bytes: modules of one's own, which are found in this process only, go along."""

import sys
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import cloudpickle

from ocrrlib.evaluation.own_code import is_library


@dataclass(frozen=True)
class Packed:
    """A value as bytes, and the folders of modules that are looked for when it is unpacked."""

    content: bytes
    folders: tuple[str, ...] = ()

    def unpacked(self):
        """The value, a copy.

        Raises
        ------
        Exception
            Whatever the value's own kind raises where it cannot be read.
        """
        sys.path += [folder for folder in self.folders if folder not in sys.path]
        return cloudpickle.loads(self.content)


def packed(value):
    """A value ``Packed`` for another process, with the code of modules of one's own, or else with their folders.

    Raises
    ------
    Exception
        Whatever the value's own kind raises where it cannot be pickled.
    """
    own = list(_own_modules())
    with _by_value(own):  # a process that is used again would keep a module as it was before it was edited
        try:
            return Packed(cloudpickle.dumps(value))
        except Exception:  # a module may hold what cannot be sent, as a lock: it has to be imported there
            folders = tuple(dict.fromkeys(map(_folder, own)))
    return Packed(cloudpickle.dumps(value), folders)


def _folder(module):
    """Where the import of a module, or of the package that it is in, begins."""
    return str(Path(module.__file__).resolve().parents[module.__name__.count(".") + hasattr(module, "__path__")])


def _own_modules():
    """Modules from files that are neither Python's, nor installed, nor of ocrrlib."""
    for name, module in list(sys.modules.items()):
        named = getattr(module, "__name__", None) == name and getattr(module, "__file__", None)
        if named and name != "__main__" and name.partition(".")[0] != "ocrrlib" and not is_library(name):
            yield module


@contextmanager
def _by_value(modules):
    registered = []
    try:
        for module in modules:
            if module.__name__ not in cloudpickle.list_registry_pickle_by_value():
                cloudpickle.register_pickle_by_value(module)
                registered.append(module)
        yield
    finally:
        for module in registered:
            cloudpickle.unregister_pickle_by_value(module)
