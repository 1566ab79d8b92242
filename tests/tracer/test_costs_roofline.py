"""Costs from a device table: every expectation is a line of arithmetic."""

import json

import pytest
import torch

from encamp.devices import DEVICES, GPU_LAUNCH_NS, find_device
from encamp.errors import CostError, WireError
from encamp.tracer.calibration import (
    Calibration,
    read_calibration,
    write_calibration,
)
from encamp.tracer.calls import OpCost
from encamp.tracer.costs import cost_source
from encamp.tracer.roofline import RooflineCosts, fit_calibration
from encamp.tracer.work import Work, work_of
from fakes import call, fake, indices

aten = torch.ops.aten


def product(n, dtype=torch.float32):
    """Return the call of a product of two n x n matrices."""
    return call(aten.mm.default, fake(n, n, dtype=dtype), fake(n, n, dtype=dtype))


class TestWork:
    """Operations and bytes of one call."""

    def test_product(self):
        """A 2x3 by 3x5 product: 2*2*3*5 operations, 6+15+10 elements of 4 bytes."""
        work = work_of(call(aten.mm.default, fake(2, 3), fake(3, 5)))

        assert Work(60, "float32", 31 * 4) == work

    def test_elementwise_operators_only_move_bytes(self):
        """An addition reads two tensors and writes one; a broadcast counts once."""
        work = work_of(call(aten.add.Tensor, fake(10, 10), fake(10, 1).expand(10, 10)))

        assert Work(0, "float32", (100 + 10 + 100) * 4) == work

    def test_attention_on_the_cpu(self):
        """Two products of 4 x 8 x 8 per head forward, five backward, 6 heads."""
        q, lse = fake(2, 3, 8, 4), fake(2, 3, 8)
        forward = aten._scaled_dot_product_flash_attention_for_cpu.default
        backward = aten._scaled_dot_product_flash_attention_for_cpu_backward.default
        one = 2 * 8 * 8 * 4 * 6

        assert 2 * one == work_of(call(forward, q, q, q)).operations
        found = work_of(call(backward, q, q, q, q, q, lse, 0.0, False))
        assert 5 * one == found.operations

    def test_causal_attention_counts_half(self):
        """What is masked is not computed."""
        q = fake(2, 3, 8, 4)
        flash = aten._scaled_dot_product_flash_attention_for_cpu.default

        assert work_of(call(flash, q, q, q, 0.0, True)).operations == 2 * 8 * 8 * 4 * 6

    def test_a_table_is_read_only_where_indices_point(self):
        """Five rows of an embedding: read them and 5 indices, write 5 rows."""
        rows = indices(5)
        work = work_of(call(aten.embedding.default, fake(1000, 8), rows))

        assert work.bytes == 5 * 8 * 4 + 5 * 8 + 5 * 8 * 4

    def test_factories_have_no_operands(self):
        """A call without tensors only writes."""
        assert Work(0, "float32", 40) == work_of(call(aten.zeros.default, [10]))

    def test_what_runs_on_no_fake_tensor_is_an_error(self):
        """The message names the call and both ways out."""
        with pytest.raises(CostError, match=r"aten\.mm\.default.*register_fake"):
            work_of(call(aten.mm.default, fake(2, 3), fake(2, 3)))


