"""The one error that bad input raises: a line that names what is wrong and the way out."""

from difflib import get_close_matches


class InputError(ValueError):
    """Something given from outside cannot be used; nothing was changed or lost."""


def pick(kind, name, options):
    """Return ``options[name]``, or say which names of this kind exist.

    Raises
    ------
    InputError
        If ``name`` is not among ``options``.
    """
    if name in options:
        return options[name]
    close = get_close_matches(str(name), list(options), n=1)
    hint = f" (did you mean {close[0]!r}?)" if close else ""
    raise InputError(f"unknown {kind} {name!r}{hint}; there are: {', '.join(options)}")
