"""The loop-nest IR: nodes, text form, verifier, index arithmetic. Knows of no pass and no GPU."""

__version__ = "0.1.0"
