"""A store in a directory of this machine."""

from __future__ import annotations

import errno
import os
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

from kinetic.errors import ObjectNotFound, OptionError, StoreError

if TYPE_CHECKING:
    from collections.abc import Iterator

_PART = ".part-"  # what is still being written, or was when its writer died; never listed


class LocalStore:
    """Objects as files below `root`: private to the user, written aside and renamed into place."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._root = str(root)

    @classmethod
    def from_url(cls, url: str) -> LocalStore:
        """The store that `url` of another LocalStore names."""
        path = url.removeprefix("file://")
        return cls(Path(unquote(path) if "%" in path else path))

    @property
    def url(self) -> str:
        return "file://" + quote(str(self.root))

    def path(self, key: str) -> Path:
        """The file that holds `key`. Keys never leave the root."""
        return Path(self._file(key))

    def _file(self, key: str) -> str:
        # Strings, not path objects, in all that follows: every job puts and gets several objects.
        key = key.removesuffix("/")
        if any(part in ("", ".", "..") for part in key.split("/")):
            raise OptionError(f"`{key}` is not a valid object key")
        return f"{self._root}/{key}"

    def put(self, key: str, data: bytes | Path, *, durable: bool = True) -> None:
        with self._written_aside(key, data, durable) as (part, target):
            os.replace(part, target)  # noqa: PTH105

    def put_if_absent(self, key: str, data: bytes, *, durable: bool = True) -> bool:
        with self._written_aside(key, data, durable) as (part, target):
            try:
                # A link fails where a rename would overwrite, and is as atomic.
                os.link(part, target)
            except FileExistsError:
                return False
            return True

    def get(self, key: str) -> bytes:
        try:
            with open(self._file(key), "rb") as file:  # noqa: PTH123
                return file.read()
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
            raise _not_found(self, key) from None

    def get_range(self, key: str, start: int, length: int) -> bytes:
        try:
            with open(self._file(key), "rb", buffering=0) as file:  # noqa: PTH123
                return os.pread(file.fileno(), length, start)
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
            raise _not_found(self, key) from None

    def list(self, prefix: str) -> Iterator[tuple[str, int]]:
        yield from _walk(self._file(prefix), prefix)

    def delete(self, prefix: str) -> None:
        if prefix.endswith("/"):
            self._discard(self._file(prefix))
        else:
            self.path(prefix).unlink(missing_ok=True)

    @property
    def trash(self) -> Path:
        """Where deleted prefixes lie until someone has the time to remove them."""
        return self.root / ".trash"

    def _discard(self, directory: str) -> None:
        """Gone in one step, whatever is in it; removing files one by one would cost every job."""
        aside = f"{self.trash}/{os.urandom(8).hex()}"
        try:
            os.rename(directory, aside)  # noqa: PTH104
        except FileNotFoundError:
            if os.path.isdir(directory):  # noqa: PTH112  # then it is the trash that is missing
                self.trash.mkdir(mode=0o700, exist_ok=True)
                self._discard(directory)
        except NotADirectoryError:
            return
        except OSError:
            import shutil  # drags in compressors that every job would carry

            shutil.rmtree(directory, ignore_errors=True)

    def exists(self, key: str) -> bool:
        return os.path.isfile(self._file(key))  # noqa: PTH113

    @contextmanager
    def _written_aside(
        self, key: str, data: bytes | Path, durable: bool
    ) -> Iterator[tuple[str, str]]:
        target = self._file(key)
        part = f"{target.rpartition('/')[0]}/{_PART}{os.getpid()}-{os.urandom(6).hex()}"
        try:
            _write(part, data, durable)
            yield part, target
        except OSError as error:
            raise _write_failed(self, key, error) from error
        finally:
            with suppress(OSError):
                os.unlink(part)  # noqa: PTH108


def _write(path: str, data: bytes | Path, durable: bool) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    try:
        fd = os.open(path, flags, 0o600)
    except FileNotFoundError:
        Path(path).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        fd = os.open(path, flags, 0o600)
    with os.fdopen(fd, "wb", buffering=0):
        if isinstance(data, Path):
            with data.open("rb") as source:
                while piece := source.read(1 << 20):
                    _write_all(fd, piece)
        else:
            _write_all(fd, data)
        if durable:
            os.fsync(fd)


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def _walk(directory: str, prefix: str) -> Iterator[tuple[str, int]]:
    try:
        entries = sorted(os.scandir(directory), key=_sort_key)
    except (FileNotFoundError, NotADirectoryError):
        return
    for entry in entries:
        if entry.name.startswith(_PART):
            continue
        if entry.is_dir(follow_symlinks=False):
            yield from _walk(entry.path, f"{prefix}{entry.name}/")
        else:
            with suppress(FileNotFoundError):  # deleted while we looked
                yield prefix + entry.name, entry.stat().st_size


def _sort_key(entry: os.DirEntry[str]) -> str:
    # Keys sort as whole strings, so `a/b` comes after `a.b`, as in every object store.
    return entry.name + "/" if entry.is_dir(follow_symlinks=False) else entry.name


def _not_found(store: LocalStore, key: str) -> ObjectNotFound:
    return ObjectNotFound(f"no object `{key}` in {store.url}")


def _write_failed(store: LocalStore, key: str, error: OSError) -> StoreError:
    hint = (
        f"check that {store.root} is a directory you may write to, or point KINETIC_HOME elsewhere"
    )
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        hint = f"free some space on the disk of {store.root}, or point KINETIC_HOME elsewhere"
    return StoreError(f"could not write `{key}` to {store.url}: {error.strerror}", hint=hint)
