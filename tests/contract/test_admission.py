# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the policies let a tenant's pods ask for on nodes that tenants share, as a real API server judges them."""

from __future__ import annotations

import dataclasses
import os
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import kubernetes
import pytest
import yaml
from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.kubernetes import Kube
from ansible_collections.kubegpu.tenancy.plugins.module_utils._admission.lifecycle import (
    ensure_policies,
    remove_policies,
    remove_record_policies,
)
from ansible_collections.kubegpu.tenancy.plugins.module_utils._admission.plan import policies, queue_policies
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.names import KAI_NAMESPACE, TENANT_LABEL
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.run import Run
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.wait import Deadline
from ansible_collections.kubegpu.tenancy.plugins.module_utils._kai import facts as kai
from ansible_collections.kubegpu.tenancy.plugins.module_utils._vcluster.records import Records
from ansible_collections.kubegpu.tenancy.tests.contract.pods import (
    ADDED,
    CREATED,
    DEVICES,
    FOREIGN,
    ITS_OWN,
    KAIS,
    LATER,
    OPEN,
    OWN,
    QUEUE,
    RECORDS,
    SYNCED,
    TENANT,
    VOID,
    pod,
)

KUBECONFIG = os.environ["KUBEGPU_CONTRACT_KUBECONFIG"]


@dataclasses.dataclass
class Host:
    """A host cluster with one tenant.

    :ivar kube: of its administrator; ``kai``, of KAI Scheduler's own programs.
    """

    kube: Kube
    kai: Kube
    namespace: str

    def allow(self, queues: list[str], gpu_sharing: bool) -> None:
        ensure_policies(Run({"timeout": 30}, kube=self.kube), TENANT, queue_policies(TENANT, queues, gpu_sharing, "", ADDED))

    def wait_for_policies(self, said: str, **asked: Any) -> None:
        """Wait until the API server refuses a pod so: it learns of policies after they are written."""
        deadline = time.monotonic() + 60
        while said not in self.refusal(pod({}, {}, self.namespace, **asked)):
            assert time.monotonic() < deadline
            time.sleep(0.5)

    def refusal(self, item: dict[str, Any]) -> str:
        """Create a pod, and return what it is refused for; one that is let in goes at once."""
        try:
            made = self.kube.create(item)
        except TenancyError as exc:
            return exc.message
        self.remove(made["metadata"]["name"])
        return ""

    def remove(self, name: str) -> None:
        self.kube.delete("v1", "Pod", name, self.namespace, grace_seconds=0)


@pytest.fixture(scope="module", name="host")
def _host() -> Iterator[Host]:
    kube = Kube.connect(kubeconfig=KUBECONFIG)
    name = f"tenant-{TENANT}"
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": TENANT, "namespace": KAI_NAMESPACE}}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    subject = {"kind": "ServiceAccount", "name": TENANT, "namespace": KAI_NAMESPACE}
    binding = {"apiVersion": kai.RBAC, "kind": "ClusterRoleBinding", "metadata": {"name": TENANT}}
    runtime = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": TENANT}, "handler": "nvidia"}
    has_kai = kube.get("v1", "Namespace", KAI_NAMESPACE) is not None
    try:
        for namespace, labels in ((name, {TENANT_LABEL: TENANT}), (KAI_NAMESPACE, {})):
            if not (namespace == KAI_NAMESPACE and has_kai):
                kube.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace, "labels": labels}})
        kube.create(runtime)
        kube.create(account)
        kube.create(binding | {"roleRef": role, "subjects": [subject]})
        yield Host(kube, Kube.connect(kubeconfig=_with_token(kube.create_token(TENANT, KAI_NAMESPACE, 600))), name)
    finally:
        remove_policies(Run({"timeout": 30}, kube=kube), TENANT)
        kube.delete(kai.RBAC, "ClusterRoleBinding", TENANT)
        kube.delete("v1", "ServiceAccount", TENANT, KAI_NAMESPACE)
        kube.delete("node.k8s.io/v1", "RuntimeClass", TENANT)
        for namespace in [name] if has_kai else [name, KAI_NAMESPACE]:
            kube.delete("v1", "Namespace", namespace)


def _with_token(token: str) -> dict[str, Any]:
    """Return the administrator's kubeconfig with an account's token in place of its users' credentials."""
    config: dict[str, Any] = yaml.safe_load(Path(KUBECONFIG).read_text("utf-8"))
    return config | {"users": [{"name": user["name"], "user": {"token": token}} for user in config["users"]]}


@pytest.fixture(name="bound")
def _bound(host: Host) -> Host:
    """The tenant with one queue, and the right to share GPUs."""
    host.allow(["vision"], gpu_sharing=True)
    host.wait_for_policies("vision.")
    return host


