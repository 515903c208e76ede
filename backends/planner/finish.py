"""What a configuration takes behind its panels: tiles that are stored, parts of tiles that are put
together."""

from backends.planner.blocks import pieces, slot_bytes
from backends.planner.config import Config
from backends.planner.device import Device
from backends.planner.passes_of import keeps_fragments, overlaps_tiles
from backends.planner.problem import Problem
from backends.planner.work import Work
from loopir.fragment_order import SIDE
from passes.stream_k import Merge
from passes.stream_k.merges.pieces import WANTED_BLOCKS

_OVERLAPPED = 0.4  # of a tile's end, where the next tile's panels are loaded meanwhile
_BESIDE = 0.65  # the same, where another block computes meanwhile
_GOING_ON = 0.6  # of the store of a part, where its unit goes on to other tiles
_AT_A_TIME = 512  # elements of a part that a block of the second kernel has under way
_ALONE = 1.5  # rate at which one SM stores, over its share while all do


def epilogue_us(config: Config, problem: Problem, device: Device, work: Work) -> float:
    """Of the busiest SM: the last tile, and what nothing hides of those before. A fold has its
    own."""
    tile_kb = config.bm * config.bn * problem.result.bytes / 1e3 * work.resident
    last = device.epilogue_us + tile_kb / device.last_store_kb_per_us
    stored = device.epilogue_us + tile_kb / device.store_kb_per_us
    return last * min(work.whole, 1) + max(0, work.turns - 1) * _shown(config, device, work, stored)


def _shown(config: Config, device: Device, work: Work, stored: float) -> float:
    """Of a tile that another one follows: until the next one's panels are there."""
    if overlaps_tiles(config):
        return _OVERLAPPED * stored
    return (stored + device.refill_us) * (_BESIDE if work.resident > 1 else 1.0)


def fold_us(config: Config, problem: Problem, device: Device, work: Work) -> float:
    """Parts of split tiles: stored, told, loaded by the last to arrive, or by a second kernel on
    all SMs."""
    if work.merge is None:
        return 0.0
    rate = device.fragment_kb_per_us if keeps_fragments(config) else device.slot_kb_per_us
    slot = slot_bytes(config, problem) / 1e3 / rate
    each = work.slots * slot / device.sms
    shown = 1.0 if work.slices > 1 else _GOING_ON
    store = shown * max(work.slots_of_sm * slot / _ALONE, each)
    if work.merge is Merge.FIXUP:
        rounds = max(1.0, _folded_elements(config, work) / _AT_A_TIME)
        loads = max(each, work.contributors * rounds * device.part_us)
        return store + _second_launch(config, device) + loads
    folds = -(-_split_tiles(work) // device.sms)
    return store + device.arrive_us + folds * work.contributors * slot


def _second_launch(config: Config, device: Device) -> float:
    """Its blocks take their places before the first kernel ends: they need little shared memory."""
    return device.overlapped_launch_us if config.launch_pdl else device.next_launch_us


def _folded_elements(config: Config, work: Work) -> float:
    """What a block of the second kernel folds: it cuts a tile until there are blocks enough, but
    not across accumulators that lie side by side."""
    rows, columns = map(pieces, config.tile[:2])
    least = (SIDE if len(rows) == 1 else config.bm) * (SIDE if len(columns) == 1 else config.bn)
    wanted = max(1, -(-WANTED_BLOCKS // _split_tiles(work)))
    return max(least, config.bm * config.bn / wanted)


def _split_tiles(work: Work) -> int:
    return max(1, work.slots // work.contributors)
