"""A memo of work that many runs have in common, done once per process and then forked.

Within one (dataset, seed) the trained head, river's first pass and the initial
neighbours are the same for every policy and for several systems.
"""

import functools
import hashlib
import threading
import weakref
from collections.abc import Callable

import numpy as np

_read_only: dict[int, tuple] = {}  # id of a read-only array: a weak reference to it, its digest


def _key(value):
    """A hashable key of an argument: an array's shape, type and content; else the value itself.

    A read-only array is hashed once.
    """
    if not isinstance(value, np.ndarray):
        return value
    digest = None
    if id(value) in _read_only:
        reference, known = _read_only[id(value)]
        if reference() is value and not value.flags.writeable:  # ids of deleted arrays come again
            digest = known
    if digest is None:
        digest = hashlib.sha256(np.ascontiguousarray(value).view(np.uint8)).digest()
        if not value.flags.writeable:
            _read_only[id(value)] = (weakref.ref(value), digest)
    return value.shape, value.dtype.str, digest


def shared(keep: int) -> Callable:
    """Remember the last ``keep`` results of a pure function by the content of its arguments.

    The result is handed to every caller, so callers must copy before they change it.
    """

    def decorate(function):
        results = {}
        lock = threading.Lock()

        @functools.wraps(function)
        def remembered(*args, **kwargs):
            named = tuple((name, _key(kwargs[name])) for name in sorted(kwargs))
            key = (tuple(map(_key, args)), named)
            with lock:
                known = key in results
                result = results.get(key)
            if not known:
                result = function(*args, **kwargs)
            with lock:
                results.pop(key, None)
                results[key] = result  # the newest is last
                for oldest in list(results)[:-keep]:
                    del results[oldest]
            return result

        remembered.forget = results.clear
        return remembered

    return decorate
