# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the adapter to Docker, kind and nvkind, with real processes in place of the programs."""

from __future__ import annotations

import os
import pathlib
import subprocess
import typing as t

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.docker import Docker
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError


def run(args: list[str], *, data: str | None = None, environ_update: dict[str, str] | None = None) -> tuple[int, str, str]:
    environment = os.environ | (environ_update or {})
    done = subprocess.run(args, input=data, env=environment, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def program(tmp_path: pathlib.Path) -> t.Callable[[str, str], None]:
    def program(name: str, script: str) -> None:
        path = tmp_path / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    return program


@pytest.fixture
def docker(tmp_path: pathlib.Path, program: t.Callable[[str, str], None]) -> Docker:
    for name in ("docker", "kind"):
        program(name, "exit 0")
    return Docker(run, lambda name: str(tmp_path / name) if (tmp_path / name).exists() else None)


def test_a_missing_program_is_named_with_where_it_comes_from(docker: Docker) -> None:
    with pytest.raises(TenancyError, match=r"no nvkind: build it from github\.com/NVIDIA/nvkind"):
        docker.program("nvkind")


def test_a_file_is_copied_with_its_mode_and_replaces_what_was_there(
    tmp_path: pathlib.Path, program: t.Callable[[str, str], None], docker: Docker
) -> None:
    program("docker", f'echo "$1 $2 $3" > {tmp_path}/args\nshift 3\nexec "$@"')
    source, link, place = tmp_path / "nvidia-ctk", tmp_path / "link", tmp_path / "usr/bin/nvidia ctk"
    link.symlink_to(source)
    for content in (b"\x7fELF\x00\xff", b""):
        source.write_bytes(content)
        source.chmod(0o751)
        docker.copy("node", str(link), str(place))
        assert (place.read_bytes(), place.stat().st_mode & 0o7777) == (content, 0o751)
    assert (tmp_path / "args").read_text() == "exec --interactive node\n"
    assert [file.name for file in place.parent.iterdir()] == ["nvidia ctk"]


@pytest.mark.parametrize(
    ("script", "name", "message"),
    [
        ('exec "$@"', "gone", "No such file"),
        ('exec "$@"', ".", "it arrived in part|Is a directory"),
        ('head --bytes 3 | "$@"', "nvidia-ctk", "it arrived in part"),
        ("exit 1", "nvidia-ctk", "exit status 1"),
    ],
    ids=["no such file", "a directory", "killed half way", "no such container"],
)
def test_a_file_that_cannot_be_copied_is_named_and_leaves_what_was_there(
    tmp_path: pathlib.Path, program: t.Callable[[str, str], None], docker: Docker, script: str, name: str, message: str
) -> None:
    program("docker", f"shift 3\n{script}")
    place = tmp_path / "bin/nvidia-ctk"
    place.parent.mkdir()
    place.write_text("before")
    (tmp_path / "nvidia-ctk").write_text("its content")
    with pytest.raises(TenancyError, match=rf"Copying {tmp_path}/{name} to node failed: .*({message})"):
        docker.copy("node", f"{tmp_path}/{name}", str(place))
    assert place.read_text() == "before"
    assert list(place.parent.iterdir()) == [place]


def test_nvkind_gets_its_flags_and_nothing_from_the_callers_environment(
    tmp_path: pathlib.Path, program: t.Callable[[str, str], None], docker: Docker, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("KIND_CLUSTER_NAME", "KIND_CLUSTER_RETAIN", "KIND_CLUSTER_CONFIG_VALUES", "NVKIND_SKIP_GPU_SETUP"):
        monkeypatch.setenv(name, "true")
    monkeypatch.setenv("KIND_EXPERIMENTAL_PROVIDER", "docker")
    monkeypatch.setenv("KUBECONFIG", "/root/.kube/config")
    program("nvkind", f'echo "$@" > {tmp_path}/args\nenv > {tmp_path}/env\ncommand -v kind > {tmp_path}/found')
    docker.create_by_nvkind("lab", "node:v1", "/template.yml", "/scratch", 60)
    passed = "cluster create --name lab --config-template /template.yml --image node:v1\n"
    assert (tmp_path / "args").read_text() == passed
    environment = dict(line.partition("=")[::2] for line in (tmp_path / "env").read_text().splitlines())
    assert [name for name in environment if name.startswith(("KIND", "NVKIND"))] == []
    assert environment["KUBECONFIG"] == "/scratch"
    assert (tmp_path / "found").read_text() == f"{tmp_path}/kind\n"


@pytest.mark.parametrize(
    ("script", "words"),
    [
        (
            "echo out; echo 'F0609 11:51:50.1 42 main.go:46] Error: patching it' >&2; echo goroutine 1 >&2; exit 255",
            r"^nvkind cluster create ended with status 255: patching it$",
        ),
        ("exit 3", r"ended with status 3: nvkind cluster create failed: exit status 3$"),
        ("kill -KILL $$", r"^nvkind cluster create was killed, or did not end within 60 s"),
    ],
)
def test_how_nvkind_ended(program: t.Callable[[str, str], None], docker: Docker, script: str, words: str) -> None:
    program("nvkind", script)
    with pytest.raises(TenancyError, match=words):
        docker.create_by_nvkind("lab", None, "/template.yml", "/scratch", 60)


def test_the_engine_is_bounded(program: t.Callable[[str, str], None], docker: Docker) -> None:
    program("kind", "exec sleep 60")
    with pytest.raises(TenancyError, match=r"^kind create cluster did not end within 1 s"):
        docker.create_cluster("lab", None, {}, "/scratch", 1)


@pytest.mark.parametrize("printed", ["[[[[", "NaN", "<html>"])
def test_what_docker_prints_is_read_or_an_error(program: t.Callable[[str, str], None], docker: Docker, printed: str) -> None:
    program("docker", f"if [ $1 = ps ]; then echo abc; else echo '{printed}'; fi")
    with pytest.raises(TenancyError, match="docker inspect printed what cannot be read"):
        docker.nodes("lab")


def test_an_error_is_the_end_of_what_a_program_said(program: t.Callable[[str, str], None], docker: Docker) -> None:
    program("docker", "yes 'a line' | head -n 100000 >&2; printf 'no \\033[2Jsuch thing' >&2; exit 1")
    with pytest.raises(TenancyError, match=r"no  such thing$") as caught:
        docker.start(["x"])
    assert len(caught.value.message.split("\n")) < 300
