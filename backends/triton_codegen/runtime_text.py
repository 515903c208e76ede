"""Functions that every emitted file defines for its `launch()`: the checks of arguments, each with
its text.

They stand in the file as they stand here, since it may import nothing of this toolkit.
"""

import re

from backends.triton_codegen.descriptor_text import DESCRIPTORS
from backends.triton_codegen.policy_text import POLICIES
from backends.triton_codegen.workspace_text import WORKSPACE
from loopir.workspaces import ALIGNMENT

_FAIL = """\
def _fail(name, expected, given):
    raise ValueError(f"{name}: expected {expected}, got {given}")
"""

_SIZE = '''\
def _size(name, tensor, rank, dim):
    """Size of one dimension: the value of a symbol that is known at launch only."""
    if not isinstance(tensor, torch.Tensor):
        _fail(name, "a torch.Tensor", type(tensor).__name__)
    if tensor.dim() != rank:
        _fail(name, f"{rank} dimensions", f"shape {list(tensor.shape)}")
    return tensor.shape[dim]
'''

_CHECK = '''\
def _check(name, tensor, dtype, shape, text, contiguous):
    """Type, shape and layout of one tensor; returns its strides."""
    if not isinstance(tensor, torch.Tensor):
        _fail(name, "a torch.Tensor", type(tensor).__name__)
    if tensor.layout is not torch.strided:
        _fail(name, "a dense tensor", tensor.layout)
    if tensor.is_neg() or tensor.is_conj():
        _fail(name, "a tensor of its own values (resolve_neg() makes one)", "a negated view")
    if tensor.dtype is not dtype:
        _fail(name, f"dtype {dtype}", tensor.dtype)
    if tensor.shape != shape:
        _fail(name, f"shape {text} = {list(shape)}", list(tensor.shape))
    strides = tensor.stride()
    inner = 1 if contiguous is None else strides[contiguous]
    if inner != 1 and shape[contiguous] > 1 and tensor.numel():
        _fail(name, f"stride 1 in dimension {contiguous}", f"strides {list(strides)}")
    return strides
'''

_DEVICE = '''\
_interpreter = "Triton's own"  # the toolkit, which mends it, says so here while it runs this file
_MISCOMPUTED = (torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2)


def _device(tensors):
    """The device index that all tensors share, -1 for the CPU under Triton's interpreter."""
    first, tensor = tensors[0]
    device = tensor.get_device()
    for name, other in tensors:
        if other.get_device() != device:
            _fail(name, f"device {tensor.device}, as {first}", other.device)
        if not (other.is_cuda or (other.device.type == "cpu" and triton.knobs.runtime.interpret)):
            wanted = "a tensor on a GPU (on the CPU only under Triton's interpreter)"
            _fail(name, wanted, other.device)
        if device == -1 and _interpreter != "mended" and other.dtype in _MISCOMPUTED:
            _fail(name, f"a GPU for {other.dtype}: Triton's own interpreter is wrong for it", "cpu")
    return device
'''

_EXTENTS = '''\
def _extents(tensors, outputs):
    """The bytes that each tensor spans; no element of an output is in memory twice."""
    return tuple(
        t.nbytes if t.is_contiguous() else _span(name, t, name in outputs) for name, t in tensors
    )
'''

_SPAN = '''\
def _span(name, tensor, is_output):
    """Bytes from the first element to the end of the last."""
    strides, reach = tensor.stride(), 0
    for stride, size in sorted(zip(strides, tensor.shape)):
        if is_output and size > 1 and stride <= reach:
            _fail(name, "an output whose elements do not overlap", f"strides {list(strides)}")
        reach += (size - 1) * stride
    return (reach + 1) * tensor.element_size() if tensor.numel() else 0
'''

_AT_LEAST = """\
def _at_least(least, name, value):
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        _fail(name, f"an int of at least {least}", repr(value))
    if value >= 2**63:
        _fail(name, "an int of 63 bits at most", value)
    return value


def _check_options(num_warps, num_stages):
    if type(num_warps) is not int or num_warps not in (1, 2, 4, 8, 16, 32):
        _fail("num_warps", "one of 1, 2, 4, 8, 16, 32", repr(num_warps))
    if type(num_stages) is not int or num_stages not in range(1, 17):
        _fail("num_stages", "1 to 16", repr(num_stages))
"""

_SM_COUNT = '''\
_SMS = {-1: 4}  # what the interpreter counts as


def _sm_count(device):
    """Streaming multiprocessors (compute units) of a device, looked up once."""
    if device not in _SMS:
        _SMS[device] = torch.cuda.get_device_properties(device).multi_processor_count
    return _SMS[device]
'''

