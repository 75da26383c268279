"""Namespaces that cannot exist are told at once, instead of being waited for."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from controller.__main__ import cli


@pytest.mark.parametrize("name", ["Not_A_Name", "", "a.b", "-a", "a" * 64, "ä"])
@pytest.mark.parametrize("option", ["--namespace", "--leader-elect-namespace"])
def test_what_is_no_name_of_a_namespace_is_refused(option: str, name: str) -> None:
    done = CliRunner().invoke(cli, [f"{option}={name}"])
    assert done.exit_code == 2
    assert option in done.output
    assert "is not the name of a namespace" in done.output
