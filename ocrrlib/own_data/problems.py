"""What is wrong with data, several things in one error."""

from ocrrlib.errors import InputError

NAMED = 5  # of each kind of problem, so many rows or classes are named


def listed(items, name=str):
    """The names of the first few items, and how many more there are."""
    more = f" and {len(items) - NAMED} more" if len(items) > NAMED else ""
    return ", ".join(map(name, items[:NAMED])) + more


class Problems:
    """Collects what is wrong with data, so that a person learns of it all at once.

    Parameters
    ----------
    path : path or str
        What errors call the file, or what is in memory.
    row : callable
        What a person calls a row, from its place, as ``"line {}".format``.
    """

    def __init__(self, path, row):
        self.path, self.row, self.found = path, row, []

    def note(self, what, items, way_out, name=None):
        """Note a problem of these rows, or of whatever else has such a ``name``, if there are any."""
        if len(items):
            self.found.append(f"{what} {listed(items, name or self.row)}: {way_out}")

    def check(self):
        """Go on only if nothing was found.

        Raises
        ------
        InputError
            If something was.
        """
        if self.found:
            raise InputError(f"{self.path}: {'; '.join(self.found)}")
