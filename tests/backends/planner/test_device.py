"""Constants of a device, and the JSON they come in."""

import json

import pytest

from backends.planner import Device, read_device, shipped

H200 = shipped()["NVIDIA H200"]


def test_text_reads_back():
    assert read_device(H200.text()) == H200


def test_a_device_is_a_key():
    assert {H200: 1}[read_device(H200.text())] == 1


@pytest.mark.parametrize("field", ["sms", "dram_tbps", "slowness"])
def test_a_missing_field_is_named(field: str):
    data = H200.to_json()
    del data[field]
    with pytest.raises(ValueError, match=field):
        Device.from_json(data)


def test_an_unknown_field_is_named():
    with pytest.raises(ValueError, match="evil"):
        Device.from_json({**H200.to_json(), "evil": 1})


BAD = {
    "no number": {"launch_us": "3"},
    "not a number": {"launch_us": float("nan")},
    "without end": {"dram_tbps": float("inf")},
    "zero": {"clock_ghz": 0},
    "negative": {"l2_tbps": -1},
    "a truth": {"sms": True},
    "half an SM": {"sms": 131.5},
    "a table of texts": {"slowness": {"128x128x64 w4 s4": "fast"}},
    "no table": {"flops_per_cycle": 4096},
    "no name": {"name": ""},
    "beyond floats": {"clock_ghz": 10**400},
    "far beyond any device": {"launch_us": 1e308},
    "far below any device": {"dram_tbps": 1e-308},
    "a million SMs": {"sms": 10**6},
    "an L2 beyond floats": {"l2_bytes": 10**400},
    "rates of no type": {"flops_per_cycle": {}},
    "rates without a type": {"sustained_tflops": {"bf16": 700}},
}


@pytest.mark.parametrize("name", BAD)
def test_a_value_without_meaning_is_refused(name: str):
    (field,) = BAD[name]
    with pytest.raises(ValueError, match=f"device: {field}"):
        Device.from_json({**H200.to_json(), **BAD[name]})


def test_a_table_names_the_types_that_it_lacks():
    rates = {name: 1 for name in H200.flops_per_cycle if name not in ("f64", "i8")}
    with pytest.raises(ValueError, match="flops_per_cycle has no f64, i8"):
        Device.from_json({**H200.to_json(), "flops_per_cycle": rates})


def test_deep_json_is_refused():
    with pytest.raises(ValueError, match="too deep"):
        read_device("[" * 100_000)


@pytest.mark.parametrize("text", ["", "[]", "{", "null", json.dumps({"name": "x"})])
def test_text_that_is_no_device_is_refused(text: str):
    with pytest.raises(ValueError, match=r"device|Expecting"):
        read_device(text)
