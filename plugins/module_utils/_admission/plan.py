# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Plan the policies that keep a tenant's pods to its queues of the host cluster's KAI Scheduler.

The limit of a queue bounds what KAI Scheduler places for it. So a pod of the tenant that asks for GPUs, or for part of one, is placed by
KAI Scheduler, counts in a queue of the tenant, and cannot say otherwise. Nor does it see GPUs that it did not ask for: NVIDIA's container
runtime shows a container those that its environment names, whatever was booked. Expressions are CEL, as Kubernetes 1.30 evaluates it.
"""

from __future__ import annotations

import json
import typing as t

from ansible_collections.kubegpu.tenancy.plugins.module_utils._admission.facts import (
    ADMITS_ANNOTATION,
    API_VERSION,
    BINDING,
    DEFAULT_SCHEDULER,
    DEVICE_NOTES,
    GPU_RESOURCES,
    KAI_USERS,
    NO_DEVICES,
    OWN_LABELS,
    POLICY,
    SHARED_GPU_MAP,
    SHARING_NOTES,
    VISIBLE_DEVICES,
)
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.ownership import OWNED_LABELS
from ansible_collections.kubegpu.tenancy.plugins.module_utils._kai.facts import SCHEDULER_NAME
from ansible_collections.kubegpu.tenancy.plugins.module_utils._nodes.facts import GPU_GROUP_LABEL
from ansible_collections.kubegpu.tenancy.plugins.module_utils._queues.facts import QUEUE_LABEL
from ansible_collections.kubegpu.tenancy.plugins.module_utils._vcluster.facts import TENANT_LABEL

Object = dict[str, t.Any]


def policies(tenant: str, queues: t.Sequence[str], gpu_sharing: bool) -> list[Object]:
    """Return the policy of one tenant and its binding to the tenant's namespace.

    :arg queues: names of the queues that its pods may use.
    :arg gpu_sharing: whether they may ask for part of a GPU.
    """
    # Whatever the API server would add is here, too, so that what is wanted can be compared with what there is.
    chosen = {"namespaceSelector": {"matchLabels": {TENANT_LABEL: tenant}}, "objectSelector": {}, "matchPolicy": "Equivalent"}
    pods = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["CREATE", "UPDATE"],
        "resources": ["pods", "pods/ephemeralcontainers"],
        "scope": "*",
    }
    policy = {
        "failurePolicy": "Fail",
        "matchConstraints": chosen | {"resourceRules": [pods]},
        "matchConditions": [
            {"name": "not-by-kai-scheduler", "expression": f"!request.userInfo.username.startsWith({_text(KAI_USERS)})"}
        ],
        "variables": [{"name": name, "expression": expression} for name, expression in _variables().items()],
        "validations": _validations(tenant, queues, gpu_sharing),
    }
    name, admits = policy_name(tenant), f"{'shared and whole' if gpu_sharing else 'whole'} GPUs in queues: {_listed(queues)}"
    binding = {"policyName": name, "validationActions": ["Deny"], "matchResources": chosen}
    metadata = {"name": name, "labels": OWNED_LABELS | {TENANT_LABEL: tenant}, "annotations": {ADMITS_ANNOTATION: admits}}
    return [
        {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "spec": spec}
        for kind, spec in ((POLICY, policy), (BINDING, binding))
    ]


def policy_name(tenant: str) -> str:
    """Return the name of a tenant's policy and of its binding."""
    return f"kubegpu-tenancy-{tenant}"


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


def _asks_for_gpus() -> str:
    """Return the expression that tells whether a container, ``c``, asks for GPUs, or for slices of some."""
    amounts = [
        f"(has(c.resources) && has(c.resources.{kind}) && c.resources.{kind}.exists(k, k.startsWith({_text(GPU_RESOURCES)})))"
        for kind in ("limits", "requests")
    ]
    return " || ".join(amounts)


def _names_no_device(containers: str) -> str:
    """Return the expression that tells whether no container says itself which devices it sees; KAI Scheduler says it by a ConfigMap."""
    none = f"has(e.value) && e.value in {_text(NO_DEVICES)}"
    source = "e.valueFrom.configMapKeyRef"
    of_kai = f"has(e.valueFrom) && has({source}) && has({source}.name) && {source}.name.matches({_text(SHARED_GPU_MAP)})"
    right = f"c.env.all(e, e.name != {_text(VISIBLE_DEVICES)} || ({none}) || ({of_kai}))"
    return f"{containers}.all(c, !has(c.env) || {right})"


