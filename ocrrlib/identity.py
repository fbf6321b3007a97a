"""What a Python function is known by, so that what it gave can be kept.

What decides a function's results is not only its source: it may hold values from around it, use names of its
module, or be made from another function.  All of these count, so that embeddings that were kept are never those of
another function.  Where something cannot be followed, as a lock or a model of torch, its kind counts, and what the
function gives for a few texts.  A function may also say by itself what it is:
``function.revision = "a text that changes with what it gives"``.
"""

import dis
import functools
import inspect
import sys
import sysconfig
import textwrap
import types
from pathlib import Path

import numpy as np
from joblib.hashing import NumpyHasher

from ocrrlib.errors import InputError
from ocrrlib.files import sha256
from ocrrlib.provenance import digest

PROBE = (  # texts that tell functions apart which hold what cannot be followed
    *("I lost my card yesterday, please help!", "Where is my transfer of 250 euros?", "play some jazz", "a b c"),
    *("What is the weather like in Oslo on Monday?", "THE QUICK BROWN FOX", "naïve café 12:30", "¿Cómo estás?"),
)
_INSTALLED = tuple(Path(sysconfig.get_path(name)) for name in ("purelib", "platlib"))
# Of a class: what Python derives from the rest.
_NOT_CONTENT = {
    *("__dict__", "__weakref__", "__doc__", "__module__", "__annotations__", "__abstractmethods__", "_abc_impl"),
    *("__dataclass_fields__", "__dataclass_params__", "__match_args__", "__firstlineno__", "__static_attributes__"),
}


def full_name(function):
    """Module and qualified name; of an object, those of its class."""
    while isinstance(function, functools.partial):
        function = function.func
    named = function if hasattr(function, "__qualname__") else type(function)
    return f"{named.__module__}.{named.__qualname__}"


def identity(function):
    """Module, qualified name, and a SHA-256 over source and whatever it holds or uses.

    Code counts by its source; by its bytecode where there is none, where it is a lambda, or where the file was
    edited after it was imported.  What comes from an installed library counts by its name and the library's version,
    a library's object by its pickle, a module of one's own by its file.

    Where something cannot be followed, the function is called, and the vectors that it gives for ``PROBE`` count, too.

    Raises
    ------
    InputError
        If it holds or uses something that cannot be followed, has no ``revision``, and gives no vectors for texts, or
        other ones when it is asked again.
    """
    name, given = full_name(function), getattr(function, "revision", None)
    if isinstance(given, str):
        return f"{name} {digest([name, given])}"
    found = _Content()
    content = found.of(function, name)
    if found.unknown:
        content = [content, _probed(function, name, found.unknown[0])]
    return f"{name} {digest([name, content])}"


def same(first, again):
    """Whether vectors for the same texts are equal but for rounding."""
    return first.shape == again.shape and np.allclose(first, again, rtol=1e-4, atol=1e-6, equal_nan=True)


def _probed(function, name, why):
    """Hash of what a function gives for ``PROBE``, twice."""
    try:
        first, again = (np.asarray(function(list(PROBE)), np.float64) for _ in range(2))
    except Exception as error:  # a function's own, for what is no encoder
        raise InputError(why) from error
    if first.ndim != 2 or len(first) != len(PROBE):
        raise InputError(why)
    if not same(first, again):
        raise InputError(f"{name} gives other vectors for the same texts when it is asked again: make it repeatable")
    size = np.abs(first).max(initial=0) or 1.0  # rounded, as threads may add in another order
    return digest([first.shape, (np.round(first / size, 6) + 0.0).tolist()])


class _Content:
    """Hashes of values; each value is looked at once, and may hold itself."""

    def __init__(self):
        self.known, self.path, self.unknown = {}, [], []  # the last: what could not be followed, and why

    def of(self, value, at):
        """Hash of a value; ``at`` says where it was found."""
        if value is None or type(value) in (bool, int, float, complex, str, bytes):
            return digest([type(value).__name__, repr(value)])
        if id(value) in self.path:
            return ["above", self.path.index(id(value))]
        if id(value) not in self.known:
            self.path.append(id(value))
            try:
                kind, parts = _parts(value, at)
            except _NotFollowed as error:
                self.unknown.append(str(error))
                kind, parts = _unfollowed(value)
            inside = [[name, self.of(part, f"{name} in {at}" if name else at)] for name, part in parts]
            self.path.pop()
            self.known[id(value)] = digest([kind, inside]), value  # kept, so that no other value gets its id
        return self.known[id(value)][0]


