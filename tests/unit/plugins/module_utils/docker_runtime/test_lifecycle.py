# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of docker_runtime with a double of Docker, also killed at every step."""

from __future__ import annotations

import json
import os
import pathlib
import typing as t

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.docker_service import Engine
from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.journal import Journal
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.run import Run
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.wait import Deadline
from ansible_collections.kubegpu.tenancy.plugins.module_utils._docker_runtime.lifecycle import Runtime
from ansible_collections.kubegpu.tenancy.tests.unit.problems import refuses

STOCK = {"runc": {"path": "runc"}}


class FakeDocker:
    """What dockerd, docker, systemctl and journalctl print for a Docker that reads this file.

    :ivar refuses: dockerd does not start with a file that holds this.
    :ivar deaf: a reload changes nothing.
    """

    def __init__(self, path: pathlib.Path, validates: bool = True, cdi_default: bool | None = False) -> None:
        self.path = path
        self.validates = validates
        self.cdi_default = cdi_default
        self.refuses = "\0"
        self.deaf = False
        self.containers: list[str] = []
        self.live_restore = False
        self.client = "Docker version 28.1.0, build 1"
        self.options = ["name=seccomp,profile=builtin", "name=cgroupns"]
        self.state = "active"
        self.did: list[str] = []
        self.runtimes: dict[str, t.Any] = {}
        self.default = "runc"
        self.cdi = cdi_default
        self._read(start=True)

    def _read(self, start: bool) -> None:
        document = json.loads(self.path.read_text()) if self.path.exists() else {}
        if start:
            self.runtimes, self.default = {}, "runc"
            self.cdi = None if self.cdi_default is None else document.get("features", {}).get("cdi", self.cdi_default)
        if start or "runtimes" in document:
            self.runtimes = document.get("runtimes", {})
        self.default = document.get("default-runtime", self.default)

    def _systemctl(self, verb: str) -> tuple[int, str, str]:
        if verb == "is-active":
            return (0 if self.state == "active" else 3), self.state + "\n", ""
        if verb == "reset-failed":
            return 0, "", ""
        self.did.append(verb)
        if verb == "reload":
            if not self.deaf:
                self._read(start=False)
            return 0, "", ""
        if self.path.exists() and self.refuses in self.path.read_text():
            self.state = "failed"
            return 1, "", "Job for docker.service failed.\n"
        self.state = "active"
        self._read(start=True)
        return 0, "", ""

    def run(self, args: list[str], **_more: t.Any) -> tuple[int, str, str]:
        assert args[:2] == ["timeout", "--kill-after=10"]
        program, first, *rest = args[3:]
        if (program, first) == ("docker", "info"):
            if self.state != "active":
                # As 20.10 does.
                return 0, json.dumps({"ServerErrors": ["Cannot connect"], "ClientInfo": {}}), ""
            info = {"SecurityOptions": self.options, "Runtimes": STOCK | self.runtimes, "DefaultRuntime": self.default}
            info |= {} if self.cdi is None else {"CDISpecDirs": ["/etc/cdi"] if self.cdi else []}
            return 0, json.dumps(info | {"LiveRestoreEnabled": self.live_restore}), ""
        if (program, first) == ("docker", "--version"):
            return 0, f"{self.client}\n", ""
        if (program, first) == ("docker", "ps"):
            return 0, "\n".join(self.containers), ""
        if [program, first, *rest[:-1]] == ["dockerd", "--validate", "--config-file"]:
            if not self.validates:
                return 125, "", "unknown flag: --validate\nSee 'dockerd --help'.\n"
            if '"bad"' in pathlib.Path(rest[-1]).read_text():
                return 1, "", f"unable to configure the Docker daemon with file {rest[-1]}: no such option: bad\n"
            return 0, "", "configuration OK\n"
        if program == "systemctl":
            return self._systemctl(first)
        if program == "journalctl":
            return 0, "failed to start daemon: too bad\n", ""
        raise AssertionError(args)