def _leaves_no_device_open(containers: str) -> str:
    """Return the expression that tells whether nothing else can say it: the image of a container without GPUs, or a variable from envFrom.

    A variable from there counts after one that the container names, and before what the device plugin sets for a container with GPUs.
    """
    named = f"has(c.env) && c.env.exists(e, e.name == {_text(VISIBLE_DEVICES)})"
    apart = f"has(f.prefix) && f.prefix != '' && !{_text(VISIBLE_DEVICES)}.startsWith(f.prefix)"
    by_plugin = f"!has(c.envFrom) || c.envFrom.all(f, {apart})"
    return f"{containers}.all(c, ({named}) || (({_asks_for_gpus()}) ? ({by_plugin}) : !has(object.spec.runtimeClassName)))"


def _variables() -> dict[str, str]:
    """Return what the validations ask of a pod, each by those before it."""
    return {
        "created": "request.operation == 'CREATE'",
        "queue": _queue_of("object"),
        # What a pod was let in with, it may go on with, also where the tenant's queues changed since.
        "queue_asked": f"variables.created || variables.queue != ({_queue_of('oldObject')})",
        "scheduler": f"has(object.spec.schedulerName) ? object.spec.schedulerName : {_text(DEFAULT_SCHEDULER)}",
        "containers": "object.spec.containers + (has(object.spec.initContainers) ? object.spec.initContainers : [])",
        "sharing": _differs("annotations", f"k in {_text(SHARING_NOTES)}"),
        "claims": "has(object.spec.resourceClaims) && object.spec.resourceClaims.size() > 0",
        "gpus": f"variables.sharing || variables.claims || variables.containers.exists(c, {_asks_for_gpus()})",
        "own_labels": _differs("labels", f"k in {_text(OWN_LABELS)} || k.startsWith({_text(f'{GPU_GROUP_LABEL}/')})"),
    }


def _device_rules() -> list[tuple[str, str]]:
    """Return the conditions under which a pod sees no GPU that it did not ask for, each with what one is told that does not meet it."""
    return [
        (
            f"!variables.created || ({_names_no_device('variables.containers')})",
            _text(f"{VISIBLE_DEVICES} is void or none, or left out: a pod gets GPUs by asking for {GPU_RESOURCES}gpu."),
        ),
        (
            f"!variables.created || ({_leaves_no_device_open('variables.containers')})",
            _text(
                f"GPUs of others are on the same node. With a runtimeClassName, set {VISIBLE_DEVICES} to void in each container that asks "
                "for no GPU; in one that asks for some, give each envFrom a prefix."
            ),
        ),
        (
            "request.subResource != 'ephemeralcontainers' || !has(object.spec.ephemeralContainers) || "
            + " && ".join(f"({rule('object.spec.ephemeralContainers')})" for rule in (_names_no_device, _leaves_no_device_open)),
            _text(f"GPUs of others are on the same node. Set {VISIBLE_DEVICES} to void in ephemeral containers."),
        ),
        (
            f"!({_differs('annotations', ' || '.join(f'k.startsWith({_text(note)})' for note in DEVICE_NOTES))})",
            _text(f"Annotations {', '.join(f'{note}*' for note in DEVICE_NOTES)} name devices past KAI Scheduler."),
        ),
    ]


def _validations(tenant: str, queues: t.Sequence[str], gpu_sharing: bool) -> list[Object]:
    """Return the conditions that pods have to meet, and what those are told that do not."""
    by_kai = f"variables.scheduler == {_text(SCHEDULER_NAME)}"
    rules = [
        (
            f"!variables.created || variables.scheduler in {_text([SCHEDULER_NAME, DEFAULT_SCHEDULER])}",
            f"'schedulerName ' + variables.scheduler + {_text(f' is none that tenant {tenant} may use: {SCHEDULER_NAME} is one.')}",
        ),
        (
            f"!variables.created || !variables.gpus || {by_kai}",
            _text(f"Pods of tenant {tenant} with GPUs are placed by {SCHEDULER_NAME}: set schedulerName."),
        ),
        (
            f"!({by_kai}) || !variables.queue_asked || variables.queue in {_text(list(queues))}",
            "(variables.queue == '' ? 'The pod names no queue. ' : 'Queue ' + variables.queue + ' is not the tenant\\'s. ') + "
            + _text(f"Set the label {QUEUE_LABEL} to one of those of tenant {tenant}: {_listed(queues)}."),
        ),
        (
            "!variables.created || !variables.gpus || !has(object.spec.nodeName) || object.spec.nodeName == ''",
            _text(f"A pod of tenant {tenant} with GPUs names no node itself: {SCHEDULER_NAME} chooses one within its queue."),
        ),
        *_device_rules(),
        ("!variables.own_labels", _text(f"The labels {', '.join(OWN_LABELS)} are KAI Scheduler's own.")),
        ("variables.created || !variables.sharing", _text("What part of a GPU a pod asks for is said when it is created.")),
    ]
    if not gpu_sharing:
        rules.append(("!variables.created || !variables.sharing", _text(f"Tenant {tenant} shares no GPUs: ask for whole ones.")))
    return [{"expression": expression, "messageExpression": message, "reason": "Forbidden"} for expression, message in rules]
