"""What was fitted on entries, kept beside a memory's file so that it is at hand when it is opened.

It is a function of entries, which were verified up to the ledger's head when the file was opened:
their SHA-256 and what fitted them are the key that it is kept under. It is believed under the very
same key alone, and only if nobody but the own user could write it.
"""

import json
import os
import stat
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from ocrrlib.files import InputError, atomic


def key_of(how: list, *arrays: np.ndarray) -> str:
    """Return the key of what is fitted on arrays; ``how`` tells all else that it depends on."""
    digest = sha256(json.dumps([how, [[one.shape, one.dtype.str] for one in arrays]]).encode())
    for one in arrays:
        digest.update(np.ascontiguousarray(one).data)
    return digest.hexdigest()


def kept(path: Path, key: str) -> Any:
    """Return what was kept under a key, as ``keep`` was given it; None if there is none."""
    with suppress(OSError, ValueError):
        if _is_own(path):
            checksum, _, text = path.read_text().partition("\n")
            if checksum == _checksum(key, text):
                return json.loads(text)
    return None


def keep(path: Path, key: str, value: Any) -> None:
    """Keep JSON under a key, in the place of what was kept; nothing if it cannot be written."""
    text = json.dumps(value)
    with suppress(InputError), atomic(path) as temporary:
        temporary.write_text(f"{_checksum(key, text)}\n{text}")
        temporary.chmod(0o600)


def _is_own(path):
    """Whether a file is the user's, and no other user may write it."""
    status = path.lstat()
    is_closed = not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return stat.S_ISREG(status.st_mode) and is_closed and status.st_uid == os.geteuid()


def _checksum(key, text):
    return sha256(f"{key}\n{text}".encode()).hexdigest()
