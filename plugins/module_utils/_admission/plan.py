# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Plan the policies of the API server that bound the pods of a tenant: the GPUs which they get and see on nodes that it shares, and their sandbox.

The limit of a queue bounds what the host cluster's KAI Scheduler places for it. So a pod of a tenant that shares it, and asks for GPUs or for
part of one, is placed by KAI Scheduler, counts in a queue of the tenant, and cannot say otherwise. What a tenant with a scheduler of its own
gets, a quota bounds. Neither one's pods see GPUs that they did not ask for: NVIDIA's container runtime shows a container the GPUs that its
environment names, even if others were booked. Expressions are CEL, as Kubernetes 1.30 evaluates it.
"""

from __future__ import annotations

import json
import typing as t

from .._common.names import GPU_GROUP_LABEL, KAI_SCHEDULER_NAME, QUEUE_LABEL, TENANT_LABEL
from .._common.ownership import MARKER_LABEL, OWNED_LABELS
from .._common.values import JsonObject
from .facts import (
    ADMITS_ANNOTATION,
    API_VERSION,
    BINDING,
    CLASS_RESOURCES,
    DEFAULT_SCHEDULER,
    DEVICE_NOTES,
    GPU_RESOURCES,
    KAI_USERS,
    NO_DEVICES,
    OWN_LABELS,
    POLICY,
    SHARED_GPU_MAP,
    SHARING_FORMS,
    SHARING_NOTES,
    VISIBLE_DEVICES,
)

# Whether an account of the tenant's namespace asks, such as the syncer's.
_BY_TENANT = "request.userInfo.username.startsWith('system:serviceaccount:' + request.namespace + ':')"


def policies(
    tenant: str,
    trust: str | None,
    queues: t.Sequence[str] | None,
    shares_nodes: bool,
    gpu_sharing: bool,
    sandbox: str = "",
    added_image: str = "",
) -> list[JsonObject]:
    """Return the policies that a tenant needs, each with its binding; none where nothing is to be kept from it.

    :arg queues: names of the queues of the host cluster's KAI Scheduler that its pods may use; None where another one places them.
    :arg shares_nodes: whether other tenants have GPUs on its nodes, so that a quota bounds its own.
    :arg gpu_sharing: whether its pods may ask for part of a GPU.
    :arg sandbox: RuntimeClass in which all its pods run; empty for none.
    :arg added_image: image of the container that vCluster adds to pods; empty where vCluster adds none.
    """
    if queues is not None:
        return queue_policies(tenant, queues, gpu_sharing, sandbox, added_image)
    # With a KAI Scheduler of its own, the tenant itself can write what tells a pod which GPU it shares.
    devices = (
        _device_rules(by_kai=False, sandbox="", added_image=added_image)
        if trust == "partial" and shares_nodes and not gpu_sharing
        else []
    )
    rules = [*([_class_rule()] if shares_nodes else []), *devices, *([_sandbox_rule(sandbox)] if sandbox else [])]
    if not rules:
        return []
    gpus = "GPUs that are asked for" if devices else f"GPUs by the name {GPU_RESOURCES}gpu"
    admits = "; ".join([*([gpus] if shares_nodes else []), *([_in_class(sandbox)] if sandbox else [])])
    return [*_policies(tenant, admits, _variables("created", "containers"), rules), *_workload_policies(tenant, sandbox)]


def queue_policies(
    tenant: str, queues: t.Sequence[str], gpu_sharing: bool, sandbox: str = "", added_image: str = ""
) -> list[JsonObject]:
    """Return the policies of a tenant that shares the host cluster's KAI Scheduler, and their bindings to the tenant's namespace.

    :arg queues: names of the queues that its pods may use.
    :arg gpu_sharing: whether they may ask for part of a GPU.
    :arg sandbox: RuntimeClass in which all of them run, on nodes with GPUs of their own or without GPUs; empty for none.
    :arg added_image: as of ``policies``.
    """
    admits = f"{'shared and whole' if gpu_sharing else 'whole'} GPUs in queues: {_listed(queues)}"
    rules = [
        _class_rule(),
        *_queue_rules(tenant, queues, gpu_sharing),
        *_device_rules(by_kai=True, sandbox=sandbox, added_image=added_image),
    ]
    if sandbox:
        admits, rules = f"{admits}; {_in_class(sandbox)}", [*rules, _sandbox_rule(sandbox)]
    return [*_policies(tenant, admits, _variables(), rules), *_workload_policies(tenant, sandbox)]


def _workload_policies(tenant: str, sandbox: str) -> list[JsonObject]:
    """Return the policy that keeps a tenant's accounts from other pods by way of its control plane, and its binding; none without a sandbox.

    The syncer may change the control plane's StatefulSet (chart/templates/role.yaml of vCluster), whose pods a controller of Kubernetes makes,
    outside of the sandbox.
    """
    if not sandbox:
        return []
    same = "request.operation == 'UPDATE' && object.spec.template.spec == oldObject.spec.template.spec"
    rule = (f"!{_BY_TENANT} || ({same})", _text("The accounts of a tenant with a sandbox change no pods of workloads here."))
    chosen = _chosen(tenant)
    resources = _resources("statefulsets", "deployments", "replicasets", group="apps")
    match = {"matchConstraints": chosen | {"resourceRules": [resources]}, "matchConditions": []}
    return _bound(workload_policy_name(tenant), tenant, "workloads whose pods stay as they are", chosen, match, {}, [rule])


def record_policies(tenant: str) -> list[JsonObject]:
    """Return the policy that keeps a tenant's syncer from records of Helm in its namespace of the host cluster, and its binding.

    Helm finds the records of a release by their labels, regardless of their names (helm.sh/helm, pkg/storage/driver/secrets.go). It deletes
    and creates what the last record says, with the rights of its caller.
    """
    labels = "object.metadata.labels"
    owner = f"{_text('owner')} in {labels} && {labels}[{_text('owner')}].lowerAscii() == 'helm'"
    rule = (
        f"!has({labels}) || !({_text(MARKER_LABEL)} in {labels}) || !({owner})",
        _text("A tenant's object passes for a record of Helm: take the label owner off."),
    )
    chosen = _chosen(tenant)
    match = {"matchConstraints": chosen | {"resourceRules": [_resources("secrets", "configmaps")]}, "matchConditions": []}
    return _bound(record_policy_name(tenant), tenant, "no records of Helm by the tenant", chosen, match, {}, [rule])


def _policies(tenant: str, admits: str, variables: dict[str, str], rules: list[tuple[str, str]]) -> list[JsonObject]:
    """Return a policy for pods, and its binding.

    :arg rules: conditions that pods have to meet, and what those are told that do not.
    """
    chosen = _chosen(tenant)
    not_kai = f"!request.userInfo.username.startsWith({_text(KAI_USERS)})"
    match = {
        "matchConstraints": chosen | {"resourceRules": [_resources("pods", "pods/ephemeralcontainers")]},
        "matchConditions": [{"name": "not-by-kai-scheduler", "expression": not_kai}],
    }
    return _bound(policy_name(tenant), tenant, admits, chosen, match, variables, rules)


def _chosen(tenant: str) -> JsonObject:
    # The defaults that the API server would add are here, too, so that the desired object can be compared with the live one.
    return {"namespaceSelector": {"matchLabels": {TENANT_LABEL: tenant}}, "objectSelector": {}, "matchPolicy": "Equivalent"}


def _resources(*names: str, group: str = "") -> JsonObject:
    return {
        "apiGroups": [group],
        "apiVersions": ["v1"],
        "operations": ["CREATE", "UPDATE"],
        "resources": list(names),
        "scope": "*",
    }


def _bound(
    name: str,
    tenant: str,
    admits: str,
    chosen: JsonObject,
    match: JsonObject,
    variables: dict[str, str],
    rules: list[tuple[str, str]],
) -> list[JsonObject]:
    """Return a policy and its binding."""
    policy = (
        {"failurePolicy": "Fail"}
        | {key: value for key, value in match.items() if value}
        | ({"variables": [{"name": key, "expression": expression} for key, expression in variables.items()]} if variables else {})
        | {
            "validations": [
                {"expression": expression, "messageExpression": message, "reason": "Forbidden"} for expression, message in rules
            ]
        }
    )
    binding = {"policyName": name, "validationActions": ["Deny"], "matchResources": chosen}
    metadata = {"name": name, "labels": OWNED_LABELS | {TENANT_LABEL: tenant}, "annotations": {ADMITS_ANNOTATION: admits}}
    return [
        {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "spec": spec}
        for kind, spec in ((POLICY, policy), (BINDING, binding))
    ]


def policy_name(tenant: str) -> str:
    """Return the name of a tenant's policy for pods, and of its binding."""
    return f"kubegpu-tenancy-{tenant}"


