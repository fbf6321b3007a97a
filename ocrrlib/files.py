"""Files that are never half-written, and their fingerprints."""

import glob
import hashlib
import os
import shutil
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

import pooch

from ocrrlib.errors import InputError

ROOT = Path(__file__).resolve().parent.parent  # the checkout: data, figures and build folders stand here
PACKAGED = Path(__file__).resolve().parent / "data"  # in an installed wheel only


def installed():
    """Whether the package was installed from a wheel, without a checkout around it."""
    return PACKAGED.is_dir()


def data_folder():
    """Folder of the published ``embeddings`` and ``results``; a wheel has some of them."""
    return PACKAGED if installed() else ROOT / "data"


def cache_folder():
    """Folder for files that can be made again: ``OCRR_CACHE_DIR``, else in the checkout or the user's cache."""
    default = pooch.os_cache("ocrr") if installed() else ROOT / "build/cache"
    return Path(os.environ.get("OCRR_CACHE_DIR") or default)


@contextmanager
def atomic(path):
    """Yield a temporary path of the same name; sync it to disk and move it into place only on success.

    Raises
    ------
    InputError
        If the folder or the file cannot be written, as on a full disk.
    """
    path = Path(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _remove_leftovers(path)
        folder = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}.", suffix="~"))
        try:
            yield folder / path.name
            _sync(folder / path.name)
            os.replace(folder / path.name, path)
            _sync(path.parent)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    except OSError as error:
        way_out = "make room, or choose a folder that can be written"
        raise InputError(f"cannot write {path}: {error.strerror or error}; {way_out}") from error


def _remove_leftovers(path):
    """Remove what killed writes of this file left an hour ago or earlier."""
    for folder in path.parent.glob(f".{glob.escape(path.name)}.*~"):
        if time.time() - folder.stat().st_mtime > 3600:
            shutil.rmtree(folder, ignore_errors=True)


def _sync(path):
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
