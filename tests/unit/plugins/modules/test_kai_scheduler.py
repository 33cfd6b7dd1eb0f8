# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import base64
import datetime
import json

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import CommandFailed, TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.names import KAI_NAMESPACE, SHARD
from ansible_collections.kubegpu.tenancy.plugins.module_utils._helm.values import Release
from ansible_collections.kubegpu.tenancy.plugins.module_utils._kai import admission_copy
from ansible_collections.kubegpu.tenancy.plugins.module_utils._kai import facts as kai
from ansible_collections.kubegpu.tenancy.plugins.module_utils._kai.validation import release
from ansible_collections.kubegpu.tenancy.plugins.modules.kai_scheduler import reconcile
from ansible_collections.kubegpu.tenancy.tests.unit.api import InMemoryApi
from ansible_collections.kubegpu.tenancy.tests.unit.clock import TODAY
from ansible_collections.kubegpu.tenancy.tests.unit.helm import InMemoryHelm
from ansible_collections.kubegpu.tenancy.tests.unit.problems import refuses
from ansible_collections.kubegpu.tenancy.tests.unit.runs import make_run

CONDITIONS = [{"type": name, "status": "True", "observedGeneration": 1} for name in kai.CONDITIONS]
CHART_NOTES = {"meta.helm.sh/release-name": "kai-scheduler", "meta.helm.sh/release-namespace": "kai-scheduler"}
SCHEDULER = "kai-scheduler-default"
# All that the charts' Config names here.
SCHEDULER_IMAGE = "registry.example/kai-scheduler-default:v0.13.1"
NEW_YEAR = datetime.date(2027, 1, 1)
# Of all releases that these tests install.
ACCEPTED = ["#1103", "#1673", "end-of-support"]
KINDS = {
    "ClusterRole": (kai.RBAC, None),
    "ClusterRoleBinding": (kai.RBAC, None),
    "Config": (kai.CONFIG[0], None),
    "CustomResourceDefinition": (kai.CRD[0], None),
    "Deployment": ("apps/v1", KAI_NAMESPACE),
    "Job": ("batch/v1", KAI_NAMESPACE),
    "MutatingWebhookConfiguration": (kai.ADMISSION, None),
    "Namespace": ("v1", None),
    "Node": ("v1", None),
    "Pod": ("v1", KAI_NAMESPACE),
    "Queue": ("scheduling.run.ai/v2", None),
    "SchedulingShard": (SHARD[0], None),
    "Secret": ("v1", KAI_NAMESPACE),
    "Service": ("v1", KAI_NAMESPACE),
    "ServiceAccount": ("v1", KAI_NAMESPACE),
    "ValidatingWebhookConfiguration": (kai.ADMISSION, None),
}


def at(minute):
    return {"creationTimestamp": f"2026-11-21T12:0{minute}:00Z"}


def config_of(made):
    """The spec of a release's Config."""
    image = {"repository": "registry.example", "name": made.scheduler, "tag": made.version}
    return {"namespace": KAI_NAMESPACE, made.version: True, "scheduler": {"service": {"image": image}}}


