"""What every store must do. A store's tests inherit this and provide the `store` fixture."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kinetic.errors import ObjectNotFound, OptionError
from kinetic.stores import open_store
from kinetic.stores.base import Store


class StoreConformance:
    """Inherited by the tests of each store."""

    def test_what_was_put_can_be_got(self, store: Store) -> None:
        """An object is its bytes, all of them, from another opening of the same store too."""
        data = bytes(range(256)) * 1000
        store.put("a/b/c", data)
        assert store.get("a/b/c") == data
        assert open_store(store.url).get("a/b/c") == data

    def test_a_file_can_be_put(self, store: Store, tmp_path: Path) -> None:
        """A file's contents are stored without passing through memory whole."""
        (tmp_path / "big").write_bytes(b"x" * 3_000_000)
        store.put("big", tmp_path / "big")
        assert store.get("big") == b"x" * 3_000_000

    def test_put_replaces(self, store: Store) -> None:
        """A second put wins."""
        store.put("k", b"one")
        store.put("k", b"two")
        assert store.get("k") == b"two"

    def test_ranges(self, store: Store) -> None:
        """A range gives what there is of it."""
        store.put("k", b"0123456789")
        assert store.get_range("k", 2, 3) == b"234"
        assert store.get_range("k", 8, 100) == b"89"
        assert store.get_range("k", 10, 5) == b""

    def test_what_is_missing_is_said_to_be(self, store: Store) -> None:
        """A missing object is an error that is a FileNotFoundError too, and names the key."""
        with pytest.raises(ObjectNotFound, match="no/such"):
            store.get("no/such")
        with pytest.raises(FileNotFoundError):
            store.get_range("no/such", 0, 1)
        assert not store.exists("no/such")

    def test_a_prefix_is_no_object(self, store: Store) -> None:
        """`a` is nothing when only `a/b` was put."""
        store.put("a/b", b"")
        assert not store.exists("a")
        with pytest.raises(ObjectNotFound):
            store.get("a")

    def test_listing_is_sorted_by_key(self, store: Store) -> None:
        """Keys come sorted as whole strings, with sizes, and only those below the prefix."""
        keys = ["p/a.b", "p/a/x", "p/a0", "p/z/1/2", "q/a"]
        for key in reversed(keys):
            store.put(key, key.encode())
        assert list(store.list("p/")) == [(key, len(key)) for key in sorted(keys[:4])]
        assert list(store.list("nothing/")) == []

    def test_deleting(self, store: Store) -> None:
        """A key or a whole prefix goes; what is gone already is no error."""
        for key in ("d/1", "d/2/3", "keep"):
            store.put(key, b"x")
        store.delete("d/1")
        assert [key for key, _ in store.list("d/")] == ["d/2/3"]
        store.delete("d/")
        store.delete("d/")
        store.delete("d/1")
        assert list(store.list("d/")) == []
        assert store.get("keep") == b"x"

    def test_put_if_absent_has_one_winner(self, store: Store) -> None:
        """Of fifty concurrent writers exactly one makes the object, and it is that one's."""
        with ThreadPoolExecutor(50) as pool:
            payloads = [str(n).encode() * 1000 for n in range(50)]
            won = list(pool.map(lambda data: store.put_if_absent("race", data), payloads))
        assert won.count(True) == 1
        assert store.get("race") == payloads[won.index(True)]
        assert store.put_if_absent("race", b"late") is False

    def test_a_reader_never_sees_half_an_object(self, store: Store) -> None:
        """While an object is rewritten, every read gives one whole version."""
        versions = {bytes([n]) * 200_000 for n in range(20)}
        store.put("k", min(versions))
        with ThreadPoolExecutor(4) as pool:
            writing = [pool.submit(store.put, "k", version) for version in versions]
            while not all(future.done() for future in writing):
                assert store.get("k") in versions

    @pytest.mark.parametrize("key", ["../up", "a/../../b", "/abs", "a//b", "", "a/./b"])
    def test_keys_stay_inside(self, store: Store, key: str) -> None:
        """A key that would leave the store is refused."""
        with pytest.raises(OptionError, match="not a valid object key"):
            store.put(key, b"x")
