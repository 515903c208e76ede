"""What a device can do, in bytes, cycles and microseconds: the constants of the cost model, from
readable JSON."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from importlib.resources import files
from typing import Any

from loopir.types import DType

_SHIPPED = ("h200",)
_WHOLE = {"sms": 1 << 16, "shared_bytes": 1 << 40, "l2_bytes": 1 << 40}  # the most of each
_RATES = ("flops_per_cycle", "sustained_tflops")  # of each type that a product can have
_TABLES = (*_RATES, "slowness")
_LEAST, _MOST = 1e-9, 1e12  # of a constant, in its unit
_OPERANDS = tuple(t for t in DType if t.is_float or t is DType.I8)
_SHOWN = 60  # characters of a value, in a message


@dataclass(frozen=True)
class Device:
    """Constants of one kind of GPU.

    shared_bytes: shared memory that one block can have. clock_ghz: of an SM at its fastest;
    busy_loss: by which share products take longer while all tensor cores multiply, and the clock
    falls. flops_per_cycle: of the tensor cores of one SM, by element type. sustained_tflops: of the
    device, by element type, where power limits it, but for the first burst_us.

    dram_tbps: what all SMs together receive from DRAM, once_dram_tbps: of what loads say that they
    read once (evict-first); row_loss: by which share that takes longer in rows of 256 bytes of a
    panel than of 512. l2_tbps: from L2 of panels that others read at the same time; skewed_l2_tbps:
    of those that no other does. sm_kb_per_us: what one SM can receive by descriptors,
    pointer_kb_per_us: by pointers. line_crossing: by which share a row takes an SM longer that does
    not begin at a line of 128 bytes; sector_crossing: by which more, if not even at a sector of 32.
    outside_tbps: what descriptors fill in all SMs beyond the edge of a tensor. l2_latency_us: from
    asking for a panel to having its first bytes out of L2, latency_us: out of DRAM,
    loaded_latency_us: the same, while all SMs ask, once_latency_us: while they ask for what they
    read once.

    panel_cycles: what a panel costs the tensor cores beyond its products. issue_cycles: what they
    wait for a block of one group of four warps between two panels, pair_issue_cycles: of two
    groups; piece_cycles: more for each further piece of the tile; rows_cycles: more for each
    further 64 rows that a group multiplies, by 128 bytes of K; fused_cycles: more in a loop that
    goes through tiles. slowness: measured over computed time from panel to panel of a block that is
    alone on its SM, by kernel (`Tiling.name`); 1 if not said.

    launch_us: an empty launch; start_us: what a kernel of descriptors takes more; next_launch_us: a
    second kernel behind the first; overlapped_launch_us: one whose blocks take their places before
    (launch_pdl). epilogue_us: what a tile costs an SM
    behind its last panel, beside storing it, at store_kb_per_us, or last_store_kb_per_us where all
    SMs store their last; refill_us: until the next tile's panels come. slot_kb_per_us: at what rate
    an SM stores or loads partial tiles row by row, fragment_kb_per_us: as accumulators have them;
    arrive_us: to publish one; part_us: what each part costs the block of a second kernel that folds
    it, by 512 elements that it has of the tile.
    """

    name: str
    sms: int
    shared_bytes: int
    l2_bytes: int
    clock_ghz: float
    busy_loss: float
    flops_per_cycle: Mapping[str, float]
    sustained_tflops: Mapping[str, float]
    burst_us: float
    dram_tbps: float
    once_dram_tbps: float
    row_loss: float
    l2_tbps: float
    skewed_l2_tbps: float
    sm_kb_per_us: float
    pointer_kb_per_us: float
    line_crossing: float
    sector_crossing: float
    outside_tbps: float
    l2_latency_us: float
    latency_us: float
    loaded_latency_us: float
    once_latency_us: float
    panel_cycles: float
    issue_cycles: float
    pair_issue_cycles: float
    piece_cycles: float
    rows_cycles: float
    fused_cycles: float
    launch_us: float
    start_us: float
    next_launch_us: float
    overlapped_launch_us: float
    epilogue_us: float
    store_kb_per_us: float
    last_store_kb_per_us: float
    refill_us: float
    slot_kb_per_us: float
    fragment_kb_per_us: float
    arrive_us: float
    part_us: float
    slowness: Mapping[str, float] = field(default_factory=dict)

    def __hash__(self) -> int:
        return hash((self.name, self.sms))

    def flops_per_us(self, dtype: DType) -> float:
        """Of the tensor cores of one SM."""
        return self.flops_per_cycle[dtype.value] * self.clock_ghz * 1e3

    @classmethod
    def from_json(cls, data: Any) -> "Device":
        """ValueError names a field that is missing, unknown, or no positive number within reason,
        and the table in which a type is missing."""
        names = {f.name for f in fields(cls)}
        if not isinstance(data, Mapping) or set(data) != names:
            given = set(data) if isinstance(data, Mapping) else set()
            raise ValueError(f"device: missing {names - given or '-'}, unknown {given - names}")
        for name, value in data.items():
            _check(name, value)
        for name in _RATES:
            _check_types(name, data[name])
        return cls(**data)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def text(self) -> str:
        """The JSON of a file, a line a constant, which `read_device` reads."""
        lines = [f"  {json.dumps(k)}: {json.dumps(v)}" for k, v in self.to_json().items()]
        slow = ",\n".join(f"    {json.dumps(k)}: {v}" for k, v in self.slowness.items())
        lines[-1] = '  "slowness": {' + (f"\n{slow}\n  " if slow else "") + "}"
        return "{\n" + ",\n".join(lines) + "\n}\n"


def read_device(text: str) -> Device:
    """The device that a file of JSON describes. ValueError: it is none."""
    try:
        data = json.loads(text)
    except RecursionError:
        raise ValueError("device: the JSON is too deep") from None
    return Device.from_json(data)


def shipped() -> dict[str, Device]:
    """The devices that are part of this package, by name."""
    folder = files("backends.planner") / "devices"
    found = (read_device((folder / f"{name}.json").read_text("utf-8")) for name in _SHIPPED)
    return {device.name: device for device in found}


def shipped_as(name: str) -> Device | None:
    """The shipped device of this name, or of this file's: `NVIDIA H200` or `h200`."""
    devices = shipped()
    by_file: dict[str, Device] = dict(zip(_SHIPPED, devices.values(), strict=True))
    return devices.get(name) or by_file.get(name.lower())


def _check(name: str, value: Any) -> None:
    if name == "name":
        good = isinstance(value, str) and value != ""
    elif name in _TABLES:
        good = isinstance(value, Mapping) and all(map(_is_positive, value.values()))
    elif name in _WHOLE:
        good = type(value) is int and 0 < value <= _WHOLE[name]
    else:
        good = _is_positive(value)
    if not good:
        raise ValueError(f"device: {name} cannot be {repr(value)[:_SHOWN]}")


def _check_types(name: str, rates: Mapping[str, Any]) -> None:
    if missing := [t.value for t in _OPERANDS if t.value not in rates]:
        raise ValueError(f"device: {name} has no {', '.join(missing)}")


def _is_positive(value: Any) -> bool:
    return type(value) in (int, float) and _LEAST <= value <= _MOST
