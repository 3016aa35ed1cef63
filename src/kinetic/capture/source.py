"""The user's project: where its root is, which files it has, and the archive that ships them."""

from __future__ import annotations

import functools
import hashlib
import inspect
import io
import os
import stat
import sys
import tarfile
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kinetic import layout, notices
from kinetic.errors import OptionError, StoreError
from kinetic.spec import EXACT_TIME, Source

if TYPE_CHECKING:
    from collections.abc import Callable

    from kinetic.stores.base import Store

_MARKERS = ("pyproject.toml", "requirements.txt", "setup.py", "setup.cfg", ".git")
_ALWAYS_OUT = frozenset({".git", "__pycache__"})
_OUT_BY_DEFAULT = frozenset(
    """
    .venv venv node_modules .tox .mypy_cache .ruff_cache .pytest_cache .ipynb_checkpoints .DS_Store
    """.split()
)


class Entry(NamedTuple):
    """One file, directory or link of the tree."""

    name: str  # relative to the root, with forward slashes
    status: os.stat_result


def capture(function: Callable[..., object], store: Store, home: Path) -> Source:
    """Store the project that `function` belongs to, unless it is stored already."""
    root = package_root(function)
    entries = tree(root, exclude=home) if root else []
    digest = _stored_archive(root, entries, store, home)
    return Source(
        digest=digest,
        root=str(root or ""),
        cwd=_relative(str(_working_directory()), root) or ".",
        sys_path=_search_path(root, tuple(sys.path), os.getcwd()),  # noqa: PTH109
    )


def package_root(function: Callable[..., object]) -> Path | None:
    """The directory that ships with `function`, or None where shipping it would be wrong."""
    file = _file_of(function)
    named = os.environ.get("KINETIC_PACKAGE_ROOT")
    if named:
        return _named_root(Path(named).expanduser().resolve(), file)
    if file is None or file.is_relative_to(sys.prefix):  # typed in by hand, or installed
        return _allowed(_working_directory())
    return _root_above(file.parent, os.environ.get("HOME", ""))


@functools.cache  # where a file's project begins does not change while a program runs
def _root_above(start: Path, _home: str) -> Path | None:
    while (start / "__init__.py").exists() and start != start.parent:
        start = start.parent
    for directory in (start, *start.parents):
        if not _may_ship(directory):
            break
        if any((directory / marker).exists() for marker in _MARKERS):
            return directory
    return _allowed(start)


def _working_directory() -> Path:
    try:
        return Path.cwd()
    except FileNotFoundError:
        raise OptionError(
            "the working directory does not exist any more",
            hint="change to one that does, and try again",
        ) from None


def tree(root: Path, exclude: Path) -> list[Entry]:
    """Every entry that ships, in whatever order the disk has them; links are not followed."""
    out = _ALWAYS_OUT
    if not os.environ.get("KINETIC_NO_DEFAULT_EXCLUDES"):
        out |= _OUT_BY_DEFAULT
    found: list[Entry] = []
    excluded = str(exclude)
    pending = [(str(root), "")]
    while pending:
        directory, prefix = pending.pop()
        for child in _children(directory, prefix):
            if child.name in out or child.path == excluded:
                continue
            try:
                status = child.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue  # vanished while we looked
            kind = stat.S_IFMT(status.st_mode)
            if kind == stat.S_IFDIR:
                if os.path.exists(f"{child.path}/pyvenv.cfg"):  # noqa: PTH110
                    continue  # a virtual environment, whatever its name
                pending.append((child.path, f"{prefix}{child.name}/"))
            elif kind not in (stat.S_IFREG, stat.S_IFLNK):
                continue  # sockets, pipes and devices stay
            found.append(Entry(prefix + child.name, status))
    return found


