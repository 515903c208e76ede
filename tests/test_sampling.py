"""What a run without --long leaves out, and what it keeps all the same."""

import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from passes.stream_k import Merge
from tests.support import workload_cases, zoo
from tests.support.mutations import MUTATIONS
from tests.support.sampling import FEW, PART, kept

TESTS = Path(__file__).parent

Cases = dict[str, dict[str, Any]]


def table(**axes: Iterable[Any]) -> Cases:
    """The cases of a product of axes, by name."""
    rows = product(*axes.values())
    return {"-".join(map(str, row)): dict(zip(axes, row, strict=True)) for row in rows}


# --- the choice


def test_a_third_is_kept_at_least():
    for count in range(FEW + 1, 60):
        assert len(kept(table(x=range(count)))) == -(-count // PART)


@pytest.mark.parametrize("count", range(FEW + 1))
def test_few_cases_are_kept_whole(count: int):
    cases = table(x=range(count))
    assert kept(cases) == cases.keys()


@pytest.mark.parametrize("sizes", [(2, 30), (9, 3), (7, 7), (40, 2, 3), (5, 4, 3, 2)])
def test_every_value_of_every_axis_is_kept(sizes: tuple[int, ...]):
    cases = table(**{f"axis{i}": range(size) for i, size in enumerate(sizes)})
    found = kept(cases)
    for i, size in enumerate(sizes):
        assert {cases[name][f"axis{i}"] for name in found} == {*range(size)}
    assert len(found) < len(cases)


def test_control_a_third_by_checksum_alone_loses_values():
    cases = table(rows=range(30), columns=range(2))
    by_case = {name: {"case": name} for name in cases}
    assert len({cases[name]["rows"] for name in kept(by_case)}) < 30


def test_an_argument_that_differs_in_each_case_is_no_axis():
    cases = {name: row | {"name": name} for name, row in table(x=range(30), y=range(3)).items()}
    assert kept(cases) == kept(table(x=range(30), y=range(3)))


def test_the_choice_depends_on_names_alone():
    cases = table(x=range(10), y=range(10))
    assert kept(dict(reversed(cases.items()))) == kept(cases)
    other = {f"{name} again": row for name, row in cases.items()}
    assert {name.removesuffix(" again") for name in kept(other)} != kept(cases)


# --- this suite, without --long

_TELL = """
import sys, pytest
class Told:
    def pytest_deselected(self, items):
        print(*("left out: " + item.nodeid for item in items), sep="\\n")
sys.exit(pytest.main(["--collect-only", "-q", "tests"], plugins=[Told()]))
"""
_NODE = r"^(left out: )?tests/(\S+?::\w+)(?:\[(.*)\])?$"
Names = dict[str, set[str]]

#: what a part of the name of a case stands for
KINDS: dict[str, Names] = {
    "builder": {c.name: {c.builder.__name__} for c in workload_cases.CASES},
    "zoo file": {c.name: {c.name} for c in zoo.CASES},
    "merge": {m.value: {m.value} for m in Merge},
    "mutation": {name: {name} for name in MUTATIONS},
}


def collected() -> tuple[Names, Names]:
    """By test function, `file::name`: the names of the cases that run, "" where it has none; and of
    those that only --long runs."""
    command = (sys.executable, "-c", _TELL)
    told = subprocess.run(command, cwd=TESTS.parent, capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stdout + told.stderr
    run, left_out = defaultdict[str, set[str]](set), defaultdict[str, set[str]](set)
    for is_out, at, case in re.findall(_NODE, told.stdout, re.MULTILINE):
        (left_out if is_out else run)[at].add(case)
    return run, left_out


def meant(kind: Names, cases: set[str]) -> set[str]:
    return {one for case in cases for part in parts(case) for one in kind.get(part, ())}


def parts(case: str) -> list[str]:
    """Of the name of a case, its arguments: pytest joins them by hyphens."""
    hyphened = re.sub("atomic.workspace", "atomic_workspace", case)
    return [part.replace("atomic_workspace", "atomic-workspace") for part in hyphened.split("-")]


@pytest.mark.timeout(300)
def test_a_run_has_each_function_with_each_of_its_builders_files_merges_and_mutations():
    """Each that the function has several cases of."""
    run, left_out = collected()
    assert sum(map(len, left_out.values())) > 500
    assert written() - run.keys() == set()
    assert not [at for at in left_out if "codes" in at], "refusals are tested whole"
    for kind in KINDS.values():
        cases = {at: run[at] | left_out[at] for at in run}
        named = [at for at in run if all(meant(kind, {case}) for case in cases[at])]
        assert named
        several = [at for at in named if len(cases[at]) > len(meant(kind, cases[at]))]
        lost = {at: meant(kind, left_out[at]) - meant(kind, run[at]) for at in several}
        assert {at: sorted(things) for at, things in lost.items() if things} == {}


def written() -> set[str]:
    """The test functions of the sources."""
    return {
        f"{path.relative_to(TESTS).as_posix()}::{name}"
        for path in TESTS.rglob("test_*.py")
        for name in re.findall(r"^def (test_\w+)\(", path.read_text(), re.MULTILINE)
    }