def workload_policy_name(tenant: str) -> str:
    """Return the name of a tenant's policy for workloads, and of its binding."""
    return f"kubegpu-tenancy-{tenant}.workloads"


def record_policy_name(tenant: str) -> str:
    """Return the name of a tenant's policy for records of Helm, and of its binding; no tenant's name has a dot."""
    return f"kubegpu-tenancy-{tenant}.records"


def _listed(queues: t.Sequence[str]) -> str:
    return ", ".join(queues) or "none"


def _text(value: str | t.Sequence[str]) -> str:
    """Return a text, or a list of texts, as CEL writes it."""
    return json.dumps(value)


def _queue_of(pod: str) -> str:
    """Return the expression for the queue that a pod names; an empty text where it names none."""
    labels, key = f"{pod}.metadata.labels", _text(QUEUE_LABEL)
    return f"has({labels}) && {key} in {labels} ? {labels}[{key}] : ''"


def _differs(field: str, of_kai: str) -> str:
    """Return the expression that tells whether labels or annotations were added, changed or removed.

    :arg of_kai: expression that tells whether a key, ``k``, is one of those.
    """
    new, old = f"object.metadata.{field}", f"oldObject.metadata.{field}"
    kept = f"!variables.created && has({old}) && k in {old} && {old}[k] == {new}[k]"
    removed = f"!variables.created && has({old}) && {old}.exists(k, ({of_kai}) && !(has({new}) && k in {new}))"
    return f"(has({new}) && {new}.exists(k, ({of_kai}) && !({kept}))) || ({removed})"


