"""A bundle, as a host opens it."""

import os
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from backends.triton_codegen.bundle.loading.binaries import Binaries
from backends.triton_codegen.bundle.loading.errors import BundleError
from backends.triton_codegen.bundle.loading.folder import Folder
from backends.triton_codegen.bundle.loading.model import Manifest
from backends.triton_codegen.bundle.loading.programs import LaunchableProgram


class Bundle:
    """Compiled programs in a folder, all of whose files were checked when it was opened, by name:
    `programs`. A device gets a binary at the first launch that needs it."""

    def __init__(self, binaries: Binaries):
        self._binaries = binaries
        found = {p.name: LaunchableProgram(binaries, p) for p in self.manifest.programs}
        self.programs: Mapping[str, LaunchableProgram] = MappingProxyType(found)

    @classmethod
    def open(cls, path: str | os.PathLike[str], library: Any = None) -> "Bundle":
        """The bundle in the folder `path`. `library`: what stands for libcuda; None: libcuda, when
        first needed. BundleError: what is wrong with the folder."""
        try:
            folder = Folder(path)
        except BundleError as error:
            raise BundleError(f"{os.fspath(path)}: {error}") from None
        return cls(Binaries(folder, library))

    @property
    def manifest(self) -> Manifest:
        return self._binaries.folder.manifest

    def load(self, device: int = 0) -> None:
        """Gives the device all its binaries now, so that no launch does. LaunchError: no target of
        the bundle runs there. DriverError: the driver refuses one."""
        self._binaries.load(device)
