"""What the manifest of a bundle says: the classes are its JSON form, key by key, and its schema.

Every object has all of its keys and no others. `reading` checks types and the words and numbers
annotated here, `references` what one part says of another.
"""

from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias

FORMAT = "loopir-bundle"
SCHEMA = 1
#: bytes that the start of a workspace is a multiple of, and that each part of it is
WORKSPACE_START, PART_START = 16, 256
MOST = 2**63 - 1
MOST_BLOCKS = 2**31 - 1


class Within(NamedTuple):
    """An integer from `least` to `most`."""

    least: int
    most: int


class Matches(NamedTuple):
    """Text that a pattern matches as a whole, of at most `longest` characters."""

    pattern: str
    longest: int


class Items(NamedTuple):
    """A list of this many items."""

    least: int
    most: int


Count: TypeAlias = Annotated[int, Within(0, MOST)]
Integer: TypeAlias = Annotated[int, Within(-MOST - 1, MOST)]
Dimension: TypeAlias = Annotated[int, Within(0, 15)]
Name: TypeAlias = Annotated[str, Matches(r"[A-Za-z_][A-Za-z0-9_]*", 256)]
Option: TypeAlias = Annotated[str, Matches(r"([A-Za-z_][A-Za-z0-9_]*)?", 256)]
TargetName: TypeAlias = Annotated[str, Matches(r"[a-z]+:[a-z0-9]+", 32)]
Text: TypeAlias = Annotated[str, Matches(r"[^\x00\ud800-\udfff]*", 65536)]
Digest: TypeAlias = Annotated[str, Matches(r"[0-9a-f]{64}", 64)]
_SEGMENT = r"[A-Za-z0-9_-][A-Za-z0-9_.-]*"
FilePath: TypeAlias = Annotated[str, Matches(rf"{_SEGMENT}(/{_SEGMENT}){{0,15}}", 4096)]
DTypeName: TypeAlias = Literal[
    "f8e4m3", "f8e5m2", "f16", "bf16", "f32", "f64", "i8", "i16", "i32", "i64", "bool"
]

#: an integer, the name of a value, or an operation and its operands
Tree: TypeAlias = int | str | tuple[Any, ...]
LEAVES = ("extent", "stride", "address")
CHAINS = ("add", "mul", "min", "max")
PAIRS = ("sub", "floordiv", "ceildiv", "mod")
MOST_DEPTH, MOST_NODES = 64, 4096


@dataclass(frozen=True)
class Expression:
    """Integer arithmetic of 64 bits; `text` says the same for people."""

    tree: Tree
    text: Text


@dataclass(frozen=True)
class Versions:
    """What the bundle was made with."""

    loopir: Text
    triton: Text
    torch: Text


@dataclass(frozen=True)
class Target:
    """A kind of device. One of compute capability (M, m) runs cuda binaries of the same M and,
    where `is_exact`, the same m, else of m at most."""

    name: TargetName
    backend: Literal["cuda", "hip"]
    architecture: Annotated[str, Matches(r"[a-z]+_?[0-9a-z]+", 32)]
    capability: Annotated[tuple[Annotated[int, Within(0, 999)], ...], Items(0, 2)]
    is_exact: bool
    warp_size: Annotated[int, Within(32, 64)]


@dataclass(frozen=True)
class File:
    """A file of the bundle, by its path from the root."""

    path: FilePath
    bytes: Count
    sha256: Digest
    role: Literal["binary", "assembly", "source", "ir", "loader", "schema", "c"]


@dataclass(frozen=True)
class Settings:
    """How the kernels were compiled."""

    num_warps: Annotated[int, Within(1, 32)]
    num_stages: Annotated[int, Within(1, 16)]
    fp_fusion: bool
    max_num_imprecise_acc: Count
    launch_pdl: bool


@dataclass(frozen=True)
class Parameter:
    """A tensor that a launch is given. `contiguous`: the dimension whose stride is 1, if any."""

    name: Name
    dtype: DTypeName
    element_bytes: Annotated[int, Within(1, 8)]
    direction: Literal["in", "out", "inout"]
    shape: Annotated[tuple[Expression, ...], Items(0, 16)]
    contiguous: Dimension | None


@dataclass(frozen=True)
class Value:
    """A name of the sizes. computed: its expression; given: by the caller as `option`; picked: the
    least of the expression, the SMs (times `blocks_per_sm`), and the caller's `option` if given."""

    name: Name
    kind: Literal["computed", "given", "picked"]
    expression: Expression | None
    option: Option


@dataclass(frozen=True)
class Part:
    """A workspace: its `bytes` from `offset` on in its region."""

    name: Name
    dtype: DTypeName
    region: Literal["counters", "tiles"]
    offset: Expression
    bytes: Expression


