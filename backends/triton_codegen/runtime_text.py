"""Functions that every emitted file defines for its `launch()`: the checks of arguments, each with
its text.

They stand in the file as they stand here, since it may import nothing of this toolkit.
"""

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

_STORAGE = '''\
def _storage(tensors, outputs, aliases):
    """No element of an output is in memory twice, or shares a byte range with another tensor."""
    ranges = []
    for name, tensor in tensors:
        start = tensor.data_ptr()
        size = tensor.nbytes if tensor.is_contiguous() else _span(name, tensor, name in outputs)
        if size:
            ranges.append((name, start, start + size))
    for i, (a, a_start, a_stop) in enumerate(ranges):
        for b, b_start, b_stop in ranges[:i]:
            if a_start < b_stop and b_start < a_stop and (a in outputs or b in outputs):
                if (a, b) not in aliases and (b, a) not in aliases:
                    _fail(a, "memory of its own", f"bytes shared with {b}")
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
    if num_warps not in (1, 2, 4, 8, 16, 32):
        _fail("num_warps", "one of 1, 2, 4, 8, 16, 32", repr(num_warps))
    if num_stages not in range(1, 17):
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

_RUN = '''\
_kernels = {}


def _run(function, key, blocks, args, options):
    """Launch `function`; past Triton's own lookup where it ran before with an equal key, which has
    all that Triton specialises a kernel for: integer arguments, alignment, options, device."""
    kernel = _kernels.get(key)
    if kernel is not None:
        kernel[(blocks, 1, 1)](*args)
        return
    kernel = function[(blocks,)](*args, **options)
    # None: interpreted. On AMD Triton also specialises for the size of the storage.
    if kernel is not None and torch.version.hip is None:
        if len(_kernels) >= 1024:
            _kernels.clear()
        _kernels[key] = kernel
'''

FUNCTIONS = {
    "_fail": _FAIL,
    "_size": _SIZE,
    "_check": _CHECK,
    "_device": _DEVICE,
    "_storage": _STORAGE,
    "_span": _SPAN,
    "_at_least": _AT_LEAST,
    "_sm_count": _SM_COUNT,
    "_run": _RUN,
}

#: names that the text above defines at the top level of a file
RUNTIME_NAMES = frozenset(
    {*FUNCTIONS, "_MISCOMPUTED", "_SMS", "_check_options", "_interpreter", "_kernels"}
)

_ALWAYS = frozenset({"_fail", "_check", "_device", "_storage", "_span", "_at_least", "_run"})


def runtime_text(called: set[str]) -> str:
    """The definitions that `launch()` needs, in a fixed order, two blank lines between them."""
    return "\n\n".join(text for name, text in FUNCTIONS.items() if name in _ALWAYS | called)