def _asks_for(resources: str = GPU_RESOURCES) -> str:
    """Return the expression that tells whether a container, ``c``, asks for GPUs, for slices of some, or for others of these resources.

    :arg resources: what their names begin with.
    """
    amounts = [
        f"(has(c.resources) && has(c.resources.{kind}) && c.resources.{kind}.exists(k, k.startsWith({_text(resources)})))"
        for kind in ("limits", "requests")
    ]
    return " || ".join(amounts)


def _names_no_device(containers: str, by_kai: bool) -> str:
    """Return the expression that tells whether no container says itself which devices it sees.

    :arg by_kai: whether the host cluster's KAI Scheduler may say it, by a ConfigMap.
    """
    none = f"has(e.value) && e.value in {_text(NO_DEVICES)}"
    source = "e.valueFrom.configMapKeyRef"
    of_kai = f"has(e.valueFrom) && has({source}) && has({source}.name) && {source}.name.matches({_text(SHARED_GPU_MAP)})"
    right = f"c.env.all(e, e.name != {_text(VISIBLE_DEVICES)} || ({none}){f' || ({of_kai})' if by_kai else ''})"
    return f"{containers}.all(c, !has(c.env) || {right})"


def _leaves_no_device_open(containers: str, sandbox: str, added_image: str) -> str:
    """Return the expression that tells whether nothing else can say it: the image of a container without GPUs, or a variable from envFrom.

    A variable from there counts after one that the container names, and before what the device plugin sets for a container with GPUs.

    :arg sandbox: RuntimeClass in which no GPUs of others are seen; empty for none.
    :arg added_image: image that names no devices; empty for none.
    """
    named = f"has(c.env) && c.env.exists(e, e.name == {_text(VISIBLE_DEVICES)})"
    apart = f"has(f.prefix) && f.prefix != '' && !{_text(VISIBLE_DEVICES)}.startsWith(f.prefix)"
    by_plugin = f"!has(c.envFrom) || c.envFrom.all(f, {apart})"
    blind = "!has(object.spec.runtimeClassName)"
    if sandbox:
        blind = f"({blind} || object.spec.runtimeClassName == {_text(sandbox)})"
    if added_image:
        blind = f"({blind} || (c.image == {_text(added_image)} && !has(c.envFrom)))"
    return f"{containers}.all(c, ({named}) || (({_asks_for()}) ? ({by_plugin}) : {blind}))"


