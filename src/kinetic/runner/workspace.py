"""A job's own copy of the source tree.

A workspace is used again by a later job of the same source when nothing in it was touched, so that
a thousand jobs of an unchanged project cost a thousand looks and not a thousand copies.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
import tarfile
import time
from typing import TYPE_CHECKING

from kinetic import layout
from kinetic.errors import StoreError
from kinetic.spec import EXACT_TIME

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kinetic.spec import Source
    from kinetic.stores.base import Store

_RACY_NS = 20_000_000  # a write this soon after unpacking might not show in the time stamps


def prepare(directory: Path, source: Source, store: Store) -> Path:
    """The tree of `source` below `directory`, exactly as captured; returns its root."""
    root, note = directory / "tree", directory / "snapshot.json"
    if not _is_pristine(root, note, source.digest):
        note.unlink(missing_ok=True)
        _discard(root)
        root.mkdir(mode=0o700, parents=True)
        _unpack(store, source.digest, root)
        note.write_text(json.dumps({"digest": source.digest, "files": dict(_snapshot(root))}))
    (root / source.cwd).mkdir(parents=True, exist_ok=True)
    return root


def _is_pristine(root: Path, note: Path, digest: str) -> bool:
    try:
        noted = json.loads(note.read_bytes())
    except (FileNotFoundError, ValueError):
        return False
    return bool(noted["digest"] == digest and noted["files"] == dict(_snapshot(root)))


def _snapshot(root: Path) -> Iterator[tuple[str, list[int | str]]]:
    """What a job could change, and the price of a look: bytecode caches are left out."""
    pending = [(str(root), "")]
    newest = time.time_ns() - _RACY_NS
    while pending:
        directory, prefix = pending.pop()
        with os.scandir(directory) as children:
            for child in children:
                if child.name == "__pycache__":
                    continue
                s = child.stat(follow_symlinks=False)
                if stat.S_ISDIR(s.st_mode):
                    # Adding a bytecode cache changes a directory's times, so only its mode counts.
                    yield prefix + child.name, [s.st_mode]
                    pending.append((child.path, f"{prefix}{child.name}/"))
                elif stat.S_ISLNK(s.st_mode):
                    yield prefix + child.name, [os.readlink(child.path)]  # noqa: PTH115  # a hot path
                else:
                    racy = 1 if s.st_mtime_ns > newest else 0
                    yield prefix + child.name, [s.st_mode, s.st_size, s.st_mtime_ns, s.st_ino, racy]


def _discard(root: Path) -> None:
    """Remove the tree; what a job made unremovable is moved out of the way."""
    if root.exists():
        aside = root.with_name(f"trash-{os.urandom(4).hex()}")
        root.rename(aside)
        shutil.rmtree(aside, ignore_errors=True)


def _unpack(store: Store, digest: str, root: Path) -> None:
    import hashlib
    import io

    data = store.get(layout.blob(digest))
    if hashlib.sha256(data).hexdigest() != digest:
        raise StoreError(f"the source archive {digest[:12]} is damaged in {store.url}")
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        archive.extractall(root, filter=_inside)  # noqa: S202  # `_inside` checks members
        for member in reversed(archive.getmembers()):  # a directory's time changes with its files
            exact = int(member.pax_headers[EXACT_TIME])
            os.utime(root / member.name, ns=(exact, exact), follow_symlinks=False)


def _inside(member: tarfile.TarInfo, root: str) -> tarfile.TarInfo:
    """Members as they were packed; one that would land outside the root is an error."""
    target = os.path.realpath(os.path.join(root, member.name))  # noqa: PTH118  # as tarfile does
    if os.path.commonpath([target, os.path.realpath(root)]) != os.path.realpath(root):
        raise StoreError(f"the source archive names `{member.name}`, outside its root")
    return member.replace(uid=None, gid=None, uname=None, gname=None, deep=False)  # type: ignore[arg-type]
