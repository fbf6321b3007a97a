"""What a result depends on, as hashes: code, parameters, data, library versions.

Code counts by what it does: comments and docstrings may change, and a module
counts only where it is imported, directly or not.
"""

import ast
import functools
import hashlib
import importlib.metadata
import json
import sys

from ocrrlib.files import ROOT


def digest(value):
    """SHA-256 of anything that JSON can hold."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()


def _path(module):
    path = ROOT.joinpath(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


@functools.cache
def _parsed(module):
    """Hash of a module's code without comments and docstrings, and what it imports."""
    tree = ast.parse(_path(module).read_text(encoding="utf-8"))
    imports = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imports |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imports.add(node.module)
            imports |= {f"{node.module}.{a.name}" for a in node.names if _path(f"{node.module}.{a.name}").exists()}
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") == "optional":
            imports.add(node.args[0].value)  # imported by its name, where it is installed
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(node, clean=False):
            node.body = node.body[1:] or [ast.Pass()]
    return digest(_structure(tree)), imports


def _structure(node):
    """A syntax tree as lists; unlike ``ast.unparse`` and ``ast.dump`` the same for every version of Python."""
    if isinstance(node, ast.AST):
        fields = [[name, _structure(value)] for name, value in ast.iter_fields(node) if value not in (None, [])]
        return [type(node).__name__, *fields]
    return [_structure(item) for item in node] if isinstance(node, list) else repr(node)


@functools.cache
def closure(*modules):
    """Modules of ocrrlib that these need, with their hashes; and the libraries, with their versions."""
    code, libraries, todo = {}, {}, list(modules)
    owners = _owners()
    while todo:
        module = todo.pop()
        if module in code:
            continue
        code[module], imports = _parsed(module)
        for name in imports:
            top = name.split(".")[0]
            if top == "ocrrlib":
                if name != "ocrrlib":
                    todo.append(name)
            elif top not in sys.stdlib_module_names:
                library = owners.get(top, top)
                libraries[library] = _version(library)
    return dict(sorted(code.items())), dict(sorted(libraries.items()))


def _version(library):
    try:
        return importlib.metadata.version(library).split("+")[0]
    except importlib.metadata.PackageNotFoundError:
        return "absent"


@functools.cache
def _owners():
    return {top: names[0] for top, names in importlib.metadata.packages_distributions().items()}
