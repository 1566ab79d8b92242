"""Meters against peaks that can be added up by hand."""

import threading

import pytest
import torch

from encamp.errors import CostError
from encamp.folders import cache_folder
from encamp.tracer.meter import (
    AllocatorMeter,
    ProfilerMeter,
    StorageMeter,
    best_meter,
)
from encamp.tracer.native import load_library

needs_compiler = pytest.mark.skipif(
    load_library() is None, reason="no C++ compiler, so no allocator meter"
)
METERS = [pytest.param(AllocatorMeter, marks=needs_compiler), ProfilerMeter]

KIB = 1024


def kib(number):
    """Return an uninitialised tensor of that many KiB."""
    return torch.empty(number * KIB, dtype=torch.uint8)


def mountain():
    """Hold 1, 3, 7, 6 and at last 4 KiB.

    ```
    a 1 ──────┐
    b   2 ────┼──┐
    c     4 ──┼──┼──> returned
    ```
    """
    a = kib(1)
    b = kib(2)
    c = kib(4)
    del a
    del b
    return c


@pytest.mark.parametrize("meter", METERS)
def test_peak_and_residual_by_hand(meter):
    """The peak is 1 + 2 + 4 KiB and the returned 4 KiB remain."""
    seen = meter().measure(mountain)

    assert (seen.peak_bytes, seen.residual_bytes) == (7 * KIB, 4 * KIB)
    assert seen.result.nbytes == 4 * KIB


@pytest.mark.parametrize("meter", METERS)
def test_nothing_allocated_is_a_peak_of_zero(meter):
    """A callable that allocates nothing, or nothing but empty tensors, takes 0."""
    seen = meter().measure(lambda: torch.empty(0))

    assert (seen.peak_bytes, seen.residual_bytes) == (0, 0)


@pytest.mark.parametrize("meter", METERS)
def test_workspace_counts(meter):
    """A convolution's scratch memory shows above its output."""
    image, kernel = torch.randn(4, 16, 32, 32), torch.randn(32, 16, 3, 3)
    conv = torch.nn.functional.conv2d
    conv(image, kernel)

    seen = meter().measure(lambda: conv(image, kernel))

    assert seen.peak_bytes > seen.result.nbytes


@pytest.mark.parametrize("meter", METERS)
def test_an_exception_passes_and_leaves_the_meter_usable(meter):
    """What the callable raises comes out, and the next measurement is right."""
    meter = meter()
    with pytest.raises(ZeroDivisionError):
        meter.measure(lambda: 1 // 0)

    assert meter.measure(mountain).peak_bytes == 7 * KIB


@needs_compiler
def test_allocator_and_profiler_agree_to_the_byte():
    """Both meters report one and the same peak of a training step."""
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3),
        torch.nn.BatchNorm2d(8),
        torch.nn.ReLU(),
        torch.nn.Flatten(),
        torch.nn.Dropout(),
        torch.nn.Linear(8 * 14 * 14, 10),
    )
    image = torch.randn(4, 3, 16, 16)

    def step():
        model(image).square().sum().backward()

    def fresh(meter):
        model.zero_grad(set_to_none=True)
        return meter.measure(step)

    fresh(AllocatorMeter())
    counted, summed = fresh(AllocatorMeter()), fresh(ProfilerMeter())

    assert (counted.peak_bytes, counted.residual_bytes) == (
        summed.peak_bytes,
        summed.residual_bytes,
    )


@needs_compiler
def test_memory_freed_below_the_start_is_not_a_negative_peak():
    """Freeing 4 KiB before taking 1 peaks at 0 and leaves 3 KiB less."""
    meter = AllocatorMeter()
    held = [kib(4)]

    def swap():
        held.clear()
        return kib(1)

    seen = meter.measure(swap)

    assert (seen.peak_bytes, seen.residual_bytes) == (0, -3 * KIB)


@needs_compiler
def test_measurements_nest():
    """An inner measurement sees its own peak and does not hide the outer one."""
    meter = AllocatorMeter()

    def outer():
        before = kib(16)
        del before
        return meter.measure(mountain).peak_bytes

    seen = meter.measure(outer)

    assert seen.result == 7 * KIB
    assert seen.peak_bytes == 16 * KIB


@needs_compiler
def test_all_threads_count():
    """Memory of a thread of the caller's own counts."""

    def threaded():
        thread = threading.Thread(target=mountain)
        thread.start()
        thread.join()

    assert AllocatorMeter().measure(threaded).peak_bytes == 7 * KIB


