"""The part of an emitted file that gives copies through descriptors a cache policy.

Triton 3.6 has the policy for loads that go to registers; in the instruction of a descriptor's copy
it says none (`eviction_policy` of asynchronous copies it drops too, since the assembler of its time
miscompiles them). The instruction is there with one, `.L2::cache_hint`, so the file adds it to the
LLVM IR of its own kernel, by the hook that Triton has for what changes a stage of the compiler.
"""

POLICIES = r'''_COPY = re.compile(
    r"cp\.async\.bulk\.tensor\.\dd\.shared::cluster\.global[^ ]*::bytes [^;]*"
)
_POLICY = ".reg .b64 once; createpolicy.fractional.L2::evict_first.b64 once, 1.0;"


def _with_policies(lowered, places):
    """LLVM IR whose copies of boxes of these descriptors (0: the kernel's first) are of lines that
    L2 drops first; any other line is as it was."""
    lines = lowered.split("\n")
    head = next((line for line in lines if line.startswith("define ptx_kernel ")), "")
    descriptors = re.findall(r"ptr byval\([^()]*\)[^%,]*(%\w+)", head)
    once = {descriptors[place] for place in places if place < len(descriptors)}
    return "\n".join(_with_policy(line, once) for line in lines)


def _with_policy(line, once):
    copy = _COPY.search(line)
    source = copy and re.search(r"\bptr (?:[a-z]+ )*(%\w+)", line[copy.end() :])
    if not source or source[1] not in once:
        return line
    hinted = copy[0].replace("::bytes ", "::bytes.L2::cache_hint ") + ", once"
    start = line.index('"') + 1
    asm = line[start : copy.start()] + hinted
    return f"{line[:start]}{{ {_POLICY} {asm}; }}{line[copy.end() + 1 :]}"


@contextlib.contextmanager
def _reading_once(places):
    """While it lasts, what this thread compiles has policies in the copies of these descriptors."""
    runtime, thread = triton.knobs.runtime, threading.get_ident()
    before = runtime.add_stages_inspection_hook

    def hook(backend, stages, *about):
        if before is not None:
            before(backend, stages, *about)
        if threading.get_ident() == thread:
            lower = stages["llir"]
            stages["llir"] = lambda *given: _with_policies(lower(*given), places)

    runtime.add_stages_inspection_hook = hook
    try:
        yield
    finally:
        runtime.add_stages_inspection_hook = before


class _OnceCall(_DescribedCall):
    """One whose kernel reads tensors once: `once`, which of its descriptors are theirs."""

    __slots__ = ("once",)

    def __init__(self, function, once, *rest):
        super().__init__(function, *rest)
        self.once = once

    def compiled(self, buffers):
        with _reading_once(self.once):
            return super().compiled(buffers)
'''
