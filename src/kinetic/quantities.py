"""Amounts of CPU and memory, written the way Kubernetes writes them.

A number, then nothing, a suffix (`500m`, `2G`, `1.5Gi`) or an exponent (`1e9`), with no spaces.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from kinetic.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Mapping

_SMALL = {
    "": Fraction(1),
    "m": Fraction(1, 10**3),
    "u": Fraction(1, 10**6),
    "n": Fraction(1, 10**9),
}
_DECIMAL = {unit: Fraction(1000**power) for power, unit in enumerate("kMGTPE", start=1)}
_BINARY = {f"{unit}i": Fraction(1024**power) for power, unit in enumerate("KMGTPE", start=1)}

# Digits are bounded so that no string becomes a number too long to compute with.
_UNSIGNED = r"(?:[0-9]{1,30}(?:\.[0-9]{0,30})?|\.[0-9]{1,30})"
_QUANTITY = re.compile(rf"([+-]?{_UNSIGNED})([eE][+-]?[0-9]{{1,3}}|[A-Za-z]*)")
_ALMOST = re.compile(rf"\s*({_UNSIGNED})\s*([A-Za-z]*)\s*")

_LARGEST = 2**63 - 1  # a Kubernetes quantity is a signed 64-bit number


@dataclass(frozen=True, slots=True)
class _Measure:
    noun: str
    suffixes: Mapping[str, Fraction]
    slips: Mapping[str, tuple[str, ...]]  # a wrong suffix, lower-case -> the right ones
    least: Fraction
    least_text: str
    usage: str


# CPU has no suffix above one: `500M` is a slip for `500m`, never half a billion cores.
_CPU = _Measure(
    "CPU",
    _SMALL,
    {"m": ("m",)} | dict.fromkeys(("c", "core", "cores", "cpu", "cpus", "vcpu", "vcpus"), ("",)),
    Fraction(1, 1000),
    "`1m`",
    "Write cores like `2`, `0.5` or `500m`.",
)
_MEMORY = _Measure(
    "memory",
    _SMALL | _DECIMAL | _BINARY,
    {
        unit.lower() + rest: (unit, f"{unit.upper()}i")
        for unit in _DECIMAL
        for rest in ("", "b", "i", "ib")
    }
    | dict.fromkeys(("b", "byte", "bytes"), ("",)),
    Fraction(1),
    "one byte",
    "Write bytes like `512Mi`, `2G` or `1.5Gi`.",
)


def parse_cpu(value: float | str) -> float:
    """Cores: `2`, `0.5`, `"50m"`. Raises `OptionError` for anything that is no amount of CPU."""
    return float(_parse(value, _CPU))


def parse_memory(value: float | str) -> int:
    """Bytes: `"64Mi"`, `"2G"`, `"1e9"`, or a number of them; part of a byte counts as one.

    Raises `OptionError` for anything that is no amount of memory.
    """
    return math.ceil(_parse(value, _MEMORY))


def format_bytes(n: int) -> str:
    """A size for people, to one decimal: `1.5 GiB`, `64 MiB`, `0 B`."""
    size, units = float(n), ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"]
    # Compared as it will be printed, so that nothing reads `1024 KiB`.
    while round(abs(size), 1) >= 1024 and len(units) > 1:  # noqa: PLR2004 - the binary step itself
        size /= 1024
        units.pop(0)
    return f"{size:.1f}".removesuffix(".0") + f" {units[0]}"


def _parse(value: object, measure: _Measure) -> Fraction:
    allowed = _allowed(value, measure)
    if allowed is not None:
        return allowed
    hint = _correction(value, measure) or measure.usage
    raise OptionError(_problem(value, measure), hint=hint)


def _allowed(value: object, measure: _Measure) -> Fraction | None:
    amount = _amount(value, measure)
    return amount if amount is not None and measure.least <= amount <= _LARGEST else None


def _problem(value: object, measure: _Measure) -> str:
    amount = _amount(value, measure)
    if amount is None:
        return f"`{value}` is not an amount of {measure.noun}"
    if amount <= 0:
        return f"`{value}` is not an amount of {measure.noun}: it must be more than zero"
    if amount < measure.least:
        return f"`{value}` of {measure.noun} is less than {measure.least_text}, the least there is"
    return f"`{value}` of {measure.noun} is more than there can be"


def _amount(value: object, measure: _Measure) -> Fraction | None:
    """The value as an exact number, None where it is none."""
    if isinstance(value, str):
        return _amount_of_text(value, measure)
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return Fraction(value)
    if isinstance(value, float) and math.isfinite(value):
        # Through text, so that 0.1 is a tenth and not the binary fraction next to it.
        return Fraction(str(float(value)))
    return None


def _amount_of_text(text: str, measure: _Measure) -> Fraction | None:
    match = _QUANTITY.fullmatch(text)
    if match is None:
        return None
    number, suffix = match.groups()
    if suffix[-1:].isdigit():
        return Fraction(number + suffix)
    scale = measure.suffixes.get(suffix)
    return None if scale is None else Fraction(number) * scale


def _correction(value: object, measure: _Measure) -> str | None:
    """A hint that spells the same amount right, None where there is nothing to go by."""
    match = _ALMOST.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        return None
    number, suffix = match.groups()
    right = (suffix,) if suffix in measure.suffixes else ()
    slip = measure.slips.get(suffix.lower(), ())
    for suffixes in (right, slip):
        spellings = [number + each for each in suffixes if _allowed(number + each, measure)]
        if spellings:
            return f"Did you mean {' or '.join(f'`{each}`' for each in spellings)}?"
    return None
