"""The errors of a loader: those of the toolkit here, classes of its own in a bundle."""

from loopir.errors import BundleError, LaunchError

__all__ = ["BundleError", "DriverError", "LaunchError"]


class DriverError(RuntimeError):
    """A call of the CUDA driver that failed: which, and what the driver says of it."""
