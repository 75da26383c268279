"""`completion`: lines for a shell, and the second program for installers that bring only one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.plugin import in_process

SECOND = "kubectl_complete-kruise_ds"


@pytest.fixture
def plugin(tmp_path: Path) -> Path:
    """`kubectl-kruise_ds` in a folder with a blank in its name."""
    path = tmp_path / "krew bin" / "kubectl-kruise_ds"
    path.parent.mkdir()
    text = "import sys; from kubectl_plugin.main import main; sys.exit(main())"
    root = Path(__file__).parents[3]
    path.write_text(f'#!/bin/sh\nPYTHONPATH="{root}" exec "{sys.executable}" -c "{text}" "$@"\n')
    path.chmod(0o755)
    return path


def call(folder: Path, *words: str) -> tuple[int, str, str]:
    """With `folder` and the system's on the PATH: exit code, stdout and stderr."""
    ran = in_process.call(["completion", *words], environ={"PATH": f"{folder}{os.pathsep}{os.defpath}"})
    return ran.code, ran.out, ran.err


@pytest.mark.parametrize(
    ("shell", "line"),
    [
        ("bash", "source <(kubectl completion bash)"),
        ("zsh", "source <(kubectl completion zsh)"),
        ("fish", "kubectl completion fish | source"),
        ("pwsh", "kubectl completion powershell | Out-String | Invoke-Expression"),
    ],
)
def test_each_shell_loads_kubectls_own(plugin: Path, shell: str, line: str) -> None:
    code, out, err = call(plugin.parent, shell)
    assert code == 0
    comment, command = out.splitlines()
    assert comment.startswith("# ")
    assert command == line
    assert f"warning: {SECOND} is not on the PATH" in err


def test_nothing_to_warn_of_where_the_second_program_is_there(plugin: Path) -> None:
    call(plugin.parent, "install")
    assert call(plugin.parent, "bash")[2] == ""


def test_install_writes_a_program_that_completes(plugin: Path) -> None:
    code, out, err = call(plugin.parent, "install")
    second = plugin.with_name(SECOND)
    assert (code, out, err) == (0, f"{second} installed\n", "")
    done = subprocess.run([second, "st"], capture_output=True, text=True, timeout=60)
    assert done.stdout.splitlines() == ["status\tWhere the rollout is, why it waits, what to do", ":4"], done.stderr


def test_install_again_is_the_same(plugin: Path) -> None:
    call(plugin.parent, "install")
    before = plugin.with_name(SECOND).read_bytes()
    assert call(plugin.parent, "install")[0] == 0
    assert plugin.with_name(SECOND).read_bytes() == before


def test_a_link_is_not_followed(plugin: Path, tmp_path: Path) -> None:
    """krew's link stays where it is; what it points at is gone after the next upgrade."""
    links = tmp_path / "links"
    links.mkdir()
    (links / plugin.name).symlink_to(plugin)
    assert call(links, "install")[0] == 0
    assert str(links / plugin.name) in (links / SECOND).read_text()


def test_another_folder(plugin: Path, tmp_path: Path) -> None:
    code, out, err = call(plugin.parent, "install", "--folder", str(tmp_path))
    assert (code, out) == (0, f"{tmp_path / SECOND} installed\n")
    assert f"warning: {tmp_path} is not on the PATH" in err


@pytest.mark.parametrize("text", ["#!/bin/sh\necho mine\n", "kruise-ds"])
def test_a_foreign_file_stays_as_it_is(plugin: Path, text: str) -> None:
    second = plugin.with_name(SECOND)
    second.write_text(text)
    code, out, err = call(plugin.parent, "install")
    assert (code, out) == (6, "")
    assert err == f"error: {second} is not from kruise-ds and stays as it is\n"
    assert second.read_text() == text


def test_the_packages_own_stays_as_it_is(plugin: Path) -> None:
    second = plugin.with_name(SECOND)
    text = "#!/usr/bin/python3\nfrom kubectl_plugin.main import complete\n"
    second.write_text(text)
    assert call(plugin.parent, "install") == (0, f"{second} is there already, from the package\n", "")
    assert second.read_text() == text


def test_a_folder_that_is_not_there(plugin: Path, tmp_path: Path) -> None:
    code, _, err = call(plugin.parent, "install", "--folder", str(tmp_path / "nowhere"))
    assert code == 1
    assert err.splitlines()[0].startswith(f"error: cannot write {tmp_path / 'nowhere' / SECOND}: ")


def test_a_plugin_that_kubectl_does_not_find(tmp_path: Path) -> None:
    code, _, err = call(tmp_path, "install")
    assert code == 1
    assert err.splitlines()[0] == "error: kubectl-kruise_ds is not on the PATH"