class Cluster(InMemoryApi):
    """An API with KAI's controllers at work, and Helm on it; ``calls`` are what changed something, in order."""

    def __init__(self):
        super().__init__()
        self.calls = []
        self.helm = Charts(self)
        self.helm.on_change = self._installed
        for verb in ("apply", "create"):
            self.react(verb, "CustomResourceDefinition", self._establish)
        self.react("delete", "Deployment", self._end_pods)
        self.react("delete", "Pod", self._replace)
        self.react("create", "Pod", self._start)

    def have(self, kind, name, metadata=None, **more):
        api_version, namespace = KINDS[kind]
        home = {"namespace": namespace} if namespace else {}
        return self.put(
            {"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "generation": 1} | home | (metadata or {})}
            | more
        )

    def lose(self, kind, name):
        api_version, namespace = KINDS[kind]
        assert self.find(kind, name)
        self.drop(api_version, kind, name, namespace)

    def find(self, kind, name, namespace=None):
        api_version, home = KINDS[kind]
        return self.objects.get((api_version, kind, namespace or home, name))

    def names(self, *kinds):
        return {name for _api_version, kind, _namespace, name in self.objects if kind in kinds}

    def _wrote(self, verb, item):
        self.calls.append(f"{verb} {item['kind']} {item['metadata']['name']}")
        return super()._wrote(verb, item)

    def _establish(self, crd):
        self.put(crd | {"status": {"conditions": [{"type": "Established", "status": "True"}]}})

    def _end_pods(self, deployment):
        # A bare pod belongs to no Deployment, regardless of its labels.
        for pod in self.list("v1", "Pod", KAI_NAMESPACE, f"app={deployment['metadata']['name']},!app.kubernetes.io/managed-by"):
            self.drop("v1", "Pod", pod["metadata"]["name"], KAI_NAMESPACE)

    def _replace(self, pod):
        if self.find("Deployment", pod["metadata"].get("labels", {}).get("app")):
            self.have("Pod", f"{pod['metadata']['name']}-new", at(9) | {"labels": pod["metadata"]["labels"]}, spec={}, status={})

    def _start(self, pod):
        """Have a node do what it does with the pods of this collection: pull images, answer webhooks."""
        statuses = [{"name": one["name"], "imageID": "sha256:1"} for one in pod["spec"]["containers"]]
        self.put(pod | {"status": {"containerStatuses": statuses, "conditions": [{"type": "Ready", "status": "True"}]}})

    def operate(self):
        """Do what KAI's operator does where it finds the Config."""
        config = self.find("Config", "kai-config")
        generation = config["metadata"]["generation"]
        self.put(config | {"status": {"conditions": [item | {"observedGeneration": generation} for item in CONDITIONS]}})
        self.have("Service", "admission", spec={"selector": {"app": "admission"}})

    def _installed(self, helm_release):
        """Do what the chart and KAI's operator do."""
        if helm_release is None:
            return
        self.calls.append("upgrade")
        made = release(helm_release.chart_version)
        if made.operator:
            if "--no-hooks" not in self.helm.calls[-1] or made.config_by_helm:
                self.have("Config", "kai-config", spec=config_of(made))
            self.operate()
        self.have("SchedulingShard", "default", status={"conditions": CONDITIONS})
        for deployment in made.deployments:
            status = {"availableReplicas": 1, "updatedReplicas": 1, "replicas": 1, "observedGeneration": 1}
            strategy = {"type": "Recreate"} if deployment in ("admission", "binder", SCHEDULER) else {}
            image = f"registry.example/{deployment}:{made.version}"
            template = {"metadata": {"labels": {"app": deployment}}, "spec": {"containers": [{"name": "one", "image": image}]}}
            self.have("Deployment", deployment, spec={"replicas": 1, "strategy": strategy, "template": template}, status=status)
        self.have("Pod", "scheduler-1", at(1) | {"labels": {"app": made.scheduler}}, spec={}, status={})
        self.have("Pod", kai.OPERATOR, {"labels": {"app": kai.OPERATOR}}, spec={}, status={})
        for kind, webhook in kai.WEBHOOKS[:4]:
            self.have(kind, webhook)
        for kind in ("ClusterRole", "ClusterRoleBinding"):
            self.have(kind, "kai-binder", {"annotations": CHART_NOTES})
            self.have(kind, "cluster-admin")
        for home in ("kai-scheduler", "kai-resource-reservation", "default"):
            if not self.find("Namespace", home):
                self.have("Namespace", home)


class Charts(InMemoryHelm):
    """Helm with KAI's charts, each with a Config that a hook makes, and ``parts`` that helm makes."""

    parts = ()

    def template(self, name, namespace, chart, values, api_versions=()):
        super().template(name, namespace, chart, values, api_versions)
        made = release(chart.version)
        if not made.operator or made.config_by_helm:
            return ""
        config = {
            "apiVersion": kai.CONFIG[0],
            "kind": "Config",
            "metadata": {"name": "kai-config", "namespace": namespace, "annotations": {"helm.sh/hook": "pre-install"}},
            "spec": config_of(made),
        }
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "reservation", "namespace": "reservations"}}
        return "\n---\n".join(map(json.dumps, [config, account, *self.parts]))

    def crds(self, _chart):
        api_version, kind = kai.CRD
        return [{"apiVersion": api_version, "kind": kind, "metadata": {"name": name}} for name in kai.CRDS]

    def uninstall(self, name, namespace, timeout, hooks=True):
        self.api.calls.append(f"uninstall hooks={hooks}")
        return super().uninstall(name, namespace, timeout, hooks)


def params(**changes):
    return {
        "state": "present",
        "version": "v0.12.0",
        "gpu_sharing": True,
        "accept_hazards": ACCEPTED,
        "cdi": None,
        "values": {},
        "chart_source": "",
        "purge": False,
        "timeout": 3,
    } | changes


UPGRADE = [
    "pull the images",
    "apply the CRDs",
    "start a copy of the admission pod",
    "upgrade to v0.13.1",
    "remove the copy of the admission pod",
]


def run(cluster, check_mode=False, today=TODAY, **changes):
    return reconcile(make_run(params(**changes), cluster, cluster.helm, check_mode), today)


def warned(cluster, today=TODAY, **changes):
    """Return what check mode warns of."""
    attempt = make_run(params(**changes), cluster, cluster.helm, check_mode=True)
    reconcile(attempt, today)
    return attempt.warnings


@pytest.fixture
def installed():
    cluster = Cluster()
    run(cluster)
    cluster.calls = []
    return cluster


def queue(name, parent=None, **spec):
    return {"spec": spec | ({"parentQueue": parent} if parent else {})}


def steps(result):
    return [step["step"] for step in result["steps"]]


def test_install():
    cluster = Cluster()
    result = run(cluster, values={"global": {"registry": "mirror.example/kai"}, "x": 1})
    assert result["changed"]
    assert result["values"] == {
        "global": {"registry": "mirror.example/kai", "gpuSharing": True},
        "defaultQueue": {"createDefaultQueue": False},
        "topologyMigration": {"enabled": False},
        "x": 1,
    }
    assert result["diff"]["after"]["version"] == "v0.12.0"
    # At once, in any order.
    assert set(cluster.calls[: len(kai.CRDS)]) == {f"apply CustomResourceDefinition {name}" for name in kai.CRDS}
    assert cluster.calls[len(kai.CRDS) :] == [
        "create Namespace kai-scheduler",
        "apply Config kai-config",
        "upgrade",
        "patch Namespace kai-scheduler",
    ]
    # The CRDs and the Config are all that the hooks would bring, with an image of their own.
    assert cluster.helm.calls == [("upgrade", "kai-scheduler", "--no-hooks")]


def test_second_run_changes_nothing(installed):
    assert run(installed)["changed"] is False
    assert installed.calls == []


def test_check_mode_predicts(installed):
    for cluster in (Cluster(), installed):
        result = run(cluster, check_mode=True, version="v0.13.1")
        assert result["changed"]
        assert cluster.calls == []
    assert result["diff"]["before"]["version"] == "v0.12.0"