_CALL = '''\
def _is_current(device):
    """Whether launches go to that device; on the CPU (-1) they do."""
    return device < 0 or _current_device() == device


# of torch's own in C, where there is one
_current_device = getattr(torch._C, "_cuda_getDevice", torch.cuda.current_device)


def _is_watched(runtime=triton.knobs.runtime):
    """Whether a profiler listens to launches."""
    enter, leave = runtime.launch_enter_hook, runtime.launch_exit_hook
    return bool(getattr(enter, "calls", enter) or getattr(leave, "calls", leave))


class _Call:
    """A kernel and what every launch of a plan gives it: blocks, strides, sizes, options."""

    __slots__ = ("blocks", "function", "options", "run", "scalars")

    def __init__(self, function, blocks, scalars, options):
        self.function, self.blocks, self.scalars, self.options = function, blocks, scalars, options
        self.run = None  # launches the compiled kernel, past Triton's own lookup

    def __call__(self, *buffers):
        if self.run is not None:
            self.run(*buffers)
        elif self.blocks > 0:
            kernel = self.compiled(buffers)
            # None: interpreted. On AMD Triton also specialises for the size of the storage.
            if kernel is not None and torch.version.hip is None:
                self.run = self._runner(kernel)

    def compiled(self, buffers):
        """The kernel, after a launch through Triton."""
        return self.function[(self.blocks,)](*self.arguments(buffers), **self.options)

    def arguments(self, buffers):
        """What Triton is given."""
        return (*buffers, *self.scalars)

    def passing(self, kernel):
        """The launcher in C, None where there is none to call; a function from the buffers to what
        it is given."""
        scalars = self.scalars
        return kernel.run.launch, lambda buffers: (*[b.data_ptr() for b in buffers], *scalars)

    def _runner(self, kernel):
        """A function of the buffers, which gives their addresses to the launcher in C; where a
        profiler listens or the kernel wants scratch memory, Triton's own runner."""
        slow, launcher = kernel[(self.blocks, 1, 1)], kernel.run
        launch, passed = self.passing(kernel)
        if launch is None or launcher.global_scratch_size or launcher.profile_scratch_size:
            return lambda *buffers: slow(*self.arguments(buffers))
        stream_of = triton.runtime.driver.active.get_current_stream
        grid, device = (self.blocks, 1, 1), triton.runtime.driver.active.get_current_device()
        ways = launcher.launch_cooperative_grid, launcher.launch_pdl, None, None
        fixed = (kernel.function, *ways, kernel.packed_metadata, None, None, None)

        def run(*buffers):
            if _is_watched():
                slow(*self.arguments(buffers))
            else:
                launch(*grid, stream_of(device), *fixed, *passed(buffers))

        return run
'''

_PLAN = f"""\
_ALIGNMENT = {ALIGNMENT}  # bytes: each part of a workspace starts at a multiple of it
"""
_PLAN += '''

def _room(parts):
    """Bytes of parts of a workspace, with the padding behind each."""
    return sum(-(-size // _ALIGNMENT) * _ALIGNMENT for size, _ in parts)


class _Plan:
    """What every launch on tensors of one shape, layout, alignment and device does."""

    __slots__ = ("calls", "counter_bytes", "device", "pairs", "parts", "sizes", "tile_bytes")

    def __init__(self, device, sizes, disjoint, calls, parts=((), ())):
        self.device, self.sizes, self.calls, self.parts = device, sizes, calls, parts
        self.pairs = tuple((i, j) for i, j in disjoint if sizes[i] and sizes[j])
        self.counter_bytes, self.tile_bytes = map(_room, parts)

    def check_disjoint(self, names, starts):
        """No output shares a byte with another tensor."""
        sizes = self.sizes
        for i, j in self.pairs:
            if starts[i] < starts[j] + sizes[j] and starts[j] < starts[i] + sizes[i]:
                _fail(names[i], "memory of its own", f"bytes shared with {names[j]}")


_plans = {}


def _key(options, tensors, starts):
    """All that a plan depends on, and all that Triton specialises a kernel for; True and 1.0 equal
    1, so types are part of it."""
    layouts = [(t.shape, t.stride(), t.dtype, t.device, t.layout, t.is_neg()) for t in tensors]
    return (*options, *map(type, options), *[start % 16 for start in starts], *layouts)


def _starts(tensors):
    return [t.data_ptr() for t in tensors]


def _found(options, tensors):
    """Where the tensors lie, their key, and the plan of an earlier launch with that key, or None;
    what is no tensor, has no memory or is no number has none: planning it says what is wrong."""
    try:
        starts = _starts(tensors)
        key = _key(options, tensors, starts)
        return starts, key, _plans.get(key)
    except (AttributeError, RuntimeError, TypeError):
        return (), None, None


def _kept(key, plan):
    """`plan`, kept for later launches; not on the CPU, where an interpreter comes and goes."""
    if key is not None and plan.device >= 0:
        if len(_plans) >= 1024:
            _plans.clear()
        _plans[key] = plan
    return plan


def _zero(tensor):
    (tensor.detach() if tensor.requires_grad else tensor).zero_()
'''

FUNCTIONS = {
    "_fail": _FAIL,
    "_size": _SIZE,
    "_check": _CHECK,
    "_device": _DEVICE,
    "_extents": _EXTENTS,
    "_span": _SPAN,
    "_at_least": _AT_LEAST,
    "_sm_count": _SM_COUNT,
    "_call": _CALL,
    "_plan": _PLAN,
    "_workspace": WORKSPACE,
    "_descriptors": DESCRIPTORS,
    "_policies": POLICIES,
}

#: names that the text above defines at the top level of a file
RUNTIME_NAMES = frozenset(
    name
    for text in FUNCTIONS.values()
    for name in re.findall(r"^(?:def |class )?(\w+)(?: =|\(|:)", text, re.MULTILINE)
) | {"_plan", "_parts", "_run", "workspace_bytes", "new_workspace"}

_OPTIONAL = frozenset({"_size", "_sm_count", "_workspace", "_descriptors", "_policies"})


def runtime_text(called: set[str]) -> str:
    """The definitions that `launch()` needs, in a fixed order, two blank lines between them."""
    return "\n\n".join(
        text for name, text in FUNCTIONS.items() if name in called or name not in _OPTIONAL
    )