class Host:
    """A host's daemon.json, journal and Docker."""

    def __init__(self, top: pathlib.Path, original: bytes | None = None) -> None:
        self.top = top
        self.path = top / "docker" / "daemon.json"
        if original is not None:
            self.path.parent.mkdir()
            self.path.write_bytes(original)
        self.docker = FakeDocker(self.path)
        self.journal = Journal(str(top / "var" / "journal"))
        # A clock that only sleeping moves.
        self.now = 0.0

    def run(self, state: str, check_mode: bool = False, **options: t.Any) -> dict[str, t.Any]:
        params = {
            "state": state,
            "config_file": str(self.path),
            "name": "nvidia",
            "path": "nvidia-container-runtime",
            "set_as_default": True,
            "cdi": None,
            "apply": True,
            "allow_restart": False,
            "timeout": 120,
        } | options
        run = Run(params, check_mode, deadline=Deadline(120, lambda: self.now, self._sleep))
        runtime = Runtime(run, self.journal, Engine(self.docker.run))
        result = runtime.present() if state == "present" else runtime.absent()
        for step in result.get("steps", []):
            step.pop("seconds", None)
        return result | {"warnings": run.warnings}

    def _sleep(self, seconds: float) -> None:
        self.now += seconds

    def present(self, **options: t.Any) -> dict[str, t.Any]:
        return self.run("present", **options)

    def absent(self, **options: t.Any) -> dict[str, t.Any]:
        return self.run("absent", **options)

    @property
    def content(self) -> bytes | None:
        return self.path.read_bytes() if self.path.exists() else None

    @property
    def uses(self) -> str:
        """The runtime that containers get."""
        return self.docker.default if self.docker.state == "active" else "none"

    def listing(self) -> dict[str, tuple[int, bytes | None]]:
        return {str(p): (p.stat().st_mode, p.read_bytes() if p.is_file() else None) for p in self.top.rglob("*")}


@pytest.fixture
def host(tmp_path: pathlib.Path) -> Host:
    return Host(tmp_path)


@pytest.mark.parametrize("original", [None, b'{"log-driver": "journald"}\n'])
def test_there_and_back(tmp_path: pathlib.Path, original: bytes | None) -> None:
    host = Host(tmp_path, original)
    before = host.listing()

    predicted = host.present(check_mode=True)
    assert predicted["changed"]
    assert (host.listing(), host.docker.did) == (before, [])
    done = host.present()
    assert done == predicted
    settings = {
        f"{host.path}.default-runtime": "nvidia",
        f"{host.path}.runtimes": {"nvidia": {"path": "nvidia-container-runtime", "args": []}},
    }
    assert {key: done["diff"][key] for key in ("before", "after")} == {"before": {}, "after": settings}
    # The user who wrote the file, where there was one, left them out.
    written = done["diff"].get("written", {})
    assert written.keys() == (settings.keys() if original else set())
    assert {write["by"].partition(" ")[0] for write in written.values()} == ({"owner"} if original else set())
    assert (done["docker"], host.docker.did, host.uses) == ("reload", ["reload"], "nvidia")
    assert done["steps"] == [
        {"step": f"write {host.path}", "why": "it does not have the settings"},
        {"step": "reload Docker", "why": "to take over default-runtime, runtimes.nvidia"},
    ]
    again = host.present()
    assert (again["changed"], again["docker"]) == (False, "nothing")

    predicted = host.absent(check_mode=True)
    assert host.uses == "nvidia"
    gone = host.absent()
    assert gone == predicted
    assert (gone["outcome"], gone["kept"], gone["docker"], host.uses) == ("restored", [], "restart", "runc")
    assert host.listing() == before
    assert not host.absent()["changed"]
    assert host.docker.did == ["reload", "restart"]


def test_a_reload_is_enough_where_the_file_still_names_a_default(tmp_path: pathlib.Path) -> None:
    host = Host(tmp_path, b'{"default-runtime": "kata", "runtimes": {"kata": {"path": "/opt/kata"}}}')
    host.docker.containers = ["theirs"]
    host.present()
    assert host.uses == "nvidia"
    assert host.absent()["docker"] == "reload"
    assert (host.uses, list(host.docker.runtimes)) == ("kata", ["kata"])


