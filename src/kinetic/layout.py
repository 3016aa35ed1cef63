"""Every object key in a store. Clients, backends and the runner all take theirs from here.

blobs/sha256/{digest}                        immutable, shared between jobs
jobs/{job_id}/spec.json                      what to run
jobs/{job_id}/handle.json                    JobHandle.to_dict()
jobs/{job_id}/attempts/{n}.{uid}.pkl         one sealed record an attempt and host
jobs/{job_id}/log/{host}.{attempt}.{chunk}   what the job printed, in order
outputs/{job_id}/                            KINETIC_OUTPUT_DIR; no cleanup touches it
"""

from __future__ import annotations


def blob(digest: str) -> str:
    """The key of the bytes whose SHA-256 is `digest`."""
    return f"blobs/sha256/{digest}"


def job(job_id: str) -> str:
    """The prefix of everything that `cleanup` removes for a job."""
    return f"jobs/{job_id}/"


def spec(job_id: str) -> str:
    """The key of the job's spec."""
    return f"jobs/{job_id}/spec.json"


def handle(job_id: str) -> str:
    """The key of the job's durable handle."""
    return f"jobs/{job_id}/handle.json"


def attempts(job_id: str) -> str:
    """The prefix of the job's records."""
    return f"jobs/{job_id}/attempts/"


def record(job_id: str, attempt: int, uid: str) -> str:
    """The key of one attempt's record; `uid` tells two writers of one attempt apart."""
    return f"jobs/{job_id}/attempts/{attempt:04d}.{uid}.pkl"


def attempt_of(record_key: str) -> int | None:
    """The attempt a record's key claims to be of, or None for a key that is no record's."""
    name = record_key.rsplit("/", 1)[-1]
    number = name.split(".", 1)[0]
    return int(number) if name.endswith(".pkl") and number.isdigit() else None


def logs(job_id: str) -> str:
    """The prefix of the job's log chunks."""
    return f"jobs/{job_id}/log/"


def log_chunk(job_id: str, attempt: int, *, host: int = 0, chunk: int = 0) -> str:
    """The key of one log chunk; keys sort in the order the bytes were written."""
    return f"jobs/{job_id}/log/{host:04d}.{attempt:04d}.{chunk:08d}"


def outputs(job_id: str) -> str:
    """The prefix under which the job's outputs are kept."""
    return f"outputs/{job_id}/"
