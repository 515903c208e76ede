"""One Python file of the modules of `loading`, which needs nothing else of this toolkit."""

import ast
from collections.abc import Iterable
from itertools import chain
from pathlib import Path

PACKAGE = "backends.triton_codegen.bundle.loading"
#: in the order in which they need each other
MODULES = (
    *("model", "reading", "references", "folder", "arrays", "expressions", "checks", "sizing"),
    *("driver", "memory", "zeroing", "calls", "binaries", "plans", "programs", "bundles"),
)
_DOCUMENTATION = '''"""Launches the programs of a bundle. Needs Python 3.10 and the CUDA driver, and
torch for its tensors only. Made by loopir {version}; not to be changed.

    from loader import Bundle

    bundle = Bundle.open("path/of/the/bundle")
    bundle.programs["gemm"].launch(A, B, C)  # on torch's current stream
"""
'''
_FEW = 4  # names that one line imports
_ERRORS = '''class BundleError(Exception):
    """A bundle on disk that is damaged, hostile or of another schema."""


class LaunchError(ValueError):
    """Arguments of a launch that do not fit the program: which argument, what was expected."""


class DriverError(RuntimeError):
    """A call of the CUDA driver that failed: which, and what the driver says of it."""
'''


def loader_text(version: str) -> str:
    """The text of `loader.py`."""
    folder = Path(__file__).with_name("loading")
    texts = {name: folder.joinpath(f"{name}.py").read_text(encoding="utf-8") for name in MODULES}
    sections = [f"# --- {name}\n\n\n{_definitions(text)}" for name, text in texts.items()]
    head = f"{_DOCUMENTATION.format(version=version)}\n{_imports(texts.values())}\n"
    return "\n\n".join([head, _ERRORS, *sections])


def _imports(texts: Iterable[str]) -> str:
    """The imports of other packages, each name once."""
    modules: list[str] = []
    names: dict[str, set[str]] = {}
    for node in chain.from_iterable(map(_heads, texts)):
        if isinstance(node, ast.Import):
            modules += [alias.name for alias in node.names]
        elif not (node.module or "").startswith(PACKAGE):
            found = {alias.name for alias in node.names}
            names[node.module or ""] = names.get(node.module or "", set()) | found
    whole = [f"import {name}" for name in sorted(set(modules))]
    parts = [f"from {m} import {_listed(names[m])}" for m in sorted(names)]
    return "\n".join([*whole, *parts])


def _listed(names: set[str]) -> str:
    found = sorted(names)
    if len(found) <= _FEW:
        return ", ".join(found)
    return "\n    ".join(["(", *(f"{name}," for name in found)]) + "\n)"


def _definitions(text: str) -> str:
    """All behind the imports."""
    last = max(node.end_lineno or 0 for node in _heads(text))
    return "".join(text.splitlines(keepends=True)[last:]).strip("\n") + "\n"


def _heads(text: str) -> list[ast.Import | ast.ImportFrom]:
    return [n for n in ast.parse(text).body if isinstance(n, ast.Import | ast.ImportFrom)]
