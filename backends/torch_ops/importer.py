"""Graphs of torch with every product and convolution that can be taken replaced by an operator of
ours."""

from typing import Any, NoReturn

import torch
from torch.export import ExportedProgram
from torch.fx import Graph, GraphModule, Node

from backends.torch_ops.activations import NONE
from backends.torch_ops.graph_calls import activation_behind, call_of
from backends.torch_ops.graph_readers import READERS, Call, NotTakenError, value_of
from backends.torch_ops.graph_targets import name_of
from backends.torch_ops.report import Refused, Report, Taken

_ops: Any = torch.ops.loopir


def replace(
    program: ExportedProgram | GraphModule | torch.nn.Module, inputs: tuple[Any, ...] | None = None
) -> tuple[GraphModule, Report]:
    """A module that computes the same with our operators, and what was taken and what was not.

    program: an exported program; a graph in which a tracer noted the tensors of each node, as those
    that torch.compile gives its backends; or, with example `inputs`, any module that torch.export
    takes. It is left as it is, and the result shares its parameters. ValueError: a graph without a
    note of tensors has a product, a convolution or a module in it.
    """
    module = _graph_module(program, inputs)
    graph = _copied(module.graph)
    entries = [entry for node in list(graph.nodes) if (entry := _entry(graph, node))]
    graph.lint()
    made = GraphModule(module, graph)
    made.meta.update(module.meta)
    _keep_out_of_state(module, made)
    _keep_mode(module, made)
    return made, Report(tuple(entries))


def _graph_module(program: Any, inputs: tuple[Any, ...] | None) -> GraphModule:
    if inputs is not None:
        program = torch.export.export(program, inputs)
    if isinstance(program, ExportedProgram):
        return program.module()
    if not isinstance(program, GraphModule):
        given = type(program).__name__
        raise ValueError(f"program: expected a graph, or inputs, got {given} alone")
    calls = [node for node in program.graph.nodes if node.op.startswith("call")]
    is_noted = any(value_of(node) is not None for node in calls)
    if not is_noted and any(node.op == "call_module" or name_of(node) in READERS for node in calls):
        raise ValueError("program: expected tensors noted at its nodes, or inputs, got none")
    return program


def _keep_out_of_state(module: GraphModule, made: GraphModule) -> None:
    """What no state_dict of `module` has: GraphModule makes all buffers persistent."""
    places = dict(made.named_modules(remove_duplicate=False))
    for name, part in module.named_modules(remove_duplicate=False):
        if (own := places.get(name)) is not None:
            hidden = part._non_persistent_buffers_set & own._buffers.keys()
            own._non_persistent_buffers_set |= hidden


def _keep_mode(module: GraphModule, made: GraphModule) -> None:
    """An exported module refuses another mode than the one in its graph; GraphModule takes it and
    computes as before."""
    for name in ("train", "eval"):
        if name in vars(module):
            setattr(made, name, _refuse_mode)


def _refuse_mode(*_: Any) -> NoReturn:
    raise NotImplementedError(
        "train() and eval() are fixed by export: call them on the module before"
    )


def _copied(graph: Graph) -> Graph:
    copy = Graph()
    copy.output(copy.graph_copy(graph, {}))
    copy.set_codegen(graph._codegen)
    return copy


def _entry(graph: Graph, node: Node) -> Taken | Refused | None:
    try:
        call = call_of(node)
    except NotTakenError as error:
        return Refused(node.name, name_of(node), error.reason, error.detail)
    return None if call is None else _taken(graph, node, call)


def _taken(graph: Graph, node: Node, call: Call) -> Taken:
    name, last = (NONE, node) if call.op == "matmul" else activation_behind(node)
    entry = Taken(node.name, name_of(node), call.op, name)
    with graph.inserting_before(node):
        made = graph.call_function(getattr(_ops, call.op).default, _arguments(graph, call, name))
    made.meta = dict(last.meta)
    last.replace_all_uses_with(made)
    for gone in dict.fromkeys((last, node)):
        graph.erase_node(gone)
    return entry


def _arguments(graph: Graph, call: Call, activation: str) -> tuple[Any, ...]:
    tensors = call.tensors
    if call.op == "matmul":
        return tensors
    if call.is_turned:
        x, weight, *bias = tensors
        tensors = x, graph.call_function(torch.ops.aten.t.default, (weight,)), *bias
    return (*tensors, *call.steps, activation)
