"""`encamp devices`."""

import json

from typer.testing import CliRunner

from encamp.api.cli import app
from encamp.devices import DEVICES


def test_lists_every_device_with_its_aliases():
    """Each name that roofline:NAME takes is a line, below a line of headings."""
    lines = CliRunner().invoke(app, ["devices"]).stdout.splitlines()

    assert len(lines) == 1 + len(DEVICES)
    assert any(line.startswith("  h100-sxm, h100 ") for line in lines)


def test_json_has_the_figures():
    """An L4 has 24 GB at 300 GB/s."""
    listed = json.loads(CliRunner().invoke(app, ["devices", "--json"]).stdout)

    (l4,) = [device for device in listed if device["slug"] == "l4"]
    assert (l4["memory_bytes"], l4["bytes_per_second"]) == (24 * 10**9, 300 * 10**9)