def _sharing_is_legible() -> str:
    """Return the expression that tells whether a pod says what part of a GPU it asks for as every release of KAI Scheduler reads it."""
    notes = "object.metadata.annotations"
    forms = [
        f"(!({_text(note)} in {notes}) || {notes}[{_text(note)}].matches({_text(form)}))" for note, form in SHARING_FORMS.items()
    ]
    return f"!has({notes}) || ({' && '.join(forms)})"


def _variables(*names: str) -> dict[str, str]:
    """Return what the validations ask of a pod, each by those before it.

    :arg names: of those to return; none for all.
    """
    found = {
        "created": "request.operation == 'CREATE'",
        "queue": _queue_of("object"),
        # What a pod was let in with, it may go on with, also where the tenant's queues changed since.
        "queue_asked": f"variables.created || variables.queue != ({_queue_of('oldObject')})",
        "scheduler": f"has(object.spec.schedulerName) ? object.spec.schedulerName : {_text(DEFAULT_SCHEDULER)}",
        "containers": "object.spec.containers + (has(object.spec.initContainers) ? object.spec.initContainers : [])",
        "sharing": _differs("annotations", f"k in {_text(SHARING_NOTES)}"),
        "claims": "has(object.spec.resourceClaims) && object.spec.resourceClaims.size() > 0",
        "gpus": f"variables.sharing || variables.claims || variables.containers.exists(c, {_asks_for()})",
        "own_labels": _differs("labels", f"k in {_text(OWN_LABELS)} || k.startsWith({_text(f'{GPU_GROUP_LABEL}/')})"),
    }
    return {name: found[name] for name in names or found}


def _in_class(sandbox: str) -> str:
    return f"pods in RuntimeClass {sandbox}"


def _sandbox_rule(sandbox: str) -> tuple[str, str]:
    """Return the condition that each pod which the tenant's accounts create runs in a RuntimeClass, and what is told otherwise.

    The pods of its control plane are made by Kubernetes' controllers, and run no code of the tenant.
    """
    inside = f"has(object.spec.runtimeClassName) && object.spec.runtimeClassName == {_text(sandbox)}"
    return (
        f"!variables.created || !{_BY_TENANT} || ({inside})",
        _text(f"All pods of this tenant run in RuntimeClass {sandbox}: leave runtimeClassName out, or name that one."),
    )


def _class_rule() -> tuple[str, str]:
    """Return the condition that a pod asks for no devices by the name of a DeviceClass, which neither a queue nor a quota of GPUs counts."""
    return (
        f"!variables.created || !variables.containers.exists(c, {_asks_for(CLASS_RESOURCES)})",
        _text(f"No queue and no quota of this tenant counts {CLASS_RESOURCES}*: ask for {GPU_RESOURCES}gpu."),
    )


