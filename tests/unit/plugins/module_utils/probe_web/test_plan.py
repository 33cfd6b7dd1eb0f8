# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ansible_collections.kubegpu.tenancy.plugins.module_utils._probe_web.plan import Settings, manifests

ANY = {"operator": "Exists"}


def test_pods_are_submitted_to_a_queue():
    deployment, _service, pod = manifests(Settings(scheduler_name="kai-scheduler", queue="training"), "token", 1)
    template = deployment["spec"]["template"]
    submitted = {"kai.scheduler/queue": "training", "priorityClassName": "train"}
    assert [template["spec"]["schedulerName"], pod["spec"]["schedulerName"]] == ["kai-scheduler"] * 2
    assert pod["metadata"]["labels"] == submitted
    assert template["metadata"]["labels"].items() >= submitted.items()


def test_manifests_belong_together_and_are_restricted():
    deployment, service, pod = manifests(Settings("apart", tolerations=(ANY,)), "abc", 20)
    template = deployment["spec"]["template"]
    assert service["spec"]["selector"] == deployment["spec"]["selector"]["matchLabels"] == template["metadata"]["labels"]
    # The Service must not reach the client itself.
    assert "labels" not in pod["metadata"]
    assert "http://kubegpu-web-probe.apart.svc:8080/" in pod["spec"]["containers"][0]["command"][2]
    for spec in (template["spec"], pod["spec"]):
        assert spec["tolerations"] == [ANY]
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["containers"][0]["securityContext"]["capabilities"] == {"drop": ["ALL"]}