@pytest.mark.parametrize(
    ("cdi", "default", "needed"),
    [(True, False, "restart"), (True, True, "reload"), (False, True, "restart"), (True, None, "reload")],
)
def test_cdi_needs_a_restart_where_docker_does_not_have_it_so(host: Host, cdi: bool, default: bool | None, needed: str) -> None:
    host.docker = FakeDocker(host.path, cdi_default=default)
    assert host.present(cdi=cdi)["docker"] == needed
    assert host.docker.cdi == (None if default is None else cdi)
    assert not host.present(cdi=cdi)["changed"]
    assert host.absent()["docker"] == "restart"
    assert host.docker.cdi == default


def test_only_the_file(host: Host) -> None:
    host.docker.state = "inactive"
    done = host.present(apply=False, cdi=True)
    assert (done["docker"], host.docker.did) == ("restart", [])
    assert not host.present(apply=False, cdi=True)["changed"]
    assert (host.absent(apply=False)["docker"], host.content) == ("restart", None)


# --- what others have running ---


def test_a_restart_that_stops_containers_is_refused(host: Host) -> None:
    host.docker.containers = ["web", "database"]
    before = host.listing()
    with pytest.raises(TenancyError, match=r"take over features\.cdi of .*: database, web\.") as caught:
        host.present(cdi=True)
    assert caught.value.details["containers"] == ["database", "web"]
    assert (host.listing(), host.docker.did) == (before, [])
    with pytest.raises(TenancyError, match="database, web"):
        host.present(cdi=True, check_mode=True)
    # What a reload does harms no container.
    assert host.present()["docker"] == "reload"
    with pytest.raises(TenancyError, match=r"to take over default-runtime, runtimes\.nvidia"):
        host.absent()
    assert host.uses == "nvidia"


@pytest.mark.parametrize(("live_restore", "allow"), [(True, False), (False, True)])
def test_a_restart_is_allowed(host: Host, live_restore: bool, allow: bool) -> None:
    host.docker.containers, host.docker.live_restore = ["web"], live_restore
    assert host.present(cdi=True, allow_restart=allow)["docker"] == "restart"
    assert host.absent(allow_restart=allow)["outcome"] == "restored"


# --- what goes wrong ---


@pytest.mark.parametrize("state", ["inactive", "failed"])
def test_a_docker_that_does_not_run_is_started_with_the_runtime_only(host: Host, state: str) -> None:
    host.docker.state = state
    host.present()
    assert host.uses == "nvidia"
    assert host.uses == "nvidia"
    host.docker.state = state
    again = host.present()
    assert (again["changed"], again["diff"]["after"], host.uses) == (True, {"docker": "running"}, "nvidia")
    host.docker.state = state
    host.absent()
    assert host.uses == ("none" if state == "inactive" else "runc")


@pytest.mark.parametrize("original", [None, b'{"debug": true}'])
@pytest.mark.parametrize(("deaf", "options"), [(True, {}), (False, {"cdi": True})])
def test_what_docker_does_not_take_over_is_taken_back(
    tmp_path: pathlib.Path, original: bytes | None, deaf: bool, options: dict[str, t.Any]
) -> None:
    host = Host(tmp_path, original)
    before = host.listing()
    host.docker.deaf, host.docker.refuses = deaf, "nvidia"
    with pytest.raises(TenancyError, match=r"restored, and Docker runs with it.*\n.*too bad") as caught:
        host.present(**options)
    assert caught.value.details["docker_log"] == "failed to start daemon: too bad"
    assert (host.listing(), host.uses) == (before, "runc")


