#!/usr/bin/python
# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Module kubegpu.tenancy.kai_scheduler."""

from __future__ import annotations

DOCUMENTATION = r"""
module: kai_scheduler
short_description: KAI Scheduler in a cluster
version_added: 0.1.0
description:
  - Installs, upgrades and removes KAI Scheduler by its Helm chart, in the cluster or virtual cluster of the kubeconfig.
  - What differs between releases, such as the chart's place, the values that have to be set, CRDs that have to be there, and what
    makes it ready, comes from a table of releases.
  - An upgrade brings the CRDs first, which helm does not, and restarts the scheduler where the release needs that.
  - Unfinished Helm releases, as a killed run leaves them, are repaired.
  - A change to an older release first keeps the queues, the Config and the values in the Secret C(kubegpu-kai-export) in
    C(kube-system), and writes the queues back that are not as they were. A run that was killed in between goes on from there.
  - A removal does not depend on the chart's own clean-up, which needs an image, does half of the work on many releases, and
    leaves webhooks behind that refuse every pod. What the clean-up does is done here, webhooks first.
author: kubegpu.tenancy contributors (@kubegpu)
options:
  state:
    description:
      - V(present) installs or changes KAI Scheduler and waits until all of its parts are available.
      - V(absent) removes it and waits until it is gone, whether or not Helm knows of it.
    type: str
    choices: [present, absent]
    default: present
  version:
    description:
      - Version of KAI Scheduler, such as V(v0.13.1). A version that never existed or was retracted is refused.
      - Upstream supports no way back to an older version. On one, the newer release is removed and the older one installed, while
        queues, pod groups and pods stay. It is refused while there are queues on more levels than the older release schedules.
    type: str
  gpu_sharing:
    description:
      - Whether pods can ask for fractions of a GPU.
    type: bool
    default: false
  cdi:
    description:
      - Whether the device plugin hands GPUs out by CDI, for fractions of a GPU. KAI Scheduler finds out by itself only from
        NVIDIA's GPU operator. Releases that cannot be told are refused.
    type: bool
  purge:
    description:
      - With O(state=absent), also removes what users made, and what protects what runs. That is the CRDs with all queues, pod
        groups and topologies, and the reservations of shared GPUs.
    type: bool
    default: false
  timeout:
    description:
      - Seconds for the whole change, waits included.
    type: int
    default: 300
notes:
  - Images are upstream's, wherever the chart comes from, unless C(global.registry) in O(values) says otherwise.
extends_documentation_fragment:
  - kubegpu.tenancy._helm
  - kubernetes.core.k8s_auth_options
  - kubegpu.tenancy._attributes
seealso:
  - module: kubegpu.tenancy.kai_queues
  - module: kubegpu.tenancy.kai_probe
"""

EXAMPLES = r"""
- name: Install KAI Scheduler with fractions of GPUs
  kubegpu.tenancy.kai_scheduler:
    kubeconfig: /etc/kubegpu/dc1/team-ml.yml
    version: v0.12.0
    gpu_sharing: true

- name: Take chart and images from a mirror, and spread pods instead of packing them
  kubegpu.tenancy.kai_scheduler:
    kubeconfig: /etc/kubegpu/dc1/team-research.yml
    version: v0.13.1
    chart_source: oci://registry.example/charts
    values:
      global:
        registry: registry.example/kai-scheduler
      scheduler:
        placementStrategy: spread

- name: Remove it with everything users made in it
  kubegpu.tenancy.kai_scheduler:
    kubeconfig: /etc/kubegpu/dc1/team-ml.yml
    state: absent
    purge: true
"""

