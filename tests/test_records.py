"""Records and logs, as they lie in a store."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kinetic import layout, logs, records
from kinetic.errors import OptionError
from kinetic.records import Ending, Facts, NotAuthentic, Record
from kinetic.spec import JobSpec, Payload, Resources, Source
from kinetic.stores.local import LocalStore

KEY = b"k" * 32


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path / "store")


@given(st.binary(), st.text(), st.sampled_from(Ending), st.integers(1, 9999))
def test_a_sealed_record_opens_as_it_was(
    body: bytes, message: str, ending: Ending, attempt: int
) -> None:
    """Whatever it holds."""
    record = Record("job", attempt, ending, Facts(message, exit_code=3), body)
    assert records.unseal(records.seal(record, KEY), "job", attempt, KEY) == record


@given(st.data())
def test_a_record_that_was_touched_does_not_open(data: st.DataObject) -> None:
    """Any changed byte, another job, another attempt or another key is noticed."""
    sealed = records.seal(Record("job", 1, Ending.RETURNED, body=b"value"), KEY)
    position = data.draw(st.integers(0, len(sealed) - 1))
    flipped = bytearray(sealed)
    flipped[position] ^= data.draw(st.integers(1, 255))
    for bad, job, attempt, key in [
        (bytes(flipped), "job", 1, KEY),
        (sealed, "other", 1, KEY),
        (sealed, "job", 2, KEY),
        (sealed, "job", 1, b"x" * 32),
        (b"", "job", 1, KEY),
    ]:
        with pytest.raises(NotAuthentic):
            records.unseal(bad, job, attempt, key)


def put(store: LocalStore, attempt: int, ending: Ending, uid: str = "u") -> None:
    """Store a record."""
    record = Record("job", attempt, ending)
    store.put(layout.record("job", attempt, uid), records.seal(record, KEY))


def test_a_success_is_final_and_a_failure_only_past_the_last_retry(store: LocalStore) -> None:
    """Which record settles a job depends on how many attempts it may have."""
    assert records.find_final(store, "job", KEY) is None
    put(store, 1, Ending.RAISED)
    assert records.find_final(store, "job", KEY, retries=1) is None
    final = records.find_final(store, "job", KEY)
    assert final is not None
    assert final.ending is Ending.RAISED
    put(store, 2, Ending.RETURNED)
    put(store, 3, Ending.RAISED)
    final = records.find_final(store, "job", KEY, retries=5)
    assert final is not None
    assert final.attempt == 2


def test_what_is_no_record_is_passed_over(
    store: LocalStore, caplog: pytest.LogCaptureFixture
) -> None:
    """Foreign objects and forged records are left alone, and a forgery is warned about."""
    store.put(layout.attempts("job") + "notes.txt", b"x")
    store.put(layout.attempts("job") + "one.two.pkl", b"x")
    store.put(layout.record("job", 1, "aaa"), b"forged")
    put(store, 1, Ending.RETURNED, "zzz")
    final = records.find_final(store, "job", KEY)
    assert final is not None
    assert final.is_success
    assert "0001.aaa.pkl" in caplog.text


def test_a_spec_comes_back_as_it_was() -> None:
    """And one of another format is refused with what to do."""
    spec = JobSpec(
        "job",
        Payload.of(b"small"),
        Payload.of(b"x" * 100_000),
        Source("d", "/root", "sub", ("./src", "/lib")),
        Resources("cpu", 0.5, 100, 3.0, spot=True),
        "3.11",
        ("A", "B"),
        "/out",
        2,
    )
    assert JobSpec.from_json(spec.to_json()) == spec
    assert spec.function.inline_bytes() == b"small"
    assert spec.arguments.inline is None
    with pytest.raises(OptionError, match="format 99"):
        JobSpec.from_json(spec.to_json().replace(b'"format":1', b'"format":99'))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=200)
@given(
    st.lists(st.binary(max_size=40).map(lambda b: b.replace(b"x", b"\n")), max_size=6),
    st.integers(-1, 12),
    st.integers(1, 50),
)
def test_tail_is_what_tail_would_say(
    store: LocalStore, chunks: list[bytes], lines: int, piece: int
) -> None:
    """For any bytes in any chunks, read in pieces of any size."""
    store.delete("jobs/")
    for number, chunk in enumerate(chunks):
        store.put(layout.log_chunk("job", 1, chunk=number), chunk)
    whole = b"".join(chunks)
    kept = whole.split(b"\n")
    ended = kept and kept[-1] == b""
    body = kept[:-1] if ended else kept
    wanted = body[-lines:] if lines > 0 else []
    expected = b"\n".join(wanted) + (b"\n" if ended and wanted else b"")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(logs, "_PIECE", piece)
        assert logs.tail(store, "job", lines) == (expected if whole else b"")


def test_reading_on_continues_where_it_stopped(store: LocalStore) -> None:
    """Across growth, chunks, hosts' order and attempts."""
    log = logs.StoredLog(store, "job")
    assert list(log.read_on()) == []
    store.put(layout.log_chunk("job", 1), b"one")
    assert list(log.read_on()) == [b"one"]
    store.put(layout.log_chunk("job", 1), b"one two")
    store.put(layout.log_chunk("job", 1, chunk=1), b" three")
    store.put(layout.log_chunk("job", 2), b" four")
    assert b"".join(log.read_on()) == b" two three four"
    assert list(log.read_on()) == []
