# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of edits of what charts made, on an API server that fills in defaults and refuses what no real one takes."""

from __future__ import annotations

import copy

import pytest
import yaml
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import ApiError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.run import Run
from ansible_collections.kubegpu.tenancy.plugins.module_utils._helm.lifecycle import Edits, HelmRelease
from ansible_collections.kubegpu.tenancy.plugins.module_utils._helm.values import Release, comparable
from ansible_collections.kubegpu.tenancy.tests.unit.api import InMemoryApi, merged
from ansible_collections.kubegpu.tenancy.tests.unit.helm import InMemoryHelm

# As charts write them: vCluster's policies for a tenant's workload and its control plane, with its StatefulSet and a Deployment.
CHART = """
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: workload, namespace: team}
spec:
  podSelector: {matchLabels: {vcluster.loft.sh/managed-by: r}}
  policyTypes: [Egress, Ingress]
  egress:
    - ports: [{port: 1053, protocol: UDP}, {port: 1053, protocol: TCP}, {port: 8443}]
      to: [{podSelector: {matchLabels: {release: r}}}]
    - to: [{namespaceSelector: {}, podSelector: {matchLabels: {app: dns}}}]
  ingress:
    - from: [{podSelector: {matchLabels: {release: r}}}]
    - ports: [{port: 80}]
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: closed, namespace: team}
spec: {podSelector: {}, policyTypes: [Ingress], ingress: []}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: empty, namespace: team}
rules: []
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: reader, namespace: team, labels: {app: r}}
rules: [{apiGroups: [""], resources: [pods], verbs: [get]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: collected}
aggregationRule: {clusterRoleSelectors: [{matchLabels: {app: r}}]}
rules: []
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: reader, namespace: team}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: reader}
subjects: [{kind: ServiceAccount, name: x, namespace: team}, {kind: ServiceAccount, name: x, namespace: other}, {kind: User, name: x}]
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: r, namespace: team}
spec:
  selector: {matchLabels: {app: r}}
  template:
    metadata: {labels: {app: r}, annotations: {}}
    spec:
      volumes: [{name: tmp, emptyDir: {}}, {name: config, configMap: {name: c}}]
      containers: [{name: main, image: "web:2", args: [], resources: {}, securityContext: {}}]
  volumeClaimTemplates: [{metadata: {name: data}, spec: {storageClassName: null, accessModes: [ReadWriteOnce]}}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: team}
spec:
  strategy: {type: Recreate}
  template:
    spec:
      affinity:
        podAntiAffinity:
          requiredDuringSchedulingIgnoredDuringExecution:
            - {labelSelector: {matchLabels: {app: a}}, topologyKey: host}
            - {labelSelector: {matchLabels: {tier: b}}, topologyKey: host}
      containers:
        - name: main
          image: "web:2"
          env: [{name: A, value: ""}, {name: B, value: b}]
          livenessProbe: {httpGet: {path: /, port: 80}}
          ports: [{name: dns, containerPort: 53}, {name: dns-udp, containerPort: 53, protocol: UDP}]
          volumeMounts: [{name: scripts, mountPath: /a}, {name: scripts, mountPath: /b, subPath: b, readOnly: true}]
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: team}
spec: {selector: {app: web}, ports: [{name: a, port: 53, protocol: UDP}, {name: b, port: 53}]}
---
apiVersion: v1
kind: Secret
metadata: {name: certificate, namespace: team}
data: {}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: r, namespace: team}
"""


