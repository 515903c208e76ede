"""Bundles: programs compiled for deployment, with all that a host needs to launch them.

`bundle` makes one, without a GPU; `Bundle` launches from one, as the `loader.py` in each does,
which needs nothing of this toolkit.
"""

from backends.triton_codegen.bundle.build import Entry, bundle
from backends.triton_codegen.bundle.loading.arrays import Array
from backends.triton_codegen.bundle.loading.bundles import Bundle
from backends.triton_codegen.bundle.loading.model import Manifest

__all__ = ["Array", "Bundle", "Entry", "Manifest", "bundle"]
