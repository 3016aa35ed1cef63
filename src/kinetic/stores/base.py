"""What a store must do: seven verbs over immutable objects.

A reader never sees half an object; a writer that dies leaves nothing visible; of any number of
concurrent `put_if_absent` calls for one key exactly one wins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Store(Protocol):
    """Objects under slash-separated keys."""

    @property
    def url(self) -> str:
        """The address that opens this store again, from any process."""
        ...

    def put(self, key: str, data: bytes | Path, *, durable: bool = True) -> None:
        """Make `data` (or the contents of a file) the object under `key`.

        Without `durable` a power failure, but nothing less, may take it back.
        """
        ...

    def put_if_absent(self, key: str, data: bytes, *, durable: bool = True) -> bool:
        """Put unless the key exists; whether this call made the object."""
        ...

    def get(self, key: str) -> bytes:
        """The object's bytes; `ObjectNotFound` where there is none."""
        ...

    def get_range(self, key: str, start: int, length: int) -> bytes:
        """At most `length` bytes from `start`; fewer, or none, at the object's end."""
        ...

    def list(self, prefix: str) -> Iterator[tuple[str, int]]:
        """(key, size) of every object under a prefix that ends in `/`, sorted by key."""
        ...

    def delete(self, prefix: str) -> None:
        """Delete the object, or with a trailing `/` all objects under the prefix."""
        ...

    def exists(self, key: str) -> bool:
        """Whether the key holds an object."""
        ...
