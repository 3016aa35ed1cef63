"""Who runs next, decided without running anything."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kinetic.backends.local.agent.schedule import (
    Holding,
    Machine,
    Need,
    free_gpus,
    free_slots,
    free_workspace,
    lend,
    next_in_line,
)

BOX = Machine(slots=2, gpus=(0, 1))


def test_the_oldest_job_goes_first() -> None:
    """Whichever kind it is."""
    heads = [Need(2, "cpu", 1, 0), Need(1, "gpu", 1, 1)]
    assert next_in_line(BOX, {}, heads) == (Need(1, "gpu", 1, 1), Holding(1, (0,), None))


def test_a_job_that_waits_for_a_gpu_holds_up_no_other() -> None:
    """A CPU job overtakes a GPU job that cannot start."""
    held = {"a": Holding(1, (0, 1), None)}
    chosen = next_in_line(BOX, held, [Need(1, "gpu", 1, 1), Need(2, "cpu", 1, 0)])
    assert chosen is not None
    assert chosen[0].job_id == "cpu"


def test_nobody_overtakes_a_job_that_waits_for_slots() -> None:
    """A wide job is not starved by narrow ones behind it."""
    held = {"a": Holding(1, (), None)}
    assert next_in_line(BOX, held, [Need(1, "wide", 2, 0), Need(2, "gpu", 1, 1)]) is None


def test_a_request_is_cut_to_the_machine() -> None:
    """A job that asks for more than there is gets all there is."""
    chosen = next_in_line(BOX, {}, [Need(1, "huge", 64, 8)])
    assert chosen == (Need(1, "huge", 64, 8), Holding(2, (0, 1), None))


def test_a_waiting_job_lends_its_slot_and_its_gpu_once() -> None:
    """The child runs on what the parent holds; a second child waits for the first."""
    held = {"p": Holding(1, (0,), None), "x": Holding(1, (1,), None)}
    loan = lend(BOX, held, "p", Need(1, "c", 1, 1))
    assert loan == Holding(1, (0,), "p")
    held["c"] = loan
    assert free_slots(BOX, held) == 0
    assert lend(BOX, held, "p", Need(2, "d", 1, 0)) is None
    grandchild = lend(BOX, held, "c", Need(3, "e", 1, 0))
    assert grandchild == Holding(1, (), "c")


def test_a_loan_becomes_the_borrowers_own_when_the_lender_ends() -> None:
    """Slots are neither lost nor made."""
    held = {"c": Holding(1, (), "p")}
    assert free_slots(BOX, held) == 1


def test_nobody_borrows_from_a_job_that_does_not_run() -> None:
    """A waiter that is not ours to know lends nothing."""
    assert lend(BOX, {}, "elsewhere", Need(1, "c", 1, 0)) is None


@given(st.lists(st.integers(0, 3), max_size=8))
def test_a_gpu_is_never_given_twice(wants: list[int]) -> None:
    """However jobs come, no two unrelated ones hold the same device."""
    held: dict[str, Holding] = {}
    for seq, want in enumerate(wants):
        chosen = next_in_line(Machine(99, (0, 1, 2)), held, [Need(seq, str(seq), 1, want)])
        if chosen:
            held[str(seq)] = chosen[1]
    given_out = [device for holding in held.values() for device in holding.devices]
    assert len(given_out) == len(set(given_out))
    assert sorted([*given_out, *free_gpus(Machine(99, (0, 1, 2)), held)]) == [0, 1, 2]


def test_workspaces_are_shared_in_time_but_never_at_once() -> None:
    """The lowest free number of the source's own."""
    digest = "f" * 64
    assert free_workspace(digest, set()) == f"{'f' * 16}.0"
    assert free_workspace(digest, {f"{'f' * 16}.0", f"{'f' * 16}.2"}) == f"{'f' * 16}.1"
