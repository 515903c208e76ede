"""Launches like those that are compared with Triton's notice faults of the launcher in C: each
changes what the driver is asked, or what the caller is told."""

import json
from pathlib import Path
from typing import Any

import pytest

from backends.triton_codegen.bundle.c.files import launcher_text
from tests.support.c_launcher import Launcher, Tensor, needs_gcc, parameter_lines, shared_folder

pytestmark = needs_gcc

#: what is replaced, wherever it stands, and by what
MUTANTS = {
    "extent for stride": ("t->strides[outer]", "t->sizes[outer]"),
    "strides of maps in elements": ("* (uint64_t)m->element_bytes", ""),
    "dimensions of maps reversed": ("m->dims[i]]", "m->dims[m->rank - 1 - i]]"),
    "options of maps exchanged": ("m->interleave, m->swizzle", "m->swizzle, m->interleave"),
    "variants that do not suit": ("if (!holds(", "if (holds("),
    "conditions without a least": ("n.value >= c->least && ", ""),
    "alignment not looked at": (" && n.value % c->multiple_of == 0", ""),
    "the first map for all": ("&p->maps[a->map]", "&p->maps[0]"),
    "narrow arguments": ("scalars[at].wide = value", "scalars[at].wide = (int32_t)value"),
    "threads as blocks": ("(unsigned)blocks, 1, 1, v->threads", "v->threads, 1, 1, v->threads"),
    "shared memory left out": ("v->shared_bytes, stream, p", "0, stream, p"),
    "another stream": ("stream, p->pointers", "NULL, p->pointers"),
    "no overlap": ("serialization = 1", "serialization = 0"),
    "no zeroing": ("z < kernel->zeroed_count", "z < 0"),
    "gaps zeroed": ("is_gapless = is_gapless && step == found.width;", "is_gapless = 1;"),
    "counters never zeroed": ("!r->counter_bytes || w->counters_are_zero", "1"),
    "counters always zeroed": ("|| w->counters_are_zero", ""),
    "tiles on counters": ("(part->is_counter ? counters : tiles)", "counters"),
    "a unit too many": ("each, defined(sms)", "each, defined(sms + 1)"),
    "ceiling as floor": ("down + (code == LOOPIR_CEIL_DIVIDE && rest)", "down"),
    "minimum as maximum": ("return a < b ? left", "return a > b ? left"),
    "the second kernel left out": ("if (r->blocks[i] > 0) TRY(enqueue", "if (!i) TRY(enqueue"),
    "workspace of any size": ("w->bytes < *counter_bytes ||", ""),
    "tensors may overlap": ("return a_bytes && b_bytes", "return 0"),
    "any shape": ("if (size != t->sizes[d])", "if (0)"),
    "any hash": ("if (strcmp(digits, image->sha256))", "if (0)"),
    "loaded twice": ("if (!*kept) {", "{"),
}


@pytest.fixture(scope="module")
def launcher(tmp_path_factory: pytest.TempPathFactory, opened: Path) -> Launcher:
    folder = tmp_path_factory.mktemp("mutants")
    manifest = json.loads((opened / "manifest.json").read_text())
    (folder / "params").write_text("\n".join(parameter_lines(opened, manifest)))
    damaged = folder / "damaged"
    for file in manifest["files"]:
        place = damaged / file["path"]
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes((opened / file["path"]).read_bytes()[:-1] + b"?")
    return Launcher(shared_folder(tmp_path_factory), folder, manifest, opened)


def tensors(m: int, n: int, k: int, pad: int = 0, offset: int = 0, c: int = 2**42) -> list[str]:
    return [
        Tensor(2**20 + offset, (m, k), "bf16", (k + pad, 1)).command,
        Tensor(2**22, (k, n), "bf16", (1, k)).command,
        Tensor(c, (m, n), "f32", (n + pad, 1)).command,
    ]


def battery(launcher: Launcher) -> Any:
    """What the caller is told and the driver asked, in launches of all programs."""
    room, small = f"workspace {2**40} {2**26} 0", f"workspace {2**40} 128 0 1"
    groups = [
        [*tensors(130, 136, 200), f"{room} 1"],
        [*tensors(130, 136, 200, 8), f"{room} 0"],
        [*tensors(61, 67, 71, 1, 2), f"{room} 1", "size units 3"],
        [*tensors(8, 8, 8), f"workspace {2**40} {2**26} 1024 1"],
        [*tensors(130, 136, 0), f"{room} 1"],
        [*tensors(130, 136, 200), small],
        [*tensors(130, 136, 200, c=2**20 + 64), f"{room} 1"],
        [*tensors(130, 136, 200)[:2], Tensor(2**24, (131, 136)).command, f"{room} 1"],
    ]
    commands = [f"open {launcher.folder / 'damaged'}", f"open {launcher.bundle}", "stream 77"]
    for name in ("workspace", "fixup", "atomic"):
        commands.append(f"find {name}")
        for group in groups:
            commands += ["clear", *group, "bytes", "launch", "launch"]
    params = launcher.folder / "params"
    outcome = launcher.run(*commands, "close", SMS=7, PARAMS=params)
    return outcome.lines, outcome.calls


@pytest.fixture(scope="module")
def right(launcher: Launcher) -> Any:
    return battery(launcher)


def test_the_battery_is_the_same_twice_and_without_sanitizers(launcher: Launcher, right: Any):
    assert battery(launcher) == right
    assert battery(launcher.with_source(launcher_text())) == right


@pytest.mark.sampled
@pytest.mark.parametrize("name", MUTANTS)
def test_a_fault_is_noticed(launcher: Launcher, right: Any, name: str):
    old, new = MUTANTS[name]
    assert launcher_text().count(old) >= 1
    mutant = launcher.with_source(launcher_text().replace(old, new))
    assert battery(mutant) != right
