"""What one part of a manifest says of another: every name means something, and one thing."""

from collections.abc import Iterable, Iterator
from typing import NoReturn

from backends.triton_codegen.bundle.loading.errors import BundleError
from backends.triton_codegen.bundle.loading.model import (
    LEAVES,
    MOST,
    WORKSPACE_START,
    Argument,
    Condition,
    Descriptor,
    Expression,
    File,
    Kernel,
    Manifest,
    Program,
    Target,
    Tree,
    Value,
    Variant,
)

_BYTES = {
    "f8e4m3": 1,
    "f8e5m2": 1,
    "f16": 2,
    "bf16": 2,
    "f32": 4,
    "f64": 8,
    "i8": 1,
    "i16": 2,
    "i32": 4,
    "i64": 8,
    "bool": 1,
}
#: how an argument of each kind is passed
_TYPES = {
    "parameter": "pointer",
    "workspace": "pointer",
    "size": "i64",
    "stride": "i64",
    "extent": "i32",
    "descriptor": "tensor_map",
    "global_scratch": "pointer",
    "profile_scratch": "pointer",
}
_SCRATCH = ("global_scratch", "profile_scratch")


def check_references(manifest: Manifest) -> None:
    """BundleError: a name that is unknown or given twice, or parts that do not go together."""
    _check_unique("targets", (t.name for t in manifest.targets))
    _check_unique("programs", (p.name for p in manifest.programs))
    _check_unique("files", (f.path.lower() for f in manifest.files))
    for target in manifest.targets:
        _check_target(target)
    files = {f.path: f for f in manifest.files}
    for program in manifest.programs:
        _ProgramCheck(program, manifest.targets, files).run()


