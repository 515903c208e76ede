"""The part of an emitted file that gives its kernels their workspaces."""

WORKSPACE = '''\
class Workspace:
    """Device memory for launches that run one after the other: arrival counters, which are zero
    between launches, and behind them partial tiles.

    memory: uint8 [bytes], from an address that is a multiple of 16; its first `counter_bytes` (a
    multiple of 256) hold the counters, and are zero before the first launch: `new_workspace` makes
    one that is. `lock` is held for a launch, so host threads may share it on one stream. A launch
    that raised has the next one zero the counters; after work on its stream was lost: `reset()`.
    """

    def __init__(self, memory, counter_bytes):
        if not isinstance(memory, torch.Tensor) or memory.dtype is not torch.uint8:
            given = getattr(memory, "dtype", type(memory).__name__)
            _fail("workspace", "memory of dtype torch.uint8", given)
        if memory.dim() != 1 or not memory.is_contiguous():
            given = f"shape {list(memory.shape)}, strides {list(memory.stride())}"
            _fail("workspace", "memory of one dense dimension", given)
        if memory.numel() and memory.data_ptr() % 16:
            _fail("workspace", "memory from a multiple of 16 on", hex(memory.data_ptr()))
        counters = _at_least(0, "counter_bytes", counter_bytes)
        if counters % _ALIGNMENT or counters > memory.numel():
            limit = f"a multiple of {_ALIGNMENT} up to the {memory.numel()} bytes of the memory"
            _fail("counter_bytes", limit, counter_bytes)
        self.memory, self.counter_bytes = memory, counter_bytes
        self.tile_bytes = memory.numel() - counter_bytes
        self.lock, self.is_spoilt = threading.RLock(), False
        self._views = {}
        self._last = None, ()  # parts and their views

    def reset(self):
        """Zero the counters, on the current stream of the memory's device."""
        with torch.cuda.device(self.memory.get_device()), torch.inference_mode(False):
            self.memory[: self.counter_bytes].zero_()
        self.is_spoilt = False

    def holds(self, plan):
        return plan.counter_bytes <= self.counter_bytes and plan.tile_bytes <= self.tile_bytes

    def views(self, parts):
        """A tensor for each part, the counters first; for the one who holds the lock."""
        if self.is_spoilt:
            self.reset()
        if self._last[0] is parts:
            return self._last[1]
        found = self._views.get(parts)
        if found is None:
            if len(self._views) >= _MOST_VIEWS:
                self._views.clear()
            counters, tiles = parts
            with torch.inference_mode(False):
                found = (*self._cut(counters, 0), *self._cut(tiles, self.counter_bytes))
            self._views[parts] = found
        self._last = parts, found
        return found

    def _cut(self, parts, start):
        for part in parts:
            size, dtype = part
            yield self.memory[start : start + size].view(dtype)
            start += _room((part,))


_MOST_VIEWS = 256
_workspaces = {}  # by device and stream: launches on one stream run one after the other
_workspaces_lock = threading.RLock()


def _device_index(device):
    """The number of a device, which may be a number, a torch.device, its name, or None: the current
    one; -1 is the CPU."""
    current = torch.cuda.current_device() if torch.cuda.is_available() else -1
    if device is None:
        return current
    if type(device) is int and device >= -1:
        return device
    try:
        named = torch.device(device) if isinstance(device, (str, torch.device)) else None
    except RuntimeError:
        named = None
    if named is None or named.type not in ("cpu", "cuda"):
        wanted = "a number from -1 (the CPU) on, a torch.device of cuda or cpu or its name, or None"
        _fail("device", wanted, repr(device))
    if named.type == "cpu":
        return -1
    return current if named.index is None else named.index


def _stream(device):
    return 0 if device < 0 else triton.runtime.driver.active.get_current_stream(device)


def _is_capturing(device):
    return device >= 0 and torch.cuda.is_current_stream_capturing()


def _made(device, counter_bytes, tile_bytes):
    """A new workspace of the current stream, its counters zeroed there; the tiles hold anything."""
    place = "cpu" if device < 0 else f"cuda:{device}"
    with torch.inference_mode(False):
        memory = torch.empty(counter_bytes + tile_bytes, dtype=torch.uint8, device=place)
        made = Workspace(memory, counter_bytes)
        made.reset()
    return made


def _made_apart(device, counter_bytes, tile_bytes):
    """As `_made`, by a thread of its own: outside any pool that this one allocates from, as that of
    CUDA-graph trees, which takes back what it finds there."""
    if device < 0:
        return _made(device, counter_bytes, tile_bytes)
    results, stream = [], torch.cuda.current_stream(device)

    def make():
        try:
            with torch.cuda.device(device), torch.cuda.stream(stream):
                results.append(_made(device, counter_bytes, tile_bytes))
        except Exception as error:
            results.append(error)

    thread = threading.Thread(target=make)
    thread.start()
    thread.join()
    if isinstance(results[0], Exception):
        raise results[0]
    return results[0]


def _workspace_of(plan):
    """The workspace of the current stream, grown to what the plan needs. Of a launch that a graph
    captures: one of its own, in the memory of the graph, which zeroes the counters whenever it
    runs; nothing of it is kept here."""
    device = plan.device
    if _is_capturing(device):
        return _made(device, plan.counter_bytes, plan.tile_bytes)
    place = device, _stream(device)
    kept = _workspaces.get(place)
    if kept is not None and kept.holds(plan):
        return kept
    with _workspaces_lock:
        kept = _workspaces.get(place)
        if kept is None or not kept.holds(plan):
            counters, tiles = (kept.counter_bytes, kept.tile_bytes) if kept else (0, 0)
            needed = max(counters, plan.counter_bytes), max(tiles, plan.tile_bytes)
            kept = _made_apart(device, *needed)
            _workspaces[place] = kept
    return kept


def _given_workspace(given, plan, names, starts):
    """The caller's workspace, or a tensor of `workspace_bytes()` bytes whose counters are zero."""
    if isinstance(given, torch.Tensor):
        needed = plan.counter_bytes + plan.tile_bytes
        given = Workspace(given, min(plan.counter_bytes, given.numel() // _ALIGNMENT * _ALIGNMENT))
        if given.memory.numel() < needed:
            _fail("workspace", f"{needed} bytes", given.memory.numel())
    if not hasattr(given, "counter_bytes"):
        _fail("workspace", "a Workspace or a torch.Tensor", type(given).__name__)
    memory = given.memory
    if memory.get_device() != plan.device or memory.is_meta:
        wanted = "cpu" if plan.device < 0 else f"cuda:{plan.device}"
        _fail("workspace", f"device {wanted}, as {names[0]}", memory.device)
    if not given.holds(plan):
        needs = f"{plan.counter_bytes} bytes of counters and {plan.tile_bytes} of tiles"
        _fail("workspace", needs, f"{given.counter_bytes} and {given.tile_bytes}")
    start, stop = memory.data_ptr(), memory.data_ptr() + memory.numel()
    for name, other, size in zip(names, starts, plan.sizes):
        if start < other + size and other < stop and size:
            _fail("workspace", "memory of its own", f"bytes shared with {name}")
    return given


def _dropped(workspace):
    """Forget a workspace whose counters may not be zero: the next launch makes another, and one
    that waits for this one zeroes them."""
    workspace.is_spoilt = True
    with _workspaces_lock:
        for place in [p for p, kept in _workspaces.items() if kept is workspace]:
            del _workspaces[place]


def release_workspaces():
    """Let go of the memory that launches of this file keep, on all devices and streams: a later
    launch allocates again. Kernels that still run in it end before it is used for anything else."""
    with _workspaces_lock:
        _workspaces.clear()
'''
