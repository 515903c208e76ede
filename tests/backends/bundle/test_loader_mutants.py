"""The loader with a fault put in: the battery sees each."""

import sys
from pathlib import Path
from types import ModuleType

import pytest

from backends.triton_codegen.bundle.joined import loader_text
from tests.support.loader_battery import battery

LOADER = loader_text("0")
_ROWS = "driver.zero_rows(start + offset, pitch, "
_FOR_PAIRS = "    for i, j, first_bytes, second_bytes in "
#: by what is wrong: text of the loader, and what stands there instead
MUTANTS = {
    "counters are not zeroed": ("        made.reset(self._driver, stream)\n", ""),
    "tiles lie on the counters": ("else self.start + self.counter_bytes", "else self.start"),
    "one workspace for all streams": (
        "        place = device, stream\n",
        "        place = device, 0\n",
    ),
    "a failed launch leaves its counters": (
        "        self.memory.dropped(memory)\n",
        "        pass\n",
    ),
    "a workspace never grows": ("kept is None or not kept.holds(room)", "kept is None"),
    "outputs are not zeroed": ("for place, rows in step.zeroed:", "for place, rows in ():"),
    "one row is zeroed": (f"{_ROWS}width, rows", f"{_ROWS}width, 1"),
    "gaps are zeroed": (f"{_ROWS}width, rows", f"{_ROWS}pitch, rows"),
    "kernels run backwards": ("for step in self.steps:", "for step in self.steps[::-1]:"),
    "the second kernel is left out": ("for step in self.steps:", "for step in self.steps[:1]:"),
    "every launch is aligned": ("and value % condition.multiple_of == 0", ""),
    "plans forget alignment": ("*[_alignment(start) for start in starts], ", ""),
    "plans forget strides": ("(Array, t.shape, t.strides, t.dtype, t.device)", "(t.shape,)"),
    "maps stay": ("found = self._kept.get(start)", "found = next(iter(self._kept.values()), None)"),
    "maps step by elements": ("* descriptor.element_bytes for d in dims[1:]", "for d in dims[1:]"),
    "pointers stay": ("slots[i] = addresses[place]", "slots[i] = slots[i] or addresses[place]"),
    "a stream is ignored": ('found = getattr(stream, "cuda_stream", stream)', "found = 5"),
    "quotients round down": ("-(-top // bottom)", "top // bottom"),
    "too many units": ("return min(each * sms(), most, limit)", "return min(2 * sms(), most)"),
    "shapes are not checked": ("    if array.shape != shape:", "    if False:"),
    "outputs may overlap themselves": ("and stride <= reach and", "and False and"),
    "outputs may lie on operands": (f"{_FOR_PAIRS}pairs:", f"{_FOR_PAIRS}():"),
    "dtypes are not checked": ("    if array.dtype != parameter.dtype:", "    if False:"),
    "devices are not compared": ("        if array.device != device:", "        if False:"),
    "the seal is not checked": ("!= seal_text(data):", "!= seal_text(data) and False:"),
    "hashes are not checked": (".hexdigest() != file.sha256:", ".hexdigest() == '':"),
    "links are followed": ("os.O_RDONLY | os.O_NOFOLLOW", "os.O_RDONLY"),
    "unknown keys are read over": ("        if key not in types:", "        if False:"),
    "names are not looked up": ("        check_references(self.manifest)\n", ""),
}


def loaded(text: str) -> ModuleType:
    """The text as a module, which its dataclasses look up by name."""
    module = ModuleType("loader_under_test")
    sys.modules[module.__name__] = module
    exec(compile(text, "loader.py", "exec"), vars(module))
    return module


def test_the_loader_passes(three: Path, opened: Path, tmp_path: Path):
    battery(loaded(LOADER), three, opened, tmp_path)


@pytest.mark.sampled
@pytest.mark.parametrize("what", MUTANTS)
def test_a_fault_is_seen(three: Path, opened: Path, tmp_path: Path, what: str):
    old, new = MUTANTS[what]
    assert LOADER.count(old) == 1, "the loader has changed: say where the fault goes now"
    module = loaded(LOADER.replace(old, new))
    with pytest.raises((AssertionError, RuntimeError, ValueError, KeyError)):
        battery(module, three, opened, tmp_path)
