"""Python names for the names of the IR: the same ones, unless Python or Triton has a meaning for
them."""

import builtins
import keyword
import re

from loopir.errors import CodegenError

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

#: what an emitted file itself says at its top level or calls by name
FILE_NAMES = frozenset({"torch", "triton", "tl", "launch", "TensorDescriptor"}) | {
    *("os", "re", "threading", "types", "warnings")
}


#: keywords of a launch, which an argument of the kernel would hide
LAUNCH_OPTIONS = frozenset(
    {"num_warps", "num_stages", "num_ctas", "enable_fp_fusion", "launch_pdl", "ptx_options"}
)


class Names:
    """Gives out names of one scope, each once, in the order asked."""

    def __init__(self, reserved: frozenset[str] = frozenset()):
        self._taken = {*keyword.kwlist, *keyword.softkwlist, *dir(builtins), *FILE_NAMES, *reserved}

    def fresh(self, wanted: str) -> str:
        """`wanted`, or `wanted_1`, `wanted_2`, ... CodegenError: not an ASCII identifier, or a name
        with leading double underscore, which Python and Triton treat in ways of their own."""
        if not _IDENTIFIER.fullmatch(wanted) or wanted.startswith("__"):
            raise CodegenError(
                f"{wanted!r} is no name that Triton source can use; rename it in the IR"
            )
        name, n = wanted, 0
        while name in self._taken:
            n += 1
            name = f"{wanted}_{n}"
        self._taken.add(name)
        return name
