# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the adapters to systemd and HAProxy, with doubles of their programs and the real network of the loopback."""

from __future__ import annotations

import os
import pathlib
import socket
import typing as t

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.files import Files
from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.haproxy import HAProxy
from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.services import Services
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import CommandFailed

LOOPBACK = "127.0.0.1"


class Script:
    """Answers programs, and notes how they were called."""

    def __init__(self, *answers: tuple[int, str, str]) -> None:
        self.answers = list(answers)
        self.calls: list[str] = []

    def __call__(self, args: list[str], **_more: t.Any) -> tuple[int, str, str]:
        self.calls.append(" ".join(args))
        return self.answers.pop(0) if self.answers else (0, "", "")


def programs(script: Script, *there: str) -> tuple[Script, t.Callable[[str], str | None]]:
    return script, lambda name: f"/{name}" if name in there else None


def test_what_systemd_is_told() -> None:
    script = Script()
    services = Services(*programs(script))
    services.enable("a.service", 20)
    services.bring("reload", "a.service", 20)
    services.end("a.service", False, 20)
    services.end("a.service", True, 20)
    services.forget("a.service", 20)
    assert [call.partition("systemctl ")[2] for call in script.calls] == [
        *("daemon-reload", "enable a.service"),
        *("reset-failed a.service", "reload a.service"),
        "stop a.service",
        *("stop a.service", "disable a.service"),
        *("daemon-reload", "reset-failed a.service"),
    ]


def test_systemds_error_is_told() -> None:
    script = Script((0, "", ""), (1, "", "Job for a.service failed.\n"), (0, "cannot bind\n", ""), (0, "", ""))
    services = Services(*programs(script))
    with pytest.raises(CommandFailed, match=r"^systemctl restart a\.service failed: Job for a\.service failed\.$"):
        services.bring("restart", "a.service", 20)
    assert (services.log("a.service"), services.log("a.service")) == ("cannot bind", "nothing")
    assert Services(*programs(Script((0, "ActiveState=active\n", "")))).properties("a.service") == "ActiveState=active\n"


def test_a_configuration_is_checked_under_its_own_name() -> None:
    script = Script((1, "", "[ALERT] /tmp/x:7 : unknown keyword\n"))

    def run(args: list[str], **more: t.Any) -> tuple[int, str, str]:
        assert pathlib.Path(args[-1]).read_text() == "listen a\n"
        rc, out, err = script(args, **more)
        return rc, out, err.replace("/tmp/x", args[-1])

    with pytest.raises(CommandFailed, match=r"the former one stays: \[ALERT\] haproxy\.cfg:7 : unknown keyword$"):
        HAProxy(run, lambda _name: "/usr/sbin/haproxy").validate("listen a\n")
    HAProxy(run, lambda _name: "/usr/sbin/haproxy").validate("listen a\n")
    HAProxy(run, lambda _name: None).validate("without the program")
    assert len(script.calls) == 2


def test_a_port_that_another_program_holds_is_found_and_a_free_one_can_be_bound() -> None:
    pid = os.getpid()
    script = Script((0, f'LISTEN 0 1 127.0.0.1:1 0.0.0.0:* users:(("python",pid={pid},fd=3))\n', ""))
    with socket.socket() as other:
        other.bind((LOOPBACK, 0))
        other.listen()
        port = other.getsockname()[1]
        said = HAProxy(*programs(script, "ss")).unbindable(LOOPBACK, port)
        assert said.startswith(f"python listens there (process {pid}")
        assert script.calls[0].endswith(f"sport = :{port}")
        assert HAProxy(*programs(Script())).unbindable(LOOPBACK, port) == "another program listens there"
        assert HAProxy(*programs(Script())).answers(LOOPBACK, port)
    assert not HAProxy(*programs(Script())).answers(LOOPBACK, port)
    assert HAProxy(*programs(Script())).unbindable(LOOPBACK, port) == ""
    assert HAProxy(*programs(Script())).unbindable("192.0.2.1", port) == "this host has no such address"


def test_what_a_killed_run_left_of_a_file_goes_with_it(tmp_path: pathlib.Path) -> None:
    for name in ("a.service", ".a.service.kubegpu", "b.service"):
        (tmp_path / name).write_text("x")
    Files.remove_written(str(tmp_path / "a.service"))
    assert os.listdir(tmp_path) == ["b.service"]
    Files.remove_written(str(tmp_path / "a.service"))
