"""Run the fenced blocks of a page: code prints what the page says."""

import contextlib
import doctest
import io
import re
import shlex
import subprocess

import pytest

from corrigible.cli import main as corrigible
from ocrr.cli import main as ocrr

COMMANDS = {"ocrr": ocrr, "corrigible": corrigible}
FENCE = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
SERVER_TOOLS = ("createdb", "pg_dump", "pg_restore", "psql")
SHOWN = {"check": True, "text": True, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}


def blocks(text):
    """Fenced blocks of a page, in order: what follows the opening fence, and the text."""
    return [(match["info"].strip(), match["text"]) for match in FENCE.finditer(text)]


def run_python(text, names, place):
    """What a block prints; ``names`` are those of the whole page."""
    with contextlib.redirect_stdout(io.StringIO()) as out:
        exec(compile("\n" * place + text, "<page>", "exec"), names)
    return out.getvalue()


def run_shell(text):
    """What the commands of a block print, errors included, with an exit status other than 0."""
    said = ""
    progress = r"[^\n]*\d%\|[^\n]*\n|[.]{3} [^\n]* s\n"  # differs from run to run
    for line in text.replace("\\\n", " ").splitlines():
        program, *arguments = shlex.split(line, comments=True)
        if program in SERVER_TOOLS:
            said += subprocess.run([program, *arguments], **SHOWN).stdout
            continue
        assert program in COMMANDS, f"{line}: only ocrr and corrigible can be run here"
        with (
            contextlib.redirect_stdout(io.StringIO()) as out,
            contextlib.redirect_stderr(io.StringIO()) as err,
        ):
            with pytest.raises(SystemExit) as ended:
                COMMANDS[program](arguments)
        said += out.getvalue() + re.sub(progress, "", err.getvalue())
        said += f"exit status {ended.value.code}\n" if ended.value.code else ""
    return said


def run_page(text):
    """Run the blocks of a page, one after the other.

    A block of text is the output of the one before it; ``...`` in it stands for anything.

    Returns
    -------
    list of str
        Blocks that are marked as not executed.
    """
    names = {"__name__": "page"}
    printed = None
    left = []
    for info, block in blocks(text):
        if info.endswith("not executed"):
            left.append(block)
            printed = None
        elif info == "python":
            printed = run_python(block, names, text[: text.index(block)].count("\n"))
        elif info == "sh":
            printed = run_shell(block)
        elif info == "text":
            assert printed is not None, f"nothing was run before this: {block}"
            flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
            same = doctest.OutputChecker().check_output(block, printed, flags)
            assert same, f"expected:\n{block}\nprinted:\n{printed}"
        else:
            raise AssertionError(
                f"a block of {info or 'nothing'}: mark it python, sh, text, or '... not executed'"
            )
    return left


def broken_links(page):
    """Links of a page to files that are not there."""
    text = re.sub(FENCE, "", page.read_text(encoding="utf-8"))
    links = re.findall(r"\]\(([^)#]+)", text)
    local = [link for link in links if not link.startswith("https://")]
    return [link for link in local if not (page.parent / link).exists()]


def listed_modules(page):
    """Modules that a page of a library lists, by its blocks ``{modules} package``."""
    return {
        f"{info.removeprefix('{modules} ')}.{name}"
        for info, names in blocks(page.read_text(encoding="utf-8"))
        if info.startswith("{modules} ")
        for name in names.split()
    }


def modules(package):
    """Names of the modules in the folder of a package."""
    paths = package.rglob("[!_]*.py")
    return {".".join(path.relative_to(package.parent).with_suffix("").parts) for path in paths}