@needs_compiler
def test_threads_that_allocate_at_once_lose_no_byte():
    """Eight threads that take and give back memory leave nothing counted."""

    def climb():
        for _ in range(200):
            mountain()

    def busy():
        threads = [threading.Thread(target=climb) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    seen = AllocatorMeter().measure(busy)

    assert seen.residual_bytes == 0
    assert 7 * KIB <= seen.peak_bytes <= 8 * 7 * KIB


def test_the_profiler_meter_refuses_to_measure_inside_itself():
    """A profiler in a profiler is an error that says so."""
    meter = ProfilerMeter()

    with pytest.raises(CostError, match="while a profiler runs"):
        meter.measure(lambda: meter.measure(mountain))


def test_the_meters_write_nothing(capfd):
    """Neither standard output nor standard error sees the profiler start."""
    ProfilerMeter().measure(mountain)
    best_meter("cpu").measure(mountain)

    assert capfd.readouterr() == ("", "")


def test_best_meter_refuses_a_device_it_cannot_meter():
    """There is a meter for cpu and cuda only."""
    with pytest.raises(CostError, match="no memory meter for device 'meta'"):
        best_meter("meta")


def test_without_a_compiler_the_profiler_measures(monkeypatch):
    """A compiler that is not there gives no library, and says what to use."""
    monkeypatch.setenv("CXX", "no-such-compiler")
    load_library.cache_clear()
    best_meter.cache_clear()
    try:
        assert isinstance(best_meter("cpu"), ProfilerMeter)
        with pytest.raises(CostError, match="use ProfilerMeter"):
            AllocatorMeter()
    finally:
        load_library.cache_clear()
        best_meter.cache_clear()


def test_a_compiler_that_fails_is_tried_once(monkeypatch, tmp_path):
    """Its output is kept beside the library, and it is not started again."""
    log = tmp_path / "runs"
    compiler = tmp_path / "compiler"
    compiler.write_text(f"#!/bin/sh\necho ran >> {log}\necho broken >&2\nexit 1\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("CXX", str(compiler))
    monkeypatch.setenv("ENCAMP_CACHE_DIR", str(tmp_path / "cache"))
    try:
        for _ in range(2):
            load_library.cache_clear()
            assert load_library() is None
    finally:
        load_library.cache_clear()

    assert log.read_text() == "ran\n"
    (failed,) = cache_folder().glob("*.failed")
    assert failed.read_text() == "broken\n"


class TestStorageMeter:
    """The dispatcher-level meter."""

    def test_storages_count_once_from_birth_to_death(self):
        """Views add nothing; a storage counts until its last view is gone."""
        with StorageMeter() as meter:
            a = torch.zeros(KIB, dtype=torch.uint8)
            b = a + a
            row = b.view(2, -1)[0]
            del b

            assert meter.live_bytes == 2 * KIB

            del row, a

            assert meter.live_bytes == 0
        assert meter.peak_bytes == 2 * KIB

    def test_what_operators_are_handed_is_free(self):
        """A view of an argument made outside counts nothing, its copy does."""
        outside = torch.zeros(KIB, dtype=torch.uint8)
        with StorageMeter() as meter:
            view = outside.view(2, -1)
            copy = view.clone()

        assert KIB == meter.live_bytes == copy.nbytes

    def test_ignored_storages_never_count(self):
        """What `ignore` was told of is left out, however an operator returns it."""
        with StorageMeter() as meter:
            kept = torch.zeros(KIB, dtype=torch.uint8)
        meter.ignore([kept])
        with StorageMeter() as other:
            other.ignore({"x": kept})
            kept.add_(1)

        assert other.peak_bytes == 0

    def test_meters_nest(self):
        """The inner meter sees its own part, the outer one all."""
        with StorageMeter() as outer:
            first = torch.zeros(KIB, dtype=torch.uint8)
            with StorageMeter() as inner, inner:
                second = torch.zeros(2 * KIB, dtype=torch.uint8)

        assert 2 * KIB == inner.peak_bytes == second.nbytes
        assert 3 * KIB == outer.peak_bytes == second.nbytes + first.nbytes

    @needs_compiler
    def test_it_agrees_with_the_allocator_on_operators_without_workspace(self):
        """Elementwise operators and products take what their storages take."""
        x, w = torch.randn(32, 64), torch.randn(64, 16)

        def program():
            y = torch.mm(x, w)
            z = torch.relu(y)
            del y
            return torch.mm(z, w.t())

        program()
        with StorageMeter() as meter:
            program()

        assert AllocatorMeter().measure(program).peak_bytes == meter.peak_bytes
