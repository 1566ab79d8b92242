"""Devices that costs can be estimated for without having one.

Peak rates are dense (no structured sparsity), of matrix units where a type has them,
with single-precision accumulation where that is slower; they and the bandwidths are
the vendors' own figures, and like those, decimal. Real kernels reach less: a
calibration (`tracer.calibration`) says how much less.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass

from encamp.errors import CostError

_TERA = 10**12
_GIGA = 10**9

GPU_LAUNCH_NS = 3_800
"""What a kernel costs at least when launches overlap.

NVIDIA, "Getting Started with CUDA Graphs" (developer.nvidia.com/blog/cuda-graphs),
gives this for a short kernel on a V100.
"""


@dataclass(frozen=True, slots=True)
class Device:
    """A device's peaks: `rates` in operations a second by type, bytes a second.

    `memory_bytes` is None where it depends on the machine. A type without a rate runs
    at that of float32.
    """

    slug: str
    name: str
    rates: Mapping[str, int]
    bytes_per_second: int
    memory_bytes: int | None
    launch_ns: int = GPU_LAUNCH_NS
    aliases: tuple[str, ...] = ()

    def rate(self, kind: str) -> int:
        """Return operations a second for a type's name, e.g. "bfloat16"."""
        return self.rates.get(kind, self.rates["float32"])


def _tera(**rates: float) -> Mapping[str, int]:
    return {kind: round(rate * _TERA) for kind, rate in rates.items()}


# NVIDIA H100 Tensor Core GPU datasheet: column SXM, halved where it says "with
# sparsity". float64 is the tensor cores'.
_HOPPER_SXM = _tera(
    float64=67, float32=67, tf32=494.5, bfloat16=989.5, float16=989.5,
    float8=1979, int8=1979,
)  # fmt: skip

# NVIDIA A100 Tensor Core GPU datasheet; both memory sizes share the rates.
_A100 = _tera(float64=19.5, float32=19.5, tf32=156, bfloat16=312, float16=312, int8=624)

DEVICES: tuple[Device, ...] = (
    Device(
        "h100-sxm", "NVIDIA H100 SXM", _HOPPER_SXM,
        bytes_per_second=3350 * _GIGA, memory_bytes=80 * _GIGA, aliases=("h100",),
    ),
    # The same datasheet, column PCIe.
    Device(
        "h100-pcie", "NVIDIA H100 PCIe",
        _tera(
            float64=51, float32=51, tf32=378, bfloat16=756.5, float16=756.5,
            float8=1513, int8=1513,
        ),
        bytes_per_second=2000 * _GIGA, memory_bytes=80 * _GIGA,
    ),
    # NVIDIA H200 Tensor Core GPU datasheet: the H100's rates, other memory.
    Device(
        "h200", "NVIDIA H200 SXM", _HOPPER_SXM,
        bytes_per_second=4800 * _GIGA, memory_bytes=141 * _GIGA,
        aliases=("h200-sxm",),
    ),
    Device(
        "a100-40gb", "NVIDIA A100 40GB", _A100,
        bytes_per_second=1555 * _GIGA, memory_bytes=40 * _GIGA,
    ),
    # The same datasheet, column "80GB SXM".
    Device(
        "a100-80gb", "NVIDIA A100 80GB SXM", _A100,
        bytes_per_second=2039 * _GIGA, memory_bytes=80 * _GIGA,
        aliases=("a100", "a100-sxm"),
    ),
    # NVIDIA L4 Tensor Core GPU datasheet, halved where it says "with sparsity". It
    # names no float64 rate; the Ada architecture whitepaper gives 1/64 of float32.
    Device(
        "l4", "NVIDIA L4",
        _tera(
            float64=0.47, float32=30.3, tf32=60, bfloat16=121, float16=121,
            float8=242.5, int8=242.5,
        ),
        bytes_per_second=300 * _GIGA, memory_bytes=24 * _GIGA,
    ),
    # NVIDIA HGX B200 specifications, of eight GPUs, divided by eight; halved where it
    # says "with sparsity".
    Device(
        "b200", "NVIDIA B200",
        _tera(
            float64=37, float32=75, tf32=1125, bfloat16=2250, float16=2250,
            float8=4500, int8=4500,
        ),
        bytes_per_second=7700 * _GIGA, memory_bytes=180 * _GIGA,
    ),
    # AMD Instinct MI300X accelerator data sheet, matrix rates.
    Device(
        "mi300x", "AMD Instinct MI300X",
        _tera(
            float64=163.4, float32=163.4, tf32=653.7, bfloat16=1307.4,
            float16=1307.4, float8=2614.9, int8=2614.9,
        ),
        bytes_per_second=5300 * _GIGA, memory_bytes=192 * _GIGA,
    ),
    # NVIDIA Ada GPU architecture whitepaper, appendix A: tensor rates with
    # single-precision accumulation.
    Device(
        "rtx-4090", "NVIDIA GeForce RTX 4090",
        _tera(
            float64=1.29, float32=82.6, tf32=82.6, bfloat16=165.2, float16=165.2,
            float8=330.3, int8=660.6,
        ),
        bytes_per_second=1008 * _GIGA, memory_bytes=24 * _GIGA, aliases=("4090",),
    ),
    # Measured with PyTorch 2.13 on two cores of an AMD EPYC with AVX-512: the best of
    # twelve products of 1536 x 1536 matrices (256 x 256 for float16), of fifteen
    # copies of 128 MiB (read and written bytes), of 300 additions of 16 numbers.
    Device(
        "cpu", "two cores of a server CPU",
        _tera(float64=0.053, float32=0.207, bfloat16=0.455, float16=0.00306),
        bytes_per_second=34_800_000_000, memory_bytes=None, launch_ns=1_542,
    ),
)  # fmt: skip


def find_device(name: str) -> Device:
    """Return the device of that name or alias; case, spaces and "_" do not matter.

    Raises:
        CostError: there is none; the message lists the names.

    """
    wanted = "-".join(name.lower().replace("_", " ").split())
    by_name = {key: d for d in DEVICES for key in (d.slug, *d.aliases)}
    if wanted in by_name:
        return by_name[wanted]
    near = difflib.get_close_matches(wanted, by_name, n=2)
    hint = f"; did you mean {' or '.join(near)}?" if near else ""
    names = ", ".join(device.slug for device in DEVICES)
    msg = f"no device is called {name!r}{hint} The table has: {names}"
    if not near:
        msg = f"no device is called {name!r}; the table has: {names}"
    raise CostError(msg)
