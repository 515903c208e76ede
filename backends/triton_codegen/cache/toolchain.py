"""What compiles: versions and options that the result depends on beside the source."""

from collections.abc import Mapping
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from backends.triton_codegen.resources import assembler_key
from backends.triton_codegen.targets import Target
from loopir import __version__

_OURS = ("aot.py", "resources.py")  # what asks, and what measures the answer


def toolchain(target: Target, options: Mapping[str, Any]) -> dict[str, str]:
    """The toolkit, Triton, the assembler, and the options of Triton with what the environment says
    of them. Triton's folder counts, since kernels name its files for debuggers."""
    import triton
    from triton._C.libtriton import get_cache_invalidating_env_vars
    from triton.backends.compiler import GPUTarget
    from triton.compiler.compiler import make_backend

    tool = assembler_key(target)  # first, since it says in words what Triton cannot run
    backend = make_backend(GPUTarget(target.backend, target.arch, target.warp_size))
    chosen: Any = backend.parse_options(dict(options))
    return {
        "toolkit": f"{__version__} {_our_digest()}",
        "triton": f"{triton.__version__} in {Path(triton.__file__).parent}",
        "assembler": f"{backend.hash()} {tool}",
        "options": chosen.hash(),
        "environment": str(sorted(get_cache_invalidating_env_vars().items())),
    }


def is_observed() -> bool:
    """Whether the environment asks Triton to compile always, to dump what it does, or to take
    another kernel in place of its own."""
    from triton import knobs

    asked = knobs.compilation
    return bool(asked.always_compile or asked.dump_ir or asked.override)


@cache
def _our_digest() -> str:
    folder = Path(__file__).parent.parent
    return sha256(b"".join((folder / name).read_bytes() for name in _OURS)).hexdigest()[:16]
