"""docs/benchmarks.md and the Makefile: commands are usage, columns and parts are the code's."""

import re
import shlex
from pathlib import Path

import pytest

from backends.bench import plot
from backends.bench.arms import BASELINES
from backends.bench.columns import COLUMNS
from backends.bench.options import parser
from backends.bench.request import request
from backends.bench.shapes import shape_sets
from backends.bench.sweep import DEFAULTS
from tests.support.documents import fenced, page

PAGE = page("benchmarks.md")
MAKEFILE = Path(__file__).parents[3] / "Makefile"
COMMANDS = [line for block in fenced(PAGE, "sh") for line in block.splitlines()]


def words_of(command: str) -> list[str]:
    return shlex.split(command, comments=True)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_of_the_page_is_usage(command: str):
    tool, name, *argv = words_of(command)
    assert tool == "loopir-triton"
    if name == "plot":
        assert plot.parser().parse_args(argv).file
    else:
        assert name == "bench"
        assert request(parser("bench").parse_args(argv)).cases


def test_commands_of_the_makefile_are_usage():
    recipes = MAKEFILE.read_text().replace("\\\n", " ")
    found = re.findall(r"^\t\$\(BENCH\) bench (.*)$", recipes, re.MULTILINE)
    assert len(found) == 3
    for words in found:
        asked = request(parser("bench").parse_args(shlex.split(words)))
        assert asked.output
        assert asked.output.parent == Path("benchmarks/results")


def test_control_a_command_that_is_none_is_found():
    with pytest.raises(ValueError, match="units=1"):
        request(parser("bench").parse_args(words_of("m=1 n=1 units=1")))


def columns(text: str) -> list[str]:
    rows = re.findall(r"^\| (`\w.*`) \|", text[text.index("\n## Files") :], re.MULTILINE)
    return re.findall(r"`([\w-]+)`", " ".join(rows))


def test_the_columns_are_those_of_the_files():
    assert columns(PAGE) == list(COLUMNS)


def test_parts_of_a_sweep_sets_and_baselines_are_named():
    (parts,) = re.findall(r"^Parts of a sweep are (.*?);", PAGE, re.MULTILINE | re.DOTALL)
    assert re.findall(r"`(\w+)`", parts) == list(DEFAULTS)
    for name in (*shape_sets(), *BASELINES):
        assert re.search(rf"[`, ]{name}[`, ]", PAGE)
