"""The paper's figures, with the words that stand in for them."""

import struct
import tomllib
from pathlib import Path
from types import SimpleNamespace

from ocrrlib.errors import InputError

# Titles, captions and descriptions that no result file holds, of tables, too.
CONTENT = tomllib.loads((Path(__file__).parent / "content.toml").read_text(encoding="utf-8"))


def size(png):
    """Width and height of a PNG's bytes; ValueError if they are none."""
    if png[:8] != b"\x89PNG\r\n\x1a\n" or len(png) < 24:
        raise ValueError("not a PNG")
    return struct.unpack(">II", png[16:24])


def read(folder):
    """All figures of a folder with files, sizes in pixels and texts, in the order of their descriptions.

    Raises
    ------
    InputError
        If a figure has no description, or is damaged.
    """
    paths, shown = {path.stem: path for path in sorted(folder.glob("*.png"))}, []
    for name in sorted(paths.keys() - CONTENT["figures"].keys()):
        raise InputError(f"{paths[name]} has no description: add [figures.{name}] to pages/content.toml")
    for name in (name for name in CONTENT["figures"] if name in paths):
        files = [path for suffix in (".png", ".pdf") if (path := paths[name].with_suffix(suffix)).exists()]
        try:
            pixels = size(paths[name].read_bytes())
        except ValueError as error:
            raise InputError(f"{paths[name]} is damaged ({error}): make it anew with `make paper`") from error
        shown.append(SimpleNamespace(name=name, files=files, size=pixels, **CONTENT["figures"][name]))
    return shown
