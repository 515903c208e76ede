"""From an untiled nest to the canonical form in one call."""

from loopir.nodes import Program
from loopir.types import Precision
from passes.local_storage import LocalStoragePass
from passes.offload import OffloadPass
from passes.pipeline import PassPipeline
from passes.tile import TilePass


def lower(
    program: Program,
    tile: TilePass | None = None,
    *,
    m: int | None = None,
    n: int | None = None,
    k: int | None = None,
    precision: Precision | str = Precision.IEEE,
) -> Program:
    """The canonical form of an untiled nest, such as `loopir.build.gemm_nest` gives: a grid of
    tiles, accumulators in registers, operands staged through shared memory.

        lower(gemm_nest(1536, 1536, 4096), m=128, n=128, k=64)
        lower(gemm_nest(1536, 1536, 4096), TilePass(m=128, n=128, k=64))

    Runs `tile{m= n= k= precision=},offload,local-storage`; a pass such as `stream-k` comes after.
    `tile`: the first pass with its options, in the place of `m`, `n`, `k`: elements of a tile along
    the rows, the columns and the summed axis (None: what the pass takes if not said), and
    `precision`, of products of f32.

    NotApplicable: a pass refuses the program; the text has codes and hints. VerifyError: it breaks
    a rule of the IR. TypeError: `tile` and sizes at once, or an option of the wrong type.
    ValueError: no such size or precision.
    """
    sizes = TilePass(m=m, n=n, k=k, precision=precision)  # pyright: ignore[reportArgumentType]
    if tile is not None and sizes != TilePass():
        raise TypeError("lower: give a TilePass, or m, n, k and precision, not both")
    first = sizes if tile is None else tile
    return PassPipeline((first, OffloadPass(), LocalStoragePass())).run(program)
