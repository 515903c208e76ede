"""Operations on tensors: planned, compiled, kept and launched. These modules import torch."""
