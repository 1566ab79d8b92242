"""`encamp devices`: the devices that costs can be computed for."""

from __future__ import annotations

from dataclasses import asdict

from encamp.devices import DEVICES, Device
from encamp.units import format_bytes

from .options import Json
from .output import print_json, print_lines, table

_TERA = 10**12


def devices(as_json: Json = False) -> None:
    """List the devices that --costs roofline:NAME knows.

    Peak rates are dense, in TFLOP/s; a type without one runs at that of float32.
    """
    if as_json:
        print_json([asdict(device) for device in DEVICES])
        return
    head = ("name", "device", "bfloat16", "float32", "bandwidth", "memory")
    rows = [head, *(_row(device) for device in DEVICES)]
    print_lines(table(rows, right="  >>>>"))


def _row(device: Device) -> tuple[str, ...]:
    memory = device.memory_bytes
    return (
        ", ".join((device.slug, *device.aliases)),
        device.name,
        f"{device.rate('bfloat16') / _TERA:g}",
        f"{device.rate('float32') / _TERA:g}",
        f"{format_bytes(device.bytes_per_second).partition(' (')[0]}/s",
        "the machine's" if memory is None else format_bytes(memory),
    )
