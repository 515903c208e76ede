"""Made-up compilations for the cache, and processes that share one."""

import time
import warnings
from random import Random

from backends.triton_codegen.cache import store
from backends.triton_codegen.cache.cached import cached
from backends.triton_codegen.cache.entry import Built


def identity(number: int) -> dict[str, object]:
    return {"kernel": f"kernel_{number}", "target": "cuda:90", "signature": [["A", "*fp32"]]}


def built(number: int, size: int = 400) -> Built:
    """What a compiler gives for `identity(number)`: always the same."""
    random = Random(number)
    return Built(
        binary=random.randbytes(size),
        assembly="".join(random.choices("abc \n.;", k=size)),
        suffixes=("cubin", "ptx"),
        metadata={"name": f"kernel_{number}", "shared": number, "num_warps": 8, "none": None},
        registers=random.randrange(256),
        spill_bytes=random.randrange(64),
        warnings=("one", "two") if number % 2 else (),
    )


def use_in_turn(barrier, numbers: list[int], kind: str, results) -> None:
    """In a process of its own: ask for all of them; put what went wrong, as text.

    kind: "atomic", as the cache is; or a control: "in place" writes an entry where readers see it,
    "unbounded" keeps all.
    """
    if kind == "in place":
        store.Store.save = _save_in_place
    if kind == "unbounded":
        store.Store.trim = lambda self: None
    wrong = []
    barrier.wait()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for number in numbers:
            found = cached(lambda n=number: identity(n), lambda n=number: built(n))
            if found != built(number):
                wrong.append(f"{number} is another kernel")
    results.put(wrong + [str(w.message) for w in told])


def _save_in_place(self, key, files) -> None:
    try:
        store.os.mkdir(key, dir_fd=self.handle)
    except FileExistsError:
        return
    for name, data in files.items():
        self._fill(key, {name: data})
        time.sleep(0.001)
