"""Files that are never half-written, and their fingerprints."""

import hashlib
import os
import tempfile
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
    """Yield a temporary path beside ``path``; move it into place only on success.

    Raises
    ------
    InputError
        If the folder cannot be made or written.
    """
    path = Path(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=path.suffix)
        os.close(handle)
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}; choose a folder that can be written") from error
    temporary = Path(name)
    try:
        yield temporary
        mask = os.umask(0)
        os.umask(mask)
        temporary.chmod(0o666 & ~mask)  # mkstemp makes files private
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path, text):
    """Write ``text`` (UTF-8) to ``path``, whole or not at all."""
    with atomic(path) as temporary:
        temporary.write_bytes(text.encode("utf-8"))


def sha256(path):
    """SHA-256 of a file's bytes, as 64 hexadecimal digits."""
    with open(path, "rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()