def with_defaults(item):
    """Return an object as a real API server answers with it."""
    item = {key: value for key, value in item.items() if value not in (None, [])}
    spec = item.get("spec", {})
    template = spec.get("template", {}).get("spec", {})
    if item["kind"] == "NetworkPolicy":
        item["spec"] = {key: value for key, value in spec.items() if value != []}
        for rule in (*(spec.get("ingress") or []), *(spec.get("egress") or [])):
            ports(rule)
    if item["kind"] in ("Role", "ClusterRole"):
        # It is written without rules, too.
        item.setdefault("rules", None)
    for subject in item.get("subjects", []):
        subject.setdefault("apiGroup", "rbac.authorization.k8s.io") if subject["kind"] == "User" else None
    for volume in template.get("volumes", []):
        volume.get("configMap", {}).setdefault("defaultMode", 420)
    for container in template.get("containers", []):
        container.setdefault("imagePullPolicy", "IfNotPresent")
        container.get("livenessProbe", {}).setdefault("periodSeconds", 10)
        container["env"] = [{key: value for key, value in one.items() if value != ""} for one in container.get("env", [])]
        ports(container)
    for claim in spec.get("volumeClaimTemplates", []):
        claim |= {"kind": "PersistentVolumeClaim", "status": {"phase": "Pending"}}
        claim["spec"] = {"volumeMode": "Filesystem"} | {key: value for key, value in claim["spec"].items() if value is not None}
    if item["kind"] == "Service":
        ports(spec)
    return item


def ports(owner):
    for port in owner.get("ports", []):
        port.setdefault("protocol", "TCP")


TYPES = [
    ("type", "rollingUpdate", "Recreate"),
    ("httpGet", "exec", None),
    ("value", "valueFrom", None),
    ("emptyDir", "hostPath", None),
    ("configMap", "emptyDir", None),
]


def mixed(value):
    """Tell whether a value has fields of two types beside each other."""
    if isinstance(value, list):
        return any(map(mixed, value))
    if not isinstance(value, dict):
        return False
    both = any(one in value and other in value and only in (None, value[one]) for one, other, only in TYPES)
    return both or any(map(mixed, value.values()))


class Server(InMemoryApi):
    """An API server with the defaults and the refusals that the objects above meet."""

    def put(self, item):
        return super().put(with_defaults(copy.deepcopy(item)))

    def patch(self, api_version, kind, name, body, namespace=None, part="", dry_run=""):
        after = merged(self._require("Changing", api_version, kind, name, namespace), body)
        if mixed(after):
            raise ApiError(f"{kind} {name} is invalid: may not specify more than 1 type", status=422)
        answer = super().patch(api_version, kind, name, body, namespace, part, dry_run)
        return with_defaults(answer)


class Made:
    """A release whose objects are as its chart made them."""

    def __init__(self):
        self.kube = Server(yaml.safe_load_all(CHART))
        self.helm = InMemoryHelm(self.kube)
        self.helm.manifests["r"] = CHART
        self.helm.record(Release("r", "team", "deployed", 1, "r", "1.0.0", {}))
        self.release = HelmRelease(self.kube, self.helm, "r", "team")
        self.kube.writes.clear()

    def live(self, kind, name):
        return next(one for key, one in self.kube.objects.items() if (key[1], key[3]) == (kind, name))

    def edit(self, kind, name, change):
        item = copy.deepcopy(self.live(kind, name))
        change(item)
        self.kube.put(item)

    def run(self, check_mode=False):
        run = Run({}, check_mode, self.kube, self.helm)
        self.release.inspect()
        Edits(run, self.release).take_back()
        return run.changes


def container(item):
    return item["spec"]["template"]["spec"]["containers"][0]


def pod(item):
    return item["spec"]["template"]["spec"]


def rules(item):
    return item["spec"]["ingress"]


ANYWHERE = {"from": [{"ipBlock": {"cidr": "0.0.0.0/0"}}]}
ALL = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]
FIELD = {"fieldRef": {"fieldPath": "metadata.name"}}


def strategy(item):
    item["spec"]["strategy"] = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%"}}


def volume(number, source):
    def change(item):
        pod(item)["volumes"][number] = {"name": pod(item)["volumes"][number]["name"], **source}

    return change


def probe(item):
    container(item)["livenessProbe"] = {"exec": {"command": ["true"]}, "periodSeconds": 10}


