# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
import yaml
from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters import host
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.run import Run
from ansible_collections.kubegpu.tenancy.plugins.modules import docker_runtime_info

ALL = {
    "nvidia-smi": (0, "580.82.07\n580.82.07\n", ""),
    "docker": (0, "Docker version 26.1.5, build a72d7cd\n", ""),
    "nvidia-ctk": (0, "NVIDIA Container Toolkit CLI version 1.20.1\n", ""),
    "nvidia-container-runtime": (0, "", ""),
}
CONFIG = "accept-nvidia-visible-devices-as-volume-mounts = true\n"
INOTIFY = "fs.inotify.max_user_instances"


@pytest.fixture(name="look")
def _look(monkeypatch):
    """Look at a host with these programs, each with exit status, output and error output."""

    def look(programs, limits=(), kernel="128\n"):
        monkeypatch.setattr(host, "_read", lambda path: {f"/proc/sys/{INOTIFY.replace('.', '/')}": kernel}[path])

        def run_command(args, **_more):
            assert args[0].startswith("/usr/bin/")
            return (0, CONFIG, "") if args[1] == "config" else programs[args[0].rpartition("/")[2]]

        run = Run({"toolkit_config": "/etc/x.toml", "limits": dict(limits)})
        run.run_program = run_command
        run.find_program = lambda name: f"/usr/bin/{name}" if name in programs else None
        return docker_runtime_info.reconcile(run)

    return look


def test_a_host_with_everything(look):
    result = look(ALL)
    assert [result[name]["version"] for name in ("driver", "docker", "toolkit")] == ["580.82.07", "26.1.5", "1.20.1"]
    assert (result["runtime_program"], result["toolkit_config"]) == ("/usr/bin/nvidia-container-runtime", CONFIG)
    assert (result["changed"], result["low_limits"]) == (False, {})


def test_what_is_returned_is_what_is_documented(look):
    returned = yaml.safe_load(docker_runtime_info.RETURN)
    result = look(ALL)
    assert result.keys() - returned.keys() == {"changed", "diff", "seconds"}
    assert result["driver"].keys() == returned["docker"]["contains"].keys()


def test_a_host_with_nothing(look):
    result = look({})
    for name, program in (("driver", "nvidia-smi"), ("docker", "docker"), ("toolkit", "nvidia-ctk")):
        assert result[name] == {"rc": 127, "version": "", "output": f"{program} is not on this host"}
    assert (result["runtime_program"], result["toolkit_config"]) == (None, None)


def test_programs_that_fail_or_do_not_know_their_version(look):
    result = look({"nvidia-smi": (9, "NVIDIA-SMI 580.82 has failed\n", ""), "nvidia-ctk": (0, "version unknown\n", "")})
    assert result["driver"] == {"rc": 9, "version": "", "output": "NVIDIA-SMI 580.82 has failed"}
    assert result["toolkit"] == {"rc": 0, "version": "", "output": "version unknown"}
    assert result["toolkit_config"] == CONFIG


@pytest.mark.parametrize(("kernel", "low"), [("128\n", {INOTIFY: 8192}), ("8192\n", {}), ("65536\n", {})])
def test_limits_that_are_too_low(look, kernel, low):
    assert look(ALL, {INOTIFY: "8192"}, kernel)["low_limits"] == low


def test_a_limit_that_is_no_number(look):
    with pytest.raises(TenancyError, match=rf"{INOTIFY} is no setting of this host's kernel with a number"):
        look(ALL, {INOTIFY: 8192}, "many\n")
