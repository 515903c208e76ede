"""Launches and refusals of a loader, given as a module, whose results and calls are checked."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch

from backends.triton_codegen.bundle.loading.folder import seal_text
from tests.support.fake_cuda import FakeCuda
from tests.support.interpreted_launches import array, interpreting_cuda

SMS = 4
STREAMS = (5, 6)
#: rows that no tensor shows, and tensors kept alive: a fault may write there, and the process live
_MORE = 64
_kept: list[Any] = []


class Wrong(AssertionError):
    """The battery found a fault."""


def battery(loader: Any, three: Path, opened: Path, place: Path) -> None:
    """Raises where something is wrong. `three`, `opened`: bundles of `tests.support.bundles`;
    `place`: an empty folder."""
    torch.manual_seed(0)
    _kept.clear()
    _refusals(loader, opened)
    _damage(loader, three, place)
    _convolution(loader, three)
    _products(loader, opened)


# --- launches


def _convolution(loader: Any, three: Path) -> None:
    """Two kernels, in order."""
    x, f = ints(2, 9, 7, 5, dtype=torch.half), ints(3, 3, 5, 19, dtype=torch.half)
    y, fake = nans(2, 5, 4, 19), interpreting_cuda(three)
    program = loader.Bundle.open(three, fake).programs["conv"]
    program.launch(*(passed(loader, t) for t in (x, f, y)))
    images, filters = x.permute(0, 3, 1, 2).float(), f.permute(3, 2, 0, 1).float()
    whole = torch.nn.functional.conv2d(images, filters, stride=2, padding=1)
    _same(y, whole.permute(0, 2, 3, 1))


class Product(NamedTuple):
    """Operands and an output within `room`; whether all start and step by multiples of 16 bytes."""

    a: torch.Tensor
    b: torch.Tensor
    c: torch.Tensor
    room: torch.Tensor
    is_aligned: bool


def _product(m: int, n: int, k: int, pad: int, shift: int) -> Product:
    """Rows with `pad` elements between them; A starts `shift` elements into its own."""
    a, b = ints(m + _MORE, k + pad)[:m, shift:][:, :k], ints(n + _MORE, k + pad)[:n, :k].t()
    room = torch.full((m + _MORE, n + pad), 7.0)
    found = Product(a, b, room[1 : m + 1, :n], room, pad % 8 == 0 and shift == 0)
    _kept.append(found)
    return found


SHAPES = [
    (32, 32, 64, 0, 0),
    (72, 40, 128, 0, 0),
    (72, 40, 128, 8, 0),
    (72, 40, 128, 8, 1),
    (72, 40, 128, 3, 0),
]


def _products(loader: Any, opened: Path) -> None:
    """Small ones, then large ones; aligned, then not; in all three ways, on two streams."""
    fake = interpreting_cuda(opened, sms=SMS)
    programs = loader.Bundle.open(opened, fake).programs
    for name, stream in (("workspace", 5), ("workspace", 6), ("atomic", 5), ("fixup", 5)):
        for shape in SHAPES:
            _check_product(loader, fake, programs[name], stream, _product(*shape))
    rooms = {(start, stream) for start, _, stream in fake.memsets if start in fake.memory}
    if {launch.stream for launch in fake.launches} != {*STREAMS} or len(rooms) < len(STREAMS):
        raise Wrong("streams share a workspace, or a launch went elsewhere")
    if fake.wrote_beyond():
        raise Wrong("a workspace was too small")
    _check_failure(loader, fake, programs["workspace"])


def _check_product(loader: Any, fake: FakeCuda, program: Any, stream: int, given: Product) -> None:
    wanted, before = given.a.float() @ given.b.float(), len(fake.launches)
    around = given.room.clone()
    program.launch(*(passed(loader, t) for t in given[:3]), stream=stream)
    if fake.errors:
        raise Wrong(str(fake.errors))
    _same(given.c, wanted)
    given.c.copy_(around[1 : len(given.c) + 1, : given.c.shape[1]])
    _same(given.room, around)
    first = fake.launches[before]
    if (first.variant == "plain") == given.is_aligned:
        raise Wrong(f"{first.variant}, and is_aligned = {given.is_aligned}")
    if program.options and first.blocks > SMS:
        raise Wrong("more units than SMs")


def _check_failure(loader: Any, fake: FakeCuda, program: Any) -> None:
    """A launch that failed has the next one zero the counters."""
    tensors = [passed(loader, t) for t in _product(40, 40, 128, 0, 0)[:3]]
    program.launch(*tensors, stream=STREAMS[0])
    fake.fails["cuLaunchKernel"] = 700
    try:
        program.launch(*tensors, stream=STREAMS[0])
    except loader.DriverError:
        zeroed = len(fake.memsets)
        program.launch(*tensors, stream=STREAMS[0])
        if len(fake.memsets) == zeroed + 1:
            return
    raise Wrong("counters of a launch that failed were used again")


# --- refusals


def _refusals(loader: Any, opened: Path) -> None:
    program = loader.Bundle.open(opened, FakeCuda(opened)).programs["workspace"]
    a, b, c = _product(64, 64, 64, 0, 0)[:3]
    given = [passed(loader, t) for t in (a, b, c)]
    wrong = (
        [passed(loader, a.half()), *given[1:]],
        [passed(loader, a[:, :32]), *given[1:]],
        [given[0], passed(loader, b, device=1), given[2]],
        [*given[:2], passed(loader, c, address=a.data_ptr())],
        [*given[:2], passed(loader, c, strides=(1, 1))],
    )
    for tensors in wrong:
        _refused(lambda given=tensors: program.launch(*given), loader.LaunchError)


def _refused(action: Callable[[], Any], error: type[Exception]) -> None:
    try:
        action()
    except error:
        return
    raise Wrong("done, and should have been refused")


def _damage(loader: Any, three: Path, place: Path) -> None:
    for number, damage in enumerate(DAMAGES):
        folder = place / str(number)
        shutil.copytree(three, folder)
        damage(folder)
        _refused(lambda at=folder: loader.Bundle.open(at), loader.BundleError)


def _edited(folder: Path, old: str, new: str, is_sealed: bool = True) -> None:
    path = folder / "manifest.json"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    if is_sealed:
        (folder / "manifest.sha256").write_bytes(seal_text(path.read_bytes()))


def _linked(folder: Path) -> None:
    (folder / "programs" / "gemm").rename(folder / "elsewhere")
    (folder / "programs" / "gemm").symlink_to(folder / "elsewhere")


def _flipped(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(bytes([data[0] ^ 1]) + data[1:])


DAMAGES: tuple[Callable[[Path], None], ...] = (
    lambda folder: _edited(folder, '"threads": 128', '"threads": 256', is_sealed=False),
    lambda folder: _edited(folder, '"format"', '"more": 1, "format"'),
    lambda folder: _edited(folder, '["C", "A"]', '["C", "Z"]'),
    lambda folder: _flipped(folder / "programs" / "gemm" / "gemm.py"),
    _linked,
)


# --- tensors


def passed(loader: Any, tensor: torch.Tensor, **changes: Any) -> Any:
    """A tensor of the host as the loader's Array, with changes."""
    whole = array(tensor)
    parts = {name: getattr(whole, name) for name in ("address", "dtype", "shape", "strides")}
    return loader.Array(**{**parts, **changes})


def ints(*shape: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    """So small that every sum of products is exact."""
    return torch.randint(-7, 8, shape).to(dtype)


def nans(*shape: int) -> torch.Tensor:
    return torch.full(shape, float("nan"))


def _same(found: torch.Tensor, wanted: torch.Tensor) -> None:
    if not torch.equal(found, wanted):
        raise Wrong("other results")
