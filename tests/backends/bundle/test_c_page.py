"""What docs/deployment.md says of C is so: its program compiles, its tables are of the header."""

import re
from pathlib import Path

import pytest

from backends.triton_codegen.bundle.c.files import c_files
from backends.triton_codegen.bundle.c.tables import LEAST_DRIVER, MOST
from tests.support.c_launcher import STRICT, codes, compile_c, needs_gcc
from tests.support.documents import fenced, page
from tests.support.manifests import kernel, manifest, program, variant

pytestmark = needs_gcc
SECTION = page("deployment.md").split("\n## From C\n")[1].split("\n## ")[0]
FILES = c_files(manifest(program(kernels=[kernel(1, variant("k"))])))

AROUND = """
#include "loopir_bundle.h"
int main(void) {{
    int64_t m = 1, n = 1, k = 1;
    void *a_data = 0, *b_data = 0, *bias_data = 0, *c_data = 0;
    loopir_stream stream = 0;
    loopir_workspace workspace = {{0}};
{}
}}
"""


def compiled(folder: Path, text: str) -> None:
    for name, content in FILES.items():
        (folder / name).write_text(content)
    lines = [line for line in text.splitlines() if not line.startswith("#include")]
    (folder / "x.c").write_text(AROUND.format("\n".join(lines)))
    compile_c(folder / "x.o", [folder / "x.c"], *STRICT, "-c")


def test_the_program_compiles(tmp_path: Path):
    (text,) = fenced(SECTION, "c")
    compiled(tmp_path, text)
    with pytest.raises(AssertionError, match="tensors"):  # control
        compiled(tmp_path, text.replace("tensors[]", "tensor[]"))


def rows(section: str, head: str) -> list[list[str]]:
    lines = section[section.index(head) :].split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_the_functions_are_those_of_the_header():
    named = {row[0].strip("`") for row in rows(SECTION, "| function |")}
    header = set(re.findall(r"^[a-z][\w *]*?(loopir_\w+)\(", FILES["loopir_launch.h"], re.M))
    texts = {"loopir_error_text", "loopir_last_error", "loopir_dense"}
    assert named == header - texts
    assert all(name in SECTION for name in header)


def test_the_codes_are_those_of_the_header():
    named = [name for row in rows(SECTION, "| code |") for name in re.findall(r"\w+", row[0])]
    assert sorted(named) == sorted(set(codes()) - {"OK"})


def test_the_limits_are_those_of_the_tables():
    found = re.search(r"at most (\d+) tensors of (\d+) dimensions, and (\d+) kernels", SECTION)
    assert found
    limits = [MOST[name] for name in ("parameters", "dimensions", "kernels")]
    assert [*map(int, found.groups())] == limits
    assert f"before CUDA {LEAST_DRIVER // 1000}.{LEAST_DRIVER % 1000 // 10}" in SECTION