RETURN = r"""
version:
  description: Version of KAI Scheduler.
  returned: when O(state=present)
  type: str
  sample: v0.13.1
known:
  description: Whether the table of releases knows the version. A newer one is treated as the newest known one.
  returned: when O(state=present)
  type: bool
hazards:
  description: What is known to go wrong with the version.
  returned: when O(state=present)
  type: list
  elements: str
  sample: ["its pod webhook stops every pod of the cluster while it does not answer (#104, #227, #883)"]
passages:
  description: What is known to happen between the version found and O(version), and what is done about it.
  returned: when O(state=present) and the version changes
  type: list
  elements: str
  sample: ["helm brings no CRDs with an upgrade: they are applied first (#549)"]
steps:
  description: What was done, or would be in check mode, in that order, and why.
  returned: when O(state=present)
  type: list
  elements: dict
  contains:
    step:
      description: What.
      type: str
      returned: always
    why:
      description: The reason.
      type: str
      returned: always
    seconds:
      description: How long it took. What it started may need more.
      type: float
      returned: not in check mode
  sample:
    - {step: apply the CRDs, why: helm installs them once and never changes them, seconds: 1.2}
values:
  description: Values given to the chart.
  returned: when O(state=present)
  type: dict
  sample: {global: {gpuSharing: true, registry: ghcr.io/kai-scheduler/kai-scheduler}}
seconds:
  description: How long it took until all parts were available, or gone.
  returned: success
  type: float
  sample: 31.4
last_seen:
  description: What was still missing, or still there, when time ran out.
  returned: when it did
  type: str
"""

import base64
import functools
import itertools
import json
import time
import typing as t

from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.helm import (
    HELM_ARG_SPEC,
    UNFINISHED,
    Chart,
    Helm,
    Release,
    find_chart,
)
from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.kubernetes import (
    Kube,
    Object,
    finish,
    kube_module,
    side_by_side,
)
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.values import Change, deep_merge, differences, outcome
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.wait import wait_for
from ansible_collections.kubegpu.tenancy.plugins.module_utils._kai import facts as kai
from ansible_collections.kubegpu.tenancy.plugins.module_utils._kai import status as _kai_installation
from ansible_collections.kubegpu.tenancy.plugins.module_utils._queues.plan import API_VERSION, KIND, ancestors, from_live

RBAC = "rbac.authorization.k8s.io/v1"
CRD = ("apiextensions.k8s.io/v1", "CustomResourceDefinition")
# Name and namespace of what is kept on a way back; a namespace that outlives KAI.
EXPORT = ("kubegpu-kai-export", "kube-system")

# What a release keeps in its namespace, and what the namespace has of itself.
CONTENT = (
    ("apps/v1", "Deployment"),
    ("batch/v1", "Job"),
    ("v1", "Pod"),
    ("v1", "Service"),
    ("v1", "ServiceAccount"),
    ("v1", "Secret"),
    ("v1", "ConfigMap"),
    ("coordination.k8s.io/v1", "Lease"),
    (RBAC, "Role"),
    (RBAC, "RoleBinding"),
)
BUILT_IN = {("ServiceAccount", "default"), ("ConfigMap", "kube-root-ca.crt")}

Step = tuple[str, str, t.Callable[[], None]]


class Remnant(t.NamedTuple):
    """An object of KAI that is still there; ``terminating`` when it is on its way."""

    api_version: str
    kind: str
    name: str
    terminating: bool
    namespace: str | None = None


