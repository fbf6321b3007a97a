"""How dense the code is: ``python -m tests.density [FOLDER ...]`` prints a line per folder.

Per 100 lines of code (docstrings, comments and blank lines do not count): assignments of unrelated
values in one statement, walrus operators, conditional expressions, lines over 100 columns.
"""

import ast
import io
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from ocrrlib.files import ROOT

FOLDERS = ("ocrrlib", "ocrr", "memory", "studies", "paper", "notebooks", "tests", "bench")
COLUMNS = 100
LAYOUT = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}


def files(folder: str | Path) -> Iterator[Path]:
    """The Python files of a folder of the checkout, in order."""
    yield from sorted((ROOT / folder).rglob("*.py"))


def count(text: str) -> Counter:
    """Lines of code of a module, and how often each measure is met."""
    tree = ast.parse(text)
    found = Counter(lines=len(_lines_of_code(text, tree)))
    for node in ast.walk(tree):
        found["tuples"] += _assigns_unrelated(node)
        found["walrus"] += isinstance(node, ast.NamedExpr)
        found["conditional"] += isinstance(node, ast.IfExp)
    found["wide"] = sum(len(line) > COLUMNS for line in text.splitlines())
    return found


def _lines_of_code(text, tree):
    """Numbers of the lines that hold code."""
    lines = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in LAYOUT:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            if isinstance(node.value.value, str):  # a docstring
                lines.difference_update(range(node.lineno, node.end_lineno + 1))
    return lines


def _assigns_unrelated(node):
    """Whether a statement is like ``a, b = x, y``; a swap, ``a, b = b, a``, is not."""
    if not isinstance(node, ast.Assign):
        return False
    target = node.targets[0]
    if not (isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple)):
        return False
    names = sorted(map(ast.unparse, target.elts))
    values = sorted(map(ast.unparse, node.value.elts))
    return names != values


def density(folder: str | Path) -> dict[str, float]:
    """Lines of code of a folder, and each measure per 100 of them."""
    total: Counter = Counter()
    for path in files(folder):
        total += count(path.read_text(encoding="utf-8"))
    lines = total["lines"]
    measures = ("tuples", "walrus", "conditional", "wide")
    return {"lines": lines} | {name: 100 * total[name] / lines for name in measures}


def main() -> None:
    for folder in sys.argv[1:] or FOLDERS:
        found = density(folder)
        lines = found.pop("lines")
        shown = ", ".join(f"{name} {value:.1f}" for name, value in found.items())
        print(f"{folder}: {lines} lines of code; per 100: {shown}")


if __name__ == "__main__":
    main()