def test_values_that_the_chart_refuses_are_refused_before_the_first_write(installed):
    for cluster in (Cluster(), installed):
        for check_mode in (True, False):
            cluster.helm.refusal = "values.refused: the chart has no such key."
            with pytest.raises(TenancyError, match=r"values\.refused"):
                run(cluster, check_mode, values={"refused": 1})
            assert cluster.calls == []


def test_an_upgrade_leaves_config_and_webhooks_in_place_and_always_has_a_pod_behind_them(installed):
    result = run(installed, version="v0.13.1", gpu_sharing=False)
    assert result["diff"]["before"] == {
        "version": "v0.12.0",
        "values.global.registry": "ghcr.io/nvidia/kai-scheduler",
        "values.global.gpuSharing": True,
    }
    assert result["diff"]["after"] == {
        "version": "v0.13.1",
        "values.global.registry": "ghcr.io/kai-scheduler/kai-scheduler",
        "values.global.gpuSharing": False,
        "values.operator": {"qps": 5},
    }
    assert steps(result) == UPGRADE
    ended = ("admission", "pod-grouper", "queue-controller", "podgroup-controller")
    first = installed.calls.index("create Pod kubegpu-admission")
    assert installed.calls[first : first + 3] == [
        "create Pod kubegpu-admission",
        "delete Deployment kai-operator",
        "patch Service admission",
    ]
    # What the operator itself recreates stays until it does; what it would roll over needs room for one more pod.
    assert set(installed.calls[first + 3 : first + 7]) == {f"delete Deployment {name}" for name in ended}
    assert installed.calls[first + 7 :] == [
        "patch Config kai-config",
        "upgrade",
        "patch Service admission",
        "patch Pod kubegpu-admission",
        "delete Pod kubegpu-admission",
    ]
    assert "v0.12.0" not in installed.find("Config", "kai-config")["spec"]
    assert run(installed, version="v0.13.1", gpu_sharing=False)["changed"] is False


def test_diffs_show_steps_upgrade_notes_and_hazards(installed):
    result = run(installed, check_mode=True, version="v0.13.1")
    assert result["diff"]["prepared"].splitlines() == [
        "step: pull the images (what is installed stays until they are there)",
        "step: apply the CRDs (helm installs them once and never changes them)",
        "step: start a copy of the admission pod (new pods would be refused until KAI's own is there again)",
        "step: upgrade to v0.13.1 (as asked, with all values)",
        "step: remove the copy of the admission pod (KAI's own answers again)",
        "upgrade note: queues below the second level are scheduled from now on (release notes)",
        "upgrade note: pods that wait for an optional ConfigMap start from now on (#988)",
        *(f"accepted hazard: {hazard}" for hazard in result["hazards"][:2]),
        "accepted hazard: end-of-support: upstream has corrected nothing in it since the end of 2026-03",
    ]
    assert [note.rpartition(" (")[2] for note in result["upgrade_notes"]] == ["release notes)", "#988)"]
    assert run(installed, version="v0.12.0")["upgrade_notes"] == []


def test_a_downgrade_leaves_config_webhooks_and_queues_in_place(installed):
    run(installed, version="v0.13.1")
    installed.have("Queue", "ml", **queue("ml"))
    for account in ("default", "binder", "scheduler"):
        installed.have("ServiceAccount", account, at(0))
    installed.calls = []
    expected = [step.replace("upgrade to v0.13.1", "downgrade to v0.12.0") for step in UPGRADE]
    predicted = run(installed, check_mode=True)
    assert (steps(predicted), installed.calls) == (expected, [])
    assert "queues below the second level would not be scheduled any more" in predicted["upgrade_notes"][0]

    result = run(installed)
    assert (steps(result), result["diff"]["before"]["version"]) == (expected, "v0.13.1")
    assert installed.helm.last("kai-scheduler", "kai-scheduler").chart_version == "v0.12.0"
    # Nothing of the newer release is left in them: the older operator makes them anew.
    ended = {call.removeprefix("delete Deployment ") for call in installed.calls if call.startswith("delete Deployment ")}
    assert ended == set(release("v0.13.1").deployments)
    touched = ("delete Config", "delete Mutating", "delete Validating", "delete Queue", "delete ServiceAccount", "uninstall")
    assert [call for call in installed.calls if call.startswith(touched)] == []
    assert installed.calls.index("patch Service admission") < installed.calls.index("delete Deployment admission")
    assert run(installed)["changed"] is False


@pytest.fixture
def newer():
    """Have a release of which an older one, without shards, takes over nothing."""
    cluster = Cluster()
    run(cluster, version="v0.10.5")
    cluster.calls = []
    return cluster


OLDER = {"version": "v0.9.5", "gpu_sharing": False}


def test_a_downgrade_to_a_release_of_other_parts_goes_by_removal_and_keeps_the_queues(newer):
    for name, parent in (("ml", None), ("training", "ml")):
        newer.have("Queue", name, **queue(name, parent, priority=7))
    predicted = run(newer, check_mode=True, **OLDER)
    expected = [
        "pull the images",
        "export the queues",
        "remove v0.10.5",
        "apply the CRDs",
        "install v0.9.5",
        "write back the queues",
    ]
    assert steps(predicted) == expected

    for account in ("default", "binder", "scheduler"):
        newer.have("ServiceAccount", account, at(0))
    newer.calls = []
    removed, kept = newer.helm.uninstall, {}

    def lose_a_queue(*args, **more):
        removed(*args, **more)
        kept.update(newer.find("Secret", *kai.EXPORT)["data"])
        newer.lose("Queue", "ml")
        newer.find("Queue", "training")["spec"]["priority"] = 1

    newer.helm.uninstall = lose_a_queue
    result = run(newer, **OLDER)
    assert steps(result) == expected
    assert result["diff"]["before"]["version"] == "v0.10.5"
    assert newer.helm.last("kai-scheduler", "kai-scheduler").chart_version == "v0.9.5"
    assert newer.names("ServiceAccount") == {"default"}
    assert {"kai-scheduler", "kai-resource-reservation"} <= newer.names("Namespace")
    assert kept.keys() == {"queues"}
    assert [item["metadata"]["name"] for item in json.loads(base64.b64decode(kept["queues"]))] == ["ml", "training"]
    assert newer.calls[-3:] == ["create Queue ml", "apply Queue training", "delete Secret kubegpu-kai-export"]
    assert newer.find("Queue", "training")["spec"] == {"priority": 7, "parentQueue": "ml"}
    assert run(newer, **OLDER)["changed"] is False