def _children(directory: str, prefix: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(directory) as found:
            return list(found)
    except PermissionError:
        notices.warn(f"left out `{prefix}`: it cannot be read")
        return []


def _fingerprint(root: Path | None, entries: list[Entry], store: Store) -> str:
    """What changes when anything in the tree does; cheaper than looking into the files."""
    lines = [store.url, str(root)]
    for name, s in entries:
        facts = s.st_mode, s.st_size, s.st_mtime_ns, s.st_ctime_ns, s.st_ino
        lines.append(f"{name} {facts}")
    return hashlib.sha256("\n".join(lines).encode(errors="surrogateescape")).hexdigest()


def _file_of(function: Callable[..., object]) -> Path | None:
    code = getattr(inspect.unwrap(function), "__code__", None)
    name = code.co_filename if code else ""
    return _real_file(name) if name and not name.startswith("<") else None


@functools.cache
def _real_file(name: str) -> Path | None:
    path = Path(os.path.realpath(name))
    return path if path.is_file() else None


def _named_root(root: Path, file: Path | None) -> Path:
    if not root.is_dir():
        raise OptionError(f"KINETIC_PACKAGE_ROOT names `{root}`, which is not a directory")
    if file is not None and not file.is_relative_to(root):
        raise OptionError(
            f"KINETIC_PACKAGE_ROOT names `{root}`, which does not contain {file}",
            hint="name a directory above the function's file, or unset it",
        )
    return root


def _may_ship(directory: Path) -> bool:
    return str(directory) not in _never_shipped(os.environ.get("HOME", ""))


@functools.cache
def _never_shipped(home: str) -> frozenset[str]:
    """Directories that are never a project, by every name they have."""
    never = ("/", tempfile.gettempdir(), home or str(Path.home()))
    return frozenset({*never, *map(os.path.realpath, never)})


def _allowed(directory: Path) -> Path | None:
    if _may_ship(directory):
        return directory
    notices.say_once(
        f"no project files travel with this job, because {directory} is never shipped whole; "
        "work in a directory of its own to have them along"
    )
    return None


def _relative(path: str, root: Path | None) -> str | None:
    """`path` in terms of the root, if it is below it; a hot path, so strings and no objects."""
    if root is None:
        return None
    for candidate in (path, _real(path)):
        if candidate == str(root):
            return "."
        if candidate.startswith(f"{root}/"):
            return candidate[len(str(root)) + 1 :]
    return None


@functools.cache
def _real(path: str) -> str:
    return os.path.realpath(path)


@functools.lru_cache
def _search_path(root: Path | None, search: tuple[str, ...], _cwd: str) -> tuple[str, ...]:
    """The caller's `sys.path`: entries below the root as `./…`, the others as they are."""
    found = []
    for entry in search:
        path = os.path.abspath(entry)  # noqa: PTH100
        below = _relative(path, root)
        if below is not None and not path.startswith(f"{sys.prefix}/"):
            found.append(f"./{below}")
        elif os.path.exists(path):  # noqa: PTH110
            found.append(path)
    return tuple(found)


def _stored_archive(root: Path | None, entries: list[Entry], store: Store, home: Path) -> str:
    """The digest of the tree's archive, from memory where nothing has changed since."""
    note = home / "cache" / "sources" / _fingerprint(root, entries, store)
    with suppress(OSError):
        digest = note.read_text()
        if store.exists(layout.blob(digest)):
            return digest
    digest = _store_archive(root, entries, store, home)
    note.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    note.write_text(digest)
    return digest


def _store_archive(root: Path | None, entries: list[Entry], store: Store, home: Path) -> str:
    cache = home / "cache"
    try:
        cache.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=cache, prefix=".part-", suffix=".tar") as file:
            with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as archive:
                for entry in sorted(entries):  # parents first, and the same bytes for the same tree
                    _add(archive, root or Path(), entry)
            file.flush()
            file.seek(0)
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            if not store.exists(layout.blob(digest)):
                store.put(layout.blob(digest), Path(file.name))
    except OSError as error:
        raise StoreError(
            f"could not pack the project in {root}: {error.strerror}",
            hint=f"check the space and the permissions of {home}, or point KINETIC_HOME elsewhere",
        ) from error
    return digest


def _portable(target: str, link: Path, root: Path) -> str:
    """A link's target; one below the root by a way that leads to the job's copy of it."""
    if target.startswith(f"{root}/"):
        return os.path.relpath(target, link.parent)
    return target


def _add(archive: tarfile.TarFile, root: Path, entry: Entry) -> None:
    path = root / entry.name
    info = tarfile.TarInfo(entry.name)
    info.mode = stat.S_IMODE(entry.status.st_mode)
    info.pax_headers = {EXACT_TIME: str(entry.status.st_mtime_ns)}
    try:
        if stat.S_ISDIR(entry.status.st_mode):
            info.type = tarfile.DIRTYPE
            archive.addfile(info)
        elif stat.S_ISLNK(entry.status.st_mode):
            info.type = tarfile.SYMTYPE
            info.linkname = _portable(str(path.readlink()), path, root)
            archive.addfile(info)
        else:
            # Read whole, so that a file that grows or shrinks meanwhile cannot tear the archive.
            content = path.read_bytes()
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    except (PermissionError, FileNotFoundError) as error:
        notices.warn(f"left out `{entry.name}`: {error.strerror}")
