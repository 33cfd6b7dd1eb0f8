# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Gatekeeper itself beside an API server, with the files that render writes for it: what its webhook answers, and what its audit reports.

tests/contract/test_gatekeeper.py has the requests, and tries the same without a cluster. Needs no lab, and no Docker.
"""

from __future__ import annotations

import copy
import dataclasses
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes
import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.kubernetes import Kube
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.names import TENANT_LABEL
from ansible_collections.kubegpu.tenancy.tests.contract.pods import TENANT
from ansible_collections.kubegpu.tenancy.tests.contract.test_gatekeeper import (
    GATEKEEPER,
    OF_ITS_OWN,
    SANDBOXED,
    Request,
    changes,
    creations,
    namespace,
    of_a_sandbox,
    of_records,
    stored,
)
from ansible_collections.kubegpu.tenancy.tests.faults.api_server import ApiServer, garbage_collected
from ansible_collections.kubegpu.tenancy.tests.faults.gatekeeper import AUDIT, WEBHOOK, Gatekeeper
from ansible_collections.kubegpu.tenancy.tests.faults.labs import ROOT
from ansible_collections.kubegpu.tenancy.tests.faults.test_drift import ACCEPTED
from ansible_collections.kubegpu.tenancy.tests.unit.playbooks import NODE, RUNTIME_CLASS, STORAGE
from ansible_collections.kubegpu.tenancy.tests.unit.recipes import built
from ansible_collections.kubegpu.tenancy.tests.unit.test_rollout_playbook import awaited

Object = dict[str, Any]
# As long as a name of a tenant can be: names of objects are built from it.
LONG = "a-team-with-the-longest-name-that-one-is"
KATA = {"trust": "partial", "sandbox": {"runtime_class": "kata"}}
TENANTS: list[Object] = [
    {
        "name": TENANT,
        "trust": "partial",
        "gpu_nodes": {"names": ["w1"], "shared_gpus": 2, "share_gpus_with": "any"},
        "scheduler": {"name": "kai", "shared": True},
        "queues": [{"name": "vision", "gpu": {"quota": 2, "limit": 2}}],
    },
    {"name": OF_ITS_OWN, "trust": "partial", "gpu_nodes": {"names": ["w1"], "shared_gpus": 1}},
    {"name": SANDBOXED} | KATA,
    {"name": LONG} | KATA,
]
# Of each tenant there is one for pods and one for records, and of a tenant in a sandbox one for workloads.
CONSTRAINTS = 10
SHARED = {"name": "kai", "version": "v0.13.1", "gpu_sharing": True, "accept_hazards": ACCEPTED}
CPU_NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "w2"}, "status": {"allocatable": {"cpu": "4"}}}
TEMPLATE, DEFINITION = (
    ("templates.gatekeeper.sh/v1", "ConstraintTemplate"),
    ("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
)
GROUP = "constraints.gatekeeper.sh"
STATUS = ("status.gatekeeper.sh/v1beta1", ("ConstraintPodStatus", "ConstraintTemplatePodStatus"))
# Seconds, on a machine that does other things.
PLAY, SOON = 300, 120
BY_GATEKEEPER = 'admission webhook "validation.gatekeeper.sh" denied the request: ['
BY_POLICY = "ValidatingAdmissionPolicy 'kubegpu-tenancy-"


@dataclasses.dataclass
class Cluster:
    """An API server with Gatekeeper, and the files of its tenants.

    :ivar before: names of the objects that requests change, by the names of these requests.
    """

    server: ApiServer
    gatekeeper: Gatekeeper
    files: Path
    kube: Kube
    before: dict[str, str] = dataclasses.field(default_factory=dict)

    def kubectl(self, *arguments: str) -> str:
        program = next((Path(os.environ["KUBEGPU_CACHE"]) / "programs").glob("kubernetes-*/kubectl"))
        command = [str(program), f"--kubeconfig={self.server.kubeconfig}", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=SOON, check=False)
        assert done.returncode == 0, f"{' '.join(arguments)}: {done.stdout}{done.stderr}"
        return done.stdout

    def apply(self, folder: str) -> None:
        """Apply a folder of each tenant's files."""
        for tenant in TENANTS:
            self.kubectl("apply", "-k", str(self.files / tenant["name"] / folder))

    def kinds(self, tenant: str = "") -> list[str]:
        """Return the kinds of constraints that the API server knows, of a tenant or of all."""
        found = [item["spec"] for item in self.kube.list(*DEFINITION) if item["spec"]["group"] == GROUP]
        return sorted(one["names"]["kind"] for one in found if one["names"]["kind"].endswith(tenant))

    def wait_for_no_kinds(self, tenant: str) -> None:
        awaited(lambda: self.kinds(tenant) == [], SOON)

    def constraints(self) -> list[Object]:
        return [one for kind in self.kinds() for one in self.kube.list(f"{GROUP}/v1beta1", kind)]

    def store(self, item: Object, name: str) -> None:
        """Create an object under a name; its ephemeral containers are added later, as by kubectl debug."""
        item = valid(item) | {"metadata": {k: v for k, v in item["metadata"].items() if k != "generateName"} | {"name": name}}
        added = item["spec"].pop("ephemeralContainers", []) if item["kind"] == "Pod" else []
        self.kube.create(item)
        if added:
            self._add(item, added)

    def _add(self, pod: Object, containers: list[Object], **how: Any) -> None:
        resource = self.kube.client.require("v1", "Pod").subresources["ephemeralcontainers"]
        body = {"spec": {"ephemeralContainers": containers}}
        place = (pod["metadata"]["name"], pod["metadata"]["namespace"])
        resource.patch(body, *place, content_type="application/strategic-merge-patch+json", **how)

    def refusal(self, name: str, request: Request) -> str:
        """Make a request under its account, and return what it is refused for; nothing is stored."""
        # All of them have all rights: what is refused is refused by rules.
        account = {"Impersonate-User": request.user, "Impersonate-Group": "system:masters"}
        try:
            self._make(name, request, {"dry_run": "All", "header_params": account})
        except kubernetes.client.ApiException as exc:
            return str(json.loads(exc.body)["message"])
        return ""

    def _make(self, name: str, request: Request, how: Object) -> None:
        shown = request.after or request.before
        place = shown["metadata"]["namespace"]
        resource = self.kube.client.require(shown["apiVersion"], shown["kind"])
        if not request.before:
            resource.create(valid(request.after), place, **how)
        elif not request.after:
            resource.delete(self.before[name], place, **how)
        elif request.subresource:
            there = self.kube.get("v1", "Pod", self.before[name], place)
            self._add(there, request.after["spec"]["ephemeralContainers"], **how)
        else:
            there = self.kube.get(shown["apiVersion"], shown["kind"], self.before[name], place)
            resource.replace(changed(there, request.after), namespace=place, **how)

    def verdicts(self, requests: dict[str, Request], by: str) -> dict[str, tuple[str, str]]:
        """Return the requests that have another verdict than theirs, or theirs by somebody else, with what was said and expected."""
        said = {name: self.refusal(name, request) for name, request in requests.items()}
        return {
            name: (said[name], one.refusal)
            for name, one in requests.items()
            if bool(said[name]) != bool(one.refusal) or one.refusal not in said[name] or (one.refusal and by not in said[name])
        }


