"""A store like the server: what changes are reported, and what readers find meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

import pytest

from controller.api.objects import Key
from controller.kube.decode import Bookmark, Malformed, Seen
from controller.runtime.store import Change, Store, StoreWriter
from controller.runtime.watch import Init
from tests.beds.sample_kind import Thing
from tests.beds.stores import open_store


def at(name: str, version: int | str, *, uid: str = "", color: str = "", namespace: str = "default") -> Seen[Thing]:
    obj = Thing(name=name, uid=uid or f"uid-{name}", version=str(version), color=color, namespace=namespace)
    return Seen(key=obj.key, version=str(version), obj=obj)


def gone(name: str, version: int | str, namespace: str = "default") -> Seen[Thing]:
    return Seen(key=Key(namespace, name), version=str(version), obj=None)


def bad(name: str, version: int, reason: str = "size") -> Malformed:
    return Malformed(key=Key("default", name), version=str(version), reason=reason)


def taken(writer: StoreWriter[Thing], version: int | str) -> list[Change[Thing]]:
    """Everything that the list changes, as of `version`."""
    return [change for changes in writer.replace(str(version)) for change in changes]


def listed(writer: StoreWriter[Thing], *items: Seen[Thing] | Malformed, version: int | str) -> list[Change[Thing]]:
    writer.apply(Init())
    for item in items:
        assert writer.apply(item) == (), "readers must not see half a list"
    return taken(writer, version)


@pytest.fixture
def writer_and_store() -> tuple[StoreWriter[Thing], Store[Thing]]:
    writer, store = open_store(Thing)
    listed(writer, at("a", 3), at("b", 4), version=10)
    return writer, store


def names(found: Sequence[Thing]) -> list[str]:
    return [one.name for one in found]


Both = tuple[StoreWriter[Thing], Store[Thing]]
A, B, C = (Key("default", name) for name in "abc")


def words(changes: Sequence[Change[Thing]]) -> list[str]:
    """`a: 3 -> 5`, and `-` where there is nothing."""

    def version(thing: Thing | None) -> str:
        return thing.version if thing else "-"

    return [f"{change.key.name}: {version(change.old)} -> {version(change.new)}" for change in changes]


def test_nothing_is_known_before_the_first_list_is_complete() -> None:
    writer, store = open_store(Thing)
    assert (store.progress_in("").version, store.filled) == (0, False)
    writer.apply(Init())
    writer.apply(at("a", 3))
    assert (store.progress_in("").version, store.filled, len(store)) == (0, False, 0)
    assert words(taken(writer, 10)) == ["a: - -> 3"]
    assert (store.progress_in("").version, store.filled, A in store) == (10, True, True)


@pytest.mark.parametrize(
    ("event", "changes", "there", "version"),
    [
        (at("a", 11), ["a: 3 -> 11"], "ab", 11),
        (at("c", 12), ["c: - -> 12"], "abc", 12),
        (gone("b", 13), ["b: 4 -> -"], "a", 13),
        (gone("foreign", 14), [], "ab", 14),
        (Bookmark(version="20"), [], "ab", 20),
        (at("a", 3), [], "ab", 10),
        (at("a", 11, uid="other"), ["a: 3 -> -", "a: - -> 11"], "ab", 11),
    ],
    ids=["changed", "new", "gone", "unknown and gone", "bookmark", "the same again", "a successor of its name"],
)
def test_changes_come_with_old_and_new(
    writer_and_store: Both, event: Seen[Thing] | Bookmark, changes: list[str], there: str, version: int
) -> None:
    writer, store = writer_and_store
    assert words(writer.apply(event)) == changes
    assert "".join(sorted(one.name for one in store.values())) == there
    assert store.progress_in("").version == version
    if isinstance(event, Seen) and event.obj is not None:
        assert store.get(event.key) == event.obj


def test_a_list_tells_only_what_differs_and_what_vanished_unseen(writer_and_store: Both) -> None:
    writer, store = writer_and_store
    changes = listed(writer, at("a", 3), at("c", 15), version=20)
    assert words(changes) == ["b: 4 -> -", "c: - -> 15"]
    assert {one.name for one in store.values()} == {"a", "c"}


def test_readers_see_the_old_world_until_the_list_is_complete(writer_and_store: Both) -> None:
    writer, store = writer_and_store
    writer.apply(Init())
    writer.apply(at("c", 15))
    writer.apply(Bookmark(version="30"))
    assert {one.name for one in store.values()} == {"a", "b"}
    assert store.progress_in("").version == 10


def test_a_list_that_was_broken_off_leaves_no_trace(writer_and_store: Both) -> None:
    writer, store = writer_and_store
    writer.apply(Init())
    writer.apply(at("half", 15))
    assert words(listed(writer, at("a", 3), at("b", 4), version=20)) == []
    assert Key("default", "half") not in store


def test_an_object_deleted_while_the_list_fills_is_not_in_it() -> None:
    writer, store = open_store(Thing)
    writer.apply(Init())
    writer.apply(at("a", 3))
    writer.apply(gone("a", 5))
    assert words(taken(writer, 6)) == []
    assert len(store) == 0


def test_a_malformed_object_keeps_its_last_good_state_and_is_named(
    writer_and_store: Both,
) -> None:
    writer, store = writer_and_store
    assert words(writer.apply(bad("a", 11))) == ["a: 3 -> 3"]
    assert writer.apply(bad("a", 11)) == (), "it is told once"
    assert dict(store.malformed) == {A: "size"}
    assert words(writer.apply(bad("a", 11, "type"))) == ["a: 3 -> 3"]
    assert dict(store.malformed) == {A: "type"}
    found = store.get(A)
    assert found is not None
    assert found.version == "3"
    assert store.progress_in("").version == 11
    assert words(writer.apply(at("a", 12))) == ["a: 3 -> 3", "a: 3 -> 12"]
    assert not store.malformed


def test_a_malformed_object_is_forgotten_when_it_is_deleted(writer_and_store: Both) -> None:
    writer, store = writer_and_store
    assert words(writer.apply(bad("c", 11))) == ["c: - -> -"]
    assert words(writer.apply(gone("c", 12))) == ["c: - -> -"], "nobody saw it, but they heard of it"
    assert not store.malformed


def test_a_list_too_forgets_a_malformed_object_that_is_gone_or_mended(
    writer_and_store: Both,
) -> None:
    writer, store = writer_and_store
    for name, version in (("a", 11), ("b", 12), ("c", 13)):
        writer.apply(bad(name, version))
    changes = words(listed(writer, at("a", 3), version=20))
    assert changes == ["b: 4 -> 4", "b: 4 -> -", "c: - -> -", "a: 3 -> 3"], "a comes from a backup, as it was"
    assert not store.malformed


def test_a_list_keeps_malformed_objects_of_other_namespaces() -> None:
    store = Store[Thing](("x", "default"))
    writers = store.writers
    writers["default"].apply(bad("a", 11))
    assert words(listed(writers["x"], version=20)) == []
    assert set(store.malformed) == {A}


def test_in_a_list_too_a_malformed_object_keeps_its_last_good_state(writer_and_store: Both) -> None:
    writer, store = writer_and_store
    writer.apply(bad("b", 11))
    changes = listed(writer, bad("a", 15), at("b", 16), version=20)
    assert words(changes) == ["a: 3 -> 3", "b: 4 -> 4", "b: 4 -> 16"]
    assert dict(store.malformed) == {A: "size"}
    found = store.get(A)
    assert found is not None
    assert found.version == "3"


@pytest.mark.parametrize(("version", "counts"), [("x10", 0), ("5", 5)], ids=["no number", "of a restored backup"])
def test_the_version_of_a_list_counts_whatever_it_is(writer_and_store: Both, version: str, counts: int) -> None:
    writer, store = writer_and_store
    assert store.progress_in("anywhere").version == 10
    listed(writer, at("a", 2), version=version)
    assert (store.filled, store.progress_in("anywhere").version) == (True, counts)
    assert A in store


def test_a_list_is_found_at_once_and_reported_object_by_object(writer_and_store: Both) -> None:
    writer, store = writer_and_store
    by_uid, followed, gone = store.index(lambda thing: thing.uid), list[Key](), list[Key]()
    store.follow(lambda moves: followed.extend(key for key, _, _ in moves), lambda old, new: True)
    store.follow(lambda moves: gone.extend(key for key, _, _ in moves), lambda old, new: new is None)
    before, told = set(by_uid._groups), list[Change[Thing]]()
    writer.apply(Init())
    for name, version in (("b", 15), ("c", 16)):
        writer.apply(at(name, version))
    for changes in writer.replace("20"):
        assert len(changes) <= 1, "each step is about one object"
        told += changes
        found = {"uid-b", "uid-c"} if told else before
        assert set(by_uid._groups) == {one.uid for one in store.values()} == found
        assert store.progress_in("").version == (20 if told else 10), "as soon as it is found, and no sooner"
        assert len(followed) == (len({*before, *found}) if told else 0), "no reader finds what was not followed"
    assert [change.key for change in told] == followed
    assert gone == [A], "only what matters to the follower"


def test_lists_of_two_namespaces_may_be_taken_in_side_by_side() -> None:
    store = Store[Thing](("x", "y"))
    writers = store.writers
    for version in ("10", "20"):
        steps = []
        for namespace, writer in writers.items():
            writer.apply(Init())
            for name in "abc":
                writer.apply(at(name + version, version, namespace=namespace))
            steps.append(writer.replace(version))
        told = [change for both in zip_longest(*steps, fillvalue=()) for changes in both for change in changes]
        assert sum(change.new is not None for change in told) == 6
        assert {one.name for one in store.values()} == {name + version for name in "abc"}


def test_an_index_follows_every_change(writer_and_store: Both) -> None:
    writer, store = writer_and_store
    by_color = store.index(lambda thing: thing.color or None)
    assert by_color.get("red") == ()
    writer.apply(at("a", 11, color="red"))
    writer.apply(at("b", 12, color="red"))
    assert names(by_color.get("red")) == ["a", "b"]
    writer.apply(at("a", 12, color="red", uid="other"))
    assert [(one.version, one.uid) for one in by_color.get("red") if one.name == "a"] == [("12", "other")]
    assert names(store.index(lambda thing: thing.uid).get("other")) == ["a"], "an index that is made late"
    writer.apply(at("a", 13, color="blue"))
    assert (names(by_color.get("red")), names(by_color.get("blue"))) == (["b"], ["a"])
    writer.apply(gone("b", 14))
    assert list(by_color._groups) == ["blue"], "empty groups are pruned"
    writer.apply(at("a", 15))
    assert list(by_color._groups) == []


def test_a_list_of_one_namespace_leaves_the_others_alone() -> None:
    store = Store[Thing](("x", "y"))
    writers = store.writers
    listed(writers["x"], at("a", 3, namespace="x"), version=10)
    assert (store.filled, store.progress_in("y").version) == (False, 0)
    listed(writers["y"], at("b", 4, namespace="y"), version=12)
    assert (store.filled, store.progress_in("x").version) == (True, 10)
    assert words(listed(writers["x"], at("c", 15, namespace="x"), version=20)) == ["a: 3 -> -", "c: - -> 15"]
    assert {str(one.key) for one in store.values()} == {"x/c", "y/b"}
    assert (store.progress_in("x").version, store.progress_in("y").version) == (20, 12)
