"""The sizes of a program as values of a manifest: what a loader computes of a launch, in order."""

from collections.abc import Iterable

from backends.triton_codegen.bundle.loading.model import Value
from backends.triton_codegen.bundle.trees import expression, extent
from backends.triton_codegen.headers import Header
from backends.triton_codegen.host_sizes import HostSizes
from backends.triton_codegen.module import ArgKind, KernelInfo
from backends.triton_codegen.names import Names
from loopir.symbols import Expr, sym, to_expr
from loopir.workspaces import Parts

#: what a loader calls its own options
_RESERVED = frozenset({"stream", "workspace", "blocks_per_sm", "sms", "device", "torch", "self"})


def values_of(
    header: Header, parts: Parts, infos: tuple[KernelInfo, ...]
) -> tuple[tuple[Value, ...], tuple[Value, ...]]:
    """The values that shapes and block counts are made of, and those that only a launch with blocks
    needs, each behind those that it is made of."""
    sizes = HostSizes(header, Names(_RESERVED | {p.name for p in header.params}))
    early = sizes.made_of(_early(header, infos, sizes))
    late = [n for n in sizes.made_of(_late(parts, infos)) if n not in early]
    before = [n for n in early if n not in sizes.after_picks]
    after = [n for n in early if n in sizes.after_picks]
    values = (
        *(_measured(n, sizes) for n in header.symbols if n in sizes.measured),
        *(Value(n, "given", None, sizes.names[n]) for n in sizes.given),
        *_computed(before, header),
        *(Value(p.symbol, "picked", expression(p.bound), p.option) for p in sizes.picked),
        *_computed(after, header),
    )
    return values, _computed(late, header)


def _early(header: Header, infos: tuple[KernelInfo, ...], sizes: HostSizes) -> Iterable[Expr]:
    yield from (e for p in header.params for e in p.shape)
    yield from (info.blocks for info in infos)
    yield from (p.bound for p in sizes.picked)


def _late(parts: Parts, infos: tuple[KernelInfo, ...]) -> Iterable[Expr]:
    yield from (e for w in parts.all for e in w.shape)
    functions = (i for info in infos for i in (info, info.described) if i)
    yield from (sym(a.symbol) for i in functions for a in i.args if a.kind is ArgKind.SIZE)


def _measured(name: str, sizes: HostSizes) -> Value:
    parameter, dim = sizes.measured[name]
    return Value(name, "computed", extent(parameter.name, dim), "")


def _computed(names: list[str], header: Header) -> tuple[Value, ...]:
    return tuple(Value(n, "computed", expression(_meaning(n, header)), "") for n in names)


def _meaning(name: str, header: Header) -> Expr:
    """A number where there is one, so that no loader computes what is known."""
    if (value := header.constants.get(name)) is not None:
        return to_expr(value)
    return next(b.expr for b in header.where if b.name == name)
