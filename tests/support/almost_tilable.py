"""Random nests with one change that takes away a reason why `tile` accepts them."""

from collections.abc import Callable
from random import Random
from typing import TypeAlias

#: of a text; IndexError where it has no place for the change
Change: TypeAlias = Callable[[str, Random], str]


def _lines(text: str, start: str) -> list[int]:
    """The numbers of the lines that start so; IndexError by whoever wants one where there is
    none."""
    return [n for n, line in enumerate(text.split("\n")) if line.startswith(start)]


def _insert(text: str, at: int, *lines: str) -> str:
    all_lines = text.split("\n")
    return "\n".join([*all_lines[:at], *lines, *all_lines[at:]])


def _replace(text: str, at: int, old: str, new: str) -> str:
    lines = text.split("\n")
    lines[at] = lines[at].replace(old, new, 1)
    return "\n".join(lines)


def _store_inside(text: str, rng: Random) -> str:
    at = rng.choice(_lines(text, "ewise acc"))
    store = next(line for line in text.split("\n") if line.startswith("store"))
    return _insert(text, at + rng.randint(0, 1), store)


def _output_index_lost(text: str, rng: Random) -> str:
    at = rng.choice(_lines(text, "store"))
    index = text.split("\n")[at].split("[")[1].split("]")[0].split(", ")
    return _replace(text, at, rng.choice(index), rng.choice(("0", index[0], f"{index[0]} // 2")))


def _output_read_inside(text: str, rng: Random) -> str:
    store = text.split("\n")[rng.choice(_lines(text, "store"))]
    place = store.removeprefix("store ").rpartition(",")[0]
    index = place.split("[")[1][:-1].split(", ")
    if rng.random() < 0.5:
        index = rng.sample(index, len(index))
    buffer = place.split("[")[0]
    dtype = text.split(f"out {buffer}: ")[-1].split("[")[0].split(" ")[-1]
    text = text.replace(f" out {buffer}:", f" inout {buffer}:")
    text = _insert(
        text, _lines(text, "load v")[0], f"load extra, {buffer}[{', '.join(index)}] masked"
    )
    return _insert(text, _lines(text, "alloc")[0], f"alloc extra: local {dtype}[]")


def _extent_of_an_index(text: str, rng: Random) -> str:
    lines = [n for n in (*_lines(text, "for"), *_lines(text, "parallel")) if n > 2]
    at = rng.choice(lines)
    old = text.split("\n")[at].split(".. ")[1].split(" ")[0]
    outer = text.split("\n")[2].split(" ")[1]
    return _replace(
        text, at, f".. {old}", rng.choice((f".. {outer} + 1", f".. min({old}, {outer})"))
    )


def _carried(text: str, rng: Random) -> str:
    acc = text.split("\n")[_lines(text, "alloc acc0:")[0]].split("local ")[1]
    at = rng.choice(_lines(text, "ewise acc"))
    text = _insert(
        text, at, rng.choice(("ewise z = z + 1", "ewise z = 1")), "ewise acc0 = acc0 + z"
    )
    return _insert(text, _lines(text, "alloc")[0], f"alloc z: local {acc}", "fill z, 1")


def _used_behind(text: str, rng: Random) -> str:
    at = rng.choice(_lines(text, "store"))
    tile = rng.choice([line.split(" ")[1][:-1] for line in text.split("\n") if "alloc" in line])
    return _replace(text, at, text.split("\n")[at].rpartition(", ")[2], tile)


def _other_operator(text: str, rng: Random) -> str:
    op = rng.choice(("sub", "scan", "max", "min", "mul", "argmax"))
    old = rng.choice(
        [a.split(": ")[1] for a in text.split("reduce (")[1].split(")")[0].split(", ")]
    )
    return text.replace(f": {old}", f": {op}", 1) if rng.random() < 0.5 else text.replace(old, op)


def _loaded_index(text: str, rng: Random) -> str:
    at = rng.choice(_lines(text, "load"))
    index = text.split("\n")[at].split("[")[1].split("]")[0].split(", ")
    text = _replace(text, at, f"{rng.choice(index)}", "look")
    names = [line.split(" ")[1] for line in text.split("\n") if line.startswith(("par", "for"))]
    where = rng.choice((at, _lines(text, "reduce")[0]))
    text = _insert(text, where, f"let look = TABLE[{rng.choice((*names, '0', '0', '1'))}]")
    return text.replace("@nest(", "@nest(TABLE: i32[2], ", 1)


def _divisor_index(text: str, rng: Random) -> str:
    at = rng.choice(_lines(text, "load"))
    names = [line.split(" ")[1] for line in text.split("\n") if line.startswith("parallel")]
    index = text.split("\n")[at].split("[")[1].split("]")[0].split(", ")
    return _replace(text, at, f"[{index[0]}", f"[({index[0]}) // ({rng.choice(names)} + 1)")


def _condition(text: str, rng: Random) -> str:
    at = rng.choice((*_lines(text, "ewise"), *_lines(text, "store")))
    line = text.split("\n")[at]
    return _replace(text, at, line, f"if {text.split(chr(10))[2].split(' ')[1]} < 2 {{\n{line}\n}}")


def _wide(text: str, rng: Random) -> str:
    """One iteration of a loop, and a store that does not use its index."""
    at = rng.choice(_lines(text, "parallel"))
    name, end = (
        text.split("\n")[at].split(" ")[1],
        text.split("\n")[at].split(".. ")[1].split(" ")[0],
    )
    text = _replace(text, at, f".. {end}", ".. 1")
    lines = (
        f"{line}".replace(f"[{name}", "[0") if line.startswith("store") else line
        for line in text.split("\n")
    )
    return "\n".join(lines)


#: the changes that each code is there for
BREAKS: dict[str, tuple[Change, ...]] = {
    "TI03": (_extent_of_an_index,),
    "TI04": (_store_inside, _condition),
    "TI07": (_output_index_lost, _output_read_inside),
    "TI08": (_carried, _used_behind),
    "TI09": (_other_operator,),
}
CHANGES = (
    *(change for changes in BREAKS.values() for change in changes),
    _loaded_index,
    _divisor_index,
    _wide,
)
