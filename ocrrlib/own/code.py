"""Your code: which of your modules decide a result, and how they reach other processes."""

import functools
import hashlib
import importlib
import importlib.metadata
import io
import json
import marshal
import re
import sys
import sysconfig
import time
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

import cloudpickle

from ocrrlib.files import InputError, sha256

STARTED = time.time()


def own_modules() -> dict[str, Path]:
    """Files of the loaded modules of your own, by module name: not installed ones nor this package.

    A module that is run as a script is among them.
    """
    package = Path(__file__).parent.parent
    standard = [Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib")]
    found = {}
    for name, module in list(sys.modules.items()):
        path = Path(str(getattr(module, "__file__", None)))
        installed = {"site-packages", "dist-packages"} & set(path.parts)
        elsewhere = installed or any(path.is_relative_to(one) for one in [package, *standard])
        if path.suffix == ".py" and not elsewhere and path.is_file():
            found[name] = path
    return found


def own_code_digest(*parts: Any) -> str | None:
    """SHA-256 of ``parts``, of all loaded modules of your own and of what is installed.

    Attributes of your classes, and globals that they and your functions read, count as they are
    now. None where the digest cannot be known: a part cannot be pickled, or a module changed after
    it was loaded.
    """
    hashes = own_code_hashes()
    if None in hashes.values():
        return None
    try:
        text = pickled(parts, repeatable=True)
    except Exception:  # many kinds: pickling runs code of your own
        return None
    return _digest([hashlib.sha256(text).hexdigest(), [*hashes.values()], _installed()])


def own_code_hashes() -> dict[str, str | None]:
    """SHA-256 of the files of your own loaded modules, by path.

    None for one that changed after this process started: the text that was loaded is not known.
    """
    hashes: dict[str, str | None] = {}
    for path in sorted(set(own_modules().values())):
        hashes[str(path)] = None if path.stat().st_mtime > STARTED else sha256(path)
    return hashes


def unchanged(hashes: dict[str, str | None]) -> bool:
    """Whether files still have the SHA-256 that ``own_code_hashes`` gave."""
    return all(Path(path).is_file() and sha256(path) == one for path, one in hashes.items())


class Sent:
    """A value that other processes get with your classes and functions as they are now.

    Without this, a worker imports your modules anew: an attribute or global that was set after the
    import would have its first value there.
    """

    def __init__(self, value: Any):
        self.value = value

    def check(self) -> None:
        """Raise ``InputError`` if the value cannot be sent."""
        try:
            pickled(self.value)
        except Exception as error:  # many kinds: pickling runs code of your own
            why = " ".join(str(error).split())
            raise InputError(
                f"the system cannot be sent to other processes ({why}): evaluate with jobs=1"
            ) from error

    def __reduce__(self) -> tuple:
        return _received, (pickled(self.value), sys.path)


def _received(text, path):
    sys.path += [folder for folder in path if folder not in sys.path]  # for your other modules
    return Sent(cloudpickle.loads(text))


def pickled(value: Any, repeatable: bool = False) -> bytes:
    """The pickle of a value, with classes and functions of your own modules in it, not by name.

    A ``repeatable`` one is the same in each process, and for a digest only.
    """
    mine = own_modules()
    new = {name for name in mine if sys.modules[name].__name__ == name}
    new -= {"__main__", *cloudpickle.list_registry_pickle_by_value()}  # the main one is not by name
    buffer = io.BytesIO()
    kind = _Repeatable if repeatable else _ByValue
    for name in new:
        cloudpickle.register_pickle_by_value(sys.modules[name])
    try:
        kind(buffer, mine).dump(value)
    finally:
        for name in new:
            cloudpickle.unregister_pickle_by_value(sys.modules[name])
    return buffer.getvalue()


class _ByValue(cloudpickle.Pickler):
    """Pickles modules by name, those of your own with their data."""

    def __init__(self, file, mine):
        super().__init__(file)
        self.mine = mine

    def reducer_override(self, obj):
        if not isinstance(obj, ModuleType):
            return super().reducer_override(obj)
        data = _data(obj) if obj.__name__ in self.mine else {}
        return importlib.import_module, (obj.__name__,), data, None, None, _set_data


class _Repeatable(_ByValue):
    """Leaves out what differs from process to process."""

    def reducer_override(self, obj):
        reduced = super().reducer_override(obj)
        if isinstance(obj, type) and isinstance(reduced, tuple):  # has a number drawn for the class
            arguments = [None if _is_drawn(one) else one for one in reduced[1]]
            reduced = (reduced[0], tuple(arguments), *reduced[2:])
        return reduced

    def persistent_id(self, obj):
        if isinstance(obj, CodeType):
            return marshal.dumps(obj, 2)  # the last format without references
        if type(obj) in (set, frozenset):  # in the order of random hashes
            return sorted(map(repr, obj))
        return None


def _is_drawn(argument):
    return isinstance(argument, str) and re.fullmatch("[0-9a-f]{32}", argument)


def _data(module):
    """Global variables of a module that are neither code nor modules."""
    return {
        name: value
        for name, value in vars(module).items()
        if not (name.startswith("__") or callable(value) or isinstance(value, ModuleType))
    }


def _set_data(module, data):
    vars(module).update(data)


@functools.cache
def _installed():
    """SHA-256 of the lists of files, each with its SHA-256, of all installed distributions."""
    all_of_them = importlib.metadata.distributions()
    return _digest(sorted(one.read_text("RECORD") or str(one.metadata) for one in all_of_them))


def _digest(value):
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()
