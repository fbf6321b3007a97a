"""The paper's own page: its HTML as it was made, with a line that leads back to the site."""

import re
from types import SimpleNamespace

from ocrrlib.errors import InputError


def read(folder):
    """The paper's files of a folder, ``html`` and ``pdf``; None for one that is not there."""
    return SimpleNamespace(**{s: p if (p := folder / f"ocrr.{s}").exists() else None for s in ("html", "pdf")})


def framed(paper, env):
    """The paper's HTML with the site's navigation; empty if it is not there.

    Raises
    ------
    InputError
        If it has no body to put the navigation into.
    """
    if not paper.html:
        return ""
    head, body, rest = re.split(r"(<body[^>]*>)", paper.html.read_text(encoding="utf-8") + "<body>", maxsplit=1)
    if not rest:
        raise InputError(f"{paper.html} has no <body>: make the paper anew")
    return head + body + env.get_template("bar.html.j2").render(page="paper") + rest.removesuffix("<body>")
