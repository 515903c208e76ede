"""What follows the reduce of a tile, up to its last store."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from loopir.nodes import Atomic, Body, If, Kernel, Reduce, Stmt, Store
from loopir.walk import Path, body_fields, walk


@dataclass(frozen=True)
class Tail:
    """The statements `start` .. `stop` of the body that `path` leads to from the kernel; `body`:
    these."""

    path: Path
    start: int
    body: Body

    @property
    def stop(self) -> int:
        return self.start + len(self.body)

    @property
    def placed(self) -> dict[Path, Stmt]:
        """These and those nested in them, by path from the kernel."""
        pairs = walk(self.body)
        return {(*self.path, self.start + int(p[0]), *p[1:]): stmt for p, stmt in pairs}


def tails_of(kernel: Kernel) -> tuple[Tail, ...]:
    """Of every tile body: where only branches store, the tails are theirs, as of a walk that comes
    to whole tiles and to parts."""
    outputs = frozenset(p.name for p in kernel.params)
    return tuple(_within(kernel.body, ("body",), outputs))


def _within(body: Body, path: Path, outputs: frozenset[str]) -> Iterator[Tail]:
    at = [i for i, stmt in enumerate(body) if isinstance(stmt, Reduce)]
    if at:
        yield from _behind(body, at[-1] + 1, path, outputs)
        return
    for i, stmt in enumerate(body):
        for name in body_fields(stmt):
            yield from _within(getattr(stmt, name), (*path, i, name), outputs)


def _behind(body: Body, start: int, path: Path, outputs: frozenset[str]) -> Iterator[Tail]:
    """The tails of what stands in `body` from `start` on."""
    storing = [i for i in range(start, len(body)) if _stores(body[i], outputs)]
    if any(not isinstance(body[i], If) for i in storing):
        yield Tail(path, start, body[start : storing[-1] + 1])
        return
    for i in storing:
        for name in body_fields(body[i]):
            yield from _behind(getattr(body[i], name), 0, (*path, i, name), outputs)


def _stores(stmt: Stmt, outputs: frozenset[str]) -> bool:
    inside = (s for _, s in walk((stmt,)))
    return any(isinstance(s, Store | Atomic) and s.target.buffer in outputs for s in inside)


def with_tails(kernel: Kernel, done: Iterable[tuple[Tail, Body]]) -> Kernel:
    """`kernel` with other statements in place of tails."""
    new = {tail.path: (tail, body) for tail, body in done}
    return replace(kernel, body=_changed(kernel.body, ("body",), new))


def _changed(body: Body, path: Path, new: Mapping[Path, tuple[Tail, Body]]) -> Body:
    if path in new:
        tail, statements = new[path]
        return *body[: tail.start], *statements, *body[tail.stop :]

    def changed(stmt: Stmt, here: Path) -> Stmt:
        names = body_fields(stmt)
        nested = {n: _changed(getattr(stmt, n), (*here, n), new) for n in names}
        return replace(stmt, **nested) if nested else stmt  # pyright: ignore[reportArgumentType]

    return tuple(changed(stmt, (*path, i)) for i, stmt in enumerate(body))
