"""How a program is compiled, as opposed to what is compiled: fixed in the emitted file as
defaults."""

from dataclasses import dataclass

TRITON_FAMILY = "3.6"

WARP_CHOICES = (1, 2, 4, 8, 16, 32)
MOST_STAGES = 16


@dataclass(frozen=True)
class Settings:
    """Compile options that change speed, and the fused multiply-adds that change the last bits.

    num_warps: warps of 32 threads a block (64 on AMD), a power of two up to 32.
    num_stages: buffers of the software pipeline of a panel loop, 1 to 16; costs shared memory.
    fp_fusion: whether `a * b + c` outside `dot` may round once instead of twice.
    max_num_imprecise_acc: additions that an fp8 `dot` may do in the short accumulator of Hopper
        before it adds into f32; 0 keeps every panel in f32.
    launch_pdl: whether the blocks of a kernel behind the first take their places while those of the
        one before it run, and wait for its end before they read (programmatic dependent launch,
        sm_90 and newer); saves most of a launch.
    ValueError: the option and what it must be.
    """

    num_warps: int = 8
    num_stages: int = 3
    fp_fusion: bool = True
    max_num_imprecise_acc: int = 0
    launch_pdl: bool = False

    def __post_init__(self) -> None:
        if type(self.num_warps) is not int or self.num_warps not in WARP_CHOICES:
            raise ValueError(f"num_warps: one of {WARP_CHOICES}, not {self.num_warps!r}")
        if type(self.num_stages) is not int or self.num_stages not in range(1, MOST_STAGES + 1):
            raise ValueError(f"num_stages: 1 to {MOST_STAGES}, not {self.num_stages!r}")
        if type(self.launch_pdl) is not bool:
            raise ValueError(f"launch_pdl: True or False, not {self.launch_pdl!r}")
        if self.max_num_imprecise_acc < 0:
            raise ValueError(f"max_num_imprecise_acc: at least 0, not {self.max_num_imprecise_acc}")

    def __str__(self) -> str:
        fusion = "on" if self.fp_fusion else "off"
        overlap = " launch_pdl=on" if self.launch_pdl else ""
        return (
            f"num_warps={self.num_warps} num_stages={self.num_stages} fp_fusion={fusion} "
            f"max_num_imprecise_acc={self.max_num_imprecise_acc}{overlap}"
        )
