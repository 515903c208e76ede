"""The part of an emitted file that gives copies through descriptors a cache policy.

Triton 3.6 has the policy for loads that go to registers; the instruction of a descriptor's copy it
writes without (and asynchronous copies too, since the assembler of its time miscompiles them). The
instruction is there with one, `.L2::cache_hint`, so the file adds it to the LLVM IR of its own
kernel, by the hook that Triton has for what changes a stage of the compiler. Triton's cache knows
nothing of hooks: what the kernel's text and options do not say would be found there for another, so
a comment of the kernel says the policy, and an option that changes nothing that one is compiled.
"""

from hashlib import sha256

POLICY = "createpolicy.fractional.L2::evict_first.b64"

POLICIES = r'''# Triton 3.6 copies boxes of descriptors without a cache policy. What follows
# adds one to the copies of loads that are `evict_first`, in the LLVM IR of their kernel, as Triton
# compiles it.
_COPY = re.compile(
    r"cp\.async\.bulk\.tensor\.\dd\.shared::cluster\.global[^ ]*::bytes [^;]*"
)
_POLICY = ".reg .b64 policy; {POLICY} policy, 1.0;"
# of all such files in a process: a lock, and what each thread has entered last
_shared = vars(triton.knobs).setdefault(
    "_policies", types.SimpleNamespace(lock=threading.Lock(), entered={}, forked=None)
)


def _forget():
    """In the child of a fork no thread is left that could leave what it has entered."""
    runtime = triton.knobs.runtime
    _shared.lock = threading.Lock()
    _shared.entered.clear()
    while type(runtime.add_stages_inspection_hook).__name__ == "_Policies":
        runtime.add_stages_inspection_hook = runtime.add_stages_inspection_hook.before


if _shared.forked is None:
    _shared.forked = _forget
    os.register_at_fork(after_in_child=_forget)


def _key_of_policies():
    """An option by which Triton's cache, which knows nothing of hooks, keeps a kernel with policies
    apart, and by which the hook knows it; it changes no machine code."""
    given = triton.knobs.nvidia.ptxas_options or ""
    return {"ptx_options": " ".join([*given.split(), "--suppress-stack-size-warning"])}


class _Policies:
    """While it is entered, the kernel of that name, compiled with that option, copies boxes of
    these descriptors (0: its first) as lines that L2 drops first."""

    def __init__(self, name, places):
        self.name, self.places = name, places
        self.before, self.around, self.is_over = None, None, False

    def __enter__(self):
        runtime, thread = triton.knobs.runtime, threading.get_ident()
        with _shared.lock:
            self.before = runtime.add_stages_inspection_hook
            runtime.add_stages_inspection_hook = self
            self.around = _shared.entered.get(thread)
            _shared.entered[thread] = self

    def __exit__(self, *error):
        runtime, thread = triton.knobs.runtime, threading.get_ident()
        with _shared.lock:
            self.is_over = True  # what lies on top, of another thread, takes it along
            while getattr(runtime.add_stages_inspection_hook, "is_over", False):
                runtime.add_stages_inspection_hook = runtime.add_stages_inspection_hook.before
            _shared.entered[thread] = self.around
            if self.around is None:
                del _shared.entered[thread]

    def __call__(self, backend, stages, options, *about):
        """The hook."""
        if self.before is not None:
            self.before(backend, stages, options, *about)
        given = getattr(options, "ptx_options", None)
        is_ours = (_shared.entered.get(threading.get_ident()) or self) is self
        if not self.is_over and is_ours and given == _key_of_policies()["ptx_options"]:
            lower = stages["llir"]
            stages["llir"] = lambda *source: self.added(lower(*source))

    def added(self, lowered):
        """LLVM IR with the policies; but for these copies it stays as it is."""
        lines = lowered.split("\n")
        head = f"define ptx_kernel void @{self.name}("
        head = next((line for line in lines if line.startswith(head)), None)
        if head is None:
            return lowered
        descriptors = re.findall(r"ptr byval\([^()]*\)[^%,]*(%\w+)", head)
        marked = {descriptors[place] for place in self.places if place < len(descriptors)}
        lines = [_with_policy(line, marked) for line in lines]
        if any(_is_left(line, marked) for line in lines):
            warnings.warn(f"{self.name}: copies look unlike those of Triton 3.6, so have no policy")
        return "\n".join(lines)


def _is_left(line, descriptors):
    """Whether it copies from one of them without a policy."""
    is_copy = "shared::cluster.global" in line and "cache_hint" not in line
    return is_copy and not descriptors.isdisjoint(re.findall(r"%\w+", line))


def _with_policy(line, descriptors):
    copy = _COPY.search(line)
    source = copy and re.search(r"\bptr (?:[a-z]+ )*(%\w+)", line[copy.end() :])
    if not source or source[1] not in descriptors:
        return line
    hinted = copy[0].replace("::bytes ", "::bytes.L2::cache_hint ") + ", policy"
    start = line.index('"') + 1
    asm = line[start : copy.start()] + hinted
    return f"{line[:start]}{{ {_POLICY} {asm}; }}{line[copy.end() + 1 :]}"


class _EvictFirstCall(_DescribedCall):
    """One some of whose loads are `evict_first`: `marked`, which descriptors they go through."""

    __slots__ = ("marked",)

    def __init__(self, function, marked, *rest):
        super().__init__(function, *rest)
        self.marked = marked

    def compiled(self, buffers):
        if not isinstance(self.function, triton.JITFunction):
            return super().compiled(buffers)  # interpreted
        self.options = {**self.options, **_key_of_policies()}
        with _Policies(self.function.__name__, self.marked):
            return super().compiled(buffers)
'''.replace("{POLICY}", POLICY)
#: a word that changes with the text, for what caches keep by the kernel's
POLICIES_DIGEST = sha256(POLICIES.encode()).hexdigest()[:8]
