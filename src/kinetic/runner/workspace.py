"""A job's own copy of the source tree.

A workspace is used again by a later job of the same source when nothing in it was touched, so that
a thousand jobs of an unchanged project cost a thousand looks and not a thousand copies.
"""

from __future__ import annotations

import hashlib
import io
import os
import stat
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from kinetic import layout
from kinetic.errors import StoreError
from kinetic.spec import EXACT_TIME

if TYPE_CHECKING:
    import tarfile
    from pathlib import Path

    from kinetic.spec import Source
    from kinetic.stores.base import Store

_READ = 1 << 20
_RACY_NS = 20_000_000  # a write this soon after unpacking might not show in the time stamps


def prepare(directory: Path, source: Source, store: Store, *, untouched: bool) -> Path:
    """The tree of `source` below `directory`, exactly as captured; returns its root.

    With `untouched` the caller knows that nobody wrote to it since it was last prepared.
    """
    root, note = directory / "tree", directory / "snapshot"
    if not untouched and not _is_pristine(root, note, source.digest):
        note.unlink(missing_ok=True)
        _discard(root)
        root.mkdir(mode=0o700, parents=True)
        _unpack(store, source.digest, root)
        note.write_text(_snapshot(str(root), source.digest), errors="surrogateescape")
    if source.cwd != ".":
        (root / source.cwd).mkdir(parents=True, exist_ok=True)
    return root


def _is_pristine(root: Path, note: Path, digest: str) -> bool:
    """Whether nothing was touched; what cannot be looked at was."""
    try:
        return note.read_text(errors="surrogateescape") == _snapshot(str(root), digest)
    except OSError:
        return False


def _snapshot(root: str, digest: str) -> str:
    """What a job could change, in a form that is quick to make: every job takes a look."""
    lines = [digest]
    pending = [root]
    newest = time.time_ns() - _RACY_NS
    while pending:
        directory = pending.pop()
        with os.scandir(directory) as entries:
            children = sorted(entries, key=lambda child: child.name)
        for child in children:
            s = child.stat(follow_symlinks=False)
            if stat.S_ISDIR(s.st_mode):
                pending.append(child.path)
                if child.name != "__pycache__":
                    # A new bytecode cache changes a directory's times: only its mode counts.
                    lines.append(f"{child.path} {s.st_mode}")
            elif stat.S_ISLNK(s.st_mode):
                lines.append(f"{child.path} {os.readlink(child.path)}")  # noqa: PTH115
            elif not (directory.endswith("__pycache__") and child.name.endswith(".pyc")):
                facts = s.st_mode, s.st_size, s.st_mtime_ns, s.st_ctime_ns, s.st_ino
                lines.append(f"{child.path} {facts} {s.st_mtime_ns > newest}")
    return "\n".join(lines)


def _discard(root: Path) -> None:
    """Remove the tree; what a job made unremovable is moved out of the way."""
    if not root.exists():
        return
    aside = root.with_name(f"trash-{os.urandom(4).hex()}")
    root.rename(aside)
    for directory, _, _ in os.walk(aside):
        with suppress(OSError):
            os.chmod(directory, 0o700)  # noqa: PTH101
    import shutil  # as `tarfile` below: most jobs need neither, and all would carry them

    shutil.rmtree(aside, ignore_errors=True)


def _unpack(store: Store, digest: str, root: Path) -> None:
    """The archive's tree below `root`, in constant memory; an error if it is not the one named."""
    import tarfile

    blob = _Blob(store, layout.blob(digest))
    members: list[tarfile.TarInfo] = []
    with tarfile.open(fileobj=io.BufferedReader(blob, _READ), mode="r|") as archive:
        made = {"."}
        for member in archive:
            _place(archive, member, root, made)
            members.append(member)
    while blob.read(_READ):
        pass
    if blob.digest() != digest:
        raise StoreError(f"the source archive {digest[:12]} is damaged in {store.url}")
    for member in reversed(members):  # a directory's mode may forbid, and its time is changed
        _finish(member, str(root / member.name))


def _place(archive: tarfile.TarFile, member: tarfile.TarInfo, root: Path, made: set[str]) -> None:
    """Make one member, below directories that this archive made and nowhere else."""
    parent, name = os.path.split(member.name)
    if (parent or ".") not in made or name in ("", ".", ".."):
        raise StoreError(f"the source archive names `{member.name}`, outside its root")
    path = root / member.name
    if member.isdir():
        path.mkdir(mode=0o700)
        made.add(member.name)
    elif member.issym():
        path.symlink_to(member.linkname)
    else:
        content = archive.extractfile(member)
        assert content is not None
        with content, path.open("xb") as file:
            while piece := content.read(_READ):
                file.write(piece)


def _finish(member: tarfile.TarInfo, path: str) -> None:
    if not member.issym():
        os.chmod(path, member.mode)  # noqa: PTH101  # once a file
    exact = int(member.pax_headers[EXACT_TIME])
    os.utime(path, ns=(exact, exact), follow_symlinks=False)


class _Blob(io.RawIOBase):
    """An object read from front to back, and hashed on the way."""

    def __init__(self, store: Store, key: str) -> None:
        super().__init__()
        self._store, self._key = store, key
        self._position = 0
        self._hash = hashlib.sha256()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        piece = self._store.get_range(self._key, self._position, len(buffer))
        buffer[: len(piece)] = piece
        self._position += len(piece)
        self._hash.update(piece)
        return len(piece)

    def digest(self) -> str:
        """Of what was read."""
        return self._hash.hexdigest()