class Installation:
    """KAI Scheduler in one cluster."""

    def __init__(self, params: t.Mapping[str, t.Any], kube: Kube, helm: Helm) -> None:
        self.params = params
        self.kube = kube
        self.helm = helm
        self.start = time.monotonic()

    def seconds(self) -> float:
        return round(time.monotonic() - self.start, 1)

    def left(self) -> int:
        """Seconds left, at least one: everything gets a try."""
        return max(1, int(self.params["timeout"] - self.seconds()))

    # --- present ---

    def present(self, check_mode: bool) -> dict[str, t.Any]:
        release = kai.release(self.params["version"])
        upstream = Chart(release.chart, release.chart_version)
        chart = find_chart(self.params["chart_source"], kai.CHART, release.chart_version, upstream)
        kueue = release.topology_migration and self.kube.get(*CRD, kai.KUEUE_TOPOLOGIES) is not None
        values = deep_merge(release.values(self.params["gpu_sharing"], self.params["cdi"], kueue), self.params["values"])
        current = self.helm.release(kai.RELEASE_NAME, kai.NAMESPACE)
        changes = self._changes(release, current, values)
        if not changes and not check_mode:
            changes = self._repairs(release, current)
        steps = self._steps(release, current, chart, values, bool(changes))
        told: list[dict[str, t.Any]] = [{"step": what, "why": why} for what, why, _take in steps]
        if not check_mode:
            for record, (what, _why, take) in zip(told, steps, strict=True):
                began = time.monotonic()
                self._take(what, take)
                record["seconds"] = round(time.monotonic() - began, 1)
            wait_for(f"KAI Scheduler {release.version}", lambda: self._ready(release), self.left())
            changes += self._restart_if_stale(release)
        before = current.chart_version if current else release.version
        return outcome(
            changes,
            version=release.version,
            known=release.known,
            hazards=list(release.hazards),
            passages=kai.passages(before, release.version) if before != release.chart_version else [],
            steps=told,
            warnings=kai.renamed(self.params["values"], release.version),
            values=values,
            seconds=self.seconds(),
        )

    def _changes(self, release: kai.Release, current: Release | None, values: Object) -> list[Change]:
        if current is None:
            return [("version", None, release.chart_version), ("values", None, values)]
        changes: list[Change] = []
        if current.status != "deployed":
            changes.append(("release", current.status, "deployed"))
        if current.chart_version != release.chart_version:
            changes.append(("version", current.chart_version, release.chart_version))
        if release.operator and self.kube.get(*kai.CONFIG) is None:
            changes.append(("config", None, kai.CONFIG[2]))
        changes += [("CRD", None, name) for name in release.crds if self.kube.get(*CRD, name) is None]
        return changes + differences(current.values, values)

    def _repairs(self, release: kai.Release, current: Release | None) -> list[Change]:
        """What stays broken in a release that is as asked: someone changed, or took away, what helm or the operator made."""
        if current is None or not _kai_installation.lacking(self.kube, release):
            return []
        # After a reboot, for example, it only needs time.
        patience = self.left() / 3
        try:
            wait_for(f"KAI Scheduler {release.version}", lambda: self._ready(release), patience)
        except TenancyError as exc:
            if "last_seen" not in exc.details:
                raise
            return [("parts", exc.details["last_seen"], "available")]
        return []

    def _steps(self, release: kai.Release, current: Release | None, chart: Chart, values: Object, changing: bool) -> list[Step]:
        steps: list[Step] = []
        export = self.kube.get("v1", "Secret", *EXPORT)
        back = current is not None and kai.number(current.chart_version) > kai.number(release.version)
        if changing and release.queue_levels:
            self._refuse_deeper_queues(release)
        if current and back:
            if export is None:
                steps.append(("export queues, Config and values", "a way back goes by removal", lambda: self._export(current)))
            why = f"upstream supports no way back from {current.chart_version}"
            steps.append((f"remove {current.chart_version}", why, lambda: self._remove(current, back=True)))
        elif export and not current:
            why = "a way back was killed in the middle of the removal"
            steps.append(("remove the rest of the former release", why, lambda: self._remove(None, back=True)))
        elif current and current.status in UNFINISHED:
            why = f"the release is {current.status}, which a killed run leaves, and helm would refuse to go on"
            steps.append(("forget the unfinished revision", why, lambda: self._forget(current)))
        if changing:
            steps.append(
                ("apply the CRDs", "helm installs them once and never changes them", lambda: self._apply_crds(release, chart))
            )
            verb = "upgrade to" if current and not back else "install"
            what = f"{verb} {release.version}"
            steps.append((what, "as asked, with all values", lambda: self._install(release, chart, values)))
        if changing and current and not back and release.restart_after_upgrade:
            why = "its service account was made anew, and it would go on without rights (#1536)"
            steps.append(("restart the scheduler", why, lambda: self._restart(release)))
        if export or back:
            steps.append(("write back the queues", "some may be missing or changed since the export", self._restore))
        return steps

    def _take(self, what: str, take: t.Callable[[], None]) -> None:
        try:
            take()
        except TenancyError as exc:
            told = kai.troubles(self.kube.list("v1", "Pod", kai.NAMESPACE))
            pods = f" Pods in {kai.NAMESPACE}: {'; '.join(told)}." if told else ""
            raise TenancyError(f"Could not {what}: {exc.message}{pods}", **exc.details) from exc

    def _refuse_deeper_queues(self, release: kai.Release) -> None:
        live = from_live(self.kube.list(API_VERSION, KIND))
        deeper = sorted(name for name in live if len(ancestors(live, name)) > (release.queue_levels or 0))
        if deeper:
            raise TenancyError(
                f"version: {release.version} schedules queues on {release.queue_levels} levels only, and these are deeper: "
                f"{', '.join(deeper)}. Remove them first, or move them up, for example by kai_queues with state: exact."
            )

    def _export(self, current: Release) -> None:
        content = {"queues": self.kube.list(API_VERSION, KIND), "config": self.kube.get(*kai.CONFIG), "values": current.values}
        name, namespace = EXPORT
        metadata = {"name": name, "namespace": namespace, "labels": kai.OWNED_LABELS}
        data = {key: json.dumps(value) for key, value in content.items()}
        self.kube.create({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": data})

    def _restore(self) -> None:
        secret = self.kube.get("v1", "Secret", *EXPORT)
        if secret is None:
            return
        exported = json.loads(base64.b64decode(secret["data"]["queues"]))
        live = {item["metadata"]["name"]: item for item in self.kube.list(API_VERSION, KIND)}
        # Parents first, as the webhook of some releases wants it.
        queues = from_live(exported)
        for item in sorted(exported, key=lambda item: len(ancestors(queues, item["metadata"]["name"]))):
            name = item["metadata"]["name"]
            metadata = {key: item["metadata"][key] for key in ("name", "labels", "annotations") if key in item["metadata"]}
            body = {"apiVersion": API_VERSION, "kind": KIND, "metadata": metadata, "spec": item["spec"]}
            if name not in live:
                write = functools.partial(self.kube.create, body)
            elif live[name]["spec"] != item["spec"]:
                write = functools.partial(self.kube.apply, body)
            else:
                continue
            kai.when_webhook_answers(f"queue {name} to be written back", write, self.left())
        self.kube.delete("v1", "Secret", *EXPORT)

    def _forget(self, current: Release) -> None:
        self.kube.delete("v1", "Secret", current.record, kai.NAMESPACE)

    def _apply_crds(self, release: kai.Release, chart: Chart) -> None:
        crds = self.helm.crds(chart)
        side_by_side(self.kube.apply, crds)
        if release.needs_cluster_policy and self.kube.get(*CRD, kai.CLUSTER_POLICY_CRD["metadata"]["name"]) is None:
            self.kube.create(kai.CLUSTER_POLICY_CRD)
        wait_for("the CRDs", lambda: self._established({crd["metadata"]["name"] for crd in crds}), self.left())

    def _install(self, release: kai.Release, chart: Chart, values: Object) -> None:
        if release.operator:
            # Seen from v0.12.0 to v0.13.1: until the new one is ready, both undo what the other does to the schedulers.
            self.kube.delete("apps/v1", "Deployment", kai.OPERATOR, kai.NAMESPACE)
        # A hook's Job that was left behind would be in the way of the next one.
        for job in self.kube.list("batch/v1", "Job", kai.NAMESPACE):
            self.kube.delete("batch/v1", "Job", job["metadata"]["name"], kai.NAMESPACE)
        self.helm.upgrade(kai.RELEASE_NAME, kai.NAMESPACE, chart, values, self.left())

    def _established(self, names: set[str]) -> tuple[bool | None, str]:
        for crd in self.kube.list(*CRD):
            conditions = crd.get("status", {}).get("conditions") or []
            if any(item["type"] == "Established" and item["status"] == "True" for item in conditions):
                names = names - {crd["metadata"]["name"]}
        return (None, f"{', '.join(sorted(names))} not established") if names else (True, "")

    def _restart_if_stale(self, release: kai.Release) -> list[Change]:
        """A run that was killed after an upgrade left a scheduler that is older than its service account."""
        if not release.restart_after_upgrade:
            return []
        for pod in self._schedulers(release):
            account = self.kube.get("v1", "ServiceAccount", pod["spec"].get("serviceAccountName", "default"), kai.NAMESPACE)
            # Both are RFC 3339 in UTC, which sort as they follow each other.
            if account and pod["metadata"]["creationTimestamp"] < account["metadata"]["creationTimestamp"]:
                self._restart(release)
                return [("scheduler", "older than its service account", "restarted")]
        return []

    def _schedulers(self, release: kai.Release) -> list[Object]:
        return self.kube.list("v1", "Pod", kai.NAMESPACE, f"app={release.scheduler}")

    def _restart(self, release: kai.Release) -> None:
        names = [pod["metadata"]["name"] for pod in self._schedulers(release)]
        for name in names:
            self.kube.delete("v1", "Pod", name, kai.NAMESPACE)
        wait_for("the restart of the scheduler", lambda: self._ready(release, names), self.left())

    def _ready(self, release: kai.Release, gone: t.Collection[str] = ()) -> tuple[bool | None, str]:
        lacking = _kai_installation.lacking(self.kube, release)
        if lacking or gone:
            pods = self.kube.list("v1", "Pod", kai.NAMESPACE)
            lacking += [f"pod {pod['metadata']['name']} still runs" for pod in pods if pod["metadata"]["name"] in gone]
            lacking += kai.troubles(pods)
        return (None, "; ".join(lacking)) if lacking else (True, "")

    # --- absent ---

    def absent(self, check_mode: bool) -> dict[str, t.Any]:
        current = self.helm.release(kai.RELEASE_NAME, kai.NAMESPACE)
        changes: list[Change] = [("version", current.chart_version, None)] if current else []
        changes += [(f"{found.kind} {found.name}", "present", None) for found in self._remains()]
        if changes and not check_mode:
            self._remove(current)
        return outcome(changes, seconds=self.seconds())

    def _remove(self, current: Release | None, back: bool = False) -> None:
        # Whoever makes the webhooks goes first, then the webhooks, then whoever answers them.
        self.kube.delete("apps/v1", "Deployment", kai.OPERATOR, kai.NAMESPACE)
        wait_for("the end of the operator", lambda: self._pods_gone(f"app={kai.OPERATOR}"), self.left(), interval=0.3)
        side_by_side(self._delete, self._webhooks())
        # A namespace that is deleted with pods in it is looked at again only after many seconds. They end while helm works.
        side_by_side(self._delete, self._found("apps/v1", "Deployment", _any, kai.NAMESPACE))
        if current:
            self.helm.uninstall(kai.RELEASE_NAME, kai.NAMESPACE, self.left(), hooks=False)
        wait_for("the end of its pods", self._pods_gone, self.left(), interval=0.3)
        wait_for("the removal of KAI Scheduler", lambda: self._sweep(back), self.left(), interval=0.3)

    def _pods_gone(self, label_selector: str | None = None) -> tuple[bool | None, str]:
        pods = self.kube.list("v1", "Pod", kai.NAMESPACE, label_selector)
        return (None, ", ".join(pod["metadata"]["name"] for pod in pods)) if pods else (True, "")

    def _sweep(self, back: bool) -> tuple[bool | None, str]:
        remains = self._remains(back)
        doomed = [found for found in remains if not found.terminating]
        # Kind after kind, as they can go; those of one kind at once.
        for _kind, same in itertools.groupby(doomed, key=lambda found: found.kind):
            side_by_side(self._delete, same)
        return (None, ", ".join(f"{found.kind} {found.name}" for found in remains)) if remains else (True, "")

    def _delete(self, found: Remnant) -> None:
        self.kube.delete(found.api_version, found.kind, found.name, found.namespace)

    def _remains(self, back: bool = False) -> list[Remnant]:
        """What lies in the cluster, in the order in which it can go.

        :arg back: another release follows at once: its namespace stays and is emptied, which takes a third of the time.
        """
        purge = self.params["purge"] and not back
        names = {kai.SCALE_ADJUST_NAMESPACE} | ({kai.RESERVATION_NAMESPACE} if purge else set())
        names |= set() if back else {kai.NAMESPACE}
        crds = self._found(*CRD, _our_crd)
        living = {found.name for found in crds if not found.terminating}
        configs = (("configs.kai.scheduler", kai.CONFIG[:2]), ("schedulingshards.kai.scheduler", kai.SHARD))
        looks: list[t.Callable[[], list[Remnant]]] = [
            self._webhooks,
            *[functools.partial(self._found, *kind, _any) for crd, kind in configs if crd in living],
            *[functools.partial(self._found, RBAC, kind, _of_chart) for kind in ("ClusterRoleBinding", "ClusterRole")],
            functools.partial(self._found, "scheduling.k8s.io/v1", "PriorityClass", _of_chart),
            functools.partial(self._found, "v1", "Namespace", lambda item: item["metadata"]["name"] in names),
            # Service accounts that outlive the old Config would be taken from the next release while it uses them (#1536).
            *[functools.partial(self._found, *kind, _not_built_in, kai.NAMESPACE) for kind in CONTENT if back],
        ]
        found = side_by_side(lambda look: look(), looks)
        return [*itertools.chain.from_iterable(found), *(crds if purge else [])]

    def _webhooks(self) -> list[Remnant]:
        return [found for kind in _kai_installation.WEBHOOKS for found in self._found(_kai_installation.ADMISSION, kind, _of_kai)]

    def _found(
        self, api_version: str, kind: str, wanted: t.Callable[[Object], bool], namespace: str | None = None
    ) -> list[Remnant]:
        return [
            Remnant(api_version, kind, item["metadata"]["name"], "deletionTimestamp" in item["metadata"], namespace)
            for item in self.kube.list(api_version, kind, namespace)
            if wanted(item)
        ]


def _any(_item: Object) -> bool:
    return True


def _not_built_in(item: Object) -> bool:
    return (item["kind"], item["metadata"]["name"]) not in BUILT_IN


def _of_kai(webhook: Object) -> bool:
    return (webhook["kind"], webhook["metadata"]["name"]) in kai.WEBHOOKS


def _of_chart(item: Object) -> bool:
    notes = item["metadata"].get("annotations") or {}
    owner = (notes.get("meta.helm.sh/release-name"), notes.get("meta.helm.sh/release-namespace"))
    return owner == (kai.RELEASE_NAME, kai.NAMESPACE) or item["metadata"]["name"] in kai.HOOK_ROLES


def _our_crd(item: Object) -> bool:
    name, labels = item["metadata"]["name"], item["metadata"].get("labels") or {}
    return name in kai.CRDS or (name == kai.CLUSTER_POLICY_CRD["metadata"]["name"] and kai.OWNED_LABELS.items() <= labels.items())


def run(params: t.Mapping[str, t.Any], kube: Kube, helm: Helm, check_mode: bool) -> dict[str, t.Any]:
    installation = Installation(params, kube, helm)
    return installation.present(check_mode) if params["state"] == "present" else installation.absent(check_mode)


def main() -> None:
    module = kube_module(
        argument_spec=HELM_ARG_SPEC
        | {
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "version": {"type": "str"},
            "gpu_sharing": {"type": "bool", "default": False},
            "cdi": {"type": "bool"},
            "purge": {"type": "bool", "default": False},
            "timeout": {"type": "int", "default": 300},
        },
        required_if=[("state", "present", ("version",))],
    )
    try:
        helm = Helm.connect(module._module.run_command, module.params)
        result = run(module.params, Kube.connect(module), helm, module.check_mode)
        if not result.get("known", True):
            module.warn(
                f"KAI Scheduler {result['version']} is not in the table of releases, and was treated as the newest there."
            )
        finish(module, result)
    except TenancyError as exc:
        module.fail_json(msg=exc.message, **exc.details)


if __name__ == "__main__":
    main()
