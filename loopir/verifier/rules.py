"""The table of rules: code, title, check. `docs/verifier.md` has an example of each."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from loopir.verifier import (
    compute,
    descriptors,
    header,
    memory,
    names,
    reduction,
    slots,
    structure,
)
from loopir.verifier.context import Context, Finding


class Rule(NamedTuple):
    """`check` yields what is wrong in one kernel."""

    title: str
    check: Callable[[Context], Iterable[Finding]]


#: codes are stable: a new rule gets a new number
RULES: dict[str, Rule] = {
    "V01": Rule("names are identifiers and no reserved words", names.names_are_identifiers),
    "V02": Rule("a name is made once in a kernel", names.names_are_unique),
    "V03": Rule("a name is used where it is visible, as what it is", names.names_are_visible),
    "V04": Rule("kernels of a program have different names", names.kernel_names_are_unique),
    "V05": Rule("parameters and workspaces are well formed", header.parameters_are_well_formed),
    "V06": Rule("an alias names two parameters", header.aliases_name_two_parameters),
    "V07": Rule("a `where` binding uses earlier names", header.bindings_use_earlier_names),
    "V08": Rule("constants are not negative, divisors positive", header.constants_are_sound),
    "V09": Rule("index expressions are integer arithmetic", header.expressions_are_integer),
    "V10": Rule("requirements fit the header", header.requirements_name_what_they_need),
    "V11": Rule("one grid is the root of a kernel", structure.one_grid_is_the_root),
    "V12": Rule("grouped order has a group and two axes", structure.grid_orders_are_well_formed),
    "V13": Rule("a loop's step is a positive constant", structure.steps_are_positive),
    "V14": Rule("a wave loop has a constant trip", structure.wave_loops_have_constant_trips),
    "V15": Rule("no barrier or arrive in a wave loop", structure.synchronisation_is_uniform),
    "V16": Rule("`set` changes a variable of a `while`", structure.variables_belong_to_a_while),
    "V17": Rule("a flag comes from an `arrive`", names.flags_come_from_arrive),
    "V18": Rule("a comparison is one of six", structure.comparisons_are_known),
    "V19": Rule("a counter is an integer workspace", memory.counters_are_integer_workspaces),
    "V20": Rule("an element read is of an integer buffer", memory.element_reads_are_integers),
    "V21": Rule("an alloc has constant sizes", memory.allocs_are_constant),
    "V22": Rule("an access has an index a dimension", memory.accesses_match_their_buffer),
    "V23": Rule("a tile has the sizes of its axes", memory.tiles_fit_their_axes),
    "V24": Rule("every axis of an access is used", memory.axes_are_used),
    "V25": Rule("directions of parameters are respected", memory.directions_are_respected),
    "V26": Rule("moves keep the dtype", memory.moves_keep_the_dtype),
    "V27": Rule("an atomic into an output needs zeros", memory.atomics_into_outputs_are_zeroed),
    "V28": Rule("an atomic's operator can be one", memory.atomic_operators_combine),
    "V29": Rule("a number fits the tile that it fills", memory.numbers_fit_their_tile),
    "V30": Rule("a fragment is used as a whole", memory.fragments_are_whole),
    "V31": Rule("a dot's shapes match", compute.dot_shapes_match),
    "V32": Rule("a dot's dtypes match", compute.dot_dtypes_match),
    "V33": Rule("shapes of an ewise match", compute.ewise_shapes_match),
    "V34": Rule("dtypes of an ewise match", compute.ewise_dtypes_match),
    "V35": Rule("a number in an ewise fits its dtype", compute.ewise_numbers_fit),
    "V36": Rule("a tile is written before it is read", compute.tiles_are_written_before_read),
    "V37": Rule("a reduce is one panel loop", reduction.reductions_are_one_panel_loop),
    "V38": Rule("accumulators are ready before a reduce", reduction.accumulators_are_ready),
    "V39": Rule("accumulators change as labelled", reduction.accumulators_change_by_their_operator),
    "V40": Rule("a program is what its text says", lambda _: ()),  # of a whole program: readable.py
    "V41": Rule("a descriptor moves a box of a tensor", descriptors.described_tiles_are_boxes),
    "V42": Rule(
        "a kernel reads or writes what it moves through descriptors",
        descriptors.described_buffers_are_not_exchanged,
    ),
    "V43": Rule("slots in fragment order are moved in blocks", slots.slots_are_moved_in_blocks),
}
