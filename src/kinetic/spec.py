"""What a job is: the frozen records that clients write and the runner reads."""

from __future__ import annotations

import hashlib
import json
from base64 import b64decode, b64encode
from dataclasses import dataclass
from typing import Any

from kinetic.errors import OptionError

FORMAT = 1
EXACT_TIME = "KINETIC.mtime_ns"  # in source archives; tar itself rounds to what a float holds


def plain(record: Any) -> dict[str, Any]:
    """A record's fields; unlike `asdict`, without copying what is in them."""
    return {name: getattr(record, name) for name in record.__slots__}


@dataclass(frozen=True, slots=True)
class Payload:
    """Pickled bytes: small ones ride inside the spec, large ones are a blob."""

    digest: str
    size: int
    inline: str | None = None  # base64

    INLINE_LIMIT = 64 * 1024  # below this a second object costs more than it saves

    @classmethod
    def of(cls, data: bytes) -> Payload:
        """The payload of `data`; where `inline` is None, the caller stores the blob."""
        inline = b64encode(data).decode() if len(data) <= cls.INLINE_LIMIT else None
        return cls(hashlib.sha256(data).hexdigest(), len(data), inline)

    def inline_bytes(self) -> bytes | None:
        """The bytes, where they ride along."""
        return None if self.inline is None else b64decode(self.inline)


@dataclass(frozen=True, slots=True)
class Source:
    """The user's project as it was at submit, and where in it the caller stood."""

    digest: str  # of the archive blob
    root: str  # where it came from; tracebacks are told in terms of it
    cwd: str = "."  # relative to the root
    sys_path: tuple[str, ...] = ()  # `./…` entries are below the root; the others are absolute


@dataclass(frozen=True, slots=True)
class Resources:
    """What an attempt may use."""

    accelerator: str
    cpu: float | None = None  # cores
    memory: int | None = None  # bytes
    timeout: float | None = None  # seconds, from the start of an attempt
    spot: bool = False


@dataclass(frozen=True, slots=True)
class JobSpec:
    """Everything the runner must know; names of environment variables, never their values."""

    job_id: str
    function: Payload
    arguments: Payload
    source: Source
    resources: Resources
    python: str  # major.minor of the client; pickled code does not cross versions
    env_names: tuple[str, ...] = ()
    output_dir: str = ""
    retries: int = 0
    format: int = FORMAT

    def to_json(self) -> bytes:
        """The bytes of `spec.json`."""
        return json.dumps(plain(self), default=plain, separators=(",", ":")).encode()

    @classmethod
    def from_json(cls, data: bytes) -> JobSpec:
        """Read `spec.json` back; an unknown format is refused, unknown keys are ignored."""
        fields: dict[str, Any] = json.loads(data)
        if fields.get("format") != FORMAT:
            raise OptionError(
                f"this job's spec has format {fields.get('format')!r}, this version reads {FORMAT}",
                hint="use the same version of kinetic in the client and in the job",
            )
        source = fields["source"]
        return cls(
            job_id=fields["job_id"],
            function=Payload(**fields["function"]),
            arguments=Payload(**fields["arguments"]),
            source=Source(**{**source, "sys_path": tuple(source["sys_path"])}),
            resources=Resources(**fields["resources"]),
            python=fields["python"],
            env_names=tuple(fields["env_names"]),
            output_dir=fields["output_dir"],
            retries=fields["retries"],
        )


@dataclass(frozen=True, slots=True)
class Assignment:
    """The runner's address: one attempt of one job, as a backend hands it out."""

    store_url: str
    job_id: str
    attempt: int
    uid: str
    spec_digest: str
    workspace: str  # a directory the attempt may have to itself
    untouched: bool = False  # whether the backend knows it to be as the last attempt found it
    host: int = 0

    def to_json(self) -> str:
        """The text that `python -m kinetic.runner` is given."""
        return json.dumps(plain(self))

    @classmethod
    def from_json(cls, text: str) -> Assignment:
        """Read an assignment back."""
        return cls(**json.loads(text))