def test_a_downgrade_goes_on_where_it_was_killed(newer):
    newer.have("Queue", "ml", **queue("ml"))
    upgrade, newer.helm.upgrade = newer.helm.upgrade, None
    with pytest.raises(TypeError):
        run(newer, **OLDER)
    newer.lose("Queue", "ml")
    newer.helm.upgrade = upgrade
    newer.have("ServiceAccount", "binder")
    expected = ["remove the rest of the former release", "apply the CRDs", "install v0.9.5", "write back the queues"]
    assert steps(run(newer, check_mode=True, **OLDER)) == expected
    assert steps(run(newer, **OLDER)) == expected
    assert not newer.find("ServiceAccount", "binder")
    assert newer.find("Queue", "ml")
    assert not newer.find("Secret", *kai.EXPORT)


@pytest.mark.parametrize("owner", ["Config", "Deployment", None])
def test_what_the_former_operator_made_and_the_chart_makes_itself_is_handed_over(installed, owner):
    """Seen from v0.16.8 to v0.13.1: helm refused to touch the service account of the reservations."""
    owners = {"ownerReferences": [{"kind": owner, "name": "x"}]} if owner else {}
    installed.put(
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "reservation", "namespace": "reservations"} | owners}
    )
    run(installed, version="v0.10.5")
    metadata = installed.find("ServiceAccount", "reservation", "reservations")["metadata"]
    if owner == "Config":
        assert metadata["labels"] == {"app.kubernetes.io/managed-by": "Helm"}
        assert metadata["annotations"] == CHART_NOTES
        assert "ownerReferences" not in metadata
    else:
        assert "annotations" not in metadata
        assert metadata.get("ownerReferences", []) == owners.get("ownerReferences", [])


def test_what_the_former_operator_made_does_not_stop_an_upgrade_that_has_helm_make_it():
    """Seen from v0.9.3 to v0.9.20, whose charts leave the binder to the operator, and do not: helm refused its service account."""
    cluster = Cluster()
    run(cluster, version="v0.9.3", gpu_sharing=False)
    owned = {"ownerReferences": [{"kind": "Config", "name": "kai-config"}]}
    binder = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "binder"}}
    cluster.helm.parts = (binder,)
    cluster.have("Deployment", "binder", owned | {"uid": "former"})
    cluster.put(
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "reservation", "namespace": "reservations"} | owned}
    )
    cluster.calls = []
    run(cluster, version="v0.9.20", gpu_sharing=False)
    assert cluster.calls.index("delete Deployment binder") < cluster.calls.index("upgrade")
    assert cluster.find("ServiceAccount", "reservation", "reservations")["metadata"]["annotations"] == CHART_NOTES


# --- a change in place ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["v0.13.1", "v0.10.5"])
def test_a_change_in_place_goes_on_where_it_was_killed(installed, version):
    upgrade, installed.helm.upgrade = installed.helm.upgrade, None
    with pytest.raises(TypeError):
        run(installed, version=version)
    # It is all that answers.
    assert installed.find("Pod", admission_copy.NAME)
    assert installed.find("Service", "admission")["spec"]["selector"].keys() > {"app"}
    installed.helm.upgrade, installed.calls = upgrade, []
    assert run(installed, version=version)["changed"]
    assert f"create Pod {admission_copy.NAME}" not in installed.calls
    assert not installed.find("Pod", admission_copy.NAME)
    assert installed.find("Service", "admission")["spec"]["selector"] == {"app": "admission"}
    assert run(installed, version=version)["changed"] is False


def test_a_copy_that_a_killed_run_left_is_removed(installed):
    installed.have("Pod", admission_copy.NAME, {"labels": {"app": "admission"}}, spec={}, status={})
    for check_mode in (True, False):
        assert installed.find("Pod", admission_copy.NAME)
        result = run(installed, check_mode)
        assert result["diff"]["before"] == {f"Pod {admission_copy.NAME}": "present"}
        assert steps(result) == ["remove the copy of the admission pod"]
    assert not installed.find("Pod", admission_copy.NAME)
    assert run(installed)["changed"] is False


def test_the_end_of_a_copy_is_waited_for(installed):
    """Seen: the next run, right after, took one that was ending for one that a killed run had left."""
    slow = {"finalizers": ["kubegpu.example/slow"]}
    installed.react("create", "Pod", lambda pod: installed.find("Pod", pod["metadata"]["name"])["metadata"].update(slow))
    attempt = make_run(params(version="v0.13.1", timeout=60), installed, installed.helm)
    sleep = attempt.deadline.sleep

    def go_on(seconds):
        sleep(seconds)
        pod = installed.find("Pod", admission_copy.NAME)
        if pod and "deletionTimestamp" in pod["metadata"]:
            installed.drop("v1", "Pod", admission_copy.NAME, KAI_NAMESPACE)

    attempt.deadline.sleep = go_on
    reconcile(attempt, TODAY)
    assert not installed.find("Pod", admission_copy.NAME)


