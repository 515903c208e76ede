"""Writes loopir_bundle.c: what a manifest says, as the tables that the launcher in C reads."""

from collections.abc import Mapping, Sequence
from typing import Any

from backends.triton_codegen.bundle.c.postfix import Places
from backends.triton_codegen.bundle.c.writer import ArrayWriter, number, quoted, row
from loopir.errors import CodegenError

#: LOOPIR_TABLES_VERSION, and what a driver must be to load binaries of the tool chain of CUDA 12
VERSION, LEAST_DRIVER = 1, 12000
#: LOOPIR_MOST_... of loopir_bundle.h and loopir_launch.h
MOST = {
    "dimensions": 8,
    "parameters": 16,
    "workspaces": 16,
    "values": 128,
    "kernels": 8,
    "arguments": 128,
    "descriptors": 8,
    "dimensions of a descriptor": 5,
}

_ARGUMENT_TYPES = {
    "pointer": "LOOPIR_64_BITS",
    "i64": "LOOPIR_64_BITS",
    "i32": "LOOPIR_32_BITS",
    "tensor_map": "LOOPIR_TENSOR_MAP",
}
_NO_EXPRESSION = row("NULL", "0")


def bundle_tables(manifest: Mapping[str, Any]) -> str:
    """The text of loopir_bundle.c. `manifest`: the JSON object of a valid manifest, of whose files
    the binaries suffice. CodegenError: more of something than the launcher in C has room for."""
    return _TablesWriter(manifest).text()


class _TablesWriter:
    def __init__(self, manifest: Mapping[str, Any]):
        self.manifest, self.arrays = manifest, ArrayWriter()
        self.targets = {t["name"]: t for t in manifest["targets"] if t["backend"] == "cuda"}
        self.files = {f["path"]: f for f in manifest["files"]}
        self.images = {path: i for i, path in enumerate(sorted(self._binaries()))}
        self.variants = 0

    def _binaries(self) -> set[str]:
        kernels = (k for p in self.manifest["programs"] for k in p["kernels"])
        builds = (b for k in kernels for b in k["builds"] if b["target"] in self.targets)
        return {v["binary"] for b in builds for v in b["variants"]}

    def text(self) -> str:
        images = self.arrays.counted("loopir_image", [*map(self._image, self.images)])
        programs = [_ProgramWriter(self, p).row() for p in self.manifest["programs"]]
        programs = self.arrays.counted("loopir_program_table", programs)
        fields = [str(VERSION), str(LEAST_DRIVER), *images, *programs, str(self.variants)]
        tables = f"const struct loopir_tables loopir_tables = {row(*fields)};"
        return "\n".join([*_HEAD, "", *self.arrays.lines, tables, ""])

    def _image(self, path: str) -> str:
        file = self.files[path]
        return row(f"{quoted(path)}, {file['bytes']}u,\n     {quoted(file['sha256'])}")


