"""Kernels compiled ahead of time, kept on disk for the next time that the same is asked for."""