def test_a_copy_that_does_not_come_is_warned_of_and_done_without(installed):
    installed.fail("create", "Pod", TenancyError("forbidden: exceeded quota: bounds"), times=2)
    attempt = make_run(params(version="v0.13.1"), installed, installed.helm)
    assert reconcile(attempt, TODAY)["changed"]
    assert attempt.warnings[-1] == "New pods may be refused for some seconds: forbidden: exceeded quota: bounds"
    assert installed.find("Service", "admission")["spec"]["selector"] == {"app": "admission"}


def test_where_nobody_answers_there_is_nothing_to_copy(installed):
    installed.find("Deployment", "admission")["status"]["availableReplicas"] = 0
    run(installed, version="v0.13.1")
    assert f"create Pod {admission_copy.NAME}" not in installed.calls


def test_other_values_leave_the_pods_to_the_operator(installed):
    result = run(installed, values={"scheduler": {"placementStrategy": "spread"}})
    assert steps(result)[2:4] == ["start a copy of the admission pod", "upgrade to v0.12.0"]
    assert [call for call in installed.calls if call.startswith("delete Dep")] == ["delete Deployment kai-operator"]


@pytest.mark.parametrize(
    ("crd", "values"), [(kai.OPENSHIFT_CRD, {}), (kai.KUEUE_TOPOLOGIES, {}), (None, {"topologyMigration": {"enabled": True}})]
)
def test_hooks_that_do_more_than_is_done_here_run_and_make_the_config_anew(crd, values):
    cluster = Cluster()
    if crd:
        cluster.have("CustomResourceDefinition", crd)
    run(cluster, values=values)
    result = run(cluster, version="v0.13.1", values=values)
    assert cluster.helm.calls == [("upgrade", "kai-scheduler")] * 2
    assert steps(result) == ["pull the images", "apply the CRDs", "upgrade to v0.13.1", "restart the scheduler"]


def test_queues_that_a_killed_downgrade_did_not_write_back_are_a_change(installed):
    run(installed, version="v0.13.1")
    installed.have("Queue", "ml", **queue("ml"))
    exported = json.dumps([installed.find("Queue", "ml")])
    name, namespace = kai.EXPORT
    metadata = {"name": name, "namespace": namespace}
    installed.put({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {"queues": exported}})
    installed.lose("Queue", "ml")
    for check_mode in (True, False):
        result = run(installed, check_mode, version="v0.13.1")
        assert result["changed"]
        assert steps(result) == ["write back the queues"]
    assert installed.find("Queue", "ml")
    assert run(installed, version="v0.13.1")["changed"] is False


@pytest.mark.parametrize(
    "kept", [{"metadata": {"name": "x"}, "spec": "x"}, {"metadata": "x"}, {"metadata": {"name": ["a"]}}, {}, "x"]
)
def test_an_export_that_its_tenant_wrote_in_another_form_is_named(installed, kept):
    run(installed, version="v0.13.1")
    name, namespace = kai.EXPORT
    metadata = {"name": name, "namespace": namespace}
    installed.put({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {"queues": json.dumps([kept])}})
    with pytest.raises(TenancyError, match=f"Secret {namespace}/{name}"):
        run(installed, version="v0.13.1")


def test_a_live_queue_without_a_spec_is_written_back(installed):
    run(installed, version="v0.13.1")
    installed.have("Queue", "ml", **queue("ml"))
    exported = json.dumps([installed.find("Queue", "ml")])
    name, namespace = kai.EXPORT
    metadata = {"name": name, "namespace": namespace}
    installed.put({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {"queues": exported}})
    spec = installed.find("Queue", "ml")["spec"]
    installed.lose("Queue", "ml")
    installed.have("Queue", "ml")
    run(installed, version="v0.13.1")
    assert installed.find("Queue", "ml")["spec"] == spec


def test_pods_that_crashed_before_are_restarted_and_not_waited_for(installed):
    run(installed, version="v0.13.1")
    waiting = {"state": {"waiting": {"reason": "CrashLoopBackOff"}}, "name": "x", "image": "x"}
    installed.have("Pod", "old", status={"containerStatuses": [waiting | {"restartCount": 9}]})
    installed.have("Pod", "young", status={"containerStatuses": [waiting | {"restartCount": 1}]})
    for check_mode in (True, False):
        result = run(installed, check_mode, version="v0.13.1")
        assert steps(result) == ["restart pod old"]
        assert result["changed"] is False
    assert (installed.find("Pod", "old"), bool(installed.find("Pod", "young"))) == (None, True)


def test_a_downgrade_is_refused_while_queues_are_deeper(installed):
    run(installed, version="v0.13.1")
    installed.calls = []
    for name, parent in (("a", None), ("b", "a"), ("c", "b")):
        installed.have("Queue", name, **queue(name, parent))
    with refuses("queues-too-deep"):
        run(installed)
    assert installed.calls == []


def test_a_failed_step_is_named_with_what_keeps_pods_from_starting(installed):
    def fail(*_args, **_more):
        waiting = {"state": {"waiting": {"reason": "ImagePullBackOff", "message": "not found"}}}
        installed.have("Pod", "crd-upgrader-1", status={"containerStatuses": [waiting | {"name": "x", "image": "x"}]})
        raise CommandFailed("timed out", rc=1)

    installed.helm.upgrade = fail
    with pytest.raises(
        TenancyError, match=r"Could not upgrade to v0\.13\.1: timed out Pods in kai-scheduler: .*ImagePullBackOff"
    ) as caught:
        run(installed, version="v0.13.1")
    assert caught.value.details["rc"] == 1


