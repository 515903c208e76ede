"""`loopir-opt --verify-only` and `--dump-dir`."""

import pytest

from loopir import __version__
from loopir.parser import parse
from loopir.printer import to_text
from passes.pipeline import parse_pipeline
from tests.support.opt_tool import Result
from tests.support.texts import GEMM, MAX_ROWS, edited

BROKEN = edited(GEMM, ("dot acc, a, b", "dot acc, b, a"))
OTHER = edited(GEMM, ("    alloc acc: register f32[BM, BN]\n", ""))

# --- --verify-only


def test_verify_only_prints_nothing_about_programs_that_are_fine(tool):
    text = f"{GEMM}# -----\n{MAX_ROWS}"
    assert tool("-", "--verify-only", stdin=text) == Result(0, "", "")


def test_verify_only_checks_every_program(tool):
    result = tool("-", "--verify-only", stdin="# -----\n".join((BROKEN, GEMM, OTHER)))
    assert (result.code, result.out) == (1, "")
    assert "-, program 1: " in result.err
    assert "V31" in result.err
    assert "-, program 2" not in result.err
    assert "-, program 3: " in result.err


def test_verify_only_shows_where_text_is_no_program(tool):
    result = tool("-", "--verify-only", stdin=edited(GEMM, ("fill acc, 0", "fil acc, 0")))
    assert (result.code, result.out) == (1, "")
    assert result.err.startswith("-: line 7, column 5: ")


@pytest.mark.parametrize(
    ("option", "named"),
    [
        ("--pipeline=tile-order", "--pipeline"),
        ("--run", "--run"),
        ("--deps=dot", "--deps"),
        ("--explain", "--explain"),
        ("--print-after=all", "--print-after"),
        ("--diff", "--diff"),
        ("--time-passes", "--time-passes"),
        ("--dump-dir=x", "--dump-dir"),
        ("--seed=1", "--seed"),
    ],
)
def test_verify_only_goes_with_no_other_option(tool, option, named):
    result = tool("-", "--verify-only", option)
    assert (result.code, result.out) == (2, "")
    assert f"--verify-only: no other option goes with it, {named} neither" in result.err


def test_a_bug_of_the_verifier_has_a_reproducer(tool, monkeypatch):
    def fails(program):
        raise KeyError("oops")

    monkeypatch.setattr("passes.opt.verify", fails)
    result = tool("-", "--verify-only")
    assert result.code == 3
    assert "# reproducer: loopir-opt - --verify-only (" in result.err


# --- --dump-dir

PIPELINE = "tile-order{group=8},stream-k{units=5}"


def test_dumps_are_the_program_before_after_each_pass_and_at_the_end(tool, tmp_path):
    folder = tmp_path / "new" / "dumps"
    result = tool("-", "-p", PIPELINE, "--dump-dir", str(folder))
    assert (result.code, result.err) == (0, "")
    files = {p.name: p.read_text() for p in folder.iterdir()}
    ordered = parse_pipeline("tile-order{group=8}").run(parse(GEMM))
    split = parse_pipeline(PIPELINE).run(parse(GEMM))
    version = f"# loopir {__version__}"
    assert sorted(files) == [
        "00-input.lir",
        "01-tile-order.lir",
        "02-stream-k.lir",
        "03-result.lir",
    ]
    assert files["00-input.lir"] == f"{version}\n{GEMM}"
    assert files["01-tile-order.lir"] == f"{version} -p 'tile-order{{group=8}}'\n{to_text(ordered)}"
    assert {parse(files[n]) for n in ("02-stream-k.lir", "03-result.lir")} == {split}
    assert files["03-result.lir"] == files["02-stream-k.lir"] == result.out


def test_dumps_of_several_programs_have_their_numbers(tool, tmp_path):
    tool("-", "-p", "tile-order", "--dump-dir", str(tmp_path), stdin=f"{GEMM}# -----\n{MAX_ROWS}")
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "p1-00-input.lir",
        "p1-01-tile-order.lir",
        "p1-02-result.lir",
        "p2-00-input.lir",
    ]


def test_dumps_up_to_a_refusal_are_there(tool, tmp_path):
    result = tool("-", "-p", "stream-k{units=5},stream-k{units=5}", "--dump-dir", str(tmp_path))
    assert (result.code, result.out) == (1, "")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["00-input.lir", "01-stream-k.lir"]


def test_a_program_that_breaks_a_rule_is_dumped_as_it_was_read(tool, tmp_path):
    assert tool("-", "--dump-dir", str(tmp_path), stdin=BROKEN).code == 1
    assert parse((tmp_path / "00-input.lir").read_text()) == parse(BROKEN)


def test_dumps_show_the_sizes_that_were_set(tool, tmp_path):
    tool("-", "--run", "--size=M=40", "--dump-dir", str(tmp_path))
    assert "M = 40" in (tmp_path / "00-input.lir").read_text()


def test_a_dump_replaces_a_file_and_a_link_but_not_what_it_leads_to(tool, tmp_path):
    folder, precious = tmp_path / "dumps", tmp_path / "precious"
    folder.mkdir()
    precious.write_text("precious")
    (folder / "00-input.lir").symlink_to(precious)
    (folder / "01-result.lir").write_text("old" * 5000)
    assert tool("-", "--dump-dir", str(folder)).code == 0
    assert precious.read_text() == "precious"
    assert not (folder / "00-input.lir").is_symlink()
    assert parse((folder / "01-result.lir").read_text()) == parse(GEMM)


def test_a_folder_of_the_name_of_a_dump_exits_with_two(tool, tmp_path):
    (tmp_path / "00-input.lir").mkdir()
    result = tool("-", "--dump-dir", str(tmp_path))
    assert (result.code, result.out) == (2, "")
    assert "loopir-opt: error: cannot write " in result.err
    assert "00-input.lir" in result.err


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("file", "file is no directory"),
        ("file/below", "cannot make"),
        ("dangling", "dangling is no directory"),
        ("a\0b", "cannot make"),
    ],
)
def test_a_dump_dir_that_cannot_be_is_usage(tool, tmp_path, name, said):
    (tmp_path / "file").write_text("")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    result = tool("-", "--dump-dir", f"{tmp_path}/{name}")
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith("usage: loopir-opt")
    assert said in result.err


def test_a_dump_dir_without_a_name_is_usage(tool):
    result = tool("-", "--dump-dir", "")
    assert (result.code, "--dump-dir: a name is missing" in result.err) == (2, True)


def test_nothing_is_made_where_the_input_cannot_be_read(tool, tmp_path):
    assert tool("/does/not/exist", "--dump-dir", str(tmp_path / "new")).code == 2
    assert not (tmp_path / "new").exists()