def _device_rules(by_kai: bool, sandbox: str, added_image: str) -> list[tuple[str, str]]:
    """Return the conditions under which a pod sees no GPU that it did not ask for, each with what one is told that does not meet it.

    :arg by_kai: whether the host cluster's KAI Scheduler may say which ones it sees.
    :arg sandbox: RuntimeClass in which no GPUs of others are seen; empty for none.
    :arg added_image: as of ``_leaves_no_device_open``.
    """
    added = "object.spec.ephemeralContainers"
    blind = f"({_names_no_device(added, by_kai)}) && ({_leaves_no_device_open(added, sandbox, added_image)})"
    return [
        (
            f"!variables.created || ({_names_no_device('variables.containers', by_kai)})",
            _text(f"{VISIBLE_DEVICES} is void or none, or left out: a pod gets GPUs by asking for {GPU_RESOURCES}gpu."),
        ),
        (
            f"!variables.created || ({_leaves_no_device_open('variables.containers', sandbox, added_image)})",
            _text(
                f"GPUs of others are on the same node. With a runtimeClassName, set {VISIBLE_DEVICES} to void in each container that asks "
                "for no GPU; in one that asks for some, give each envFrom a prefix."
            ),
        ),
        (
            # A request for the pod itself has no such field.
            f"!has(request.subResource) || request.subResource != 'ephemeralcontainers' || !has({added}) || ({blind})",
            _text(f"GPUs of others are on the same node. Set {VISIBLE_DEVICES} to void in ephemeral containers."),
        ),
        (
            f"!({_differs('annotations', ' || '.join(f'k.startsWith({_text(note)})' for note in DEVICE_NOTES))})",
            _text(f"Annotations {', '.join(f'{note}*' for note in DEVICE_NOTES)} name devices past the scheduler."),
        ),
    ]


def _queue_rules(tenant: str, queues: t.Sequence[str], gpu_sharing: bool) -> list[tuple[str, str]]:
    """Return the conditions under which a pod with GPUs is placed by KAI Scheduler within the tenant's queues, alike."""
    by_kai = f"variables.scheduler == {_text(KAI_SCHEDULER_NAME)}"
    rules = [
        (
            f"!variables.created || variables.scheduler in {_text([KAI_SCHEDULER_NAME, DEFAULT_SCHEDULER])}",
            f"'schedulerName ' + variables.scheduler + {_text(f' is none that tenant {tenant} may use: {KAI_SCHEDULER_NAME} is one.')}",
        ),
        (
            f"!variables.created || !variables.gpus || {by_kai}",
            _text(f"Pods of tenant {tenant} with GPUs are placed by {KAI_SCHEDULER_NAME}: set schedulerName."),
        ),
        (
            f"!({by_kai}) || !variables.queue_asked || variables.queue in {_text(list(queues))}",
            "(variables.queue == '' ? 'The pod names no queue. ' : 'Queue ' + variables.queue + ' is not the tenant\\'s. ') + "
            + _text(f"Set the label {QUEUE_LABEL} to one of those of tenant {tenant}: {_listed(queues)}."),
        ),
        (
            "!variables.created || !variables.gpus || !has(object.spec.nodeName) || object.spec.nodeName == ''",
            _text(f"A pod of tenant {tenant} with GPUs names no node itself: {KAI_SCHEDULER_NAME} chooses one within its queue."),
        ),
        ("!variables.own_labels", _text(f"The labels {', '.join(OWN_LABELS)} are KAI Scheduler's own.")),
        ("variables.created || !variables.sharing", _text("What part of a GPU a pod asks for is said when it is created.")),
    ]
    if gpu_sharing:
        told = "gpu-fraction is a decimal above 0 and below 1 such as 0.5, gpu-memory whole MiB such as 8000, gpu-fraction-num-devices a whole"
        rules.append((f"!variables.created || ({_sharing_is_legible()})", _text(f"{told} number such as 2.")))
    else:
        rules.append(("!variables.created || !variables.sharing", _text(f"Tenant {tenant} shares no GPUs: ask for whole ones.")))
    return rules