def test_a_failed_step_is_named_also_when_the_api_does_not_answer_any_more(installed):
    def fail(*_args, **_more):
        installed.list = fail
        raise TenancyError("connection refused")

    installed.helm.upgrade = fail
    with pytest.raises(TenancyError, match=r"^Could not upgrade to v0\.13\.1: connection refused$"):
        run(installed, version="v0.13.1")


def test_values_that_the_chart_would_ignore_are_warned_of(installed):
    assert warned(installed, values={"binder": {"cdi": True}}) == [
        "values.binder.cdi: is not read by v0.12.0. Use binder.cdiEnabled, from 0.12.11 on."
    ]
    with refuses("not-in-release"):
        run(installed, check_mode=True, cdi=True)
    assert run(installed, check_mode=True, version="v0.13.1", cdi=True)["values"]["binder"] == {"cdiEnabled": True}


def test_a_release_that_is_not_in_the_table_is_warned_of(installed):
    assert run(installed, check_mode=True, version="v0.12.99")["known"] is False
    assert warned(installed, version="v0.12.99") == [
        "KAI Scheduler v0.12.99 is not in the table of releases, and was treated as the newest there."
    ]


def test_an_installed_chart_of_other_making_is_named():
    cluster = Cluster()
    cluster.helm.record(Release("kai-scheduler", "kai-scheduler", "deployed", 1, "kai-scheduler", "v0.13.1-mine", {}))
    with refuses("unknown-release"):
        run(cluster)


@pytest.mark.parametrize(
    ("status", "repair"),
    [("pending-upgrade", "delete Secret sh.helm.release.v1.kai-scheduler.v2"), ("pending-install", "uninstall hooks=False")],
)
def test_an_unfinished_release_is_repaired(installed, status, repair):
    installed.helm.record(Release("kai-scheduler", "kai-scheduler", status, 2, "kai-scheduler", "v0.12.0", {}))
    expected = [step.replace("v0.13.1", "v0.12.0") for step in [UPGRADE[0], "repair the unfinished Helm release", *UPGRADE[1:]]]
    assert steps(run(installed, check_mode=True)) == expected
    assert installed.calls == []
    result = run(installed)
    assert result["diff"]["before"]["release"] == status
    assert steps(result) == expected
    made = [call for call in installed.calls if call.startswith(("delete", "uninstall"))]
    assert made[:3] == ["delete Pod kubegpu-images", repair, "delete Deployment kai-operator"]


def test_topologies_of_kueue_are_copied_where_there_are_any():
    cluster = Cluster()
    cluster.have("CustomResourceDefinition", kai.KUEUE_TOPOLOGIES)
    assert "topologyMigration" not in run(cluster, check_mode=True)["values"]


def test_a_missing_config_is_a_difference(installed):
    installed.lose("Config", "kai-config")
    assert run(installed)["diff"]["after"] == {"config": "kai-config"}
    assert "upgrade" in installed.calls


@pytest.mark.parametrize(
    ("version", "foreign"),
    [
        ("v0.7.7", set()),
        ("v0.7.11", {kai.KUEUE_TOPOLOGIES}),
        ("v0.9.3", {kai.KUEUE_TOPOLOGIES, kai.CLUSTER_POLICIES}),
        ("v0.10.5", {kai.KUEUE_TOPOLOGIES, kai.CLUSTER_POLICIES}),
        ("v0.12.0", set()),
    ],
)
def test_old_releases_get_the_crds_of_others_that_they_wait_for(version, foreign):
    cluster = Cluster()
    run(cluster, version=version, gpu_sharing=False)
    made = {call.removeprefix("create CustomResourceDefinition ") for call in cluster.calls if call.startswith("create Custom")}
    assert made == foreign
    # Before the scheduler starts.
    assert all(
        cluster.calls.index(f"create CustomResourceDefinition {name}") < cluster.calls.index("upgrade") for name in foreign
    )
    assert run(cluster, version=version, gpu_sharing=False)["changed"] is False
    for name in foreign:
        cluster.lose("CustomResourceDefinition", name)
        assert run(cluster, version=version, gpu_sharing=False)["diff"]["after"] == {"CRD": name}


def test_crds_of_others_go_where_they_were_brought_and_stay_where_they_were():
    cluster = Cluster()
    cluster.have("CustomResourceDefinition", kai.KUEUE_TOPOLOGIES)
    run(cluster, version="v0.9.3", gpu_sharing=False)
    run(cluster, state="absent", purge=True)
    assert cluster.names("CustomResourceDefinition") == {kai.KUEUE_TOPOLOGIES}


@pytest.mark.parametrize(("version", "first"), [("v0.13.1", "apply the CRDs"), ("v0.9.5", "export the queues")])
def test_images_are_pulled_before_anything_is_touched(installed, version, first):
    assert steps(run(installed, version=version, gpu_sharing=False))[:2] == ["pull the images", first]
    assert installed.calls[:2] == ["create Pod kubegpu-images", "delete Pod kubegpu-images"]


@pytest.mark.parametrize(
    ("ready", "image", "first"),
    [
        ("True", SCHEDULER_IMAGE, "apply the CRDs"),
        ("False", SCHEDULER_IMAGE, "pull the images"),
        ("True", "registry.example/of-others:v0.13.1", "pull the images"),
    ],
)
def test_images_that_a_ready_node_has_are_not_pulled(installed, ready, image, first):
    images = [{"names": ["registry.example/x@sha256:1", image]}, {}]
    installed.have("Node", "n1", status={"conditions": [{"type": "Ready", "status": ready}], "images": images})
    assert steps(run(installed, version="v0.13.1"))[0] == first
    assert ("create Pod kubegpu-images" in installed.calls) == (first == "pull the images")