@dataclass(frozen=True)
class WorkspaceLayout:
    """Memory beside the tensors: counters, which are zero between launches, then tiles, which may
    hold anything."""

    alignment: Annotated[int, Within(PART_START, PART_START)]
    counter_bytes: Expression
    tile_bytes: Expression
    parts: Annotated[tuple[Part, ...], Items(0, 64)]


@dataclass(frozen=True)
class Condition:
    """Holds where `least` <= expression <= `most`, and it is a multiple of `multiple_of`."""

    expression: Expression
    least: Integer
    most: Integer
    multiple_of: Annotated[int, Within(1, 256)]


@dataclass(frozen=True)
class Descriptor:
    """A tensor map of a parameter, as cuTensorMapEncodeTiled takes it: lists with the contiguous
    dimension first. Its strides are those of the tensor, in bytes."""

    parameter: Name
    data_type: Annotated[int, Within(0, 15)]
    element_bytes: Annotated[int, Within(1, 8)]
    dims: Annotated[tuple[Dimension, ...], Items(1, 5)]
    box: Annotated[tuple[Annotated[int, Within(1, 256)], ...], Items(1, 5)]
    element_strides: Annotated[tuple[Annotated[int, Within(1, 8)], ...], Items(1, 5)]
    interleave: Annotated[int, Within(0, 2)]
    swizzle: Annotated[int, Within(0, 3)]
    l2_promotion: Annotated[int, Within(0, 3)]
    oob_fill: Annotated[int, Within(0, 1)]


@dataclass(frozen=True)
class Argument:
    """One parameter of the function in the binary; `kind` says what it is, `type` how it is passed,
    `expression` (of a tensor map: `descriptor`) its value."""

    name: Name
    kind: Literal[
        "parameter",
        "workspace",
        "size",
        "stride",
        "extent",
        "descriptor",
        "global_scratch",
        "profile_scratch",
    ]
    type: Literal["pointer", "i32", "i64", "tensor_map"]
    expression: Expression | None
    descriptor: Annotated[int, Within(0, 15)] | None


@dataclass(frozen=True)
class Constant:
    """A number that was compiled into a binary, by its name in the source."""

    name: Name
    value: Integer


@dataclass(frozen=True)
class Variant:
    """A binary of a kernel, for launches of which all `conditions` hold."""

    name: Literal["descriptors", "aligned", "plain"]
    symbol: Name
    binary: FilePath
    assembly: FilePath
    threads: Annotated[int, Within(32, 2048)]
    shared_bytes: Annotated[int, Within(0, 2**20)]
    registers: Annotated[int, Within(0, 1024)]
    spill_bytes: Count
    constants: Annotated[tuple[Constant, ...], Items(0, 256)]
    conditions: Annotated[tuple[Condition, ...], Items(0, 256)]
    descriptors: Annotated[tuple[Descriptor, ...], Items(0, 16)]
    arguments: Annotated[tuple[Argument, ...], Items(0, 256)]


@dataclass(frozen=True)
class Build:
    """The variants of a kernel for a target; the first that suits a launch serves it."""

    target: TargetName
    variants: Annotated[tuple[Variant, ...], Items(1, 3)]


@dataclass(frozen=True)
class Kernel:
    """A kernel of a program. Before it, the buffers `zeroed` are set to zero on its stream;
    `launch_pdl`: its blocks may take their places while the kernel before it runs."""

    name: Name
    blocks: Expression
    zeroed: Annotated[tuple[Name, ...], Items(0, 64)]
    launch_pdl: bool
    builds: Annotated[tuple[Build, ...], Items(1, 16)]


@dataclass(frozen=True)
class Program:
    """What one launch runs: its kernels, in order, on one stream. `values` are computed for every
    launch, `launch_values` for one in which some kernel has a block."""

    name: Name
    pipeline: Text
    ir_sha256: Digest
    settings: Settings
    ir_before: FilePath
    ir_after: FilePath
    source: FilePath
    determinism: Literal["fixed", "arrival-order"]
    parameters: Annotated[tuple[Parameter, ...], Items(1, 64)]
    disjoint: Annotated[tuple[Annotated[tuple[Name, ...], Items(2, 2)], ...], Items(0, 4096)]
    values: Annotated[tuple[Value, ...], Items(0, 256)]
    launch_values: Annotated[tuple[Value, ...], Items(0, 256)]
    workspace: WorkspaceLayout
    kernels: Annotated[tuple[Kernel, ...], Items(1, 64)]


@dataclass(frozen=True)
class Manifest:
    """All that a host needs to launch the programs of a bundle."""

    format: Literal["loopir-bundle"]
    schema: Annotated[int, Within(SCHEMA, SCHEMA)]
    versions: Versions
    targets: Annotated[tuple[Target, ...], Items(1, 16)]
    programs: Annotated[tuple[Program, ...], Items(1, 256)]
    files: Annotated[tuple[File, ...], Items(1, 65536)]
