"""Which decomposition suits 1536 x 1536 x 4096 on three GPUs, drawn; and where the next half-empty
last wave is. Needs no GPU. `explain_schedule.py [FOLDER]`: where the drawings go."""

import sys
import tempfile
from itertools import count
from pathlib import Path

import passes
from loopir.build import gemm
from passes.decomposition import Fold, Schedule, StreamK, simulate, waves
from passes.drawing import to_svg, to_text

DEVICES = {"A100": 108, "H100": 132, "B200": 148}  # multiprocessors
M, N, K = 1536, 1536, 4096
TILES, PANELS = 144, 64  # of 128 x 128 x 64 elements


def main(folder: Path) -> None:
    small = StreamK(tiles=5, panels=8, units=4)
    section("Stream-K, 5 tiles on 4 units", to_text(timeline(small)))
    (folder / "stream_k_5_on_4.svg").write_text(to_svg(timeline(small), "Stream-K"))
    program = gemm(M, N, K, "bf16", b_layout="col")
    for name, sms in DEVICES.items():
        section(f"{M} x {N} x {K} on {name}", passes.explain(program, sms=sms))
        drawing = folder / f"stream_k_{TILES}_on_{sms}.svg"
        title = f"{M} x {N} x {K}, Stream-K on {sms} SMs"
        drawing.write_text(to_svg(timeline(StreamK(TILES, PANELS, sms)), title))
        print(f"drawn: {drawing}")
    section("The smallest square above 2048 with a last wave less than half full", answers())


def timeline(schedule: Schedule):
    """Units that fold the tiles they have the first panel of, a place each."""
    return simulate(schedule, fold=Fold.FIRST_PANEL)


def answers() -> str:
    lines = []
    for sms in (132, 148):
        for step, kind in ((1, "any size"), (256, "whole tiles")):
            n = smallest_square(2048, (256, 128), sms, step)
            found = waves(tiles_of(n, (256, 128)), sms)
            lines.append(
                f"{sms} SMs, {kind}: {n} x {n}, {tiles_of(n, (256, 128))} tiles of 256 x 128, "
                f"{found.last} of {sms} in the last of {found.count} waves"
            )
    return "\n".join(lines)


def smallest_square(above: int, tile: tuple[int, int], sms: int, step: int = 1) -> int:
    """The least multiple of `step` above `above`, as the size of a square output, that leaves the
    last wave less than half full."""
    sizes = count((above // step + 1) * step, step)
    return next(n for n in sizes if 2 * waves(tiles_of(n, tile), sms).last < sms)


def tiles_of(n: int, tile: tuple[int, int]) -> int:
    return -(-n // tile[0]) * -(-n // tile[1])


def section(title: str, text: str) -> None:
    print(f"\n--- {title} {'-' * max(0, 96 - len(title))}\n{text.rstrip()}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as made:
            main(Path(made))
