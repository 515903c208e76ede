"""Many configurations from lists of what each part of one may be."""

import itertools
from collections.abc import Mapping, Sequence

from backends.planner.config import Config

_NONE = "none"
#: what may be swept, with what a configuration has where nothing is said
DEFAULTS: Mapping[str, tuple[str, ...]] = {
    "tile": ("128x128x64",),
    "warps": ("4",),
    "stages": ("3",),
    "swapped": ("no",),
    "order": ("group=8",),
    "decomposition": (_NONE,),
    "units": (_NONE,),
    "splits": (_NONE,),
    "merge": ("auto",),
    "cost": (_NONE,),
    "pieces": (_NONE,),
    "loads": ("pointers",),
}
#: options of stream-k that a decomposition takes
_TAKEN: Mapping[str, frozenset[str]] = {
    _NONE: frozenset(),
    "data-parallel": frozenset({"units"}),
    "stream-k": frozenset({"merge", "units", "pieces"}),
    "hybrid": frozenset({"merge", "units", "pieces"}),
    "k-aligned": frozenset({"merge", "units", "pieces", "cost"}),
    "split-k": frozenset({"merge", "splits", "pieces"}),
}
_OPTIONS = ("merge", "units", "splits", "cost", "pieces")
_SWAPPED = {"yes": " swapped", "no": ""}
_LOADS = {"pointers": (), "descriptors": ("descriptors",)}
_KNOWN: Mapping[str, Mapping[str, object]] = {
    "decomposition": _TAKEN,
    "swapped": _SWAPPED,
    "loads": _LOADS,
}


def parse_sweep(words: Sequence[str]) -> tuple[Config, ...]:
    """The product of lists like `tile=128x128x64,128x256x64` and `stages=3,4`, without the
    combinations that mean nothing (splits of whole tiles, units of split-k) and without twins.
    ValueError: the word that is wrong."""
    lists = dict(DEFAULTS)
    for word in words:
        name, equals, text = word.partition("=")
        if not equals or name not in DEFAULTS:
            raise ValueError(f"sweep {word!r}: one of {', '.join(DEFAULTS)}, then = and a list")
        lists[name] = tuple(text.split(","))
    _check(lists)
    product = itertools.product(*lists.values())
    combinations = (dict(zip(lists, values, strict=True)) for values in product)
    return tuple(dict.fromkeys(_config(chosen) for chosen in combinations if _has_sense(chosen)))


def _check(lists: Mapping[str, tuple[str, ...]]) -> None:
    for name, known in _KNOWN.items():
        for value in lists[name]:
            if value not in known:
                raise ValueError(f"sweep {name}={value}: one of {', '.join(known)}")


def _said(chosen: Mapping[str, str]) -> dict[str, str]:
    """The options of stream-k that are not left to it."""
    return {name: chosen[name] for name in _OPTIONS if chosen[name] != DEFAULTS[name][0]}


def _has_sense(chosen: Mapping[str, str]) -> bool:
    said, kind = _said(chosen), chosen["decomposition"]
    if said.keys() - _TAKEN[kind] or ("splits" in said) != (kind == "split-k"):
        return False
    return "pieces" not in said or said.get("merge") == "fixup"


def _config(chosen: Mapping[str, str]) -> Config:
    order = chosen["order"]
    passes = (
        *([] if order == _NONE else [f"tile-order{{{order}}}"]),
        *_stream_k(chosen),
        *_LOADS[chosen["loads"]],
    )
    head = f"gemm {chosen['tile']} w{chosen['warps']} s{chosen['stages']}"
    text = f"{head}{_SWAPPED[chosen['swapped']]}: {','.join(passes)}"
    return Config.parse(text.removesuffix(": "))


def _stream_k(chosen: Mapping[str, str]) -> list[str]:
    kind = chosen["decomposition"]
    if kind == _NONE:
        return []
    options = {"decomposition": kind, **_said(chosen)}
    return [f"stream-k{{{' '.join(f'{name}={value}' for name, value in options.items())}}}"]
