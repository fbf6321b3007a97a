"""Files that are never half-written, where they stand, and the error of bad input."""

import glob
import hashlib
import os
import shutil
import tempfile
import time
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path

ROOT = (
    Path(__file__).resolve().parent.parent
)  # the checkout: data, figures and build folders stand here
PACKAGED = Path(__file__).resolve().parent / "data"  # in an installed wheel only


class InputError(ValueError):
    """Bad input, named in one line with the way out; nothing was changed or lost."""


def pick(kind, name, options):
    """Return ``options[name]``; otherwise raise an ``InputError`` that lists the names of this kind."""
    if name in options:
        return options[name]
    hint = "".join(
        f" (did you mean {close!r}?)" for close in get_close_matches(str(name), list(options), n=1)
    )
    raise InputError(f"unknown {kind} {name!r}{hint}; there are: {', '.join(options)}")


def installed():
    """Whether the package was installed from a wheel, without a checkout around it."""
    return PACKAGED.is_dir()


def data_folder():
    """Folder of the published ``embeddings`` and ``results``; a wheel has some of them."""
    return PACKAGED if installed() else ROOT / "data"


def cache_folder():
    """Folder for files that can be made again: ``OCRR_CACHE_DIR``, else in the checkout or the user's cache."""
    import pooch  # slow to import

    default = pooch.os_cache("ocrr") if installed() else ROOT / "build/cache"
    return Path(os.environ.get("OCRR_CACHE_DIR") or default)


@contextmanager
def atomic(path):
    """Yield a temporary path; sync it to disk and move it into place on success only.

    Raises ``InputError`` if the file cannot be written, as on a full disk.
    """
    path = Path(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        for left in path.parent.glob(f".{glob.escape(path.name)}.*~"):  # by a killed write
            if time.time() - left.stat().st_mtime > 3600:
                shutil.rmtree(left, ignore_errors=True)
        with tempfile.TemporaryDirectory(
            dir=path.parent, prefix=f".{path.name}.", suffix="~"
        ) as folder:
            yield (temporary := Path(folder) / path.name)
            sync_to_disk(temporary)
            os.replace(temporary, path)
            sync_to_disk(path.parent)
    except OSError as error:
        way_out = "make room, or choose a folder that can be written"
        raise InputError(f"cannot write {path}: {error.strerror or error}; {way_out}") from error


def sync_to_disk(path):
    """Flush a file, or the names in a folder, to disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_text(path, text):
    """Write ``text`` (UTF-8) to ``path``, whole or not at all."""
    with atomic(path) as temporary:
        temporary.write_bytes(text.encode("utf-8"))


def sha256(path):
    """SHA-256 of a file's bytes, as 64 hexadecimal digits."""
    with open(path, "rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def check_name(what, name):
    """Refuse a name that is empty, or has control characters or HTML in it: it goes into tables and pages."""
    if not (
        isinstance(name, str)
        and name.strip()
        and name.isprintable()
        and not set(name) & set("<>&|`")
    ):
        raise InputError(
            f"{what} {name!r} is not a plain name: use printable characters other than < > & | `"
        )
