"""Finished runs on disk, so that a stopped sweep goes on where it was."""

import json
import warnings
from pathlib import Path

from ocrrlib.files import write_text
from ocrrlib.provenance import digest


class RunCache:
    """Checkpoints of finished runs, one file each, named by all that they depend on.

    Parameters
    ----------
    folder : path or None
        Where they are kept; None keeps nothing.
    """

    def __init__(self, folder):
        self.folder = None if folder is None else Path(folder)

    def _path(self, key):
        return self.folder / key[:2] / f"{key}.json"

    def __contains__(self, key):
        return self.folder is not None and self._path(key).exists()

    def load(self, key):
        """What was saved under ``key``, or None; a damaged file is reported and counts as none."""
        if key not in self:
            return None
        path = self._path(key)
        try:
            entry = json.loads(path.read_text(encoding="utf-8"))
            whole = entry["sha256"] == digest(entry["run"])
        except (ValueError, KeyError, TypeError):
            whole = False
        if not whole:
            warnings.warn(f"{path} is damaged: its run is repeated", stacklevel=2)
        return entry["run"] if whole else None

    def save(self, key, run):
        """Keep a finished run."""
        if self.folder is not None:
            write_text(self._path(key), json.dumps({"sha256": digest(run), "run": run}))
