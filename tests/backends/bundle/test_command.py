"""`loopir-triton bundle`: exit codes, what it prints, what it leaves."""

from pathlib import Path

import pytest

from backends.triton_codegen.bundle.loading.folder import Folder
from backends.triton_codegen.tool import main
from loopir.build import gemm
from loopir.printer import to_text

PROGRAM = to_text(gemm(64, 64, 128, "f16", tile=(32, 32, 32)))
OTHER = PROGRAM.replace("@gemm", "@product")
OPTIONS = ("--target", "cuda:80", "--num-warps", "4", "--num-stages", "2", "--jobs", "1")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "program.lir"
    path.write_text(f"{PROGRAM}\n# -----\n{OTHER}")
    return path


def test_a_file_of_two_programs_gives_a_bundle_of_two(
    file: Path, capsys: pytest.CaptureFixture[str]
):
    folder = file.with_name("bundle")
    options = "-p", "stream-k{merge=fixup splits=2}", *OPTIONS, "-o", str(folder)
    assert main(["bundle", str(file), *options]) == 0
    manifest = Folder(folder).manifest
    assert [p.name for p in manifest.programs] == ["gemm", "product"]
    assert {p.pipeline for p in manifest.programs} == {"stream-k{merge=fixup splits=2}"}
    head, *rows, last = capsys.readouterr().out.splitlines()
    assert head.split()[:3] == ["target", "kernel", "variant"]
    assert [row.split()[:3] for row in rows[:4]] == [
        ["cuda:80", "@gemm", "aligned"],
        ["cuda:80", "@gemm", "plain"],
        ["cuda:80", "@gemm_fixup", "aligned"],
        ["cuda:80", "@gemm_fixup", "plain"],
    ]
    assert last.startswith("2 programs, ")


def test_one_program_is_counted_as_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = tmp_path / "one.lir"
    path.write_text(PROGRAM)
    assert main(["bundle", str(path), *OPTIONS, "-o", str(tmp_path / "bundle")]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("1 program, ")


def test_a_folder_that_is_no_bundle_is_a_refusal(file: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["bundle", str(file), *OPTIONS, "-o", str(file.parent)]) == 1
    assert f"{file.parent}: the folder is there and is no bundle" in capsys.readouterr().err
    assert file.exists()


def test_text_that_is_no_program_is_a_refusal(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = tmp_path / "bad.lir"
    path.write_text("kernel @k(")
    assert main(["bundle", str(path), *OPTIONS, "-o", str(tmp_path / "b")]) == 1
    assert "line 1" in capsys.readouterr().err


USAGE = {
    "no folder": ((), "-o"),
    "empty folder": (("-o", ""), "-o: a name is missing"),
    "target": (("-o", "b", "--target", "cuda:81"), "unknown target 'cuda:81'"),
    "no target of a bundle": (
        ("-o", "b", "--target", "jit"),
        "jit: compiles nothing ahead of time",
    ),
    "pipeline": (("-o", "b", "-p", "stream-q"), "--pipeline:"),
    "warps": (("-o", "b", "--num-warps", "3"), "num_warps: one of"),
    "jobs": (("-o", "b", "--jobs", "0"), "--jobs: 1 or more"),
}


@pytest.mark.parametrize("what", USAGE)
def test_usage(file: Path, capsys: pytest.CaptureFixture[str], what: str):
    options, message = USAGE[what]
    assert main(["bundle", str(file), *options]) == 2
    assert message in capsys.readouterr().err


def test_a_bug_of_ours_comes_with_a_reproducer(
    file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    def broken(*args: object, **how: object) -> None:
        raise KeyError("of ours")

    monkeypatch.setattr("backends.triton_codegen.bundle.command.bundle", broken)
    assert main(["bundle", str(file), *OPTIONS, "-o", "b"]) == 3
    said = capsys.readouterr().err
    assert "this is a bug of ours" in said
    assert "kernel @gemm" in said
