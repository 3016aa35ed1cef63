"""Who runs next: pure decisions over what is free, what runs and what waits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping


@dataclass(frozen=True, slots=True)
class Need:
    """What a job that waits asks for."""

    seq: int
    job_id: str
    slots: int
    gpus: int


@dataclass(frozen=True, slots=True)
class Holding:
    """What a running job has; with a lender, its slot is the lender's while that one runs."""

    slots: int
    devices: tuple[int, ...]
    borrowed_from: str | None


@dataclass(frozen=True, slots=True)
class Machine:
    """What there is to give."""

    slots: int
    gpus: tuple[int, ...]

    def fit(self, slots: int, gpus: int) -> tuple[int, int]:
        """A request cut down to what this machine could ever give."""
        return min(slots, self.slots), min(gpus, len(self.gpus))


def free_slots(machine: Machine, held: Mapping[str, Holding]) -> int:
    """How many slots nobody holds. A borrowed slot is the lender's, until the lender ends."""
    return machine.slots - sum(h.slots for h in held.values() if h.borrowed_from not in held)


def free_gpus(machine: Machine, held: Mapping[str, Holding]) -> list[int]:
    """The GPUs that nobody holds."""
    taken = {device for holding in held.values() for device in holding.devices}
    return [gpu for gpu in machine.gpus if gpu not in taken]


def next_in_line(
    machine: Machine, held: Mapping[str, Holding], heads: Iterable[Need]
) -> tuple[Need, Holding] | None:
    """The oldest job that can start now.

    `heads` are the oldest job without and the oldest with GPUs: a job that waits for a GPU holds
    up no job that needs none, but nobody overtakes a job that waits for slots.
    """
    slots, gpus = free_slots(machine, held), free_gpus(machine, held)
    for need in sorted(heads, key=lambda head: head.seq):
        wanted_slots, wanted_gpus = machine.fit(need.slots, need.gpus)
        if wanted_gpus > len(gpus):
            continue
        if wanted_slots > slots:
            return None
        return need, Holding(wanted_slots, tuple(gpus[:wanted_gpus]), None)
    return None


def lend(machine: Machine, held: Mapping[str, Holding], lender: str, need: Need) -> Holding | None:
    """What `lender`, which waits for this job, lends it; None while another has the loan."""
    if lender not in held or _has_lent(lender, held):
        return None
    slots, wanted = machine.fit(need.slots, need.gpus)
    devices = [*held[lender].devices, *free_gpus(machine, held)]
    if wanted > len(devices):
        return None
    return Holding(slots, tuple(devices[:wanted]), lender)


def _has_lent(lender: str, held: Mapping[str, Holding]) -> bool:
    return any(holding.borrowed_from == lender for holding in held.values())


def free_workspace(digest: str, taken: Collection[str]) -> str:
    """The first workspace of this source that nobody works in."""
    number = 0
    while (name := f"{digest[:16]}.{number}") in taken:
        number += 1
    return name