class TestDurations:
    """The roofline itself."""

    def test_a_large_product_is_bound_by_the_rate(self):
        """4096^3 * 2 operations in bfloat16 at 989.5 T/s, after the launch."""
        (cost,) = RooflineCosts("H100").costs([product(4096, torch.bfloat16)])

        assert OpCost(GPU_LAUNCH_NS + round(2 * 4096**3 / 989.5e3)) == cost

    def test_an_addition_is_bound_by_the_bandwidth(self):
        """3 * 2^20 floats at 2039 GB/s, after the launch."""
        x = fake(2**20)
        (cost,) = RooflineCosts("a100").costs([call(aten.add.Tensor, x, x)])

        assert GPU_LAUNCH_NS + round(3 * 2**20 * 4 / 2039) == cost.duration_ns

    def test_tf32_is_used_where_the_caller_allows_it(self):
        """float32 products then run at the TF32 rate: 156 instead of 19.5 T/s."""
        torch.set_float32_matmul_precision("high")
        try:
            (cost,) = RooflineCosts("a100").costs([product(4096)])
        finally:
            torch.set_float32_matmul_precision("highest")

        assert GPU_LAUNCH_NS + round(2 * 4096**3 / 156e3) == cost.duration_ns

    def test_progress_counts_distinct_calls(self):
        """Equal calls count once and cost the same."""
        seen = []
        source = RooflineCosts("l4")
        costs = source.costs(
            [product(8), product(8), product(9)], lambda *at: seen.append(at)
        )

        assert seen == [(1, 2), (2, 2)]
        assert costs[0] == costs[1]

    def test_meta_names_the_device(self):
        """The graph records the row, its memory and the calibration."""
        plain = RooflineCosts("h200").meta
        corrected = RooflineCosts("h200", Calibration("h200", 0.5, 0.75, 9)).meta

        assert plain == {
            "costs": "roofline:h200",
            "device": "NVIDIA H200 SXM",
            "device_memory_bytes": 141 * 10**9,
        }
        assert {
            **plain, "calibration": "rate x 0.5, bandwidth x 0.75, launch 9 ns"
        } == corrected  # fmt: skip

    def test_the_cpu_has_no_memory_of_its_own(self):
        """How much memory a CPU has is not in the table."""
        assert "device_memory_bytes" not in RooflineCosts("cpu").meta


class TestDevices:
    """The table and its names."""

    @pytest.mark.parametrize(
        ("name", "slug"),
        [
            ("H100", "h100-sxm"),
            ("h100-sxm", "h100-sxm"),
            ("H100 PCIe", "h100-pcie"),
            ("A100_40GB", "a100-40gb"),
            ("RTX 4090", "rtx-4090"),
        ],
    )
    def test_names_are_forgiving(self, name, slug):
        """Case, spaces and underscores do not matter, and short names are known."""
        assert slug == find_device(name).slug

    def test_an_unknown_name_lists_the_table(self):
        """The message has every name, and the near ones first."""
        with pytest.raises(CostError) as caught:
            find_device("h100-smx")

        message = str(caught.value)
        assert "'h100-smx'; did you mean h100-sxm" in message
        assert all(device.slug in message for device in DEVICES)

    def test_a_name_like_no_other_gets_no_hint(self):
        """Only the list is left to say."""
        with pytest.raises(CostError, match=r"'z80'; the table has: h100-sxm"):
            find_device("z80")

    def test_names_are_unique_and_rates_complete(self):
        """No two rows share a name; each has the rate others fall back to."""
        names = [name for d in DEVICES for name in (d.slug, *d.aliases)]

        assert len(names) == len(set(names))
        for device in DEVICES:
            assert device.rate("int64") == device.rates["float32"] > 0


