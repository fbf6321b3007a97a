"""Classifiers of others as systems: your own object, scikit-learn's with ``partial_fit``, river's."""

import inspect

from ocrrlib.adapters.base import WAYS, copied, is_from
from ocrrlib.adapters.own import CONTRACT, OwnSystem
from ocrrlib.adapters.river import RiverSystem
from ocrrlib.adapters.sklearn import SklearnSystem
from ocrrlib.errors import InputError
from ocrrlib.systems.base import System

# Which one takes what has which methods, in this order.
ADAPTERS = {
    OwnSystem: tuple(CONTRACT),
    RiverSystem: ("learn_one", "predict_one"),
    SklearnSystem: ("partial_fit", "predict"),
}


def as_system(thing, seed=0):
    """A fresh system made of a classifier; what is given stays as it is.

    Parameters
    ----------
    thing : object
        One of

        - a ``System``, which is copied and gets the seed;
        - an object with ``fit(X, y, classes)``, ``predict(X)`` and ``correct(x, y)``, as ``System`` has them,
          which is copied. ``storage()``, a ``Storage``, may be left out: then 0 bytes are reported;
        - a scikit-learn classifier with ``partial_fit``, which is cloned (see ``SklearnSystem``);
        - a river classifier, which is cloned (see ``RiverSystem``).
    seed : int
        Seed of whatever the method draws at random, where it can be set.

    Returns
    -------
    System
        Not fitted yet.

    Raises
    ------
    InputError
        If it is none of these, one that cannot learn from one row of an embedding, or cannot be copied.
    """
    if isinstance(thing, System):
        own = copied(thing)
        own.seed = seed
        return own
    if inspect.isclass(thing):
        raise InputError(f"{thing.__name__} is a class: give an object, {thing.__name__}()")
    for adapter, methods in ADAPTERS.items():
        if all(callable(getattr(thing, method, None)) for method in methods):
            return adapter(thing, seed)
    raise InputError(f"{type(thing).__name__} {_lack(thing)}: give {WAYS}")


def _lack(thing):
    """Why it is none: what it lacks of the methods of which it has most."""
    if is_from("sklearn", thing):
        return "has no partial_fit, so it cannot learn from one row"
    lacking = {
        methods: [method for method in methods if not callable(getattr(thing, method, None))]
        for methods in ADAPTERS.values()
    }
    methods = min(lacking, key=lambda methods: len(lacking[methods]) / len(methods))
    if len(lacking[methods]) == len(methods):
        return "cannot be used as a system"
    named = [
        f"{method}({', '.join(CONTRACT[method])})" if method in CONTRACT else method for method in lacking[methods]
    ]
    return f"lacks {' and '.join(named)}"