def _parts(value, at):
    """The kind of a value, and the named values that it consists of."""
    if isinstance(value, types.ModuleType):
        return _module(value), []
    if isinstance(value, types.BuiltinFunctionType) and not isinstance(value.__self__, types.ModuleType | None):
        return f"method {value.__name__}", [("self", value.__self__)]
    if isinstance(value, (type, types.FunctionType, types.BuiltinFunctionType)) and _from_library(value):
        return ["library", value.__module__, value.__qualname__, _version(value.__module__ or "builtins")], []
    if isinstance(value, functools.partial):
        return "partial", [("function", value.func), ("arguments", value.args), ("keywords", value.keywords)]
    if isinstance(value, types.MethodType):
        return "method", [("function", value.__func__), ("self", value.__self__)]
    if isinstance(value, (staticmethod, classmethod)):
        return type(value).__name__, [("function", value.__func__)]
    if isinstance(value, property):
        return "property", [("get", value.fget)]
    if isinstance(value, types.FunctionType):
        return "function", _of_function(value)
    if isinstance(value, types.CodeType):
        names = [value.co_names, value.co_varnames, value.co_freevars, value.co_exceptiontable.hex()]
        return ["bytecode", value.co_code.hex(), *names], [("", value.co_consts)]
    if isinstance(value, type):
        return f"class {value.__qualname__}", _of_class(value)
    if type(value) in (list, tuple):
        return type(value).__name__, [("", item) for item in value]
    if type(value) in (set, frozenset):
        return type(value).__name__, [("", item) for item in sorted(value, key=repr)]
    if type(value) is dict:
        return "dict", [pair for key in sorted(value, key=repr) for pair in (("", key), (str(key), value[key]))]
    if hasattr(value, "__wrapped__"):  # of functools
        return "wrapped", [("function", value.__wrapped__)]
    if _from_library(type(value)):
        return _pickled(value, at), []
    inherits = any(base is not object and _from_library(base) for base in type(value).__mro__)
    kind = _pickled(value, at) if inherits or not hasattr(value, "__dict__") else "object"
    return kind, [("class", type(value)), *sorted(getattr(value, "__dict__", {}).items())]


def _of_class(cls):
    parts = [("base", base) for base in cls.__bases__]
    for name, part in sorted(vars(cls).items()):
        if name not in _NOT_CONTENT and (isinstance(part, property) or not inspect.isdatadescriptor(part)):
            parts.append((name, part))
    return parts


def _of_function(function):
    code = function.__code__
    source = None if function.__name__ == "<lambda>" else _source(code)
    held = dict(zip(code.co_freevars, function.__closure__ or ()))
    found = [("", code if source is None else source)]
    found += [("defaults", function.__defaults__), ("keyword defaults", function.__kwdefaults__)]
    found += [(name, cell.cell_contents) for name, cell in sorted(held.items()) if _filled(cell)]
    used = {
        step.argval
        for part in _codes(code)
        for step in dis.get_instructions(part)
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME")
    }
    return found + [(name, function.__globals__[name]) for name in sorted(used) if name in function.__globals__]


def _filled(cell):
    try:
        cell.cell_contents
    except ValueError:  # a name that is not bound yet
        return False
    return True


def _codes(code):
    """A code object and all that are defined in it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)


def _source(code):
    """Source of a code object, where it is what runs; None where there is none or the file has been edited since."""
    try:
        file = compile("".join(inspect.findsource(code)[0]), code.co_filename, "exec", dont_inherit=True)
        return textwrap.dedent(inspect.getsource(code)) if code in _codes(file) else None
    except (OSError, TypeError, SyntaxError, ValueError):
        return None


def _from_library(value):
    """Whether a class or function is Python's own or of an installed package."""
    return is_library(value.__module__ or "builtins")


def is_library(module):
    """Whether the module of this name is Python's own or of an installed package."""
    if module == "__main__":
        return False
    file = getattr(sys.modules.get(module), "__file__", None)
    within = bool(file) and any(Path(file).is_relative_to(folder) for folder in _INSTALLED)
    return within or module.partition(".")[0] in sys.stdlib_module_names


def _version(module):
    return str(getattr(sys.modules.get(module.partition(".")[0]), "__version__", ""))


def _module(module):
    file = getattr(module, "__file__", None)
    if file and not is_library(module.__name__):
        return ["module", module.__name__, sha256(file)]
    return ["library", module.__name__, _version(module.__name__)]


class _NotFollowed(Exception):
    """Something has no content that could be hashed."""


def _unfollowed(value):
    """Of what cannot be followed, its kind; of a model of torch, its weights, too."""
    torch, kind = sys.modules.get("torch"), type(value)
    weights = value.state_dict() if torch and isinstance(value, torch.nn.Module) else {}
    about = [f"{kind.__module__}.{kind.__qualname__}", _version(kind.__module__)]
    return about, [(name, weight) for name, weight in weights.items() if isinstance(weight, torch.Tensor)]


class _Hasher(NumpyHasher):
    """Hashes by pickles, but tensors by what is in them: in their pickles are places in memory."""

    def reducer_override(self, value):
        torch = sys.modules.get("torch")
        if torch and isinstance(value, torch.nn.Module):
            raise TypeError("models note in themselves that they are used")
        if torch and isinstance(value, torch.Tensor):
            content = value.detach().cpu().reshape(-1).view(torch.uint8).numpy()
            return np.array, (content, str(value.dtype), tuple(value.shape))
        if "_stop_words_id" in getattr(value, "__dict__", {}):  # a place in memory, noted when it is first used
            kept = {name: part for name, part in vars(value).items() if name != "_stop_words_id"}
            return object.__new__, (type(value),), kept
        return NotImplemented


def _pickled(value, at):
    kind = type(value)
    try:
        content = _Hasher("sha1").hash(value)
    except Exception as error:  # each library refuses in its own way
        raise _NotFollowed(
            f"cannot tell what {at} holds, a {kind.__qualname__} ({type(error).__name__}), and so not whether kept "
            "embeddings are still its own: give a function of yours whose attribute `revision` is a text that changes "
            "with what it gives"
        ) from error
    return ["pickled", f"{kind.__module__}.{kind.__qualname__}", _version(kind.__module__), content]
