"""What is evaluated: made anew for each seed, and described so that others can make it again."""

import hashlib
import importlib.metadata
import inspect
import re
from dataclasses import dataclass
from functools import cached_property

from ocrrlib.adapter_base import WAYS, Adapter
from ocrrlib.adapter_own import CONTRACT
from ocrrlib.adapters import as_system
from ocrrlib.errors import InputError, pick
from ocrrlib.provenance import closure, digest
from ocrrlib.systems import SYSTEMS
from ocrrlib.systems.base import System, TextSystem

_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
_REPR = 2000  # characters of it at most


@dataclass(frozen=True)
class Candidate:
    """A system of the registry, a factory, or an object.

    Attributes
    ----------
    given : str, callable or object
        A registry name; a function of the seed that makes anything that ``as_system`` takes; or such a thing itself.
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
        """
        if isinstance(self.given, str):
            return pick("system", self.given, SYSTEMS).make(seed, self.encoder)
        if not self.is_factory:
            return as_system(self.given, seed)
        try:
            inspect.signature(self.given).bind(seed)
        except TypeError:
            raise InputError(
                f"{self.title} cannot be called with a seed: give a function of a seed, or {WAYS}"
            ) from None
        except ValueError:  # compiled code may not say what it takes
            pass
        made = self.given(seed)
        return made if isinstance(made, System) else as_system(made, seed)

    @property
    def is_factory(self):
        """Whether it is called with a seed."""
        if inspect.isclass(self.given):
            return all(hasattr(self.given, method) for method in CONTRACT)  # others are refused as classes
        return callable(self.given) and not all(hasattr(self.given, method) for method in CONTRACT)

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
            found["factory"] = f"{self.given.__module__}.{self.given.__qualname__}"
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
