"""Where jobs, records, logs and outputs live: one protocol, one directory layout, many places."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kinetic.errors import OptionError

if TYPE_CHECKING:
    from kinetic.stores.base import Store


def open_store(url: str) -> Store:
    """The store at `url`."""
    scheme, separator, _ = url.partition("://")
    if scheme == "file" and separator:
        from kinetic.stores.local import LocalStore

        return LocalStore.from_url(url)
    raise OptionError(
        f"`{url}` is not a store that this version of kinetic can open",
        hint="stores start with `file://`",
    )
