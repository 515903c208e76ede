"""The `loader.py` of a bundle works where nothing of this toolkit is, nor torch."""

import ast
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

from backends.triton_codegen.bundle.joined import MODULES, PACKAGE, loader_text
from backends.triton_codegen.bundle.loading import errors

LOADING = Path(errors.__file__).parent
STANDARD = {
    *(
        "collections",
        "concurrent",
        "contextlib",
        "ctypes",
        "dataclasses",
        "errno",
        "functools",
        "hashlib",
        "itertools",
    ),
    *("json", "math", "operator", "os", "pathlib", "re", "stat", "sys", "threading", "types"),
    "typing",
}
#: launches through a class that has the functions of libcuda, with no site packages at all
SCRIPT = """
import ctypes, json, sys
sys.path[:] = [p for p in sys.path if "site-packages" not in p]
sys.path.insert(0, sys.argv[1])
import loader
from loader import Array, Bundle
class Call:
    def __init__(self, name, said): self.name, self.said = name, said
    def __call__(self, *given):
        numbers = {16: 4, 75: 9, 76: 0}
        if self.name == "cuDeviceGetAttribute": given[0]._obj.value = numbers[given[1]]
        if self.name == "cuMemAlloc_v2": given[0]._obj.value = 4096
        self.said.append(self.name)
        return 0
class Library:
    def __init__(self): self.said = []
    def __getattr__(self, name): return Call(name, self.said)
library = Library()
bundle = Bundle.open(sys.argv[1], library)
a, b = Array(1 << 20, "bf16", (100, 136), (136, 1)), Array(2 << 20, "bf16", (136, 72), (72, 1))
c = Array(3 << 20, "f32", (100, 72), (72, 1))
bundle.programs["gemm"].launch(a, b, c)
try:
    bundle.programs["gemm"].launch(a, b, a)
except loader.LaunchError as error:
    refusal = str(error)
toolkit = [m for m in sys.modules if m.split(".")[0] in ("loopir", "passes", "backends", "torch")]
print(json.dumps([library.said, refusal, toolkit, bundle.programs["gemm"].workspace_bytes()]))
"""


def run(folder: Path, script: str = SCRIPT) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-I", "-W", "error", "-c", script, str(folder)]
    return subprocess.run(command, capture_output=True, text=True, cwd="/")


def test_it_launches_in_a_process_that_has_nothing_else(three: Path):
    done = run(three)
    assert done.stderr == ""
    said, refusal, toolkit, size = json.loads(done.stdout)
    assert [s for s in said if "Launch" in s or "Memset" in s] == [
        "cuMemsetD8Async",
        "cuLaunchKernel",
    ]
    assert said.count("cuTensorMapEncodeTiled") == 3
    assert refusal.startswith("C: expected dtype f32, got bf16")
    assert toolkit == []
    assert size == 256 + 8 * 32 * 32 * 4


def test_it_opens_no_damaged_bundle(three: Path, tmp_path: Path):
    import shutil

    folder = tmp_path / "bundle"
    shutil.copytree(three, folder)
    (folder / "manifest.json").write_bytes(b"{}")
    done = run(folder)
    assert f"BundleError: {folder}: manifest.json: its SHA-256 is not the one" in done.stderr


def test_it_is_the_text_of_the_modules(three: Path):
    text = (three / "loader.py").read_text()
    assert text == loader_text("0.1.0")
    for name in MODULES:
        body = (LOADING / f"{name}.py").read_text().rpartition("import")[2].partition("\n\n\n")[2]
        assert body.strip() in text


def test_it_imports_the_standard_library_alone():
    tree = ast.parse(loader_text("0"))
    found = {
        n.module.split(".")[0] for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) and n.module
    }
    found |= {a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names}
    assert found <= STANDARD
    assert "backends" not in loader_text("0")


def test_no_name_has_two_meanings_in_it():
    """Modules have private names of their own; in one file they would hide each other."""
    names = Counter(name for module in MODULES for name in _top_level(module))
    assert [name for name, count in names.items() if count > 1] == []
    assert names["LaunchableProgram"] == 1


def _top_level(module: str) -> list[str]:
    found = []
    for node in ast.parse((LOADING / f"{module}.py").read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.append(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found += [n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name)]
    return found


def test_all_modules_are_in_it_after_those_that_they_need():
    assert {*MODULES, "errors", "__init__"} == {p.stem for p in LOADING.glob("*.py")}
    seen = {"errors"}
    for name in MODULES:
        tree = ast.parse((LOADING / f"{name}.py").read_text())
        needs = {
            (n.module or "").removeprefix(f"{PACKAGE}.")
            for n in tree.body
            if isinstance(n, ast.ImportFrom) and (n.module or "").startswith(PACKAGE)
        }
        assert needs <= seen, name
        seen.add(name)


def test_it_runs_no_code_that_it_reads():
    """No eval, exec, pickle or import by name; nothing of the bundle's Python is run."""
    tree = ast.parse(loader_text("0"))
    called = {
        n.func.id
        for n in ast.walk(tree)
        if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)
    }
    assert not called & {"eval", "exec", "compile", "__import__"}
    assert called >= {"getattr", "sorted"}
