"""A few launches for a memory checker: `python -m tests.support.checked_launches [fault]`.

With `fault` the slots of each unit lie far behind the workspace, which the checker must see.
"""

import sys
from dataclasses import replace

from backends.triton_codegen import CompiledKernel, Module, compile
from tests.support.merged_products import EXACT, Run, product_of

SHAPE = (100, 90, 300)  # tails in every dimension, 8 tiles of 10 panels
TILE = (32, 64, 32)
MERGES = (
    *("merge=workspace units=5", "merge=atomic-workspace units=5", "merge=workspace splits=5"),
    *("merge=fixup units=5 pieces=4", "merge=fixup decomposition=split-k splits=3 pieces=128"),
    *("decomposition=hybrid units=3", "decomposition=k-aligned units=3"),
)
FAR = 1 << 34  # elements


def launch(options: str, is_faulty: bool) -> None:
    kernel = compile(product_of(SHAPE, options, EXACT, TILE), "jit", num_warps=4)
    assert isinstance(kernel, CompiledKernel)
    kernel = compile(faulty(kernel.module), "jit") if is_faulty else kernel
    run = Run(SHAPE, 1, EXACT, "cuda")
    run.launch(kernel)
    run.check()


def faulty(module: Module) -> Module:
    source = module.source.replace("tl.store(partials + ", f"tl.store(partials + {FAR} + ")
    source = source.replace("            partials + ", f"            partials + {FAR} + ")
    assert source != module.source
    return replace(module, source=source)


if __name__ == "__main__":
    for options in MERGES if len(sys.argv) == 1 else MERGES[:1]:
        launch(options, is_faulty=len(sys.argv) > 1)