def test_a_change_whose_images_do_not_come_changes_nothing(installed):
    state = {"waiting": {"reason": "ErrImagePull", "message": "no such host"}}
    installed.react(
        "create",
        "Pod",
        lambda pod: installed.put(pod | {"status": {"containerStatuses": [{"name": "image-0", "state": state}]}}),
    )
    with pytest.raises(TenancyError) as caught:
        run(installed, version="v0.13.1")
    assert caught.value.message.startswith("Could not pull the images: Timed out after 2 s")
    assert "image-0: ErrImagePull (no such host)" in caught.value.message
    assert installed.calls == ["create Pod kubegpu-images", "delete Pod kubegpu-images"]


def test_a_change_that_may_mend_a_webhook_goes_on_without_that(installed):
    installed.fail("create", "Pod", TenancyError("failed calling webhook"))
    attempt = make_run(params(version="v0.13.1"), installed, installed.helm)
    assert reconcile(attempt, TODAY)["changed"]
    assert attempt.warnings == ["Whether the images can be pulled was not tried: failed calling webhook"]


@pytest.mark.parametrize(
    ("before", "after", "brought"),
    [("v0.9.3", "v0.12.0", True), ("v0.9.4", "v0.9.5", True), ("v0.9.5", "v0.12.0", False), ("v0.9.0", "v0.9.4", False)],
)
def test_a_config_that_helm_deletes_with_the_former_release_is_brought_back(before, after, brought):
    """Seen from v0.9.3 to v0.12.0: a hook wrote it, and then helm deleted what the former release had and this one has not."""
    cluster = Cluster()
    run(cluster, version=before, gpu_sharing=False)
    installed = cluster.helm.on_change

    def install(helm_release):
        installed(helm_release)
        if brought:
            cluster.lose("Config", "kai-config")

    cluster.helm.on_change = install
    cluster.react("apply", "Config", lambda _item: cluster.operate())
    taken = steps(run(cluster, version=after, gpu_sharing=False))
    assert ("write back the Config" in taken) is brought
    if brought:
        assert taken[-2:] == ["write back the Config", "restart the scheduler"]
    assert cluster.find("Config", "kai-config")


def test_a_scheduler_older_than_its_account_is_restarted_also_by_the_next_run(installed):
    installed.have("ServiceAccount", "default", at(0))
    assert run(installed)["changed"] is False
    installed.have("ServiceAccount", "default", at(5))
    for check_mode in (True, False):
        assert installed.calls == []
        result = run(installed, check_mode)
        assert result["diff"]["after"] == {"scheduler": "restarted"}
        assert steps(result) == ["restart the scheduler"]
    assert installed.calls == ["delete Pod scheduler-1"]
    assert run(installed)["changed"] is False


def test_schedulers_of_node_pools_are_restarted_as_well(installed):
    installed.have("SchedulingShard", "h100", status={"conditions": CONDITIONS})
    installed.have("Pod", "pool-1", at(1) | {"labels": {"app": "kai-scheduler-h100"}}, spec={}, status={})
    installed.have("Pod", "binder-1", at(1) | {"labels": {"app": "binder"}}, spec={}, status={})
    installed.have("ServiceAccount", "default", at(5))
    assert steps(run(installed)) == ["restart the scheduler"]
    assert sorted(installed.calls) == ["delete Pod pool-1", "delete Pod scheduler-1"]


def test_a_missing_crd_is_a_difference(installed):
    installed.lose("CustomResourceDefinition", "podgroups.scheduling.run.ai")
    assert run(installed)["diff"]["after"] == {"CRD": "podgroups.scheduling.run.ai"}
    assert installed.find("CustomResourceDefinition", "podgroups.scheduling.run.ai")


def test_what_stays_broken_is_installed_again(installed):
    installed.lose("Deployment", "binder")
    for check_mode in (True, False):
        assert installed.calls == []
        result = run(installed, check_mode)
        assert (result["diff"]["before"], result["diff"]["after"]) == (
            {"parts": "Deployment binder does not exist"},
            {"parts": "available"},
        )
        assert steps(result) == ["apply the CRDs", "upgrade to v0.12.0"]
    assert installed.find("Deployment", "binder")


def test_what_comes_back_by_itself_is_left_alone(installed):
    installed.lose("Deployment", "binder")
    attempt = make_run(params(timeout=30), installed, installed.helm)
    clock, sleep = attempt.deadline, attempt.deadline.sleep

    def back_later(seconds):
        sleep(seconds)
        if clock.elapsed() > 5 and not installed.find("Deployment", "binder"):
            status = {"availableReplicas": 1, "updatedReplicas": 1, "replicas": 1, "observedGeneration": 1}
            installed.have("Deployment", "binder", spec={"replicas": 1}, status=status)

    attempt.deadline.sleep = back_later
    result = reconcile(attempt, TODAY)
    assert (result["changed"], result["steps"], installed.calls) == (False, [], [])


def test_not_ready_says_what_is_missing(installed):
    installed.helm.upgrade = lambda *_args, **_more: None
    installed.lose("Deployment", "binder")
    installed.find("Config", "kai-config")["metadata"]["generation"] += 1
    with pytest.raises(TenancyError, match=r"Config kai-config is not Deployed.*Deployment binder does not exist"):
        run(installed, timeout=0)