def _check_unique(place: str, names: Iterable[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            _refuse(place, f"{name} is there twice")
        seen.add(name)


def _check_target(target: Target) -> None:
    if len(target.capability) != (2 if target.backend == "cuda" else 0):
        _refuse(target.name, f"no compute capability is {list(target.capability)}")
    if not target.name.startswith(f"{target.backend}:"):
        _refuse(target.name, f"its backend is {target.backend}")


class _ProgramCheck:
    def __init__(self, program: Program, targets: tuple[Target, ...], files: dict[str, File]):
        self.program, self.targets, self.files = program, targets, files
        self.ranks = {p.name: len(p.shape) for p in program.parameters}
        self.written = {p.name for p in program.parameters if p.direction != "in"}
        self.parts = {p.name for p in program.workspace.parts}
        self.names: set[str] = set()

    def run(self) -> None:
        program = self.program
        self._check_names()
        self._check_files()
        self._check_parameters()
        for value in program.values:
            self._add(value, f"values {value.name}")
        for parameter in program.parameters:
            self._check_trees(f"shape of {parameter.name}", parameter.shape)
        self._check_trees("blocks", (k.blocks for k in program.kernels))
        for value in program.launch_values:
            if value.kind != "computed":
                self._refuse(f"launch_values {value.name}", f"it is {value.kind}")
            self._add(value, f"launch_values {value.name}")
        self._check_workspace()
        for kernel in program.kernels:
            self._check_kernel(kernel)

    def _check_names(self) -> None:
        program = self.program
        buffers = [p.name for p in (*program.parameters, *program.workspace.parts)]
        values = [*program.values, *program.launch_values]
        self._unique("buffers", buffers)
        self._unique("values", [v.name for v in values])
        self._unique("options", [v.option for v in values if v.option])
        self._unique("kernels", [k.name for k in program.kernels])

    def _check_files(self) -> None:
        program = self.program
        self._file(program.ir_after, "ir")
        self._file(program.source, "source")
        if self._file(program.ir_before, "ir").sha256 != program.ir_sha256:
            self._refuse("ir_sha256", f"{program.ir_before} has another")

    def _file(self, path: str, role: str) -> File:
        found = self.files.get(path)
        if found is None or found.role != role:
            self._refuse("files", f"{path} is no {role} of the bundle")
        return found

    # --- sizes

    def _check_parameters(self) -> None:
        for p in self.program.parameters:
            if p.element_bytes != _BYTES[p.dtype]:
                self._refuse(p.name, f"{p.dtype} has {_BYTES[p.dtype]} bytes")
            if p.contiguous is not None and p.contiguous >= len(p.shape):
                self._refuse(p.name, f"it has no dimension {p.contiguous}")
        for first, second in self.program.disjoint:
            if first == second or not {first, second} <= self.ranks.keys():
                self._refuse("disjoint", f"{first}, {second} are no two parameters")

    def _add(self, value: Value, place: str) -> None:
        has_expression, has_option = value.expression is not None, bool(value.option)
        wanted = {"computed": (True, False), "given": (False, True), "picked": (True, True)}
        if (has_expression, has_option) != wanted[value.kind]:
            self._refuse(place, f"a {value.kind} value with these keys")
        if value.expression:
            self._check_trees(place, (value.expression,), leaves=("extent", "stride"))
        self.names.add(value.name)

    def _check_trees(
        self, place: str, expressions: Iterable[Expression], leaves: tuple[str, ...] = ()
    ) -> None:
        for expression in expressions:
            for node in _nodes(expression.tree):
                self._check_node(place, node, leaves)

    def _check_node(self, place: str, node: Tree, leaves: tuple[str, ...]) -> None:
        if type(node) is str and node not in self.names:
            self._refuse(place, f"{node} is no value that stands before it")
        if type(node) is not tuple or node[0] not in LEAVES:
            return
        word, buffer, *dims = node
        if word not in leaves:
            self._refuse(place, f"{word} has no place here")
        if word == "address" and (buffer in self.ranks or buffer in self.parts):
            return
        if word == "address" or not dims or dims[0] not in range(self.ranks.get(str(buffer), 0)):
            self._refuse(place, f"{list(node)} is nothing that the program has")

    def _check_workspace(self) -> None:
        workspace = self.program.workspace
        self._check_trees("workspace", (workspace.counter_bytes, workspace.tile_bytes))
        for part in workspace.parts:
            self._check_trees(f"workspace {part.name}", (part.offset, part.bytes))

    # --- kernels

    def _check_kernel(self, kernel: Kernel) -> None:
        for name in kernel.zeroed:
            if name not in self.written and name not in self.parts:
                self._refuse(kernel.name, f"{name} is no buffer to set to zero")
        if [b.target for b in kernel.builds] != [t.name for t in self.targets]:
            self._refuse(kernel.name, "expected a build for each target, in their order")
        for build in kernel.builds:
            place = f"{kernel.name} for {build.target}"
            self._unique(place, [v.name for v in build.variants])
            if build.variants[-1].conditions:
                self._refuse(place, "the last variant has conditions, so none may suit")
            for variant in build.variants:
                self._check_variant(variant, f"{place}, {variant.name}")

    def _check_variant(self, variant: Variant, place: str) -> None:
        self._file(variant.binary, "binary")
        self._file(variant.assembly, "assembly")
        for condition in variant.conditions:
            self._check_condition(condition, place)
        for descriptor in variant.descriptors:
            self._check_descriptor(descriptor, place)
        for argument in variant.arguments:
            self._check_argument(argument, len(variant.descriptors), place)

    def _check_condition(self, condition: Condition, place: str) -> None:
        leaves = ("extent", "stride", "address")
        self._check_trees(place, (condition.expression,), leaves)
        tree = condition.expression.tree
        if not any(type(n) is tuple and n[0] == "address" for n in _nodes(tree)):
            return
        is_alone = type(tree) is tuple and tree[0] == "address"
        is_whole = condition.least == 0 and condition.most == MOST
        if not is_alone or not is_whole or WORKSPACE_START % condition.multiple_of:
            self._refuse(place, f"of an address, only multiples of up to {WORKSPACE_START} count")

    def _check_descriptor(self, descriptor: Descriptor, place: str) -> None:
        rank = self.ranks.get(descriptor.parameter)
        if rank is None or sorted(descriptor.dims) != list(range(rank)):
            self._refuse(place, f"no tensor map of {descriptor.parameter} has these dimensions")
        if not len(descriptor.box) == len(descriptor.element_strides) == rank:
            self._refuse(place, f"a tensor map of {descriptor.parameter} has a box of {rank} sides")

    def _check_argument(self, argument: Argument, descriptors: int, place: str) -> None:
        place = f"{place}: {argument.name}"
        if argument.type != _TYPES[argument.kind]:
            self._refuse(place, f"a {argument.kind} is passed as {_TYPES[argument.kind]}")
        if (argument.type == "tensor_map") != (argument.expression is None):
            self._refuse(place, "expected an expression, or a tensor map")
        if argument.expression is None:
            if argument.descriptor not in range(descriptors):
                self._refuse(place, f"there is no tensor map {argument.descriptor}")
            return
        if argument.descriptor is not None:
            self._refuse(place, "it is no tensor map")
        self._check_passed(argument, argument.expression.tree, place)
        leaves = ("address",) if argument.type == "pointer" else ("extent", "stride")
        self._check_trees(place, (argument.expression,), leaves)

    def _check_passed(self, argument: Argument, tree: Tree, place: str) -> None:
        if argument.kind in _SCRATCH and tree != 0:
            self._refuse(place, "this loader has no scratch memory to give")
        if argument.kind in ("parameter", "workspace"):
            known = self.ranks if argument.kind == "parameter" else self.parts
            if type(tree) is not tuple or tree[0] != "address" or tree[1] not in known:
                self._refuse(place, f"no address of a {argument.kind}")

    def _unique(self, place: str, names: list[str]) -> None:
        _check_unique(f"{self.program.name}: {place}", names)

    def _refuse(self, place: str, text: str) -> NoReturn:
        _refuse(f"{self.program.name}: {place}", text)


def _nodes(tree: Tree) -> Iterator[Tree]:
    """The tree and all its parts; a leaf of a buffer has none."""
    yield tree
    if type(tree) is tuple and tree[0] not in LEAVES:
        for part in tree[1:]:
            yield from _nodes(part)  # pyright: ignore[reportArgumentType]


def _refuse(place: str, text: str) -> NoReturn:
    raise BundleError(f"manifest: {place}: {text}")
