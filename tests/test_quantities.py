"""What an amount of CPU or memory may look like, and what a wrong one is told."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinetic.errors import OptionError
from kinetic.quantities import format_bytes, parse_cpu, parse_memory


@pytest.mark.parametrize(
    ("value", "cores"),
    [
        ("50m", 0.05),
        ("500m", 0.5),
        ("1500m", 1.5),
        ("1m", 0.001),
        ("1000u", 0.001),
        ("250000000n", 0.25),
        ("2", 2.0),
        ("+2", 2.0),
        ("0.1", 0.1),
        (".5", 0.5),
        ("3.", 3.0),
        ("1e2", 100.0),
        ("5E-1", 0.5),
        (2, 2.0),
        (0.5, 0.5),
        (0.001, 0.001),
    ],
)
def test_cpu_is_cores(value: float | str, cores: float) -> None:
    """A CPU amount is a number of cores, whole, decimal or in thousandths."""
    assert parse_cpu(value) == cores


@pytest.mark.parametrize(
    ("value", "size"),
    [
        ("64Mi", 67_108_864),
        ("1.5Gi", 1_610_612_736),
        ("1Ki", 1_024),
        ("1Ti", 1_099_511_627_776),
        ("1Pi", 1_125_899_906_842_624),
        ("1Ei", 1_152_921_504_606_846_976),
        ("2k", 2_000),
        ("129M", 129_000_000),
        ("2G", 2_000_000_000),
        ("1T", 1_000_000_000_000),
        ("1P", 1_000_000_000_000_000),
        ("1E", 1_000_000_000_000_000_000),
        ("1e9", 1_000_000_000),
        ("1E3", 1_000),
        ("129e6", 129_000_000),
        ("128974848000m", 128_974_848),
        ("512", 512),
        ("1.5", 2),
        (512, 512),
        (1e9, 1_000_000_000),
        (1.2, 2),
        (2**63 - 1, 9_223_372_036_854_775_807),
    ],
)
def test_memory_is_bytes(value: float | str, size: int) -> None:
    """A memory amount is a whole number of bytes, and part of a byte counts as one."""
    assert parse_memory(value) == size


@pytest.mark.parametrize(
    ("value", "problem", "hint"),
    [
        ("2GB", "`2GB` is not an amount of memory", "Did you mean `2G` or `2Gi`?"),
        ("2gb", "`2gb` is not an amount of memory", "Did you mean `2G` or `2Gi`?"),
        ("2g", "`2g` is not an amount of memory", "Did you mean `2G` or `2Gi`?"),
        ("2 GiB", "`2 GiB` is not an amount of memory", "Did you mean `2G` or `2Gi`?"),
        ("2K", "`2K` is not an amount of memory", "Did you mean `2k` or `2Ki`?"),
        ("1 Gi", "`1 Gi` is not an amount of memory", "Did you mean `1Gi`?"),
        (" 1Gi\n", "` 1Gi\n` is not an amount of memory", "Did you mean `1Gi`?"),
        ("100 bytes", "`100 bytes` is not an amount of memory", "Did you mean `100`?"),
        (
            "400m",
            "`400m` of memory is less than one byte, the least there is",
            "Did you mean `400M` or `400Mi`?",
        ),
    ],
)
def test_a_slip_in_memory_is_told_the_right_spelling(value: str, problem: str, hint: str) -> None:
    """A memory amount that is nearly right is answered with the spelling that is."""
    with pytest.raises(OptionError) as caught:
        parse_memory(value)
    assert (caught.value.args[0], caught.value.hint) == (problem, hint)


@pytest.mark.parametrize(
    ("value", "problem", "hint"),
    [
        ("500M", "`500M` is not an amount of CPU", "Did you mean `500m`?"),
        ("500 m", "`500 m` is not an amount of CPU", "Did you mean `500m`?"),
        ("2 cores", "`2 cores` is not an amount of CPU", "Did you mean `2`?"),
        ("4vCPU", "`4vCPU` is not an amount of CPU", "Did you mean `4`?"),
        ("2 ", "`2 ` is not an amount of CPU", "Did you mean `2`?"),
    ],
)
def test_a_slip_in_cpu_is_told_the_right_spelling(value: str, problem: str, hint: str) -> None:
    """A CPU amount that is nearly right is answered with the spelling that is."""
    with pytest.raises(OptionError) as caught:
        parse_cpu(value)
    assert (caught.value.args[0], caught.value.hint) == (problem, hint)


_NO_AMOUNT: list[Any] = [
    "abc",
    "",
    "nan",
    "inf",
    "1e",
    "1e9999",
    "9" * 5000,
    "1,5",
    "0x10",
    "1Gi2",
    "\u0663",
    float("nan"),
    float("inf"),
    float("-inf"),
    True,
    False,
    None,
    b"2",
    [2],
]


@pytest.mark.parametrize("value", [*_NO_AMOUNT, "2Gi", "2k", "1E"])
def test_what_is_no_cpu_is_refused(value: Any) -> None:
    """Anything but an amount of CPU is an option error that names it and shows how to write one."""
    with pytest.raises(OptionError) as caught:
        parse_cpu(value)
    assert caught.value.args[0] == f"`{value}` is not an amount of CPU"
    assert caught.value.hint == "Write cores like `2`, `0.5` or `500m`."


@pytest.mark.parametrize("value", [each for each in _NO_AMOUNT if each != "1e"])
def test_what_is_no_memory_is_refused(value: Any) -> None:
    """Anything but an amount of memory is an option error that shows how to write one."""
    with pytest.raises(OptionError) as caught:
        parse_memory(value)
    assert caught.value.args[0] == f"`{value}` is not an amount of memory"
    assert caught.value.hint == "Write bytes like `512Mi`, `2G` or `1.5Gi`."


@pytest.mark.parametrize("value", ["0", "-1", "0.0", "-500m", "0e3", 0, -3, 0.0, -0.5])
def test_an_amount_is_more_than_zero(value: float | str) -> None:
    """Zero and negative amounts are refused for both, and the message says why."""
    with pytest.raises(OptionError, match="it must be more than zero"):
        parse_cpu(value)
    with pytest.raises(OptionError, match="it must be more than zero"):
        parse_memory(value)


@pytest.mark.parametrize("value", ["0Gi", "0GB"])
def test_no_hint_suggests_what_would_be_refused(value: str) -> None:
    """A hint never offers a spelling that is itself wrong."""
    with pytest.raises(OptionError) as caught:
        parse_memory(value)
    assert caught.value.hint == "Write bytes like `512Mi`, `2G` or `1.5Gi`."


@pytest.mark.parametrize("value", ["1u", 0.0001, "0.9m"])
def test_cpu_has_a_least_amount(value: float | str) -> None:
    """Less than a thousandth of a core is refused, as it is nothing a cluster can give."""
    with pytest.raises(OptionError, match="of CPU is less than `1m`, the least there is"):
        parse_cpu(value)


@pytest.mark.parametrize("value", ["1e999", 2**63, 10**400, 1e300])
def test_an_amount_has_a_limit(value: float | str) -> None:
    """What no cluster could count is refused rather than overflowing."""
    with pytest.raises(OptionError, match="of CPU is more than there can be"):
        parse_cpu(value)
    with pytest.raises(OptionError, match="of memory is more than there can be"):
        parse_memory(value)


@given(st.text())
def test_any_text_is_an_amount_or_an_option_error(text: str) -> None:
    """No text makes the parser fail in any other way than by an option error."""
    for parse in (parse_cpu, parse_memory):
        with suppress(OptionError):
            assert parse(text) > 0


@given(st.integers(min_value=1, max_value=2**40))
def test_millicores_and_thousandths_are_the_same(millicores: int) -> None:
    """An amount in thousandths equals the same amount written as cores."""
    assert parse_cpu(f"{millicores}m") == millicores / 1000
    assert parse_memory(f"{millicores}Ki") == millicores * 1024


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (1, "1 B"),
        (1023, "1023 B"),
        (1024, "1 KiB"),
        (1536, "1.5 KiB"),
        (1_048_575, "1 MiB"),
        (67_108_864, "64 MiB"),
        (1_000_000_000, "953.7 MiB"),
        (1_610_612_736, "1.5 GiB"),
        (2**40, "1 TiB"),
        (2**50, "1 PiB"),
        (2**63, "8 EiB"),
        (2**80, "1048576 EiB"),
    ],
)
def test_bytes_are_formatted_for_people(size: int, text: str) -> None:
    """A size is shown in the largest binary unit it fills, to one decimal."""
    assert format_bytes(size) == text