class TestCalibration:
    """Correcting the table by measurements."""

    def test_scales_divide_and_the_launch_replaces(self):
        """Half the rate doubles the time; a quarter of the bandwidth quadruples it."""
        x = fake(2**20)
        calibration = Calibration("h100-sxm", 0.5, 0.25, 1000)
        mm, add = RooflineCosts("h100", calibration).costs(
            [product(4096, torch.bfloat16), call(aten.add.Tensor, x, x)]
        )

        assert 1000 + round(4 * 4096**3 / 989.5e3) == mm.duration_ns
        assert 1000 + round(4 * 3 * 2**20 * 4 / 3350) == add.duration_ns

    def test_fitting_recovers_what_made_the_durations(self):
        """From durations of a known calibration the same one comes back."""
        true = Calibration("a100-80gb", 0.5, 0.25, 1000)
        calls = [
            call(aten.relu.default, fake(1)),
            *(product(n) for n in (1024, 2048, 4096)),
            *(call(aten.relu.default, fake(n * 2**20)) for n in (4, 8, 16)),
        ]
        measured = RooflineCosts("a100", true).costs(calls)

        found = fit_calibration("A100", calls, measured)

        assert found.launch_ns == 1000
        assert pytest.approx(found.rate_scale, rel=1e-3) == 0.5
        assert pytest.approx(found.bandwidth_scale, rel=1e-3) == 0.25

    def test_fitting_nothing_is_an_error(self):
        """There is no launch without a call."""
        with pytest.raises(CostError, match="at least one measured call"):
            fit_calibration("a100", [], [])

    def test_the_file_round_trips(self, tmp_path):
        """What is written is read, through the cost source's own option."""
        path = tmp_path / "l4.json"
        calibration = Calibration("l4", 0.5, 0.75, 9)
        write_calibration(calibration, path)

        assert calibration == read_calibration(path)
        source = cost_source("roofline:L4", calibration=path)
        assert "rate x 0.5" in source.meta["calibration"]

    def test_another_devices_calibration_is_refused(self):
        """A calibration corrects the device it was made on."""
        with pytest.raises(CostError, match="is of 'l4', not of 'h200'"):
            RooflineCosts("h200", Calibration("l4", 1.0, 1.0, 0))

    @pytest.mark.parametrize(
        ("change", "complaint"),
        [
            ({"schema": "encamp.calibration/2"}, r"\$\.schema: expected"),
            ({"device": 3}, r"\$\.device: expected a device's name"),
            ({"rate_scale": 0}, r"\$\.rate_scale: expected a number above 0"),
            ({"rate_scale": "1"}, r"\$\.rate_scale: expected a number"),
            ({"bandwidth_scale": True}, r"\$\.bandwidth_scale: expected a number"),
            ({"launch_ns": 1.5}, r"\$\.launch_ns: expected whole nanoseconds"),
            ({"extra": 1}, "expected an object with exactly"),
        ],
    )
    def test_reading_is_strict(self, tmp_path, change, complaint):
        """Each fault is an error that names the file and the field."""
        document = {
            "schema": "encamp.calibration/1",
            "device": "l4",
            "rate_scale": 1,
            "bandwidth_scale": 1,
            "launch_ns": 1,
        }
        path = tmp_path / "calibration.json"
        path.write_text(json.dumps(document | change))

        with pytest.raises(WireError, match=rf"calibration\.json: {complaint}"):
            read_calibration(path)

    @pytest.mark.parametrize("content", ["", "{", "[1]", "7"])
    def test_what_is_no_object_is_refused(self, tmp_path, content):
        """A file that is not the right JSON is an error that names it."""
        path = tmp_path / "calibration.json"
        path.write_text(content)

        with pytest.raises(WireError, match=r"calibration\.json: "):
            read_calibration(path)


class TestCostSource:
    """How cost sources are written."""

    def test_measured_and_roofline(self, tmp_path):
        """Both forms give what they say."""
        measured = cost_source("measured", cache_dir=tmp_path)
        estimated = cost_source("roofline:H100")

        assert measured.meta["costs"] == "measured"
        assert estimated.meta["costs"] == "roofline:h100-sxm"

    @pytest.mark.parametrize("spec", ["", "roofline", "guess", "Measured"])
    def test_anything_else_lists_the_forms(self, spec):
        """The message has both forms and what was given."""
        with pytest.raises(CostError, match=r"'measured' or 'roofline:NAME'.* not '"):
            cost_source(spec)

    def test_measured_costs_take_no_calibration(self, tmp_path):
        """A calibration corrects a table, nothing else."""
        with pytest.raises(CostError, match="a calibration corrects"):
            cost_source("measured", calibration=tmp_path / "x.json")
