"""A configuration: one way to compute a problem, as text, as JSON, as a program."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Any, TypeAlias

import loopir.build as build
from backends.planner.problem import Problem
from loopir.errors import LoopIRError
from loopir.nodes import Program
from passes.pipeline import parse_pipeline

Extent: TypeAlias = int | tuple[int, ...]
Tile: TypeAlias = tuple[Extent, Extent, int]

_EXTENT = r"(\d+|\(\d+(?:\+\d+)+\))"
_TEXT = re.compile(
    rf"(?P<kind>gemm|gemv) {_EXTENT}x{_EXTENT}x(?P<bk>\d+)"
    r" w(?P<warps>\d+) s(?P<stages>\d+)(?P<words>(?: swapped| pdl)*)(?:: (?P<pipeline>.+))?"
)
_FORM = "gemm|gemv BMxBNxBK wWARPS sSTAGES [swapped] [pdl][: PIPELINE]"


class Kind(Enum):
    """Which family of kernels: tiles on tensor cores, or products element by element."""

    GEMM = "gemm"
    GEMV = "gemv"


@dataclass(frozen=True)
class Config:
    """One way to compute a problem; `str` gives `gemm 128x(128+64)x64 w4 s4 swapped: PIPELINE`.

    tile: (BM, BN, BK); an extent of several pieces, each a power of two, is a tuple. Of a GEMV: the
    rows and the columns of the matrix that a block takes at a time are its BN (or BM) and BK.
    pipeline: text of the passes that run on the tiled program. num_warps, num_stages, launch_pdl
    (`pdl` in the text): fields of the backend's Settings. swapped: C^T = B^T A^T is computed, and
    stored transposed. ValueError names a bad field.
    """

    tile: Tile
    pipeline: str = ""
    num_warps: int = 4
    num_stages: int = 3
    swapped: bool = False
    kind: Kind = Kind.GEMM
    launch_pdl: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "kind", Kind(self.kind))
        object.__setattr__(self, "tile", _tile(self.tile))
        for name in ("num_warps", "num_stages"):
            if type(getattr(self, name)) is not int or getattr(self, name) < 1:
                raise ValueError(f"{name}: an int >= 1, not {getattr(self, name)!r}")
        if {type(self.swapped), type(self.launch_pdl)} != {bool}:
            raise ValueError("swapped and launch_pdl are bools")
        if not isinstance(self.pipeline, str):
            raise ValueError(f"pipeline: text, not {self.pipeline!r}")
        object.__setattr__(self, "pipeline", _checked(self.pipeline))

    @property
    def bm(self) -> int:
        return _total(self.tile[0])

    @property
    def bn(self) -> int:
        return _total(self.tile[1])

    @property
    def bk(self) -> int:
        return self.tile[2]

    def settings(self) -> dict[str, Any]:
        """Fields of the backend's Settings: `compile(config.program(p), **config.settings())`."""
        return {name: getattr(self, name) for name in ("num_warps", "num_stages", "launch_pdl")}

    def program(self, problem: Problem) -> Program:
        """The program that computes `problem` this way, all its passes run; parameters A, B, then
        `bias` and `residual` where the epilogue has them, C.

        ValueError, NotApplicable: this configuration is not for that problem.
        """
        return parse_pipeline(self.pipeline).run(self.base(problem))

    def base(self, problem: Problem) -> Program:
        """The tiled program before the pipeline."""
        return (_gemv if self.kind is Kind.GEMV else _gemm)(self, problem)

    def __str__(self) -> str:
        sizes = "x".join(map(_extent_text, self.tile))
        words = f"{self.kind.value} {sizes} w{self.num_warps} s{self.num_stages}"
        words += " swapped" if self.swapped else ""
        words += " pdl" if self.launch_pdl else ""
        return f"{words}: {self.pipeline}" if self.pipeline else words

    @classmethod
    def parse(cls, text: str) -> "Config":
        """The configuration whose `str` is `text`; `swapped` and `pdl` may stand in either order.
        ValueError: it is none."""
        found = _TEXT.fullmatch(text)
        words = found["words"].split() if found else []
        if found is None or len(set(words)) < len(words):
            example = "gemm 128x256x64 w8 s3: descriptors"
            raise ValueError(f"config: {text!r} is not {_FORM}, as '{example}'")
        return cls(
            tile=(_extent(found[2]), _extent(found[3]), int(found["bk"])),
            pipeline=found["pipeline"] or "",
            num_warps=int(found["warps"]),
            num_stages=int(found["stages"]),
            swapped="swapped" in words,
            kind=Kind(found["kind"]),
            launch_pdl="pdl" in words,
        )

    def to_json(self) -> dict[str, Any]:
        """Values of JSON, which `from_json` reads."""
        return {
            "kind": self.kind.value,
            "tile": [list(e) if isinstance(e, tuple) else e for e in self.tile],
            "swapped": self.swapped,
            "pipeline": self.pipeline,
            "num_warps": self.num_warps,
            "num_stages": self.num_stages,
            "launch_pdl": self.launch_pdl,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Config":
        """ValueError: `data` is not what `to_json` gives."""
        if not isinstance(data, Mapping) or set(data) != set(_FIELDS):
            raise ValueError(f"config: an object with {', '.join(_FIELDS)}, not {data!r}")
        return cls(**data)


_FIELDS = ("kind", "tile", "swapped", "pipeline", "num_warps", "num_stages", "launch_pdl")


# --- programs


def _gemm(config: Config, p: Problem) -> Program:
    tile: Any = config.tile
    types, layouts = (p.dtype, p.out_dtype), (p.a_layout, p.b_layout)
    options: dict[str, Any] = {"epilogue": p.epilogue, "swapped": config.swapped}
    if p.batch == 1:
        return build.gemm(p.m, p.n, p.k, *types, tile, *layouts, **options)
    return build.batched_gemm(p.batch, p.m, p.n, p.k, *types, tile, *layouts, **options)


def _gemv(config: Config, p: Problem) -> Program:
    if p.batch != 1:
        raise ValueError(f"{config}: a GEMV has no batch")
    tile: Any = config.tile
    types, layouts = (p.dtype, p.out_dtype), (p.a_layout, p.b_layout)
    return build.gemv(p.m, p.n, p.k, *types, tile, *layouts, epilogue=p.epilogue)


# --- text


@lru_cache(maxsize=4096)
def _checked(pipeline: str) -> str:
    """The pipeline in its canonical text; a pass that this build does not know stays as it is, and
    is refused when it is to run."""
    try:
        return str(parse_pipeline(pipeline))
    except LoopIRError:
        return pipeline.strip()


def _tile(tile: Any) -> Tile:
    if not isinstance(tile, tuple | list) or len(tile) != 3:
        raise ValueError(f"tile: (BM, BN, BK), not {tile!r}")
    bm, bn = (tuple(e) if isinstance(e, tuple | list) else e for e in tile[:2])
    bk = tile[2]
    pieces = [*_pieces(bm), *_pieces(bn), bk]
    if any(type(p) is not int or p < 1 or p & (p - 1) for p in pieces):
        raise ValueError(f"tile: each extent and each piece a power of two, not {tile!r}")
    if () in (bm, bn):
        raise ValueError(f"tile: an extent has a piece at least, not {tile!r}")
    return _plain(bm), _plain(bn), bk


def _plain(extent: Extent) -> Extent:
    return extent if isinstance(extent, int) or len(extent) > 1 else sum(extent)


def _pieces(extent: Extent) -> tuple[int, ...]:
    return extent if isinstance(extent, tuple) else (extent,)


def _total(extent: Extent) -> int:
    return sum(_pieces(extent))


def _extent_text(extent: Extent) -> str:
    return f"({'+'.join(map(str, extent))})" if isinstance(extent, tuple) else str(extent)


def _extent(text: str) -> Extent:
    return _plain(tuple(map(int, text.strip("()").split("+"))))
