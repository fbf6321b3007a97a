"""What counts as a change of code, and whose."""

import importlib.metadata
import textwrap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ocrrlib import provenance
from ocrrlib.provenance import closure, digest

SOURCES = {
    "__init__": '"""The package."""\n\nX = 1\n',
    "top": """
        \"\"\"Uses base and, inside a function, deep.\"\"\"
        import json
        from ocrrlib.base import Base
        import numpy as np


        def late(x):
            \"\"\"Import when called.\"\"\"
            from ocrrlib.part import deep
            return deep.answer(x)


        class Top(Base):
            \"\"\"A class.\"\"\"
    """,
    "base": "from ocrrlib import circle\n\n\nclass Base:\n    pass\n",
    "circle": "import ocrrlib.base\n\nN = 1\n",
    "part/__init__": "PART = 1\n",
    "part/deep": "import pandas.api\n\n\ndef answer(x):\n    return x + 42  # always\n",
    "part/unused": "import river\n\nX = 1\n",
    "unused": "from ocrrlib import top\n\nX = 1\n",
}


def forget():
    provenance._parsed.cache_clear()
    closure.cache_clear()


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A small package in the place of ocrrlib: ``edit(module, old, new)`` changes its source."""
    for name, source in SOURCES.items():
        path = tmp_path / "ocrrlib" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(source))
    monkeypatch.setattr(provenance, "ROOT", tmp_path)
    forget()

    def edit(name, old, new):
        path = tmp_path / "ocrrlib" / f"{name}.py"
        assert old in path.read_text()
        path.write_text(path.read_text().replace(old, new))
        forget()

    yield edit
    forget()


def test_closure_holds_what_is_imported_directly_or_not_and_nothing_else(package):
    code, libraries = closure("ocrrlib.top")
    # ocrrlib.circle and ocrrlib.base import each other; ocrrlib.part.deep is imported inside a function.
    assert list(code) == ["ocrrlib.base", "ocrrlib.circle", "ocrrlib.part", "ocrrlib.part.deep", "ocrrlib.top"]
    assert libraries == {name: importlib.metadata.version(name) for name in ("numpy", "pandas")}


def test_closure_of_several_modules_is_the_union_of_theirs(package):
    code, libraries = closure("ocrrlib.part.unused", "ocrrlib.circle")
    assert code == closure("ocrrlib.part.unused")[0] | closure("ocrrlib.circle")[0]
    assert list(libraries) == ["river"]


@pytest.mark.parametrize(
    "module, old, new",
    [
        ("top", '"""Uses base and, inside a function, deep."""', '"""Other words."""'),
        ("top", '"""Uses base and, inside a function, deep."""', ""),
        ("top", '"""Import when called."""', '"""\n    Several\n    lines.\n    """'),
        ("top", '"""A class."""', '"""A better class."""'),
        ("top", '"""A class."""', "pass"),
        ("part/deep", "# always", "# now and then"),
        ("part/deep", "x + 42", "(x  +\n        42)"),
        ("base", "class Base:", "class Base:  # empty\n"),
    ],
)
def test_comments_docstrings_and_layout_do_not_count(package, module, old, new):
    before = closure("ocrrlib.top")
    package(module, old, new)
    assert closure("ocrrlib.top") == before


@pytest.mark.parametrize(
    "module, old, new",
    [
        ("part/deep", "x + 42", "x + 43"),
        ("part/deep", "def answer(x)", "def answer(x, y=0)"),
        ("circle", "N = 1", "N = 1.0"),
        ("circle", "N = 1", 'N = "1"'),
        ("base", "    pass", "    N = 2"),
        ("top", "return deep.answer(x)", "deep.answer(x)"),
        ("part/__init__", "PART = 1", "PART = 2"),
        ("top", '"""A class."""', '"""A class."""\n    """Not a docstring."""'),
    ],
)
def test_an_edit_of_code_changes_its_modules_hash_and_no_other(package, module, old, new):
    before, libraries = closure("ocrrlib.top")
    package(module, old, new)
    after, libraries_after = closure("ocrrlib.top")
    name = "ocrrlib." + module.removesuffix("/__init__").replace("/", ".")
    assert {m for m in before if before[m] != after[m]} == {name}
    assert after.keys() == before.keys() and libraries_after == libraries


@pytest.mark.parametrize("module", ["unused", "part/unused", "__init__"])
def test_an_edit_of_a_module_that_is_not_imported_changes_nothing(package, module):
    before = closure("ocrrlib.top")
    package(module, "X = 1", "X = 2")
    assert closure("ocrrlib.top") == before


def test_a_new_import_brings_its_module_and_library_in(package):
    package("circle", "N = 1", "from ocrrlib.part.unused import X as N")
    code, libraries = closure("ocrrlib.top")
    assert "ocrrlib.part.unused" in code and "river" in libraries


def test_library_versions_are_those_installed_without_the_build_of_the_machine(package, monkeypatch):
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "2.1.0+cpu")
    forget()
    assert closure("ocrrlib.top")[1] == {"numpy": "2.1.0", "pandas": "2.1.0"}


def test_every_version_of_python_gives_the_same_hash(package):
    # Versions differ in how they write f-strings and in which empty fields they have.
    code = """def f(x):\n    return f"{x!r:>8.2f} '{x}' {{}}", -1.5e-07, b'\\x00', 'ü', ...\n"""
    package("unused", "X = 1\n", code)
    known = "8eaea3ed660e91bd52e99f3dae0c2ec126909b2beedcaefbc77aefea96ca7eeb"
    assert closure("ocrrlib.unused")[0]["ocrrlib.unused"] == known


def test_the_library_behind_a_system_is_what_it_needs():
    substrate, libraries = closure("ocrrlib.systems.substrate")
    assert {"ocrrlib.ledger", "ocrrlib.search", "ocrrlib.voting", "ocrrlib.entries"} <= substrate.keys()
    absent = {"ocrrlib.systems.river_logreg", "ocrrlib.systems.heads", "ocrrlib.sweep", "ocrrlib.embeddings"}
    assert not absent & substrate.keys()
    assert list(libraries) == ["numpy"]
    assert list(closure("ocrrlib.systems.river_logreg")[1]) == ["numpy", "river", "scipy"]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(), json_values, max_size=5))
def test_digest_does_not_depend_on_the_order_of_keys(value):
    assert digest(value) == digest(dict(reversed(value.items())))


@given(json_values, json_values)
def test_digest_differs_where_values_do(a, b):
    assert (digest(a) == digest(b)) == (repr(_sorted(a)) == repr(_sorted(b)))


def _sorted(value):
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return [_sorted(item) for item in value] if isinstance(value, list) else value
