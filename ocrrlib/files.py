"""Atomic writes, paths of the project, and ``InputError``."""

import glob
import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar

ROOT = Path(__file__).resolve().parent.parent  # the checkout, with data, figures and build folders
PACKAGED = Path(__file__).resolve().parent / "data"  # in an installed wheel only
_T = TypeVar("_T")


class InputError(ValueError):
    """Bad input, named in one line with the way out; nothing was changed or lost."""


def pick(kind: str, name: Any, options: Mapping[str, _T]) -> _T:
    """Return ``options[name]``; raise an ``InputError`` that lists all names if there is none."""
    if name in options:
        return options[name]
    close = get_close_matches(str(name), list(options), n=1)
    hint = f" (did you mean {close[0]!r}?)" if close else ""
    raise InputError(f"unknown {kind} {name!r}{hint}; there are: {', '.join(options)}")


def installed() -> bool:
    """Whether the package was installed from a wheel, without a checkout around it."""
    return PACKAGED.is_dir()


def data_folder() -> Path:
    """Folder of the published ``embeddings`` and ``results``; a wheel has some of them."""
    return PACKAGED if installed() else ROOT / "data"


def writable(folder: Path) -> bool:
    """Whether files can be written in a folder, or in the first above it that exists."""
    while not folder.exists():
        folder = folder.parent
    return folder.is_dir() and os.access(folder, os.W_OK)


def cache_folder() -> Path:
    """Folder for files that can be made again.

    That is ``OCRR_CACHE_DIR``, else a folder in the checkout. It is the user's cache for a wheel,
    and for a checkout that cannot be written.
    """
    import pooch  # slow to import

    default = ROOT / "build/cache"
    if installed() or not writable(default):
        default = pooch.os_cache("ocrr")
    return Path(os.environ.get("OCRR_CACHE_DIR") or default)


@contextmanager
def needs(extra: str) -> Iterator[None]:
    """Name the extra that brings a package which is not installed, in an ``InputError``."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise InputError(
            f"the package {error.name} is not installed: run `pip install '{extra}'`"
        ) from error


@contextmanager
def atomic(path: str | os.PathLike) -> Iterator[Path]:
    """Yield a temporary path; sync it to disk and move it into place on success only.

    Raises ``InputError`` if the file cannot be written, as on a full disk.
    """
    path = Path(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        for leftover in path.parent.glob(f".{glob.escape(path.name)}.*~"):  # by a killed write
            with suppress(FileNotFoundError):  # that of another write, which has just ended
                if time.time() - leftover.stat().st_mtime > 3600:
                    shutil.rmtree(leftover, ignore_errors=True)
        with tempfile.TemporaryDirectory(
            dir=path.parent, prefix=f".{path.name}.", suffix="~"
        ) as folder:
            temporary = Path(folder) / path.name
            yield temporary
            sync_to_disk(temporary)
            os.replace(temporary, path)
            sync_to_disk(path.parent)
    except OSError as error:
        raise InputError(
            f"cannot write {path}: {error.strerror or error}; "
            "make room, or choose a folder that can be written"
        ) from error


def sync_to_disk(path: str | Path) -> None:
    """Flush a file, or the names in a folder, to disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_text(path: str | os.PathLike, text: str) -> None:
    """Write ``text`` (UTF-8) to ``path``, whole or not at all."""
    with atomic(path) as temporary:
        temporary.write_bytes(text.encode("utf-8"))


def sha256(path: str | Path) -> str:
    """SHA-256 of a file's bytes, as 64 hexadecimal digits."""
    with open(path, "rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def check_name(what: str, name: Any) -> None:
    """Raise ``InputError`` unless a name can stand in tables and web pages as it is.

    It may not be empty, have control characters or HTML in it, or spaces that a page does not show;
    ``what`` is the kind of name.
    """
    plain = isinstance(name, str) and name.isprintable() and name == " ".join(name.split())
    if not plain or not name or set(name) & set("<>&|`"):
        raise InputError(
            f"{what} {name!r} is not a plain name: use printable characters other than < > & | `, "
            "and single spaces"
        )
