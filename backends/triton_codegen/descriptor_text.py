"""The part of an emitted file that gives its kernels their tensor descriptors."""

from backends.triton_codegen.descriptors import MOST_INDEX
from loopir.boxes import ROW_BYTES

DESCRIPTORS = f"""\
_ROW_BYTES = {ROW_BYTES}  # what starts and strides are a multiple of, for the hardware to copy
_MOST_INDEX = {MOST_INDEX}
_MOST_KEPT = 256
"""
DESCRIPTORS += '''_HAS_DESCRIPTORS = {-1: True}  # by device; the interpreter has them


def _can_describe(device, tensors, boxes):
    """Whether the hardware can copy the boxes; else the kernel uses pointers."""
    if device not in _HAS_DESCRIPTORS:
        capability = torch.cuda.get_device_capability(device)
        _HAS_DESCRIPTORS[device] = torch.version.hip is None and capability >= (9, 0)
    if not _HAS_DESCRIPTORS[device]:
        return False
    return all(_is_describable(tensors[place], order[-1]) for place, order, _ in boxes)


def _is_describable(tensor, contiguous):
    if tensor.data_ptr() % _ROW_BYTES or not all(0 < n <= _MOST_INDEX for n in tensor.shape):
        return False
    strides = [s for d, s in enumerate(tensor.stride()) if d != contiguous]
    steps = [stride * tensor.element_size() for stride in strides]
    return all(0 < step < 2**40 and step % _ROW_BYTES == 0 for step in steps)


def _described(tensor, order, box):
    """The descriptor of boxes of a tensor; `order`: of its dimensions, the contiguous one last."""
    shape, strides = [tensor.shape[d] for d in order], [tensor.stride(d) for d in order[:-1]]
    return TensorDescriptor(tensor, shape, [*strides, 1], list(box))


class _DescribedCall(_Call):
    """A call of a kernel that moves tiles through tensor descriptors. `pointers`: the places of the
    buffers that it takes as they are; `boxes`: of each descriptor the place of its tensor, the
    order of dimensions, and the box."""

    __slots__ = ("boxes", "kept", "pointers")

    def __init__(self, function, pointers, boxes, blocks, scalars, options):
        super().__init__(function, blocks, scalars, options)
        self.pointers, self.boxes = pointers, boxes
        self.kept = {}  # what the launcher in C wants, by addresses: all else is the same

    def arguments(self, buffers):
        boxes = [_described(buffers[i], order, box) for i, order, box in self.boxes]
        return (*[buffers[i] for i in self.pointers], *boxes, *self.scalars)

    def passing(self, kernel):
        """The launcher beneath the function of Triton's that encodes descriptors at each launch,
        and one that encodes those of new addresses only."""
        over = kernel.run.launch
        encode = getattr(over, "__globals__", {}).get("make_tensordesc_arg")
        about = _closed_over(over, "tensordesc_meta")
        if encode is None or about is None:
            return None, None
        scalars, kept, boxes, pointers = self.scalars, self.kept, self.boxes, self.pointers

        def passed(buffers):
            starts = tuple([buffer.data_ptr() for buffer in buffers])
            found = kept.get(starts)
            if found is None:
                if len(kept) >= _MOST_KEPT:
                    kept.clear()
                each = [_described(buffers[i], order, box) for i, order, box in boxes]
                encoded = [a for d, how in zip(each, about) for a in encode(d, how)]
                found = kept[starts] = (*[starts[i] for i in pointers], *encoded, *scalars)
            return found

        return _closed_over(over, "launcher"), passed


def _closed_over(function, name):
    """What a function of Triton's has as `name`; None where this Triton has no such thing."""
    names = getattr(getattr(function, "__code__", None), "co_freevars", ())
    return function.__closure__[names.index(name)].cell_contents if name in names else None
'''