def test_applied_again_they_are_as_wanted_and_a_change_of_somebody_else_is_mended(bound: Host) -> None:
    def changes() -> list[str]:
        run = Run({"timeout": 30}, kube=bound.kube)
        ensure_policies(run, TENANT, queue_policies(TENANT, ["vision"], True, "", ADDED))
        return [what for what, _before, _after in run.changes]

    assert changes() == []
    name = f"kubegpu-tenancy-{TENANT}"
    bound.kube.patch(
        "admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicyBinding", name, {"spec": {"validationActions": ["Warn"]}}
    )
    assert changes() == [f"ValidatingAdmissionPolicyBinding {name}"]
    assert changes() == []


@pytest.mark.parametrize(("labels", "notes", "spec", "refusal"), CREATED.values(), ids=CREATED)
def test_what_a_pod_may_ask_for(
    bound: Host, labels: dict[str, str], notes: dict[str, str], spec: dict[str, Any], refusal: str
) -> None:
    said = bound.refusal(pod(labels, notes, bound.namespace, **spec))
    assert refusal in said
    assert bool(said) == bool(refusal)


def test_a_container_that_is_added_to_look_at_others_sees_no_device(bound: Host) -> None:
    name = bound.kube.create(pod(OWN, {}, bound.namespace, runtime=TENANT, gpus=1))["metadata"]["name"]
    # By the adapter's own connection, which knows a kubeconfig's proxy.
    containers = bound.kube.client.require("v1", "Pod").subresources["ephemeralcontainers"]

    def added(container: str, env: Sequence[dict[str, Any]]) -> None:
        body = {"spec": {"ephemeralContainers": [{"name": container, "image": "none", "env": list(env)}]}}
        containers.patch(body, name, bound.namespace, content_type="application/strategic-merge-patch+json")

    try:
        for env in ([], [{"name": DEVICES, "value": "all"}]):
            with pytest.raises(kubernetes.client.ApiException, match=f"Set {DEVICES} to void in ephemeral containers"):
                added("seeing", env)
        added("blind", VOID)
    finally:
        bound.remove(name)


def test_nobody_but_kai_scheduler_changes_what_a_pod_is_booked_by(bound: Host) -> None:
    name = bound.kube.create(pod(OWN, {"gpu-fraction": "0.5"}, bound.namespace))["metadata"]["name"]

    def refusal(metadata: dict[str, Any], kube: Kube = bound.kube) -> str:
        try:
            kube.patch("v1", "Pod", name, {"metadata": metadata}, bound.namespace)
        except TenancyError as exc:
            return exc.message
        return ""

    group = {"labels": {"runai-gpu-group": "g"}}
    try:
        assert KAIS in refusal(group)
        assert refusal(group, bound.kai) == ""
        assert KAIS in refusal({"labels": {"runai-gpu-group": "h"}})
        assert KAIS in refusal({"labels": {"runai-gpu-group": None}})
        assert FOREIGN in refusal({"labels": {QUEUE: "speech"}})
        assert FOREIGN in refusal({"labels": {QUEUE: None}})
        assert LATER in refusal({"annotations": {"gpu-fraction": "0.1"}})
        assert LATER in refusal({"annotations": {"gpu-fraction": None}})
        assert refusal({"labels": {"app": "x"}, "annotations": {"note": "x"}}) == ""
        # What was let in goes on, also where the tenant has other queues by now, and shares no GPUs.
        bound.allow(["models"], gpu_sharing=False)
        bound.wait_for_policies("models.")
        assert refusal({"labels": {"app": "y"}}) == ""
        sharing = bound.refusal(pod({QUEUE: "models"}, {"gpu-fraction": "0.5"}, bound.namespace))
        assert f"Tenant {TENANT} shares no GPUs" in sharing
    finally:
        bound.remove(name)


# --- a scheduler of the tenant's own ---------------------------------------------------------------------------------


@pytest.fixture(name="sharing_nodes")
def _sharing_nodes(host: Host) -> Host:
    """The tenant with a scheduler of its own, on nodes of others."""
    ensure_policies(Run({"timeout": 30}, kube=host.kube), TENANT, policies(TENANT, "partial", None, True, False, "", ADDED))
    host.wait_for_policies(OPEN, scheduler="another", runtime=TENANT)
    return host


@pytest.mark.parametrize(("name", "refusal"), ITS_OWN.items(), ids=ITS_OWN)
def test_what_a_pod_of_a_tenant_with_a_scheduler_of_its_own_may_see(sharing_nodes: Host, name: str, refusal: str) -> None:
    labels, notes, spec, _refusal = CREATED[name]
    said = sharing_nodes.refusal(pod(labels, notes, sharing_nodes.namespace, **spec))
    assert refusal in said
    assert bool(said) == bool(refusal)


def _refused(write: Callable[[], object]) -> str:
    """Return what a write is refused for; empty where it is let through."""
    try:
        write()
    except TenancyError as exc:
        return exc.message
    return ""


# --- a sandbox -------------------------------------------------------------------------------------------------------