class _ProgramWriter:
    """The tables of one program."""

    def __init__(self, whole: _TablesWriter, program: Mapping[str, Any]):
        self.whole, self.program, self.arrays = whole, program, whole.arrays
        self.parameters, self.parts = program["parameters"], program["workspace"]["parts"]
        self.values = [*program["values"], *program["launch_values"]]
        buffers = [*self.parameters, *self.parts]
        self.places = Places(
            {v["name"]: i for i, v in enumerate(self.values)},
            {b["name"]: i for i, b in enumerate(buffers)},
        )

    def row(self) -> str:
        self._limit("parameters", self.parameters)
        self._limit("workspaces", self.parts)
        self._limit("values", self.values)
        self._limit("kernels", self.program["kernels"])
        buffers, workspace = self.places.buffers, self.program["workspace"]
        pairs = [row(str(buffers[a]), str(buffers[b])) for a, b in self.program["disjoint"]]
        counted = self.arrays.counted
        return row(
            quoted(self.program["name"]),
            *counted("loopir_parameter", [*map(self._parameter, self.parameters)]),
            *counted("loopir_pair", pairs),
            *counted("loopir_value", [*map(self._value, range(len(self.values)))]),
            self._expression(workspace["counter_bytes"]),
            self._expression(workspace["tile_bytes"]),
            *counted("loopir_part", [*map(self._part, self.parts)]),
            *counted("loopir_kernel", [*map(self._kernel, self.program["kernels"])]),
        )

    def _limit(self, what: str, items: Sequence[Any]) -> None:
        if len(items) > MOST[what]:
            name, most = self.program["name"], MOST[what]
            raise CodegenError(f"@{name}: {len(items)} {what}; the launcher in C takes {most}")

    def _expression(self, expression: Mapping[str, Any] | None) -> str:
        if expression is None:
            return _NO_EXPRESSION
        operations = self.places.operations(expression["tree"])
        return row(*self.arrays.counted("loopir_op", operations))

    def _parameter(self, parameter: Mapping[str, Any]) -> str:
        shape, inner = parameter["shape"], parameter["contiguous"]
        self._limit("dimensions", shape)
        return row(
            quoted(parameter["name"]),
            f"LOOPIR_{parameter['dtype'].upper()}",
            str(len(shape)),
            str(-1 if inner is None else inner),
            str(int(parameter["direction"] != "in")),
            self.arrays.array("loopir_expression", map(self._expression, shape)),
        )

    def _value(self, at: int) -> str:
        value, is_late = self.values[at], at >= len(self.program["values"])
        return row(
            quoted(value["option"] or value["name"]),
            f"LOOPIR_{value['kind'].upper()}",
            str(int(is_late)),
            self._expression(value["expression"]),
        )

    def _part(self, part: Mapping[str, Any]) -> str:
        is_counter = str(int(part["region"] == "counters"))
        sizes = map(self._expression, (part["offset"], part["bytes"]))
        return row(quoted(part["name"]), is_counter, *sizes)

    def _kernel(self, kernel: Mapping[str, Any]) -> str:
        builds = [self._build(b) for b in kernel["builds"] if b["target"] in self.whole.targets]
        zeroed = [str(self.places.buffers[name]) for name in kernel["zeroed"]]
        return row(
            quoted(kernel["name"]),
            self._expression(kernel["blocks"]),
            *self.arrays.counted("int", zeroed),
            str(int(kernel["launch_pdl"])),
            *self.arrays.counted("loopir_build", builds),
        )

    def _build(self, build: Mapping[str, Any]) -> str:
        target, first = self.whole.targets[build["target"]], self.whole.variants
        self.whole.variants += len(build["variants"])
        return row(
            *map(str, target["capability"]),
            str(int(target["is_exact"])),
            *self.arrays.counted("loopir_variant", [*map(self._variant, build["variants"])]),
            str(first),
        )

    def _variant(self, variant: Mapping[str, Any]) -> str:
        descriptors, arguments = variant["descriptors"], variant["arguments"]
        self._limit("descriptors", descriptors)
        self._limit("arguments", arguments)
        counted = self.arrays.counted
        return row(
            quoted(variant["symbol"]),
            str(self.whole.images[variant["binary"]]),
            str(variant["threads"]),
            str(variant["shared_bytes"]),
            *counted("loopir_condition", [*map(self._condition, variant["conditions"])]),
            *counted("loopir_map", [*map(self._map, descriptors)]),
            *counted("loopir_argument", [*map(self._argument, arguments)]),
        )

    def _condition(self, condition: Mapping[str, Any]) -> str:
        limits = (number(condition[key]) for key in ("least", "most", "multiple_of"))
        return row(self._expression(condition["expression"]), *limits)

    def _map(self, descriptor: Mapping[str, Any]) -> str:
        self._limit("dimensions of a descriptor", descriptor["dims"])
        return row(
            str(self.places.buffers[descriptor["parameter"]]),
            str(len(descriptor["dims"])),
            *(str(descriptor[key]) for key in ("data_type", "element_bytes")),
            *(row(*map(str, descriptor[key])) for key in ("dims", "box", "element_strides")),
            *(str(descriptor[key]) for key in ("interleave", "swizzle", "l2_promotion")),
            str(descriptor["oob_fill"]),
        )

    def _argument(self, argument: Mapping[str, Any]) -> str:
        descriptor = argument["descriptor"]
        place = "0" if descriptor is None else str(descriptor)
        kind = _ARGUMENT_TYPES[argument["type"]]
        return row(kind, place, self._expression(argument["expression"]))


_HEAD = [
    "/* Generated from manifest.json; loopir_bundle.h says what it means. */",
    '#include "loopir_bundle.h"',
]
