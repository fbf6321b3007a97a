"""The paper's source text, what was found in it, what is wrong with it, and the patterns that tell its parts apart."""

import re
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path

from ocrrlib.errors import InputError

# Neither code, nor maths, nor a comment is prose; what stands there is left alone.
CODE = (
    r"^(?P<fence>```+|~~~+)[^\n]*\n(?s:.*?)^(?P=fence)[^\n]*$|"
    r"(?P<tick>(?<!`)`+(?!`))(?s:(?!\n\n).)+?(?<!`)(?P=tick)(?!`)"
)
MATHS = r"\$\$(?s:.+?)\$\$|(?<![\\$])\$(?=\S)(?:[^$\\\n]|\\.|\n(?!\n))+?(?<=\S)\$(?!\d)"
COMMENT = r"(?P<comment><!--(?s:.*?)-->)"
VALUE = r"\{\{(?P<key>[^{}]*)\}\}"
TABLE = r"^\{\{table:(?P<name>[\w-]*)(?P<options>.*)\}\}[ \t]*$"
FIGURE = r"!\[(?P<caption>(?:[^\[\]]|\[[^\[\]]*\])*)\]\((?P<path>[^)\s]*)\)(?P<about>\{[^{}]*\})?"
ID = r"(?:fig|tbl|sec):\w+(?:-\w+)*"
LABEL = rf"\{{[^{{}}]*#(?P<id>{ID})"
ADDRESS = r"\]\([^)]*\)|(?:https?://|arXiv:|doi:)\S+"


@dataclass
class Source:
    """A source text; the values it may show; what was found in it; the edits that fill it in; its problems."""

    path: Path
    text: str
    values: dict
    used: set = field(default_factory=set)  # keys of values
    labels: dict = field(default_factory=dict)  # lines by id
    figures: dict = field(default_factory=dict)  # paths of PDFs by id
    edits: list = field(default_factory=list)  # (start, end, new text)
    problems: list = field(default_factory=list)  # (file, line, what is wrong and the way out)

    @property
    def bibliography(self):
        return self.path.parent / "references.bib"

    @property
    def plain(self):
        """The text without code and maths; what stays is where it was."""
        return blank(f"{CODE}|{MATHS}", self.text)

    def line(self, position):
        """The line, counted from 1, that a position in the text lies in."""
        return 1 + self.text.count("\n", 0, position)

    def problem(self, line, what, file=None):
        self.problems.append((str(file or self.path), line, what))

    def label(self, id, line):
        if id in self.labels:
            self.problem(line, f"{id} is there already, in line {self.labels[id]}; each may come once")
        self.labels.setdefault(id, line)


def matches(pattern, text):
    return list(re.finditer(pattern, text, re.MULTILINE))


def blank(pattern, text):
    """``text`` with every match of ``pattern`` turned into spaces: positions and lines stay as they are."""
    return re.sub(pattern, lambda match: re.sub(r"[^\n]", " ", match[0]), text, flags=re.MULTILINE)


def read(path):
    """A file's text; none if there is no such file.

    Raises
    ------
    InputError
        If it is not UTF-8.
    """
    try:
        return path.read_text(encoding="utf-8") if path.is_file() else ""
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: byte {error.start} is not UTF-8; save it as UTF-8") from error


def close(name, options):
    """A hint at the option that is spelt most like ``name``, if one is."""
    found = get_close_matches(name, list(options), n=1)
    return f" (did you mean {found[0]!r}?)" if found else ""