EDITS = [
    ("NetworkPolicy", "workload", lambda item: rules(item)[0]["from"][0].update(namespaceSelector={}), "spec.ingress"),
    ("NetworkPolicy", "workload", lambda item: item["spec"]["podSelector"]["matchLabels"].update(no="pod"), "spec.podSelector"),
    ("NetworkPolicy", "workload", lambda item: item["spec"]["podSelector"].update(matchExpressions=[{"key": "no"}]), "spec.pod"),
    (
        "NetworkPolicy",
        "workload",
        lambda item: item["spec"]["egress"][1]["to"][0].update(namespaceSelector={"matchLabels": {"a": "b"}}),
        "spec.egress",
    ),
    ("NetworkPolicy", "workload", lambda item: rules(item)[0].pop("from"), "spec.ingress"),
    ("NetworkPolicy", "workload", lambda item: rules(item)[1].update(ANYWHERE), "spec.ingress"),
    ("NetworkPolicy", "workload", lambda item: item["spec"]["egress"][0]["ports"][0].update(endPort=65535), "spec.egress"),
    ("NetworkPolicy", "closed", lambda item: item["spec"].update(ingress=[{}]), "spec.ingress"),
    ("NetworkPolicy", "closed", lambda item: item["spec"].update(podSelector={"matchLabels": {"a": "b"}}), "spec.podSelector"),
    ("NetworkPolicy", "closed", lambda item: item["spec"].update(policyTypes=["Egress"], egress=[{}]), "spec.egress"),
    ("Role", "empty", lambda item: item.update(rules=ALL), "rules"),
    ("Role", "reader", lambda item: item["rules"][0].update(resourceNames=["x"]), "rules"),
    ("ClusterRole", "collected", lambda item: item["aggregationRule"].update(clusterRoleSelectors=[{}]), "aggregationRule"),
    ("RoleBinding", "reader", lambda item: item["subjects"][0].update(namespace="evil"), "subjects"),
    ("StatefulSet", "r", volume(0, {"hostPath": {"path": "/"}}), "spec.template.spec.volumes[tmp].hostPath"),
    ("StatefulSet", "r", volume(1, {"emptyDir": {}}), "spec.template.spec.volumes[config].configMap"),
    ("StatefulSet", "r", lambda item: container(item).update(args=["--more"]), "spec.template.spec.containers[main].args"),
    (
        "StatefulSet",
        "r",
        lambda item: container(item).update(securityContext={"privileged": True}),
        ".securityContext.privileged",
    ),
    ("Deployment", "web", strategy, "spec.strategy.type"),
    ("Deployment", "web", probe, "spec.template.spec.containers[main].livenessProbe.exec"),
    ("Deployment", "web", lambda item: container(item)["env"].insert(0, {"name": "A", "valueFrom": FIELD}), "env"),
    (
        "Deployment",
        "web",
        lambda item: container(item).update(env=[{"name": "A", "valueFrom": FIELD}, {"name": "B", "value": "b"}]),
        "spec.template.spec.containers[main].env[A].valueFrom",
    ),
    (
        "Deployment",
        "web",
        lambda item: container(item)["volumeMounts"][0].update(readOnly=True, mountPath="/c"),
        "volumeMounts[/a]",
    ),
    ("Deployment", "web", lambda item: container(item)["volumeMounts"].pop(0), "volumeMounts[/a]"),
    ("Deployment", "web", lambda item: container(item)["ports"][0].update(protocol="SCTP"), "ports[53/TCP]"),
    ("Service", "web", lambda item: item["spec"]["selector"].update(version="2"), "spec.selector.version"),
    ("Service", "web", lambda item: item["spec"]["ports"][0].update(name="c"), "spec.ports[53/UDP].name"),
]


