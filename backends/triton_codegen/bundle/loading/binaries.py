"""The binaries of a bundle on its devices: which of them run there, loaded when first asked for."""

import sys
import threading
from functools import cached_property
from typing import Any

from backends.triton_codegen.bundle.loading.driver import Driver
from backends.triton_codegen.bundle.loading.errors import LaunchError
from backends.triton_codegen.bundle.loading.folder import Folder
from backends.triton_codegen.bundle.loading.model import Target, Variant


class Binaries:
    """Kernels by device. `library`: what stands for libcuda; None: libcuda, when first needed."""

    def __init__(self, folder: Folder, library: Any = None):
        self.folder, self._library = folder, library
        self._functions: dict[tuple[int, str, str], int] = {}
        self._lock = threading.RLock()

    @cached_property
    def driver(self) -> Driver:
        return Driver(self._library)

    def target_for(self, device: int) -> str:
        """The name of the target whose binaries the device runs. LaunchError: there is none."""
        torch = sys.modules.get("torch")
        if torch is not None and getattr(torch.version, "hip", None):
            raise LaunchError("device: expected an NVIDIA GPU, got an AMD one")
        capability = self.driver.capability(device)
        targets = self.folder.manifest.targets
        found = [t for t in targets if _runs(t, capability)]
        if not found:
            names = ", ".join(t.name for t in targets)
            given = f"compute capability {capability[0]}.{capability[1]}"
            raise LaunchError(f"device: expected one of {names}, got {given}")
        return max(found, key=lambda t: t.capability).name

    def function(self, device: int, variant: Variant) -> int:
        """The handle of a kernel on the device, whose context is current."""
        key = device, variant.binary, variant.symbol
        with self._lock:
            if key not in self._functions:
                image = self.folder.read(variant.binary)
                shared = variant.shared_bytes
                self._functions[key] = self.driver.function(image, variant.symbol, shared)
            return self._functions[key]

    def load(self, device: int) -> None:
        """Loads all that the device runs."""
        target = self.target_for(device)
        with self.driver.on(device):
            for variant in self._variants(target):
                self.function(device, variant)

    def _variants(self, target: str) -> list[Variant]:
        kernels = (k for p in self.folder.manifest.programs for k in p.kernels)
        builds = (b for k in kernels for b in k.builds if b.target == target)
        return [v for b in builds for v in b.variants]


def _runs(target: Target, capability: tuple[int, int]) -> bool:
    if target.backend != "cuda" or target.capability[0] != capability[0]:
        return False
    wanted = target.capability[1]
    return wanted == capability[1] if target.is_exact else wanted <= capability[1]
