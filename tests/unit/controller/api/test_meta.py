"""Times, references, keys; and whose an object is, by group and kind of its controlling owner."""

from __future__ import annotations

import pytest

from controller.api.meta import Key, ObjectMeta, OwnerReference, Ownership, Ref, epoch, ownership_of, rfc3339


@pytest.mark.parametrize(
    ("stamp", "moment"),
    [
        (None, None),
        ("", None),
        ("1970-01-01T00:00:00Z", 0.0),
        ("2026-11-21T10:12:13Z", 1795255933.0),
        ("2024-02-29T23:59:59Z", 1709251199.0),
        ("2026-11-21T10:12:13.250000Z", 1795255933.25),
        ("2026-11-21T12:12:13+02:00", 1795255933.0),
    ],
)
def test_epoch(stamp: str | None, moment: float | None) -> None:
    assert epoch(stamp) == moment


@pytest.mark.parametrize("stamp", ["yesterday", "2026-11-21T10:12:1xZ", "2026-13-21"])
def test_what_is_no_time_is_refused(stamp: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        epoch(stamp)


def test_times_are_written_as_metav1_time() -> None:
    assert rfc3339(1795255933.9) == "2026-11-21T10:12:13Z"
    assert epoch(rfc3339(1795255933.0)) == 1795255933.0


def test_a_key_reads_as_kubectl_writes_it() -> None:
    assert str(Key("default", "demo")) == "default/demo"
    assert str(Key("", "node-0")) == "node-0"
    assert str(Ref(namespace="default", name="demo", uid="u")) == "default/demo"
    assert str(Ref(namespace="", name="node-0", uid="u")) == "node-0"


@pytest.mark.parametrize(("version", "group"), [("apps.kruise.io/v1alpha1", "apps.kruise.io"), ("v1", ""), ("", "")])
def test_the_group_is_what_precedes_the_version(version: str, group: str) -> None:
    assert OwnerReference(api_version=version).group == group


def owner(api_version: str, kind: str, *, controller: bool = True) -> OwnerReference:
    return OwnerReference(api_version=api_version, kind=kind, name="agent", uid="uid-1", controller=controller)


@pytest.mark.parametrize("version", ["v1alpha1", "v1beta1", "v9"])
def test_the_version_does_not_matter(version: str) -> None:
    meta = ObjectMeta(owner_references=(owner(f"apps.kruise.io/{version}", "DaemonSet"),))
    assert ownership_of(meta) == Ownership(uid="uid-1", index=0)


@pytest.mark.parametrize(("version", "kind"), [("apps/v1", "DaemonSet"), ("apps.kruise.io/v1beta1", "CloneSet")])
def test_another_kind_of_controller_is_none_of_our_business(version: str, kind: str) -> None:
    assert ownership_of(ObjectMeta(owner_references=(owner(version, kind),))) is None


def test_the_controller_is_the_owner_that_says_so_and_its_place_is_kept() -> None:
    plain, ours = owner("v1", "Node", controller=False), owner("apps.kruise.io/v1beta1", "DaemonSet")
    assert ownership_of(ObjectMeta(owner_references=(plain, ours))) == Ownership(uid="uid-1", index=1)
    assert ownership_of(ObjectMeta(owner_references=(plain,))) == Ownership(uid="", index=1)
    assert ownership_of(ObjectMeta()) == Ownership(uid="", index=0)