def valid(item: Object) -> Object:
    """Return an object with what an API server asks of a workload besides."""
    item = copy.deepcopy(item)
    if item["kind"] == "StatefulSet":
        labels = {"app": "plane"}
        item["spec"] |= {"selector": {"matchLabels": labels}, "serviceName": "plane", "replicas": 0}
        item["spec"]["template"]["metadata"]["labels"] = labels
    return item


def changed(there: Object, after: Object) -> Object:
    """Return an object that exists with the labels, the annotations and the template of another."""
    made, wanted = copy.deepcopy(there), valid(after)
    made["metadata"] |= {key: wanted["metadata"].get(key) or {} for key in ("labels", "annotations")}
    if made["kind"] == "StatefulSet":
        made["spec"]["template"] = wanted["spec"]["template"]
    return made


def asked() -> dict[str, Request]:
    """Return the requests that can be made of an API server: what resizes a pod changes none of its labels there."""
    found = creations() | changes() | of_a_sandbox() | of_records()
    return {name: one for name, one in found.items() if one.subresource != "resize"}


def render(server: ApiServer, folder: Path) -> Path:
    """Have the playbook write the files for kubectl and Gatekeeper, and return the folder of the cluster."""
    cache = Path(os.environ["KUBEGPU_CACHE"])
    host = {
        "ansible_connection": "local",
        "ansible_python_interpreter": sys.executable,
        "kubegpu_cluster_provider": "existing",
        "kubegpu_kubeconfig": str(server.kubeconfig),
        "kubegpu_charts": str(cache / "charts"),
        "kubegpu_shared_scheduler": SHARED,
        "kubegpu_tenants": TENANTS,
    }
    inventory = folder / "hosts.json"
    inventory.write_text(json.dumps({"kubegpu_clusters": {"hosts": {"gpu1": host}}}))
    options = {"render_dest": str(folder / "files"), "render_format": "helm", "render_gatekeeper": True}
    command = ["ansible-playbook", "playbooks/render.yml", f"--inventory={inventory}", f"--extra-vars={json.dumps(options)}"]
    helm = next((cache / "programs").glob("helm-*"))
    environment = os.environ | {"PATH": f"{helm}:{os.environ['PATH']}"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=PLAY, check=False)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr
    return folder / "files/gpu1"