def test_accounts_of_a_tenant_make_pods_in_its_sandbox_alone(host: Host) -> None:
    ensure_policies(Run({"timeout": 30}, kube=host.kube), TENANT, policies(TENANT, "partial", None, False, False, TENANT))
    here = {"name": "vc-x", "namespace": host.namespace}
    rules = [
        {
            "apiGroups": ["", "apps"],
            "resources": ["pods", "statefulsets"],
            "verbs": ["create", "get", "patch", "update", "delete"],
        }
    ]
    host.kube.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": here})
    host.kube.create({"apiVersion": kai.RBAC, "kind": "Role", "metadata": here, "rules": rules})
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "vc-x"}
    subjects = [{"kind": "ServiceAccount"} | here]
    host.kube.create({"apiVersion": kai.RBAC, "kind": "RoleBinding", "metadata": here, "roleRef": role, "subjects": subjects})
    config = _with_token(host.kube.create_token("vc-x", host.namespace, 600))
    syncer = dataclasses.replace(host, kube=Kube.connect(kubeconfig=config))
    told = f"All pods of this tenant run in RuntimeClass {TENANT}"
    syncer.wait_for_policies(told, scheduler="another")
    assert told in syncer.refusal(pod({}, {}, host.namespace, scheduler="default-scheduler"))
    assert syncer.refusal(pod({}, {}, host.namespace, scheduler="another", runtime=TENANT)) == ""
    # Nor by way of the control plane, whose pods a controller of Kubernetes makes.
    container = {"name": "c", "image": "none"}
    labels = {"matchLabels": {"app": "plane"}}
    template = {"metadata": {"labels": {"app": "plane"}}, "spec": {"containers": [container]}}
    plane = {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "plane", "namespace": host.namespace},
        "spec": {"replicas": 0, "serviceName": "plane", "selector": labels, "template": template},
    }
    host.kube.create(plane)
    another = {"spec": {"template": {"spec": {"containers": [container | {"image": "another"}]}}}}
    told_of_workloads = "change no pods of workloads here"
    deadline = time.monotonic() + 60
    while told_of_workloads not in _refused(
        lambda: syncer.kube.patch("apps/v1", "StatefulSet", "plane", another, host.namespace)
    ):
        assert time.monotonic() < deadline
        time.sleep(0.5)
    with pytest.raises(TenancyError, match=told_of_workloads):
        syncer.kube.create(plane | {"metadata": plane["metadata"] | {"name": "second"}})
    note = {"spec": {"template": {"metadata": {"annotations": {"a": "b"}}}}}
    assert syncer.kube.patch("apps/v1", "StatefulSet", "plane", note, host.namespace)
    assert host.kube.patch("apps/v1", "StatefulSet", "plane", another, host.namespace)
    # What an operator or a controller of Kubernetes makes there, such as the control plane, stays outside.
    assert host.refusal(pod({}, {}, host.namespace, scheduler="another")) == ""
    # The class shows a pod no device, so that what its image says of them does not matter.
    ensure_policies(Run({"timeout": 30}, kube=host.kube), TENANT, queue_policies(TENANT, ["vision"], False, TENANT))
    syncer.wait_for_policies("is none that tenant", scheduler="another", runtime=TENANT)
    assert syncer.refusal(pod(OWN, {}, host.namespace, runtime=TENANT)) == ""
    assert told in syncer.refusal(pod(OWN, {}, host.namespace))


@pytest.mark.parametrize("kind", ["Secret", "ConfigMap"])
@pytest.mark.parametrize(("labels", "refused"), RECORDS)
def test_what_a_syncer_brings_is_no_record_of_helm(guarded: str, kind: str, labels: dict[str, str], refused: bool) -> None:
    kube = Kube.connect(kubeconfig=KUBECONFIG)
    name = f"r-{secrets.token_hex(4)}"
    made = {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": guarded, "labels": labels}}
    if refused:
        with pytest.raises(TenancyError, match="passes for a record of Helm"):
            kube.create(made)
        # Nor does it become one later.
        kube.create(made | {"metadata": made["metadata"] | {"labels": SYNCED}})
        with pytest.raises(TenancyError, match="passes for a record of Helm"):
            kube.patch("v1", kind, name, {"metadata": {"labels": labels}}, guarded)
    else:
        kube.create(made)
    assert kube.delete("v1", kind, name, guarded)


@pytest.fixture(scope="module")
def guarded() -> Iterator[str]:
    """A namespace of a tenant that is kept from records of Helm, once the API server has taken up the policy."""
    kube, tenant = Kube.connect(kubeconfig=KUBECONFIG), f"records-{secrets.token_hex(3)}"
    kube.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": tenant, "labels": {TENANT_LABEL: tenant}}})
    try:
        run = Run({}, kube=kube, deadline=Deadline(120))
        Records(run, tenant, tenant, lambda: None).guard()
        assert [change[0].partition(" ")[0] for change in run.changes] == [
            "ValidatingAdmissionPolicy",
            "ValidatingAdmissionPolicyBinding",
        ]
        again = Run({}, kube=kube, deadline=Deadline(120))
        Records(again, tenant, tenant, lambda: None).guard()
        assert again.changes == []
        yield tenant
    finally:
        remove_record_policies(Run({}, kube=kube), tenant)
        kube.delete("v1", "Namespace", tenant)