@pytest.mark.parametrize("check_mode", [True, False])
@pytest.mark.parametrize(
    ("what", "code"),
    [
        ("podman", "podman"),
        ("address", "another-docker"),
        ("rootless", "rootless-docker"),
        ("userns", "users-remapped"),
        ("file", "users-remapped"),
    ],
)
def test_another_docker_than_that_of_root_is_refused_before_anything_is_done(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, what: str, code: str, check_mode: bool
) -> None:
    host = Host(tmp_path, b'{"userns-remap": "default"}' if what == "file" else b'{"debug": true}')
    if what == "podman":
        host.docker.client, host.docker.state = "podman version 4.9.3", "inactive"
    elif what == "address":
        monkeypatch.setenv("DOCKER_HOST", "unix:///run/user/1000/docker.sock")
    elif what != "file":
        host.docker.options.append(f"name={what}")
    before = host.listing()
    with refuses(code):
        host.present(check_mode=check_mode)
    assert (host.listing(), host.docker.did) == (before, [])
    # Where Docker is not touched, it does not matter.
    host.present(check_mode=check_mode, apply=False)
    assert host.docker.did == []


@pytest.mark.parametrize("address", ["unix:///var/run/docker.sock", "unix:///run/docker.sock"])
def test_an_address_of_the_docker_of_root_is_fine(host: Host, monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    monkeypatch.setenv("DOCKER_HOST", address)
    host.present()
    assert host.uses == "nvidia"


def test_a_second_change_that_docker_refuses_leaves_the_first(host: Host) -> None:
    host.present()
    before = host.listing()
    host.docker.refuses = "cdi"
    with pytest.raises(TenancyError, match="restored, and Docker runs with it"):
        host.present(cdi=True)
    assert (host.listing(), host.uses) == (before, "nvidia")
    assert host.absent()["outcome"] == "restored"


def test_a_docker_that_does_not_come_back_at_all_is_reported(host: Host) -> None:
    host.path.parent.mkdir()
    host.path.write_bytes(b'{"debug": true}')
    host.docker.refuses = "debug"
    with pytest.raises(TenancyError, match="does not come back with it either: systemctl restart docker failed: Job for"):
        host.present(cdi=True)
    assert host.content == b'{"debug": true}'


def test_absent_that_docker_refuses_leaves_the_runtime(tmp_path: pathlib.Path) -> None:
    host = Host(tmp_path, b'{"debug": true}')
    host.present()
    before = host.listing()
    host.docker.refuses = '{"debug": true}'
    with pytest.raises(TenancyError, match="restored, and Docker runs with it"):
        host.absent()
    assert (host.listing(), host.uses) == (before, "nvidia")


def test_what_dockerd_calls_invalid_is_not_written(tmp_path: pathlib.Path) -> None:
    host = Host(tmp_path, b'{"bad": 1}')
    before = host.listing()
    with pytest.raises(TenancyError, match=f"with file {host.path}: no such option: bad"):
        host.present()
    assert (host.listing(), host.docker.did) == (before, [])
    host.docker.validates = False
    assert host.present()["changed"]


def test_a_broken_file_is_left_alone(tmp_path: pathlib.Path) -> None:
    host = Host(tmp_path, b'{"runtimes": null}')
    with refuses("wrong-type"):
        host.present()
    assert host.content == b'{"runtimes": null}'
    assert host.journal.entry(str(host.path)) is None


# --- what people do ---


def test_an_edit_since_stays(host: Host) -> None:
    host.present()
    document = json.loads(host.path.read_text())
    document |= {"default-runtime": "kata", "debug": True}
    document["runtimes"] |= {"kata": {"path": "/opt/kata"}}
    host.path.write_text(json.dumps(document))
    gone = host.absent()
    assert (gone["outcome"], gone["kept"]) == ("merged", ["default-runtime"])
    assert "these, changed since, stay as they are: default-runtime." in gone["warnings"][0]
    assert json.loads(host.path.read_text()) == {
        "default-runtime": "kata",
        "runtimes": {"kata": {"path": "/opt/kata"}},
        "debug": True,
    }
    assert host.uses == "kata"


def test_a_conflict_is_refused_with_all_versions(host: Host) -> None:
    host.present()
    host.path.write_text(host.path.read_text().replace('"nvidia-container-runtime"', '"/own"'))
    before = host.listing()
    for check_mode in (True, False):
        with pytest.raises(
            TenancyError, match=rf"{host.path} was edited.*runtimes\.nvidia is .*/own.*nvidia-container-runtime"
        ) as caught:
            host.absent(check_mode=check_mode)
        assert caught.value.details["conflicts"] == [
            {
                "setting": "runtimes.nvidia",
                "before": None,
                "written": {"path": "nvidia-container-runtime", "args": []},
                "now": {"path": "/own", "args": []},
            }
        ]
        assert host.listing() == before
    # The way out that the message names.
    host.path.write_text(host.path.read_text().replace('"default-runtime": "nvidia"', '"default-runtime": "runc"'))
    assert host.absent()["kept"] == ["default-runtime", "runtimes.nvidia"]
    assert host.journal.entry(str(host.path)) is None


def test_an_edit_of_an_owned_setting_comes_back_after_a_second_run_took_it_over(host: Host) -> None:
    host.present()
    edited = host.path.read_text().replace('"nvidia-container-runtime"', '"/own"')
    host.path.write_text(edited)
    assert host.present()["changed"]
    assert "/own" not in host.path.read_text()
    host.absent()
    assert json.loads(host.path.read_text()) == {"runtimes": {"nvidia": {"args": [], "path": "/own"}}}


def test_a_file_that_was_emptied_by_hand_goes_as_it_came(host: Host) -> None:
    host.present()
    host.path.write_text("{}")
    gone = host.absent()
    assert (gone["changed"], gone["outcome"], host.content) == (True, "merged", None)


# --- killed ---


class _Killed(BaseException):
    pass


PRIMITIVES = ("open", "fdopen", "fchmod", "fchown", "chmod", "fsync", "replace", "unlink", "rmdir", "mkdir")


class Killer:
    """Kills at the n-th call of what a run does to the host, before or after the call."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, host: Host, when: int, after: bool) -> None:
        self._left = when
        self._after = after
        for name in PRIMITIVES:
            monkeypatch.setattr(os, name, self._wrapped(getattr(os, name)))
        monkeypatch.setattr(host.docker, "run", self._wrapped(host.docker.run))

    def _wrapped(self, function: t.Callable[..., t.Any]) -> t.Callable[..., t.Any]:
        def call(*args: t.Any, **more: t.Any) -> t.Any:
            if function.__name__ == "open" and not args[1] & os.O_CREAT:
                # What is only looked at changes nothing.
                return function(*args, **more)
            self._left -= 1
            if self._left == -1 and not self._after:
                raise _Killed
            killed = self._left == -1
            try:
                return function(*args, **more)
            finally:
                if killed:
                    raise _Killed

        return call


@pytest.mark.parametrize("original", [None, b'{"log-driver": "journald"}\n'])
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("then", ["present", "absent"])
@pytest.mark.parametrize("what", ["present", "again", "absent", "edited"])
def test_killed_at_every_step(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, original: bytes | None, after: bool, then: str, what: str
) -> None:
    for when in range(1000):
        (tmp_path / str(when)).mkdir()
        host = Host(tmp_path / str(when), original)
        before = host.listing()
        options = {"cdi": True} if what == "again" else {}
        if what != "present":
            host.present()
        if what == "edited":
            host.path.write_text(json.dumps(json.loads(host.path.read_text()) | {"debug": True}))
        killed = False
        with monkeypatch.context() as patch:
            Killer(patch, host, when, after)
            try:
                host.run("absent" if what in ("absent", "edited") else "present", **options)
            except _Killed:
                killed = True
        # A reader now finds the original bytes.
        entry = host.journal.entry(str(host.path))
        if what != "edited":
            assert host.content == original or (entry is not None and entry.original == original)
        host.run(then, **(options if then == "present" else {}))
        if then == "present":
            assert host.uses == "nvidia"
            assert not host.present(**options)["changed"]
            host.absent()
        assert host.uses == "runc"
        assert not host.docker.cdi
        if what == "edited":
            assert json.loads(host.path.read_text()) == json.loads(original or b"{}") | {"debug": True}
            assert host.journal.entry(str(host.path)) is None
        else:
            assert host.listing() == before
        if not killed:
            assert when > 10
            return
    raise AssertionError("it never ends")
