"""The loader of a bundle against a mock of the driver in C, as a program: `-m` this, its input is
JSON of launches. Where the tensors lie is said, since the mock looks at no memory."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


def mocked_launches(driver: Path, requests: Sequence[Mapping[str, Any]], **mock: Any) -> None:
    """Launch each; the calls of the driver go to its `log`. `driver`: the folder of the mock."""
    settings = {f"MOCK_{name}": str(value) for name, value in mock.items()}
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.mocked_loader"],
        input=json.dumps(requests),
        env={**os.environ, "LD_LIBRARY_PATH": str(driver), **settings},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]


def _launch(request: Mapping[str, Any]) -> None:
    sys.path.insert(0, request["bundle"])
    from loader import Array, Bundle  # pyright: ignore[reportMissingImports]

    os.environ["MOCK_LOG"] = request["log"]
    tensors = [
        Array(start, dtype, tuple(t["sizes"]), tuple(t["strides"]))
        for t, start, dtype in zip(
            request["tensors"], request["places"], request["dtypes"], strict=True
        )
    ]
    size = request["workspace_bytes"]
    room = Array(request["workspace"], "i8", (size,), (1,)) if size else None
    program = Bundle.open(request["bundle"]).programs[request["name"]]
    program.launch(*tensors, workspace=room, stream=request["stream"])


if __name__ == "__main__":
    for each in json.load(sys.stdin):
        _launch(each)
