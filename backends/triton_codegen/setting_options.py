"""Settings as options of the command line, where a program is compiled."""

import argparse

from backends.triton_codegen.settings import Settings


def add_setting_options(parser: argparse.ArgumentParser) -> None:
    """`--num-warps`, `--num-stages` and `--launch-pdl`, for `settings_of`."""
    add = parser.add_argument
    add("--num-warps", type=int, default=Settings.num_warps, help="warps a block (%(default)s)")
    add("--num-stages", type=int, default=Settings.num_stages, help="pipeline stages (%(default)s)")
    text = "start the second kernel of a program while the first ends (cuda:90 and newer)"
    add("--launch-pdl", action="store_true", help=text)


def settings_of(args: argparse.Namespace) -> Settings:
    """The settings that were said. ValueError: one that is none."""
    return Settings(args.num_warps, args.num_stages, launch_pdl=args.launch_pdl)


def setting_text(settings: Settings) -> str:
    """The options that say these settings, where they are all that differ from the defaults."""
    words = ["--num-warps", str(settings.num_warps), "--num-stages", str(settings.num_stages)]
    return " ".join([*words, "--launch-pdl"] if settings.launch_pdl else words)
