# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the module docker_runtime, and of host_file beside it."""

from __future__ import annotations

import pathlib
import typing as t

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._journal import Journal
from ansible_collections.kubegpu.tenancy.plugins.modules import docker_runtime, host_file


@pytest.fixture
def journal(tmp_path: pathlib.Path) -> Journal:
    return Journal(str(tmp_path / "var" / "journal"))


@pytest.fixture
def params(tmp_path: pathlib.Path) -> dict[str, t.Any]:
    return {
        "config_file": str(tmp_path / "docker" / "daemon.json"),
        "name": "nvidia",
        "path": "nvidia-container-runtime",
        "set_as_default": True,
        "cdi": None,
    }


@pytest.mark.parametrize("original", [None, b'{"log-driver": "journald"}\n'])
def test_there_and_back(tmp_path: pathlib.Path, journal: Journal, params: dict[str, t.Any], original: bytes | None) -> None:
    path = pathlib.Path(params["config_file"])
    if original is not None:
        path.parent.mkdir()
        path.write_bytes(original)

    predicted = docker_runtime.present(params, journal, check_mode=True)
    assert predicted["changed"]
    assert path.exists() == (original is not None)
    done = docker_runtime.present(params, journal, check_mode=False)
    assert done == predicted
    assert done["diff"] == {
        "before": {},
        "after": {
            f"{path}.default-runtime": "nvidia",
            f"{path}.runtimes": {"nvidia": {"path": "nvidia-container-runtime", "args": []}},
        },
    }
    assert not done["restart_required"]
    again = docker_runtime.present(params, journal, check_mode=False)
    assert not again["changed"]
    assert not again["restart_required"]

    predicted = docker_runtime.absent(params, journal, check_mode=True)
    assert path.exists()
    gone = docker_runtime.absent(params, journal, check_mode=False)
    assert gone == predicted
    assert (gone["outcome"], gone["kept"], gone["restart_required"]) == ("restored", [], True)
    assert (path.read_bytes() if path.exists() else None) == original
    assert path.parent.exists() == (original is not None)
    assert not docker_runtime.absent(params, journal, check_mode=False)["changed"]


def test_an_edit_since_stays(journal: Journal, params: dict[str, t.Any]) -> None:
    path = pathlib.Path(params["config_file"])
    docker_runtime.present(params, journal, check_mode=False)
    path.write_text(path.read_text().replace('"nvidia-container-runtime"', '"/own"')[:-2] + ',\n    "debug": true\n}')
    gone = docker_runtime.absent(params, journal, check_mode=False)
    assert (gone["outcome"], gone["kept"]) == ("merged", ["runtimes.nvidia"])
    assert '"debug": true' in path.read_text()
    assert "default-runtime" not in path.read_text()


@pytest.mark.parametrize(("cdi", "required"), [(None, False), (True, True)])
def test_cdi_needs_a_restart(journal: Journal, params: dict[str, t.Any], cdi: bool | None, required: bool) -> None:
    assert docker_runtime.present(params | {"cdi": cdi}, journal, check_mode=False)["restart_required"] is required


def test_a_broken_file_is_left_alone(journal: Journal, params: dict[str, t.Any]) -> None:
    path = pathlib.Path(params["config_file"])
    path.parent.mkdir()
    path.write_bytes(b'{"runtimes": null}')
    with pytest.raises(TenancyError, match="runtimes"):
        docker_runtime.present(params, journal, check_mode=False)
    assert path.read_bytes() == b'{"runtimes": null}'
    assert journal.entry(str(path)) is None


@pytest.mark.parametrize(
    ("name", "before", "content", "changed"),
    [
        ("config.toml", b"# mine\na   = true\n", "a = true\n", False),
        ("config.toml", b"a = false\n", "a = true\n", True),
        ("config.conf", b"a   = 1\n", "a = 1\n", True),
        ("config.conf", None, "a = 1", True),
        ("config.conf", b"a = 1\n", "a = 1", False),
    ],
)
def test_host_files(
    tmp_path: pathlib.Path, journal: Journal, name: str, before: bytes | None, content: str, changed: bool
) -> None:
    path = tmp_path / name
    if before is not None:
        path.write_bytes(before)
    params = {"path": str(path), "content": content}
    assert host_file.present(params, journal, check_mode=True)["changed"] is changed
    assert host_file.present(params, journal, check_mode=False)["changed"] is changed
    assert not host_file.present(params, journal, check_mode=False)["changed"]
    assert host_file.absent(params, journal, check_mode=False)["outcome"] == ("restored" if changed else "unknown")
    assert (path.read_bytes() if path.exists() else None) == before