# --- hazards -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("check_mode", [True, False])
def test_a_release_with_a_hazard_that_nobody_accepted_is_refused_before_the_first_write(check_mode):
    cluster = Cluster()
    with pytest.raises(
        TenancyError, match=r'^version: v0\.12\.0 is refused\. #1103: .* Use v0\.12\.22, .* \["#1103", "#1673"\]\.$'
    ):
        run(cluster, check_mode, accept_hazards=[])
    assert cluster.calls == []
    # What is asked for decides, regardless of which option asks for it.
    run(cluster, check_mode, gpu_sharing=False, accept_hazards=[])
    with refuses("hazard-not-accepted"):
        run(cluster, check_mode, gpu_sharing=False, accept_hazards=[], values={"global": {"gpuSharing": True}})


def test_a_pod_webhook_that_fails_closed_is_refused_where_tenants_are():
    cluster = Cluster()
    cluster.have("Namespace", "tenant-ml", {"labels": {"kubegpu.tenancy/tenant": "ml"}})
    with pytest.raises(TenancyError, match=r"#104: its pod webhook .* Use v0\.14\.6"):
        run(cluster)
    assert run(cluster, accept_hazards=[*ACCEPTED, "#104"])["accepted_hazards"] == ["#104", "#1103", "#1673"]


def test_unknown_names_of_hazards_are_refused():
    with refuses("unknown-hazard"):
        run(Cluster(), accept_hazards=["#104", "#1102"])


def test_what_is_accepted_is_returned_and_noted_on_the_namespace():
    cluster = Cluster()
    result = run(cluster, accept_hazards=["end-of-support", "#1103", "#1673"])
    # The end of support does not touch yet; that it is accepted is noted all the same, and is no change on the day it does.
    assert result["accepted_hazards"] == ["#1103", "#1673"]
    assert [hazard.partition(":")[0] for hazard in result["hazards"]] == ["#104", "#1103", "#1673"]
    assert cluster.find("Namespace", KAI_NAMESPACE)["metadata"]["annotations"] == {
        kai.ACCEPTED_ANNOTATION: "#1103,#1673,end-of-support"
    }
    later = run(cluster, today=NEW_YEAR)
    assert (later["changed"], later["accepted_hazards"]) == (False, ["#1103", "#1673", "end-of-support"])


def test_another_acceptance_is_a_change_and_no_reason_to_install_anything(installed):
    for check_mode in (True, False):
        assert installed.calls == []
        result = run(installed, check_mode, accept_hazards=["#1103", "#1673"])
        assert (result["diff"]["before"], result["diff"]["after"]) == (
            {"accepted_hazards": "#1103,#1673,end-of-support"},
            {"accepted_hazards": "#1103,#1673"},
        )
        assert steps(result) == ["record the accepted hazards"]
    assert installed.calls == ["patch Namespace kai-scheduler"]
    run(installed, gpu_sharing=False, accept_hazards=[])
    assert kai.ACCEPTED_ANNOTATION not in installed.find("Namespace", KAI_NAMESPACE)["metadata"].get("annotations", {})


def test_a_release_whose_support_ends_stays_where_it_is_installed(installed):
    assert warned(installed, NEW_YEAR, accept_hazards=["#1103", "#1673"]) == [
        "version: v0.12.0 is installed and stays. end-of-support: upstream has corrected nothing in it since the end of 2026-12."
    ]
    assert warned(installed, accept_hazards=["#1103", "#1673"]) == warned(installed, NEW_YEAR) == []
    run(installed, version="v0.16.8")
    for cluster in (installed, Cluster()):
        with refuses("hazard-not-accepted"):
            run(cluster, today=NEW_YEAR, accept_hazards=["#1103", "#1673"])


# --- removal -------------------------------------------------------------------------------------------------------


def test_absent_stops_the_operator_then_removes_webhooks_then_the_rest(installed):
    for kind in ("MutatingWebhookConfiguration", "Namespace"):
        installed.have(kind, "other")
    predicted = run(installed, check_mode=True, state="absent")
    assert (predicted["changed"], installed.calls) == (True, [])
    result = run(installed, state="absent")
    assert result["changed"]
    assert result["diff"]["after"] == {}
    assert steps(result) == steps(predicted) == ["remove v0.12.0"]
    assert installed.calls[0] == "delete Deployment kai-operator"
    # Side by side, in any order.
    assert set(installed.calls[1:5]) == {f"delete {kind} {name}" for kind, name in kai.WEBHOOKS[:4]}
    ended = installed.calls[5 : installed.calls.index("uninstall hooks=False")]
    assert "delete Deployment binder" in ended
    assert all(call.startswith("delete Deployment ") for call in ended)
    left = installed.names("Namespace", "ClusterRole", "Config", "CustomResourceDefinition")
    assert left == {"kai-resource-reservation", "default", "other", "cluster-admin", *kai.CRDS}
    assert installed.names("MutatingWebhookConfiguration") == {"other"}
    assert run(installed, state="absent")["changed"] is False


def test_purge_takes_the_crds_and_the_reservations(installed):
    run(installed, state="absent", purge=True)
    assert installed.names("Namespace", "CustomResourceDefinition") == {"default"}


def test_absent_without_a_release_still_sweeps(installed):
    installed.lose("Secret", "sh.helm.release.v1.kai-scheduler.v1")
    assert run(installed, check_mode=True, state="absent")["changed"]
    assert installed.calls == []
    assert steps(run(installed, state="absent")) == ["remove what is left of it"]
    assert not installed.find("MutatingWebhookConfiguration", "mutating-kai-admission")
