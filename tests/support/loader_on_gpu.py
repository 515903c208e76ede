"""Run by its path, with the folder of a bundle of `bundles.open_programs`: launches its programs on
a GPU through its own loader, and checks the results. Imports nothing of this toolkit or Triton."""

import sys

sys.path.insert(0, sys.argv[1])
import torch
from loader import Bundle, LaunchError  # pyright: ignore[reportMissingImports]

SIZES = [(1, 5, 300), (127, 253, 519), (512, 256, 1024), (129, 1, 2047), (64, 64, 0), (0, 64, 64)]
NAMES = ("workspace", "fixup", "atomic")


def ints(*shape: int) -> torch.Tensor:
    """So small that every sum of products is exact."""
    return torch.randint(-3, 4, shape, device="cuda").bfloat16()


def operands(m: int, n: int, k: int, pad: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    return ints(m + 1, k + pad)[1:, pad:], ints(n, k + pad)[:, pad:].t()


def check(what: str, found: torch.Tensor, wanted: torch.Tensor) -> None:
    torch.cuda.synchronize()
    if not torch.equal(found, wanted):
        sys.exit(f"{what}: {int((found != wanted).sum())} of {found.numel()} elements differ")


def sizes_and_layouts(programs) -> None:
    for name in NAMES:
        for m, n, k in SIZES:
            for pad in (0, 1, 8):
                a, b = operands(m, n, k, pad)
                room = torch.full((m + 2, n + pad), 7.0, device="cuda")
                programs[name].launch(a, b, room[1:-1, :n])
                wanted = torch.full_like(room, 7.0)
                wanted[1:-1, :n] = a.float() @ b.float()
                check(f"{name} {m}x{n}x{k}, {pad} elements between rows", room, wanted)


def streams(programs) -> None:
    """Two at once, each with its own workspace."""
    both, work = [torch.cuda.Stream() for _ in range(2)], []
    for i in range(40):
        a, b = operands(300, 200, 2000)
        c = torch.empty(300, 200, device="cuda")
        both[i % 2].wait_stream(torch.cuda.current_stream())
        programs["workspace"].launch(a, b, c, stream=both[i % 2])
        work.append((a, b, c))
    for a, b, c in work:
        check("two streams", c, a.float() @ b.float())


def graphs(programs) -> None:
    """Captured twice in a row, replayed on other inputs."""
    for name in NAMES:
        a, b = operands(256, 192, 2048)
        c = torch.empty(256, 192, device="cuda")
        programs[name].launch(a, b, c)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            programs[name].launch(a, b, c)
            programs[name].launch(a, b, c)
        for _ in range(20):
            a.copy_(ints(256, 2048))
            c.fill_(float("nan"))
            graph.replay()
            check(f"graph of {name}", c, a.float() @ b.float())


def workspaces(programs) -> None:
    """The caller's, both kinds in turn."""
    program = programs["workspace"]
    a, b = operands(256, 192, 2048)
    size = program.workspace_bytes(M=256, N=192, K=2048)
    mine = program.new_workspace(M=256, N=192, K=2048)
    room = torch.zeros(size, dtype=torch.uint8, device="cuda")
    for memory in (mine, room, mine, room):
        c = torch.full((256, 192), float("nan"), device="cuda")
        program.launch(a, b, c, workspace=memory)
        check("workspace of the caller's", c, a.float() @ b.float())
    for wrong in ((a.half(), b, c), (a.cpu(), b, c), (a, b, a), (a[:, 1:], b, c)):
        try:
            program.launch(*wrong)
        except LaunchError:
            continue
        sys.exit("a launch that should be refused")


def main() -> None:
    torch.manual_seed(0)
    bundle = Bundle.open(sys.argv[1])
    bundle.load()
    for part in (sizes_and_layouts, streams, graphs, workspaces):
        part(bundle.programs)
    foreign = [m for m in sys.modules if m.split(".")[0] in ("loopir", "passes", "backends")]
    print("right, without", foreign or "this toolkit")


if __name__ == "__main__":
    main()
