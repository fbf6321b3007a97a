"""What is evaluated: made anew for each seed, and described so that others can make it again."""

import hashlib
import importlib.metadata
import inspect
import re
from dataclasses import dataclass
from functools import cached_property

from ocrrlib.adapters import ADAPTERS, as_system
from ocrrlib.adapters.base import WAYS, Adapter
from ocrrlib.errors import InputError, pick
from ocrrlib.evaluation.own_code import noting
from ocrrlib.provenance import closure, digest
from ocrrlib.systems import SYSTEMS
from ocrrlib.systems.base import System, TextSystem

_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
SEEDS = ("seed", "random_state")  # what a parameter for the seed is called
_BY_PLACE = (
    inspect.Parameter.POSITIONAL_ONLY,
    inspect.Parameter.POSITIONAL_OR_KEYWORD,
    inspect.Parameter.VAR_POSITIONAL,
)
_REPR = 2000  # characters of it at most


@dataclass(frozen=True)
class Candidate:
    """A system of the registry, a factory, or an object.

    Attributes
    ----------
    given : str, callable or object
        A registry name; a class, or a function of the seed, that makes anything that ``as_system`` takes; or such a
        thing itself. A class, or a function without arguments, that has no parameter ``seed`` or ``random_state`` is
        called without one.
    encoder : str
        What systems that read sentences encode them by.
    """

    given: object
    encoder: str

    def make(self, seed):
        """A fresh system for this seed.

        Raises
        ------
        InputError
            If there is none of this name, or what is given or made cannot be a system.
        Exception
            Whatever a factory raises, with a note that says so.
        """
        if isinstance(self.given, str):
            return pick("system", self.given, SYSTEMS).make(seed, self.encoder)
        if not self.is_factory:
            return as_system(self.given, seed)
        args, named = self._told(seed)
        with noting(f"{self.title} was called to make a system for seed {seed}"):
            made = self.given(*args, **named)
        if isinstance(made, System):
            return made
        system = as_system(made, seed)
        system.fresh = True
        return system

    @property
    def is_factory(self):
        """Whether it is called to make a system: a class, or a function."""
        if inspect.isclass(self.given):
            return True
        methods = {"forward"}.union(*ADAPTERS.values())  # what has some of them is a system, though it may be called
        return callable(self.given) and not any(hasattr(self.given, method) for method in methods)

    def _told(self, seed):
        """Arguments of a factory: the seed if it takes one, by name or as a function's only argument; else none."""
        try:
            takes = inspect.signature(self.given)
        except ValueError:  # compiled code may not say what it takes
            return ((), {}) if inspect.isclass(self.given) else ((seed,), {})
        named = [name for name in SEEDS if name in takes.parameters]
        by_place = [one for one in takes.parameters.values() if one.kind in _BY_PLACE]
        if named and takes.parameters[named[0]].kind not in _BY_PLACE[:1]:
            told = (), {named[0]: seed}
        elif not inspect.isclass(self.given) and by_place and by_place[0].default is inspect.Parameter.empty:
            told = (seed,), {}  # of a class it could be anything, as its number of neighbours
        else:
            told = (), {}
        try:
            takes.bind(*told[0], **told[1])
        except TypeError:
            raise InputError(
                f"{self.title} takes {takes}, so it cannot be called with a seed, nor without: give a function of a "
                f"seed, or {WAYS}"
            ) from None
        return told

    @property
    def title(self):
        """A short name for it."""
        if isinstance(self.given, str):
            return self.given
        named = getattr(self.given, "__name__", "<")
        return type(self.given).__name__ if not self.is_factory else named if "<" not in named else "own_system"

    @cached_property
    def first(self):
        """The system of seed 0, not fitted: what the candidate is an instance of."""
        return self.make(0)

    @property
    def reads(self):
        """``embeddings`` or ``sentences``."""
        return "sentences" if isinstance(self.first, TextSystem) else "embeddings"

    @property
    def entry(self):
        """Its row in the registry; None for all others."""
        return SYSTEMS[self.given] if isinstance(self.given, str) else None

    def description(self):
        """What repeats it: registry name and parameters; else module, class, text and a hash of the source."""
        thing = self.first.given if isinstance(self.first, Adapter) else self.first
        found = {"class": type(thing).__qualname__, "module": type(thing).__module__}
        if self.entry:
            return found | {"registry": self.given, "parameters": self.entry.params}
        sources = [_source(part) for part in ((self.given, type(thing)) if self.is_factory else (type(thing),))]
        if self.is_factory:
            named = getattr(self.given, "__qualname__", type(self.given).__qualname__)  # partial functions have none
            found["factory"] = f"{self.given.__module__}:{named}"
        return found | {
            "repr": _ADDRESS.sub("", repr(thing))[:_REPR],
            "source": hashlib.sha256("\n".join(sources).encode()).hexdigest() if all(sources) else None,
        }

    def needs(self):
        """Hash of the library's code that it runs on, and the versions of the libraries."""
        thing = self.first.given if isinstance(self.first, Adapter) else self.first
        own = self.entry.module if self.entry else ""
        module = f"ocrrlib.systems.{own}" if own else "ocrrlib.adapters"
        code, libraries = closure("ocrrlib.stream", "ocrrlib.scenario", "ocrrlib.policies", module)
        if not self.entry:
            libraries = {name: libraries[name] for name in ("numpy", "scipy") if name in libraries}
            owners = importlib.metadata.packages_distributions()
            for name in owners.get(type(thing).__module__.split(".")[0], []):
                if name != "ocrrlib":
                    libraries[name] = importlib.metadata.version(name)
        return digest(code), libraries


def _source(part):
    try:
        return inspect.getsource(part)
    except (OSError, TypeError):  # compiled, or typed in
        return ""
