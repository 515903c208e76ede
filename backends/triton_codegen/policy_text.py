"""The part of an emitted file that gives copies through descriptors a cache policy.

Triton 3.6 has the policy for loads that go to registers; the instruction of a descriptor's copy it
writes without (and asynchronous copies too, since the assembler of its time miscompiles them). The
instruction is there with one, `.L2::cache_hint`, so the file adds it to the LLVM IR of its own
kernel, by the hook that Triton has for what changes a stage of the compiler. Triton's cache knows
nothing of hooks: what the kernel's text and options do not say would be found there for another, so
a comment of the kernel says the policy, and an option that changes nothing that one is compiled.
"""

POLICY = "createpolicy.fractional.L2::evict_first.b64"

POLICIES = r'''# Triton 3.6 copies boxes of descriptors without a cache policy. What follows
# adds one to the copies of loads that are `evict_first`, in the LLVM IR of their kernel, as Triton
# compiles it.
_COPY = re.compile(
    r"cp\.async\.bulk\.tensor\.\dd\.shared::cluster\.global[^ ]*::bytes [^;]*"
)
_POLICY = ".reg .b64 policy; {POLICY} policy, 1.0;"
_compiling = vars(triton.knobs).setdefault("_policies_lock", threading.RLock())  # of all such files


def _key_of_policies():
    """An option by which Triton's cache, which knows nothing of hooks, keeps a kernel with policies
    apart, and by which the hook knows it; it changes no machine code."""
    given = triton.knobs.nvidia.ptxas_options or ""
    return {"ptx_options": f"{given} --suppress-stack-size-warning".strip()}


class _Policies:
    """While it is entered, the kernel of that name, compiled with that option, copies boxes of
    these descriptors (0: its first) as lines that L2 drops first. One is at a time in a process."""

    def __init__(self, name, places):
        self.name, self.places = name, places
        self.before, self.is_over = None, False

    def __enter__(self):
        _compiling.acquire()
        runtime = triton.knobs.runtime
        self.before = runtime.add_stages_inspection_hook
        runtime.add_stages_inspection_hook = self

    def __exit__(self, *error):
        runtime = triton.knobs.runtime
        if runtime.add_stages_inspection_hook is self:
            runtime.add_stages_inspection_hook = self.before
        self.is_over = True  # who has kept the hook finds that it does nothing
        _compiling.release()

    def __call__(self, backend, stages, options, *about):
        """The hook."""
        before = self.before
        while type(before).__name__ == "_Policies":  # around this one: of another kernel
            before = before.before
        if before is not None:
            before(backend, stages, options, *about)
        given = getattr(options, "ptx_options", None)
        if not self.is_over and given == _key_of_policies()["ptx_options"]:
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
        changed = "\n".join(_with_policy(line, marked) for line in lines)
        if changed == lowered and "shared::cluster.global" in lowered:
            warnings.warn(f"{self.name}: copies look unlike those of Triton 3.6, so have no policy")
        return changed


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
