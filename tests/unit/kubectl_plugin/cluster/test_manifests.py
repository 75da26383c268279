"""Manifests as people write them: what is found in them, and what is said of those that cannot be read."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kubectl_plugin.cluster.manifests import manifests_in, objects_in
from kubectl_plugin.errors import CommandError
from tests.unit.kubectl_plugin.cluster.manifests import at, names, ours

NATIVE = "apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {name: native}\n"
OTHER = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\n"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (ours("a", "obs"), ["obs/a"]),
        (f"---\n{OTHER}---\n{ours('a')}---\n---\n{NATIVE}---\n{ours('b', version='v1alpha1')}", ["/a", "/b"]),
        ('{"apiVersion": "apps.kruise.io/v1beta1", "kind": "DaemonSet", "metadata": {"name": "a"}}', ["/a"]),
        (
            "kind: List\nitems:\n- {apiVersion: apps.kruise.io/v1beta1, kind: DaemonSet, metadata: {name: a}}\n"
            "- {kind: List, items: [{apiVersion: apps.kruise.io/v1alpha1, kind: DaemonSet, metadata: {name: b}}]}\n"
            "- {apiVersion: v1, kind: Service, metadata: {name: c}}\n",
            ["/a", "/b"],
        ),
        (NATIVE, []),
        ("", []),
        ("just words", []),
    ],
)
def test_only_our_kind_is_found_in_any_number_of_documents_and_lists(text: str, found: list[str]) -> None:
    assert names(manifests_in(text, "x.yaml")[0]) == found


def test_dates_are_text_and_so_are_all_keys() -> None:
    ((found,), _) = manifests_in(ours("a"), "x.yaml")
    assert found.document["spec"] == {"template": {"metadata": {"annotations": {"day": "2026-01-31", "1": True}}}}


@pytest.mark.parametrize(
    ("key", "meant"),
    [("y", "true"), ("n", "false"), ("'y'", "y"), ("010", "8"), ("1.20", "1.2"), ("1e3", "1000"), ("1e30", "1e+30")],
)
def test_keys_are_what_kubectl_takes_them_for(key: str, meant: str) -> None:
    (found,) = objects_in(f"{OTHER}data: {{{key}: x}}\n", "file")
    assert found["data"] == {meant: "x"}


@pytest.mark.parametrize(
    ("key", "told"),
    [
        ("~", "null"),
        ("null", "null"),
        ("18446744073709551615", "1.8446744073709552e+19"),
        ("1.23456789", "1.23456789"),
    ],
)
def test_what_is_no_key_or_another_one_for_kubectl_is_refused(key: str, told: str) -> None:
    with pytest.raises(CommandError, match=rf"^file: the key {re.escape(told)} is no text: put it in quotes$"):
        objects_in(f"{OTHER}data: {{{key}: x}}\n", "file")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('{"a": "\\ud83d\\ude00\\/"}', [{"a": "\U0001f600/"}]),
        ('{\n\t"a":\t1.0, "b": 1e3}', [{"a": 1, "b": 1000}]),
        ('{"a": 1}\n{"a": 2}{"a": 3}', [{"a": 1}, {"a": 2}, {"a": 3}]),
        ('{"a": "y", "b": 12345678901234567890}', [{"a": "y", "b": 12345678901234567168.0}]),
        ("{a: y}\n---\n{a: 0o17}", [{"a": True}, {"a": 15}]),
    ],
)
def test_json_is_read_as_json_and_flow_style_as_yaml(text: str, found: list[object]) -> None:
    assert objects_in(text, "agent.json") == found


@pytest.mark.parametrize(
    ("text", "found"),
    [("!!bool y", True), ("!!int 0o17", 15), ("!!float 5", 5), ("!!timestamp 2001-01-01", "2001-01-01")],
)
def test_a_tag_of_yaml_is_obeyed(text: str, found: object) -> None:
    assert objects_in(f"a: {text}", "agent.yaml") == [{"a": found}]


@pytest.mark.parametrize(
    ("text", "found"),
    [("!s3cret", ""), ("!a 5", "5"), ("!!python/name:os.x null", "null"), ("!a [1, {b: 2}]", [1, {"b": 2}])],
)
def test_a_tag_of_others_means_nothing(text: str, found: object) -> None:
    assert objects_in(f"a: {text}", "agent.yaml") == [{"a": found}]


def test_half_a_character_is_refused() -> None:
    with pytest.raises(CommandError, match=r"agent\.json: line 1:"):
        objects_in('{"a": "\\ud83d"}', "agent.json")


ALIASES = "&a0 1\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 100)}]\n" for n in range(1, 4))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("&a [*a]", "nests too deeply, or within itself"),
        ("[" * 1000 + "]" * 1000, "nests too deeply, or within itself"),
        (ALIASES, " holds more than 1,000,000 values"),
        ("!!binary aGk=", " a tag makes a value a bytes, which JSON does not have"),
        ("!!set {a}", " a tag makes a value a set, which JSON does not have"),
    ],
    ids=["itself", "deep", "aliases", "binary", "set"],
)
def test_what_json_cannot_have_is_reported(text: str, told: str) -> None:
    with pytest.raises(CommandError) as refused:
        objects_in(f"a: {text}", "agent.yaml")
    assert refused.value.message.startswith("agent.yaml:")
    assert refused.value.message.endswith(told)


async def test_a_folder_has_yaml_and_json_by_name_and_with_recursive_those_below(tmp_path: Path) -> None:
    (tmp_path / "b.yaml").write_text(ours("b"))
    (tmp_path / "a.yml").write_text(ours("a"))
    (tmp_path / "notes.txt").write_text("neither: [yaml")
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "c.yaml").write_text(ours("c"))
    assert await at(tmp_path) == ["/a", "/b"]
    assert await at(tmp_path, recursive=True) == ["/a", "/b", "/c"]


async def test_standard_input_and_files_of_any_name_are_read_in_their_order(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text(ours("a"))
    assert await at(Path("-"), tmp_path / "notes.txt", typed=ours("typed")) == ["/typed", "/a"]


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("gone.yaml", None, 'the path "{path}" does not exist'),
        ("bad.yaml", "a: [1\nb: 2\n", "{path}: line 2: "),
        (
            "nameless.yaml",
            "apiVersion: apps.kruise.io/v1beta1\nkind: DaemonSet\n",
            "{path}: an Advanced DaemonSet without",
        ),
        ("other.yaml", OTHER, "no Advanced DaemonSet in {path}"),
        ("binary.yaml", b"\xff\xfe\x00", "cannot read {path}: "),
    ],
)
async def test_what_cannot_be_read_is_reported_with_its_place(
    tmp_path: Path, name: str, text: str | bytes | None, words: str
) -> None:
    path = tmp_path / name
    if text is not None:
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(CommandError) as refused:
        await at(path)
    assert refused.value.message.startswith(words.format(path=path))


async def test_with_only_native_daemonsets_it_says_what_to_change(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(NATIVE)
    with pytest.raises(CommandError) as refused:
        await at(tmp_path)
    assert "kubectl kruise-ds migrate NAME" in refused.value.hints[0]
