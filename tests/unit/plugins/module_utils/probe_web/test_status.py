# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._probe_web import status
from ansible_collections.kubegpu.tenancy.plugins.module_utils._probe_web.plan import NAME, SCHEDULER


def client(phase, message="", ready=False):
    return {
        "metadata": {"name": NAME},
        "spec": {"schedulerName": "default-scheduler"},
        "status": {
            "phase": phase,
            "conditions": [{"type": "Ready", "status": str(ready)}],
            "containerStatuses": [{"name": "probe", "state": {"terminated": {"reason": "Error", "message": message}}}]
            if phase in ("Succeeded", "Failed")
            else [],
        },
    }


SERVER = {
    "metadata": {"name": "probe-1"},
    "spec": {},
    "status": {
        "phase": "Pending",
        "containerStatuses": [{"name": "probe", "state": {"waiting": {"reason": "ErrImagePull", "message": "no host"}}}],
    },
}


@pytest.mark.parametrize(
    ("pods", "verdict", "reason"),
    [
        ([client("Succeeded", "abc\n")], "passed", "through Service kubegpu-web-probe"),
        ([client("Succeeded", "nginx")], "failed", "another page was served: 'nginx'"),
        (
            [client("Failed", "wget: bad address"), SERVER],
            "failed",
            "wget: bad address; pod probe-1: probe: ErrImagePull (no host)",
        ),
        ([client("Running", ready=True)], None, "still fetching"),
        ([client("Pending"), SERVER], None, "ErrImagePull"),
        ([], None, "does not exist"),
    ],
)
def test_outcome(pods, verdict, reason):
    found, why = status.outcome(pods, "abc")
    assert found == verdict
    assert reason in why


def test_foreign_schedulers():
    assert status.foreign_schedulers([client("Running"), SERVER], SCHEDULER) == []
    assert status.foreign_schedulers([{"spec": {"schedulerName": "kai-scheduler"}}], SCHEDULER) == ["kai-scheduler"]
    assert status.foreign_schedulers([{"spec": {"schedulerName": "kai-scheduler"}}], "kai-scheduler") == []
