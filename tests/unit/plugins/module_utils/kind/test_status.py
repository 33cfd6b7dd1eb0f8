# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of what Docker, the nodes and nvkind show of a cluster."""

from __future__ import annotations

import datetime
import hashlib
import pathlib
import subprocess
import typing as t

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.nvidia import Gpu
from ansible_collections.kubegpu.tenancy.plugins.module_utils._kind import status
from ansible_collections.kubegpu.tenancy.plugins.module_utils._kind.status import Inside, LiveNode

LISTING = """GPU 0: NVIDIA H200 (UUID: GPU-0000)
  MIG 1g.18gb     Device  0: (UUID: MIG-aaaa)
GPU 1: NVIDIA H200 (UUID: GPU-0001)
"""


def test_nodes_are_read_from_docker() -> None:
    mounts = {"/etc/containerd/certs.d": "/certs", "/var": "/v", "/var/run/nvidia-container-devices/GPU-0001": "/dev/null"}
    container = {
        "Name": "/lab-worker",
        "Config": {"Image": "kindest/node:v1", "Labels": {"io.x-k8s.kind.cluster": "lab", "io.x-k8s.kind.role": "worker"}},
        "State": {"Status": "exited", "StartedAt": "2026-01-31T12:00:00.123456789Z"},
        "Mounts": [{"Source": source, "Destination": place} for place, source in mounts.items()],
    }
    assert status.parse_nodes([container]) == [
        LiveNode("lab-worker", "worker", "kindest/node:v1", False, "2026-01-31T12:00:00", frozenset({"GPU-0001"}), "/certs")
    ]


@pytest.mark.parametrize(
    ("started", "lately"),
    [("", False), ("2026-01-31T12:00:00", True), ("2026-01-31T11:40:00", False), ("0001-01-01T00:00:00", False)],
)
def test_nodes_that_were_started_lately(started: str, lately: bool) -> None:
    assert status.lately(started, datetime.datetime(2026, 1, 31, 12, 5, tzinfo=datetime.timezone.utc)) is lately


@pytest.mark.parametrize(
    ("state", "unreported"),
    [
        ({"running": {"startedAt": "2026-01-31T11:59:59Z"}}, True),
        ({"running": {"startedAt": "2026-01-31T12:00:01Z"}}, False),
        ({"waiting": {"reason": "CrashLoopBackOff"}}, False),
        ({"terminated": {"startedAt": "2026-01-31T11:00:00Z"}}, False),
    ],
)
def test_a_node_whose_pods_are_shown_as_before_its_start_has_not_reported(state: dict, unreported: bool) -> None:
    pods = [
        {"spec": {"nodeName": "n1"}, "status": {"containerStatuses": [{"state": state}]}},
        {"spec": {"nodeName": "other"}, "status": {"containerStatuses": [{"state": {"running": {"startedAt": "2026"}}}]}},
        {"spec": {}},
    ]
    expected = ["n1 has not reported its pods since it was started"] if unreported else []
    assert status.unreported(pods, {"n1": "2026-01-31T12:00:00"}) == expected


def test_a_node_shows_its_state(tmp_path: pathlib.Path) -> None:
    """The script runs here, where it finds nothing of a node, and still answers."""
    file = tmp_path / "file"
    file.write_text("x")
    done = subprocess.run(
        ["bash", "-e", "-s", "--", str(file), str(tmp_path / "none")],
        input=status.INSPECT,
        text=True,
        check=True,
        capture_output=True,
    )
    assert status.parse_inside(done.stdout).files == {str(file): hashlib.sha256(b"x").hexdigest()}
    assert status.parse_inside(f"minor 3\nstate joined\nstate up\nstate cdi\n{LISTING}") == Inside(
        {}, frozenset({3}), ["GPU-0000", "GPU-0001"], frozenset({"joined", "up", "cdi"})
    )


def test_the_gpus_inside_have_to_be_those_assigned() -> None:
    gpus = [Gpu(0, "GPU-0000", 0), Gpu(1, "GPU-0001", 1)]

    def check(*uuids: str) -> None:
        status.check_gpus("lab-worker", gpus, Inside({}, frozenset(), list(uuids), frozenset()))

    check("GPU-0001", "GPU-0000")
    with pytest.raises(TenancyError, match="GPUs GPU-0000, GPU-0001, but sees GPU-0000"):
        check("GPU-0000")
    with pytest.raises(TenancyError, match=r"sees none\. Docker's default runtime"):
        check()


def test_unready_nodes_are_named_with_their_reason() -> None:
    def node(name: str, ready: str) -> dict[str, t.Any]:
        conditions = [{"type": "Ready", "status": ready, "message": "no network"}]
        return {"metadata": {"name": name}, "status": {"conditions": conditions}}

    live = [node("lab-control-plane", "True"), node("lab-worker", "False")]
    assert status.unready(live, ["lab-control-plane", "lab-worker", "lab-worker2"]) == [
        "lab-worker is not ready: no network",
        "lab-worker2 has not joined",
    ]
