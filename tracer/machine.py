"""What the device that costs are measured on is: its name, memory and caches."""

from __future__ import annotations

import functools
import os
import platform
from pathlib import Path

import torch

_CPU_INFO = Path("/proc/cpuinfo")
_CPU_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
_USUAL_CACHE = 32 * 2**20
_LARGEST_CACHE = 64 * 2**20


@functools.cache
def device_name(device: torch.device) -> str:
    """Return the device's product name, e.g. "NVIDIA H200" or the CPU's model."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    lines = _CPU_INFO.read_text().splitlines() if _CPU_INFO.exists() else []
    named = (line.partition(":")[2] for line in lines if line.startswith("model name"))
    return next(named, platform.processor() or platform.machine()).strip()


def device_memory(device: torch.device) -> int | None:
    """Return the device's memory in bytes; the machine's for a CPU, where known."""
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).total_memory)
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None


@functools.cache
def cache_bytes(device: torch.device) -> int:
    """Return the size of the device's last cache, but no more than 64 MiB.

    Where the system does not tell, 32 MiB. The limit keeps measuring affordable on
    processors whose cache is larger than what operators usually touch.
    """
    if device.type == "cuda":
        found = int(torch.cuda.get_device_properties(device).L2_cache_size)
    else:
        sizes = (path.read_text().strip() for path in _CPU_CACHES.glob("index*/size"))
        found = max((_kibibytes(size) for size in sizes), default=0)
    return min(found or _USUAL_CACHE, _LARGEST_CACHE)


def _kibibytes(size: str) -> int:
    """Return the bytes of a size as Linux writes it there: "32768K"."""
    number, unit = size[:-1], size[-1:]
    return int(number) * {"K": 2**10, "M": 2**20}.get(unit, 0)
