"""What is kept of a run: a CSV row an arm and shape, and a JSON manifest beside it."""

import csv
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from backends.bench.columns import COLUMNS, About, row
from backends.bench.results import Case, Result
from backends.bench.stopwatch import Part

SCHEMA = 1


class Record:
    """The CSV and the manifest of a run; the CSV is complete on disk after every shape."""

    def __init__(self, prefix: Path, about: About):
        self.csv, self.manifest = _beside(prefix, ".csv"), _beside(prefix, ".json")
        self._about, self._results, self._count = about, [], 0
        prefix.parent.mkdir(parents=True, exist_ok=True)
        with self.csv.open("w", newline="", encoding="utf-8") as file:
            csv.DictWriter(file, COLUMNS).writeheader()

    def add(self, found: Sequence[Result]) -> None:
        """The rows of one shape."""
        with self.csv.open("a", newline="", encoding="utf-8") as file:
            csv.DictWriter(file, COLUMNS).writerows(row(r, self._about) for r in found)
        self._results += found
        self._count += 1

    def close(self, cases: Sequence[Case], seconds: Mapping[Part, float]) -> None:
        """Write the manifest: the run, where its seconds went, which of its cases were left out,
        and every arm's times round by round."""
        data = {
            "schema": SCHEMA,
            **asdict(self._about),
            "rows": self.csv.name,
            "seconds": {part.value: round(value, 2) for part, value in seconds.items()},
            "not_run": [f"{case.set}: {case.problem}" for case in cases[self._count :]],
        }
        samples = ",\n  ".join(json.dumps(_samples(r)) for r in self._results)
        head = json.dumps(data, indent=1).removesuffix("\n}")
        text = f'{head},\n "samples": [\n  {samples}\n ]\n}}\n'  # a line an arm
        self.manifest.write_text(text, encoding="utf-8")


def _beside(prefix: Path, suffix: str) -> Path:
    return prefix.with_name(prefix.name.removesuffix(".csv") + suffix)


def _samples(result: Result) -> dict[str, object]:
    config = result.arm.config
    return {
        "set": result.case.set,
        "problem": str(result.case.problem),
        "arm": result.arm.name,
        "config": config and config.to_json(),
        "status": result.status,
        "times_us": [round(t, 2) for t in result.times],
    }
