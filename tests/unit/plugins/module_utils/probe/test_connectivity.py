# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._engine import probe
from ansible_collections.kubegpu.tenancy.tests.unit.api import InMemoryApi
from ansible_collections.kubegpu.tenancy.tests.unit.runs import make_run

NAMESPACE = "kubegpu-services-probe"
CLIENT = "kubegpu-services-probe-ml-0"
REGISTRY = {"name": "registry", "namespace": "registry", "labels": {"app": "registry"}, "ports": [5000, 5001]}
MONITORING = {"name": "monitoring", "namespace": "monitoring", "labels": {"app": "prometheus"}, "ports": [80, 9400]}
READY = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}


def pod(name, namespace, address, labels=None, **spec):
    metadata = {"name": name, "namespace": namespace, "labels": labels or {}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": READY | {"podIP": address}}


class Clusters:
    """A tenant and its host cluster, on which a client ends at once: well, or with the message of its name."""

    def __init__(self, messages=None):
        self.messages = messages or {}
        namespaces = [
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": n, "uid": f"uid-{n}"}} for n in ("monitoring",)
        ]
        others = [
            pod("a", "registry", "10.0.0.1", {"app": "else"}),
            pod("b", "registry", "10.0.0.2", {"app": "registry"}, hostNetwork=True),
            pod("c", "registry", "10.0.0.3", {"app": "registry", "version": "2"}),
        ]
        self.host, self.tenant, self.created = InMemoryApi([*namespaces, *others]), InMemoryApi(), {}
        self.tenant.react("create", "Namespace", self.tenant.add_account)
        for api in (self.host, self.tenant):
            api.react("create", "Pod", lambda item, api=api: self._run(api, item))

    def _run(self, api, item):
        name = item["metadata"]["name"]
        self.created[name] = item
        if name == "server":
            api.put(item | {"status": READY | {"podIP": "10.1.0.9"}})
            return
        message = self.messages.get(name)
        ended = {"terminated": {"reason": "Error", "message": message}}
        status = {"phase": "Failed" if message else "Succeeded", "containerStatuses": [{"name": "probe", "state": ended}]}
        api.put(item | {"status": {"phase": "Pending"} if message == "never" else status})

    def probe(self, check_mode=False, egress=(REGISTRY,), ingress=(MONITORING,)):
        params = {
            "kind": "connectivity",
            "tenant": "ml",
            "tenant_kubeconfig": "/x",
            "network": {"egress": list(egress), "ingress": list(ingress)},
            "timeout": 60,
        }
        return probe.reconcile(make_run(params, self.host, check_mode=check_mode), self.tenant)


def verdicts(result):
    return {found["name"]: (found["verdict"], found["reason"]) for found in result["results"]}


def script(item):
    return item["spec"]["containers"][0]["command"][-1]


def test_both_directions_are_tried_and_nothing_is_left():
    clusters = Clusters()
    before = set(clusters.host.objects)
    result = clusters.probe()
    assert verdicts(result) == {
        "egress registry": ("passed", "reached namespace registry from the tenant at TCP 5000, 5001"),
        "ingress monitoring": ("passed", "reached the tenant from namespace monitoring at TCP 80, 9400"),
    }
    assert set(clusters.host.objects) == before
    assert [key for key in clusters.tenant.objects if NAMESPACE in key and "Pod" in key] == []
    # A ready pod of the service that a policy's rule for pods holds for.
    assert "for port in 5000 5001; " in script(clusters.created["egress-0"])
    assert "nc -w 2 10.0.0.3 $port -e true" in script(clusters.created["egress-0"])


def test_the_pod_on_the_host_is_adopted_by_no_controller_and_chosen_by_no_service():
    clusters = Clusters()
    clusters.probe()
    client = clusters.created[CLIENT]
    assert (client["metadata"]["namespace"], client["metadata"]["labels"]["app"]) == ("monitoring", "prometheus")
    assert [(owner["uid"], owner["controller"]) for owner in client["metadata"]["ownerReferences"]] == [("uid-monitoring", True)]
    assert client["spec"]["containers"][0]["readinessProbe"]["exec"]["command"] == ["/bin/false"]
    assert "nc -w 2 10.1.0.9 $port -e true" in script(client)


def test_the_tenants_server_listens_at_all_ports_without_being_root():
    clusters = Clusters()
    clusters.probe(ingress=(MONITORING, MONITORING | {"name": "more", "ports": [8443]}))
    server = clusters.created["server"]
    assert script(server).startswith("httpd -p 80 -h /tmp && httpd -p 8443 -h /tmp && httpd -p 9400 -h /tmp && ")
    assert server["spec"]["securityContext"]["sysctls"] == [{"name": "net.ipv4.ip_unprivileged_port_start", "value": "0"}]
    assert server["spec"]["securityContext"]["runAsNonRoot"]
    clusters = Clusters()
    clusters.probe(ingress=(MONITORING | {"ports": [8443]},))
    assert "sysctls" not in clusters.created["server"]["spec"]["securityContext"]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("egress-0", "egress registry: did not reach namespace registry from the tenant: port 5000: no answer"),
        (CLIENT, "ingress monitoring: did not reach the tenant from namespace monitoring: port 5000: no answer"),
    ],
)
def test_what_is_not_reached_fails(name, reason):
    clusters = Clusters({name: "port 5000: no answer"})
    with pytest.raises(TenancyError, match=reason) as caught:
        clusters.probe()
    assert sorted(found["verdict"] for found in caught.value.details["results"]) == ["failed", "passed"]
    assert clusters.host.get("v1", "Pod", CLIENT, "monitoring") is None


def test_a_client_that_never_ends_fails_alone():
    clusters = Clusters({"egress-0": "never"})
    with pytest.raises(TenancyError, match=r"1 of 2 checks failed\. egress registry: .*Pending"):
        clusters.probe()


def test_services_that_are_not_there_are_not_tried():
    clusters = Clusters()
    absent = {"name": "absent", "namespace": "absent", "labels": {}, "ports": [1]}
    assert verdicts(clusters.probe(egress=(absent, REGISTRY | {"labels": {"app": "x"}}), ingress=(absent,))) == {
        "egress absent": ("not_tried", "namespace absent has no ready pod"),
        "egress registry": ("not_tried", "namespace registry has no ready pod with app=x"),
        "ingress absent": ("not_tried", "the host cluster has no namespace absent"),
    }


def test_what_a_killed_probe_left_is_removed_first_and_what_is_not_ours_stays():
    clusters = Clusters()
    clusters.probe()
    clusters.host.put(clusters.created[CLIENT])
    assert verdicts(clusters.probe())["ingress monitoring"][0] == "passed"
    clusters.host.put(pod(CLIENT, "monitoring", "10.0.0.9"))
    with pytest.raises(TenancyError, match=f"Pod {CLIENT} in namespace monitoring is not this collection's"):
        clusters.probe()
    assert clusters.host.get("v1", "Pod", CLIENT, "monitoring")


def test_check_mode_and_no_services():
    clusters = Clusters()
    assert verdicts(clusters.probe(check_mode=True)) == {
        "egress registry": ("not_tried", "check mode"),
        "ingress monitoring": ("not_tried", "check mode"),
    }
    assert clusters.probe(egress=(), ingress=())["results"] == []
    assert clusters.host.writes == clusters.tenant.writes == []