@pytest.fixture(name="cluster", scope="module")
def _cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster whose tenants had objects before it had Gatekeeper, and which has no policies of the API server yet."""
    builder, folder = built(ROOT / "tests/contract", GATEKEEPER), tmp_path_factory.mktemp("gatekeeper")
    programs = builder.cache / "programs"
    program = builder.program_dir(GATEKEEPER) / "gatekeeper"
    manifests = builder.compiler.module_dir(GATEKEEPER) / "deploy/gatekeeper.yaml"
    # Nobody makes accounts for pods there.
    with ApiServer(folder / "api", programs, "--disable-admission-plugins=ServiceAccount") as server:
        server.wait()
        classes = [RUNTIME_CLASS | {"metadata": {"name": name}} for name in ("nvidia", "kata", TENANT)]
        for item in (NODE, CPU_NODE, STORAGE, *classes, namespace("other")):
            server.kube.create(item)
        with (
            garbage_collected(server, programs),
            Gatekeeper(folder / "gatekeeper", server, program, manifests) as gatekeeper,
        ):
            cluster = Cluster(server, gatekeeper, render(server, folder), server.kube)
            for tenant in TENANTS:
                cluster.kubectl("apply", "-f", str(cluster.files / tenant["name"] / "namespace.yaml"))
            for number, (item, _told) in enumerate(stored().values()):
                cluster.store(item, f"stored-{number}")
            gatekeeper.install()
            yield cluster


def enforced(cluster: Cluster) -> bool:
    """Whether both programs of Gatekeeper say that they have all constraints as they are by now."""
    found = cluster.constraints()
    seen = [
        {
            one["id"]
            for one in item.get("status", {}).get("byPod", [])
            if one.get("observedGeneration") == item["metadata"]["generation"]
        }
        for item in found
    ]
    return len(found) == CONSTRAINTS and all(pods == {AUDIT, WEBHOOK} for pods in seen)


def test_it_takes_up_all_templates_and_constraints(cluster: Cluster) -> None:
    cluster.apply("gatekeeper/templates")
    awaited(lambda: len(cluster.kinds()) == CONSTRAINTS, SOON)
    awaited(lambda: all(cluster.kube.served(f"{GROUP}/v1beta1", kind) for kind in cluster.kinds()), SOON)
    cluster.apply("gatekeeper/constraints")
    awaited(lambda: enforced(cluster), SOON)
    for item in cluster.constraints():
        assert [(one["enforced"], one.get("errors")) for one in item["status"]["byPod"]] == [(True, None)] * 2, item["status"]
    templates = cluster.kube.list(*TEMPLATE)
    assert [item["status"]["created"] for item in templates] == [True] * CONSTRAINTS
    assert [one["errors"] for item in templates for one in item["status"]["byPod"] if one.get("errors")] == []


def test_its_audit_reports_what_was_stored_before_and_breaks_a_rule_and_nothing_else(cluster: Cluster) -> None:
    wanted = {f"stored-{number}": told for number, (_item, told) in enumerate(stored().values())}
    # Times of audits are in seconds, and each is when an audit began.
    since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    awaited(lambda: all(item["status"].get("auditTimestamp", "") > since for item in cluster.constraints()), SOON)
    said: dict[str, list[str]] = {}
    for item in cluster.constraints():
        for one in item["status"].get("violations", []):
            said.setdefault(one["name"], []).append(one["message"])
    wrong = {
        name: (said.get(name), told)
        for name, told in wanted.items()
        if bool(told) != (name in said) or told not in " ".join(said.get(name, []))
    }
    assert wrong == {}
    assert said.keys() <= wanted.keys()


def test_by_default_its_webhook_refuses_nothing_and_logs_what_breaks_a_rule(cluster: Cluster) -> None:
    requests = asked()
    for number, (name, request) in enumerate(requests.items()):
        if request.before:
            cluster.before[name] = f"before-{number}"
            cluster.store(request.before, cluster.before[name])
    logged = {}
    for name, request in requests.items():
        before = cluster.gatekeeper.reported()
        assert cluster.refusal(name, request) == ""
        logged[name] = cluster.gatekeeper.reported() > before
    assert logged == {name: bool(request.refusal) for name, request in requests.items()}


def test_told_to_deny_its_webhook_gives_the_verdict_of_the_api_server(cluster: Cluster) -> None:
    denied = [{"action": "deny", "enforcementPoints": [{"name": "validation.gatekeeper.sh"}]}]
    for item in cluster.constraints():
        spec = {"scopedEnforcementActions": denied}
        cluster.kube.patch(item["apiVersion"], item["kind"], item["metadata"]["name"], {"spec": spec})
    awaited(lambda: enforced(cluster), SOON)
    assert cluster.verdicts(asked(), BY_GATEKEEPER) == {}


def test_once_its_webhook_has_ended_the_api_server_admits_but_for_the_policies(cluster: Cluster) -> None:
    cluster.gatekeeper.kill(WEBHOOK)
    requests = asked()
    assert {name: said for name, one in requests.items() if (said := cluster.refusal(name, one))} == {}
    cluster.apply("")
    # It takes them up after they are written.
    awaited(lambda: not cluster.verdicts(requests, BY_POLICY), SOON)


def test_beside_the_policies_its_webhook_gets_what_they_admitted(cluster: Cluster) -> None:
    cluster.gatekeeper.start(WEBHOOK)
    logged = cluster.gatekeeper.reported()
    assert cluster.verdicts(asked(), BY_POLICY) == {}
    assert cluster.gatekeeper.reported() == logged
    # It was there all the time: what one tenant's policies refuse no longer, it refuses.
    cluster.kubectl("delete", "-f", str(cluster.files / OF_ITS_OWN / "policies.yaml"))
    of_one = {name: one for name, one in creations().items() if name.startswith("own: ")}
    awaited(lambda: not cluster.verdicts(of_one, BY_GATEKEEPER), SOON)


def test_removed_by_the_templates_of_a_tenant_nothing_of_them_stays(cluster: Cluster) -> None:
    left = CONSTRAINTS
    for name in (OF_ITS_OWN, TENANT, SANDBOXED, LONG):
        left -= len(cluster.kinds(name))
        cluster.kubectl("delete", "constrainttemplates", "--selector", f"{TENANT_LABEL}={name}")
        # They belong to the templates.
        cluster.wait_for_no_kinds(name)
        assert len(cluster.kinds()) == left
    awaited(lambda: [one for kind in STATUS[1] for one in cluster.kube.list(STATUS[0], kind)] == [], SOON)
    of_one = {name: one for name, one in creations().items() if name.startswith("own: ")}
    assert {name: said for name, one in of_one.items() if (said := cluster.refusal(name, one))} == {}
