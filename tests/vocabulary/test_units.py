"""Bytes, budgets and durations as people write and read them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from encamp.errors import UnitError
from encamp.units import (
    format_bytes,
    format_duration,
    parse_budget,
    parse_bytes,
    parse_duration,
)


def refusal(parse, *args, **kwargs):
    """Return the message with which a text is refused."""
    with pytest.raises(UnitError) as caught:
        parse(*args, **kwargs)
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        (1024, 1024),
        ("0", 0),
        ("16GiB", 16 * 2**30),
        ("16GB", 16 * 10**9),
        (" 16 gib ", 16 * 2**30),
        ("1.5kB", 1500),
        ("1.9b", 1),
        ("13.7e6", 13_700_000),
        ("2e-3MB", 2000),
        ("1PiB", 2**50),
        ("0.1GiB", 107_374_182),
        ("9007199254740993", 2**53 + 1),
        ("1e-99999", 0),
    ],
)
def test_sizes(text, number):
    """Decimal and binary units are different words; fractions are rounded down."""
    assert parse_bytes(text) == number


FORMS = "write bytes as 17179869184, '16GiB' or '16GB'"


@pytest.mark.parametrize("text", ["", "lots", "16G", "-5", "1..2GB", "16 GiB GiB", "%"])
def test_what_is_no_size_is_refused(text):
    """The message repeats the text and shows the forms."""
    assert refusal(parse_bytes, text) == f"not a size: {text!r}; {FORMS}"


@pytest.mark.parametrize("size", [-1, True])
def test_a_negative_number_and_a_flag_are_no_sizes(size):
    """What is an integer to Python is not always a size."""
    assert refusal(parse_bytes, size) == f"not a size: {size!r}; {FORMS}"


@pytest.mark.parametrize("text", ["1e400000000", "1e99999999999999999999", "1025PiB"])
def test_a_size_beyond_64_bits_is_refused_at_once(text):
    """A huge exponent is looked at, not written out."""
    message = f"{text!r} is out of range; Encamp counts from 0 to {2**60}"

    assert refusal(parse_bytes, text) == message


@pytest.mark.parametrize(
    ("text", "number"),
    [
        (700, 700),
        ("1KiB", 1024),
        ("90%", 900),
        ("33.35 %", 333),
        ("peak*0.6", 1200),
        ("PEAK * 1", 2000),
        ("peak*.5e1", None),
        ("peak*0.29", 580),
    ],
)
def test_budgets(text, number):
    """A share is of a device of 1,000 bytes or of an unplanned peak of 2,000."""
    given_figures = {"unplanned_peak": 2000, "device_bytes": 1000}
    if number is None:
        assert refusal(parse_budget, text, **given_figures).startswith("not a budget")
    else:
        assert parse_budget(text, **given_figures) == number


def test_what_is_no_budget_shows_all_forms():
    """The message for a budget has the shares among its forms."""
    message = refusal(parse_budget, "half", unplanned_peak=1, device_bytes=1)

    assert message == (
        f"not a budget: 'half'; {FORMS}, '90%' of the device or 'peak*0.6' of the"
        " unplanned peak"
    )


def test_a_share_of_an_unknown_device_is_refused():
    """A graph that does not record the device's memory cannot serve "90%"."""
    message = refusal(parse_budget, "90%", unplanned_peak=1, device_bytes=None)

    assert message == (
        "budget '90%' is a share of the device's memory, which this graph does not"
        f" record; {FORMS}, or 'peak*0.6' of the unplanned peak"
    )


@pytest.mark.parametrize(
    ("text", "number"),
    [("20 us", 20_000), ("3µs", 3000), ("3μs", 3000), ("1.5ms", 1_500_000)],
)
def test_durations(text, number):
    """Durations are whole nanoseconds; both mu letters are read."""
    assert parse_duration(text) == number


@pytest.mark.parametrize("text", ["5", "fast", "3h"])
def test_a_duration_has_a_unit(text):
    """A bare number is no duration."""
    message = f"not a duration: {text!r}; write it as '1.5ms', '20us' or '3s'"

    assert refusal(parse_duration, text) == message


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.00 kB (1000 B)"),
        (1024, "1.02 kB (1.00 KiB)"),
        (999_999, "1.00 MB (976.56 KiB)"),
        (17_179_869_184, "17.18 GB (16.00 GiB)"),
        (-2_000_000, "-2.00 MB (-1.91 MiB)"),
        (2**60, "1152.92 PB (1024.00 PiB)"),
    ],
)
def test_sizes_are_printed_in_both_units(number, text):
    """Decimal units come first, binary ones in brackets."""
    assert format_bytes(number) == text


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0 ns"),
        (999, "999 ns"),
        (81_234, "81.23 us"),
        (999_994, "999.99 us"),
        (999_999, "1.00 ms"),
        (5 * 10**12, "5000.00 s"),
    ],
)
def test_durations_are_printed_in_the_unit_that_fits(number, text):
    """A duration that rounds up to the next unit is printed in it."""
    assert format_duration(number) == text


@given(st.integers(0, 2**60))
def test_a_number_of_bytes_is_read_back(number):
    """Plain numbers go through without loss."""
    assert parse_bytes(str(number)) == number
