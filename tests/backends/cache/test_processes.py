"""Processes that share a cache at the same time."""

import multiprocessing
from pathlib import Path

import pytest

from backends.triton_codegen.cache.entry import files_of, key_of
from backends.triton_codegen.cache.store import open_store
from tests.support.cache_entries import built, identity, use_in_turn

SIZE = sum(map(len, files_of(identity(1), built(1)).values()))


def run(orders: list[list[int]], kind: str = "atomic") -> list[str]:
    """A process for each order of entries, all at once; what went wrong in them."""
    context = multiprocessing.get_context("spawn")
    barrier, results = context.Barrier(len(orders)), context.Queue()
    processes = [
        context.Process(target=use_in_turn, args=(barrier, order, kind, results))
        for order in orders
    ]
    for process in processes:
        process.start()
    told = [text for _ in processes for text in results.get(timeout=50)]
    for process in processes:
        process.join()
    results.close()
    results.join_thread()
    assert all(process.exitcode == 0 for process in processes)
    return told


def test_two_that_write_the_same_entries_at_once_agree(folder: Path):
    numbers = list(range(150))
    assert run([numbers, numbers]) == []
    assert sorted(p.name for p in folder.iterdir()) == sorted(key_of(identity(n)) for n in numbers)
    store = open_store(1 << 30)
    assert all(store.load(key_of(identity(n))) == built(n) for n in numbers)
    store.close()


def test_control_entries_written_in_place_are_met_half_done():
    told = run([list(range(150))] * 2, "in place")
    assert any("is compiled again" in text for text in told)


def orders() -> list[list[int]]:
    """Each of three processes goes through 25 entries four times, from another start."""
    return [[(start + n) % 25 for n in range(100)] for start in (0, 8, 16)]


def test_the_limit_holds_while_three_read_write_and_displace(
    folder: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("LOOPIR_CACHE_LIMIT", str(10 * SIZE))
    assert run(orders()) == []
    store = open_store(10 * SIZE)
    entries = store.entries()
    assert 5 * SIZE < sum(e.bytes for e in entries) <= 10 * SIZE
    assert all(store.load(e.key) is not None for e in entries)
    assert len(list(folder.iterdir())) == len(entries)
    store.close()


def test_control_without_trimming_the_limit_is_passed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("LOOPIR_CACHE_LIMIT", str(10 * SIZE))
    assert run(orders()[:1], "unbounded") == []
    store = open_store(10 * SIZE)
    assert sum(e.bytes for e in store.entries()) > 10 * SIZE
    store.close()