def test_what_the_api_server_makes_of_a_chart_is_no_edit():
    made = Made()
    assert made.run() == []
    # What controllers write: the rules of a role that collects those of others, an empty Secret, a Service's ports of nodes, a restart.
    made.edit("ClusterRole", "collected", lambda item: item.update(rules=ALL))
    made.edit("Secret", "certificate", lambda item: item["data"].update(key="a2V5"))
    made.edit("ServiceAccount", "r", lambda item: item["metadata"].update(annotations={"made": "by helm"}))
    made.edit("Service", "web", lambda item: item["spec"]["ports"][0].update(nodePort=30053))
    made.edit("StatefulSet", "r", lambda item: item["spec"]["template"]["metadata"].update(annotations={"restartedAt": "now"}))
    made.edit("StatefulSet", "r", lambda item: item["spec"].update(revisionHistoryLimit=10))
    made.edit("Role", "reader", lambda item: item["metadata"]["labels"].update(mine="yes"))
    assert (made.run(), made.kube.writes) == ([], [])


@pytest.mark.parametrize(("kind", "name", "change", "path"), EDITS)
def test_an_edit_of_what_a_chart_says_is_named_and_taken_back(kind, name, change, path):
    made = Made()
    before = copy.deepcopy(comparable(made.live(kind, name)))
    made.edit(kind, name, change)
    predicted = made.run(check_mode=True)
    ((what, was, becomes),) = made.run()
    assert predicted == [(what, was, becomes)]
    assert what == f"{kind} {name}"
    assert any(path in where for where in was)
    assert made.kube.writes == [("patch", kind, name)]
    assert made.run() == []
    assert comparable(with_defaults(made.live(kind, name))) == before


def test_what_is_beside_an_edit_stays_as_it_is():
    made = Made()
    whole = copy.deepcopy(made.live("Deployment", "web")["spec"])
    made.edit("Deployment", "web", lambda item: container(item).update(image="web:3"))
    ((_what, was, _becomes),) = made.run()
    assert was == {"spec.template.spec.containers[main].image": "web:3"}
    assert made.live("Deployment", "web")["spec"] == whole


def test_of_an_edit_to_another_type_only_what_belongs_to_it_goes():
    made = Made()
    made.edit("Deployment", "web", strategy)
    made.edit("Deployment", "web", lambda item: item["spec"].update(revisionHistoryLimit=3))
    made.edit("Deployment", "web", lambda item: item["metadata"].update(labels={"mine": "yes"}))
    made.run()
    assert made.live("Deployment", "web")["metadata"]["labels"] == {"mine": "yes"}
    assert made.live("Deployment", "web")["spec"] | {"template": None} == {
        "revisionHistoryLimit": 3,
        "strategy": {"type": "Recreate"},
        "template": None,
    }


def test_an_edit_that_cannot_be_tried_is_named():
    made = Made()
    made.edit("Deployment", "web", lambda item: container(item).update(image="web:3"))
    made.kube.fail("patch", "Deployment", ApiError("Deployment web is invalid: spec.selector is immutable", status=422), 2)
    ((_what, was, becomes),) = made.run(check_mode=True)
    path = "spec.template.spec.containers[main].image"
    assert (was[path], becomes[path]) == ("web:3", "web:2")


TWICE = [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]


def test_items_with_a_name_that_is_not_their_own_are_told_by_their_place():
    made = Made()
    chart = [item for item in yaml.safe_load_all(CHART) if item["kind"] == "Deployment"]
    container(chart[0])["env"] = TWICE
    made.helm.manifests["r"] = yaml.safe_dump_all(chart)
    made.helm.record(Release("r", "team", "deployed", 1, "r", "1.0.0", {}))
    for env, path in (
        (TWICE, None),
        ([{"name": "A", "value": "3"}, TWICE[1]], "spec.template.spec.containers[main].env[0].value"),
        (TWICE[1:], "spec.template.spec.containers[main].env"),
    ):
        made.edit("Deployment", "web", lambda item, env=env: container(item).update(env=copy.deepcopy(env)))
        assert [list(was) for _what, was, _becomes in made.run()] == ([[path]] if path else [])
        assert container(made.live("Deployment", "web"))["env"] == TWICE
