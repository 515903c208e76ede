"""Constants are found again by probes whose times the model itself computed."""

from dataclasses import replace

import pytest

from backends.planner import Device, predict, shipped
from backends.planner.isolate import MOST_OFF, Probe, grid, misses, probes, solved

H200 = shipped()["NVIDIA H200"]
PROBES = probes(H200.sms)
NAMED = tuple(p.name for p in PROBES if hasattr(H200, p.name))


def times(device: Device) -> list[tuple[Probe, tuple[float, float]]]:
    def us(probe: Probe) -> tuple[float, float]:
        fewer, more = (predict(probe.config, p, device).time for p in (probe.fewer, probe.more))
        return fewer, more

    return [(p, us(p)) for p in PROBES]


def differences(device: Device) -> list[tuple[Probe, float]]:
    return [(probe, us[1] - us[0]) for probe, us in times(device)]


def test_each_constant_has_one_probe():
    names = [p.name for p in PROBES]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("name", NAMED)
def test_a_constant_is_found_from_far_off(name: str):
    off = replace(H200, **{name: 1.4 * getattr(H200, name)})
    found = solved(off, differences(H200))
    assert name not in found.unseen
    assert getattr(found.device, name) == pytest.approx(getattr(H200, name), rel=0.1)


def test_the_slowness_of_a_large_tile_is_found():
    name = "128x256x64 w8 s3 descriptors"
    slow = replace(H200, slowness={**H200.slowness, name: 1.3})
    assert solved(H200, differences(slow)).device.slowness[name] == pytest.approx(1.3, rel=0.05)


def test_every_probe_shows_its_constant():
    assert solved(H200, differences(H200)).unseen == {}


def test_a_slowness_that_other_parts_hide_stays_as_it_was():
    base = replace(H200, l2_tbps=H200.l2_tbps / 4)
    found = solved(base, differences(base))
    hidden = [p.name for p in PROBES if "other parts" in found.unseen.get(p.name, "")]
    assert "64x128x128 w4 s4 descriptors" in hidden
    before = {name: base.slowness.get(name) for name in hidden}
    assert {name: found.device.slowness.get(name) for name in hidden} == before


@pytest.mark.parametrize(("factor", "why"), [(0.0, "no longer"), (20.0, "leave")])
def test_a_time_that_no_constant_explains_is_told(factor: float, why: str):
    measured = [(probe, us * factor) for probe, us in differences(H200)]
    assert all(
        why in text or "other parts" in text for text in solved(H200, measured).unseen.values()
    )


def test_a_device_predicts_its_own_probes():
    assert misses(H200, times(H200))[0][0] < 1e-9


def test_control_a_device_that_trades_constants_does_not():
    """As one that was found from small kernels: no products, a slow L2, fast loads."""
    bent = replace(
        H200,
        slowness=dict.fromkeys((p.name for p in PROBES), 0.25),
        latency_us=0.345,
        loaded_latency_us=0.345,
        once_latency_us=0.345,
        l2_latency_us=0.345,
        epilogue_us=0.05,
    )
    off = misses(bent, times(H200))
    assert sum(miss for miss, _, _ in off) / len(off) > MOST_OFF


@pytest.mark.parametrize(("sms", "sides"), [(132, (12, 11)), (148, (37, 4)), (7, (7, 1))])
def test_a_grid_fills_the_device(sms: int, sides: tuple[int, int]):
    assert grid(sms) == sides
