# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Check what an inventory says of a cluster, and make the desired state of it.

Everything that is wrong is reported at once, each problem with the path of its variable and what would be right. Types are
checked strictly: nothing is converted.
"""

from __future__ import annotations

import dataclasses
import datetime
import re
import typing as t

from .._admission.plan import policy_name
from .._blueprint.values import Blueprint, applied
from .._combinations.validation import ACCEPT, Host, judge
from .._combinations.validation import check_names as check_combinations
from .._common.errors import TenancyError, check_all, did_you_mean
from .._common.forms import is_key, is_label_value, is_object, label_problems
from .._common.names import namespace_of
from .._common.quantity import whole
from .._common.schema import Problems, named, plain, said
from .._common.synced import marker
from .._common.values import JsonObject, deep_merge
from .._common.variables import KAI, METRICS, PREFIX, SHARED_SCHEDULER, TEMPORARY, TENANTS, WORKERS
from .._device_plugin.facts import PROVIDERS
from .._kai import validation as kai
from .._kai.facts import LEAST_QUOTA as KAI_LEAST_QUOTA
from .._kai.facts import Asked, Hazard
from .._kai.values import chart_values, shares_gpus
from .._kind.validation import check_name as check_cluster_name
from .._metrics.validation import reader
from .._nodes.validation import tolerates_others
from .._queues import validation as queues
from .._schedulers.facts import NAME as SCHEDULER_NAME
from .._schedulers.facts import RESERVED, RESERVED_PREFIX, is_reserved
from .._vcluster import validation as vc
from .._vcluster.facts import LEAST_QUOTA, cluster_role_name
from .._vcluster.reach import check_reach
from . import facts
from .model import Cluster, GpuNodes, Platform, Scheduler, Tenant, VCluster
from .values import platform_values, scheduler_values, vcluster_values

# A Service needs a letter first. vCluster and this collection build longer names and labels from a tenant's name, which are cut at 63
# characters: up to 40 they stay legal. Where two of them come to be the same, _check_names refuses both tenants.
_NAME = re.compile(r"[a-z]([-a-z0-9]{0,38}[a-z0-9])?")
_HOST = re.compile(r"(?=.{1,253}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
# What helm takes as arguments: none of it begins with "-", which would be an option.
_CHART_FORMS = (
    ("version", re.compile(r"[0-9A-Za-z][-+.0-9A-Za-z]*"), "no version of a chart such as 1.12.0"),
    ("chart", re.compile(r"[^-\s][^\s]*"), "no chart such as volcano, oci://registry.example/volcano or a path"),
    ("repository", re.compile(r"(https?|oci)://[^\s]+"), "no address of a chart repository such as https://charts.example"),
)
_PLACE = re.compile(r"[^-\s][^\x00-\x1f\x7f]*")
# A GPU's index, or its UUID.
_GPU = re.compile(r"[0-9]{1,9}|GPU-[-0-9A-Za-z]{1,60}")
_NOTHING_JUDGED: JsonObject = {"accepted": [], "untested": []}
# "cluster" is the administrator's kubeconfig beside the tenants'.
_RESERVED = ("cluster",)


# --- the whole of it ---------------------------------------------------------------------------------------------


def desired_state(
    variables: JsonObject,
    host: str,
    today: datetime.date,
    running: JsonObject | None = None,
    installs: bool = True,
    blueprint: Blueprint | None = None,
) -> Cluster:
    """Make the desired state of one cluster.

    :arg variables: of its inventory host, those that start with kubegpu_ and, where they are set, nvkind_workers,
        nvkind_cluster_name, lab_gpus and VERSIONS; others are ignored.
    :arg host: name of the inventory host.
    :arg today: decides which releases are still supported.
    :arg running: what tenancy_info found on the cluster, empty where there is none yet. With it, releases without support are
        refused that do not run already; without it, what runs is not known, and they are not.
    :arg installs: whether anything is going to be installed; a removal is refused for no hazard and no combination of versions.
    :arg blueprint: what the inventory's kubegpu_blueprint names.
    :raises TenancyError: with all ``problems``.
    """
    problems = Problems()
    variables, named_by = _with_blueprint(plain(variables, problems), blueprint)
    given = _variables(variables, host, problems)
    made = given["kubegpu_cluster_provider"] != "existing"
    places = _places(given, variables, made, host, problems)
    platform = _platform(given, problems)
    tenants = [*_listed(given[TENANTS], platform, problems), *_temporary(given[TEMPORARY], platform, problems)]
    _check_names(tenants, problems)
    _check_rivals(tenants, problems)
    scheduler = _shared_scheduler(tenants, given[SHARED_SCHEDULER], platform, problems)
    layout = _layout(variables.get(WORKERS) or [], problems) if made else None
    _check_layout(tenants, layout, _lab_gpus(variables.get("lab_gpus"), problems), problems)
    only = [tenant.name for tenant in tenants if tenant.expires] or _only(given["kubegpu_only"], problems)
    _check_settings(given, made, problems)
    accepted, unsupported = _hazards(tenants, scheduler, only, today, running, problems) if installs else ({}, {})
    judged = _combinations(given, variables, made, tenants, scheduler, problems) if installs else _NOTHING_JUDGED
    problems.raise_if_any("the desired state")
    return Cluster(
        blueprint=named_by,
        provider=given["kubegpu_cluster_provider"],
        **_as_given(given),
        **places,
        platform=platform,
        workers=None if layout is None else tuple(layout),
        tenants=tuple(tenants),
        only=tuple(only),
        shared_scheduler=scheduler,
        rehearsal=_rehearsal(given),
        accepted_hazards=accepted,
        unsupported=unsupported,
        combinations=judged,
    )


def _with_blueprint(variables: JsonObject, blueprint: Blueprint | None) -> tuple[JsonObject, JsonObject]:
    """Return the variables with what the blueprint adds, and what there is to say of that; empty without one."""
    if blueprint is None:
        return variables, {}
    whole, overridden = applied(blueprint, variables)
    return whole, {"name": blueprint.name, "digest": blueprint.digest, "overridden": overridden}


def _as_given(given: JsonObject) -> JsonObject:
    """Return what Cluster has as the inventory gives it."""
    accept = ("accept_unenforced_network_policies", "accept_lost_pods", "accept_combinations")
    said = {key: given[f"{PREFIX}{key}"] for key in ("kubeconfig_proxy", "charts", "unlisted", *accept)}
    # Its problems are among those of the settings.
    return said | {"metrics": reader(given[METRICS], METRICS, Problems())}


def _places(given: JsonObject, variables: JsonObject, made: bool, host: str, problems: Problems) -> JsonObject:
    """Return where kubeconfigs are, as Cluster has it."""
    name = _cluster_name(variables.get("nvkind_cluster_name", facts.CLUSTER_NAME), problems) if made else ""
    return {
        "kubeconfig": given["kubegpu_kubeconfig"] or f"{facts.STATE_FOLDER}/{name}/cluster.yml",
        "tenants_folder": f"{facts.STATE_FOLDER}/{name}/tenants" if made else f"{facts.CONTROLLER_FOLDER}/{host}/tenants",
        "kubeconfig_dir": given["kubegpu_kubeconfig_dir"] or f"{facts.CONTROLLER_FOLDER}/{host}",
    }


def _platform(given: JsonObject, problems: Problems) -> Platform:
    """Return what the cluster asks of all tenants."""
    tolerations = [
        problems.mapping(item, facts.TOLERATION, f"kubegpu_tolerations[{index}]")
        for index, item in enumerate(given["kubegpu_tolerations"])
    ]
    for index, toleration in enumerate(tolerations):
        _check_toleration(toleration, f"kubegpu_tolerations[{index}]", problems)
    for key in ("kubegpu_runtime_class", "kubegpu_storage_class"):
        if given[key] and not is_object(given[key]):
            problems.add(key, f"{said(given[key])} is no name of a class.")
    return Platform(
        given["kubegpu_runtime_class"],
        tuple(tolerations),
        given["kubegpu_storage_class"],
        _tenant_api(given["kubegpu_tenant_api"], "kubegpu_tenant_api", problems),
    )


def _check_toleration(toleration: JsonObject, path: str, problems: Problems) -> None:
    key, operator, value = (toleration.get(name) for name in ("key", "operator", "value"))
    if "key" in toleration and tolerates_others(key, operator, value):
        problems.add(f"{path}.key", "would let everyone onto the nodes of tenants with zero trust.")
    elif "key" in toleration and not is_key(key):
        problems.add(f"{path}.key", f"{said(key)} is no key of a taint such as nvidia.com/gpu.")
    if not is_label_value(value or ""):
        problems.add(f"{path}.value", f"{said(value)} is no value of a taint.")
    if operator == "Exists" and value:
        problems.add(f"{path}.value", "is compared by the operator Equal only.")


def _tenant_api(given: JsonObject, path: str, problems: Problems) -> JsonObject:
    api = problems.mapping(given, facts.TENANT_API, path)
    kind, host = api.get("type", facts.NODE_PORT), api.get("host", "")
    if kind == facts.INGRESS and not host:
        problems.add(f"{path}.host", "is missing: an Ingress is reached by a host name.")
    if kind == facts.NODE_PORT and host:
        problems.add(f"{path}.host", "has no meaning with a NodePort, whose address is that of a node.")
    if host and not _HOST.fullmatch(host.replace("{tenant}", "t")):
        problems.add(f"{path}.host", f"{said(host)} is no host name such as {{tenant}}.gpu.example.")
    elif host and "{tenant}" not in host:
        problems.add(f"{path}.host", "needs {tenant} in it, so that every tenant has a name of its own.")
    if kind != facts.INGRESS and api.get("ingress_class"):
        problems.add(f"{path}.ingress_class", "has a meaning with the type Ingress only.")
    elif api.get("ingress_class") and not is_object(api["ingress_class"]):
        problems.add(f"{path}.ingress_class", f"{said(api['ingress_class'])} is no name of an IngressClass.")
    for key, value in api.get("annotations", {}).items():
        if problems.typed(value, str, f"{path}.annotations.{named(key)}") and not is_key(key):
            problems.add(f"{path}.annotations.{named(key)}", "is not the name of an annotation.")
    return api


def _rehearsal(given: JsonObject) -> JsonObject:
    """Return what a change of KAI Scheduler needs; empty where it needs nothing."""
    keys = ("verdicts", "max_age")
    needs = {key: given[f"kubegpu_rehearsal_{key}"] for key in keys} | {"accept_holds": given["kubegpu_accept_holds"]}
    return needs if given["kubegpu_rehearsal"] == facts.REQUIRED else {}


def _check_settings(given: JsonObject, made: bool, problems: Problems) -> None:
    """Refuse settings of the cluster that cannot be."""
    _check_access(given, made, problems)
    _check_rehearsal(given, problems)
    reader(given[METRICS], METRICS, problems)
    try:
        check_combinations(given[ACCEPT])
    except TenancyError as exc:
        problems.extend(exc.problems)


def _check_rehearsal(given: JsonObject, problems: Problems) -> None:
    """Refuse verdicts that are required, and cannot be there."""
    if given["kubegpu_rehearsal"] == facts.REQUIRED and not given["kubegpu_rehearsal_verdicts"]:
        problems.add("kubegpu_rehearsal_verdicts", "is missing: say in which folder the verdicts of rehearsals are.")
    if (most := given["kubegpu_rehearsal_max_age"]) < 1:
        problems.add("kubegpu_rehearsal_max_age", f"is {most}; it is one day at least.")


def _variables(variables: JsonObject, host: str, problems: Problems) -> JsonObject:
    """Return every variable of the schema, defaults included, and refuse unknown ones.

    :arg host: name of the inventory host; one that stands for a tenant, such as gpu1/ml, has variables that nobody writes.
    """
    given: JsonObject = {}
    known = [*facts.CLUSTER, *(facts.INTERNAL if "/" in host else facts.FOUND)]
    for key in variables:
        if key.startswith(PREFIX) and key not in known:
            problems.add(named(key), f"unknown variable.{did_you_mean(key, facts.CLUSTER)} Known are {', '.join(facts.CLUSTER)}.")
    for key, field in facts.CLUSTER.items():
        value = variables.get(key, field.default)
        if key == "kubegpu_only" and isinstance(value, str):
            value = [name.strip() for name in value.split(",") if name.strip()]
        # The command line knows no booleans.
        if field.kind is bool and value in ("true", "false"):
            value = value == "true"
        right = problems.typed(value, field.kind, key) and problems.allowed(value, field.choices, key)
        given[key] = value if right else field.default
    return given


def _cluster_name(name: t.Any, problems: Problems) -> str:
    """Return the name of a cluster that is made; folders are named after it."""
    if not problems.typed(name, str, "nvkind_cluster_name"):
        return ""
    try:
        check_cluster_name(name)
    except TenancyError as exc:
        problems.extend(f"nvkind_cluster_{problem}" for problem in exc.problems)
    return str(name)


def _lab_gpus(gpus: t.Any, problems: Problems) -> int | None:
    """Return the number of a lab's GPU devices; None for a host that is no lab. The command line knows no numbers."""
    if gpus is None:
        return None
    try:
        return whole(gpus)
    except ValueError:
        problems.add("lab_gpus", f"must be a whole number from 0, not {said(gpus)}.")
        return None


def _only(names: list[t.Any], problems: Problems) -> list[str]:
    """Return the names of the tenants to act on, each once."""
    right = [name for index, name in enumerate(names) if problems.typed(name, str, f"kubegpu_only[{index}]")]
    for index, name in enumerate(right):
        if not _NAME.fullmatch(name):
            problems.add(f"kubegpu_only[{index}]", f"{said(name)} is not the name of a tenant.")
    return list(dict.fromkeys(right))


def _check_access(given: JsonObject, made: bool, problems: Problems) -> None:
    """Refuse a cluster that cannot be reached as it is written."""
    if given["kubegpu_charts"] and not _PLACE.fullmatch(given["kubegpu_charts"]):
        problems.add(
            "kubegpu_charts",
            f"{said(given['kubegpu_charts'])} is no folder on the host, and no prefix such as oci://registry.example.",
        )
    if not made and not given["kubegpu_kubeconfig"]:
        problems.add("kubegpu_kubeconfig", "is missing: say where on the inventory host the existing cluster's kubeconfig is.")
    try:
        vc.check_proxy("kubegpu_kubeconfig_proxy", given["kubegpu_kubeconfig_proxy"])
    except TenancyError as exc:
        problems.extend(exc.problems)


def tenants_from(given: t.Any) -> list[Tenant]:
    """Make tenants of what a module or role was given, by the same rules as those of an inventory.

    :arg given: as an inventory lists them, or as Tenant.data returned them: empty gpu_nodes and scheduler count as not given.
    :raises TenancyError: with all ``problems``.
    """
    problems = Problems()
    given = plain(given, problems, TENANTS)
    if isinstance(given, list):
        given = [
            {key: value for key, value in tenant.items() if value != {} or key not in ("gpu_nodes", "scheduler")}
            if isinstance(tenant, dict)
            else tenant
            for tenant in given
        ]
    # What the platform asks for is among their values, where Tenant.data returned them.
    found = _tenants(given, Platform(), problems)
    # An inventory has one at most.
    temporary = [tenant for tenant in found if tenant.expires]
    tenants = [dataclasses.replace(tenant, path=TEMPORARY) if temporary == [tenant] else tenant for tenant in found]
    _check_names(tenants, problems)
    _check_rivals(tenants, problems)
    problems.raise_if_any("the tenants")
    return tenants


# --- tenants -----------------------------------------------------------------------------------------------------


def _tenants(given: t.Any, platform: Platform, problems: Problems) -> list[Tenant]:
    if not problems.typed(given, list, TENANTS):
        return []
    return [_tenant(tenant, _place(index, tenant), platform, problems) for index, tenant in enumerate(given)]


def _place(index: int, given: t.Any) -> str:
    """Return where a tenant is listed, with its name where it has one: people do not count entries, least of all those of several files."""
    name = given.get("name") if isinstance(given, dict) else None
    return f"{TENANTS}[{index}] ({name})" if isinstance(name, str) and _NAME.fullmatch(name) else f"{TENANTS}[{index}]"


def _listed(given: list[t.Any], platform: Platform, problems: Problems) -> list[Tenant]:
    """Return the tenants of the inventory. Site would make one again that has expired."""
    tenants = _tenants(given, platform, problems)
    for tenant in tenants:
        if tenant.expires:
            problems.add(f"{tenant.path}.expires", f"what is listed stays until its entry goes; expires is for {TEMPORARY}.")
    return [dataclasses.replace(tenant, expires="") for tenant in tenants]


def _temporary(given: JsonObject, platform: Platform, problems: Problems) -> list[Tenant]:
    """Return the tenant beside those that are listed, if there is one."""
    if not given:
        return []
    tenant = _tenant(given, TEMPORARY, platform, problems)
    if not tenant.expires:
        problems.add(f"{TEMPORARY}.expires", "is missing: say after which age nobody needs it any more, such as 2h.")
    if tenant.shares_scheduler:
        why = "the next run would take its queues out of the shared scheduler. Give it a scheduler of its own, or none."
        problems.add(f"{TEMPORARY}.scheduler.shared", why)
    return [tenant]


def _tenant(given: t.Any, path: str, platform: Platform, problems: Problems) -> Tenant:
    entry = problems.mapping(given, facts.TENANT, path)
    name = entry.get("name", "")
    if "name" in entry:
        _check_name(name, f"{path}.name", problems)
    asks = isinstance(given, dict) and "gpu_nodes" in given
    nodes = _gpu_nodes(entry["gpu_nodes"], f"{path}.gpu_nodes", problems) if "gpu_nodes" in entry else GpuNodes()
    if entry.get("trust") == "zero" and (not asks or nodes.shared_gpus is not None):
        problems.add(f"{path}.gpu_nodes", "a tenant with zero trust has nodes of its own: give gpu_nodes, without shared_gpus.")
    if nodes.share_gpus_with == "any" and not entry.get("scheduler", {}).get("shared"):
        why = "only the host cluster's KAI Scheduler gives parts of one GPU to several tenants: share it by scheduler.shared."
        problems.add(f"{path}.gpu_nodes.share_gpus_with", why)
    vcluster = VCluster(**problems.mapping(entry.get("vcluster", {}), facts.VCLUSTER, f"{path}.vcluster"))
    tenant = Tenant(
        name=name,
        # What else is wrong does not depend on a trust that is refused.
        trust=entry.get("trust", "high"),
        state=entry.get("state", "present"),
        gpu_nodes=nodes,
        vcluster=dataclasses.replace(vcluster, values=deep_merge(platform_values(platform, name), vcluster.values)),
        quota=entry.get("quota", {}),
        network=_network(entry.get("network", {}), f"{path}.network", problems),
        scheduler=_scheduler(entry, path, platform, problems),
        queues=tuple(entry.get("queues", ())),
        expires=entry.get("expires", ""),
        path=path,
    )
    _check_vcluster(tenant, path, problems)
    return tenant


def _check_name(name: str, path: str, problems: Problems) -> None:
    if not _NAME.fullmatch(name):
        problems.add(
            path,
            f"{said(name)} is not a name Kubernetes accepts here: a-z, 0-9 and '-', a letter first, no '-' at the end, and at most "
            "40 characters, because names of up to 63 are built from it.",
        )
    if name in _RESERVED:
        problems.add(path, f"{name} is reserved, because the administrator's kubeconfig has that name. Choose another one.")


def _gpu_nodes(given: JsonObject, path: str, problems: Problems) -> GpuNodes:
    chosen = problems.mapping(given, facts.GPU_NODES, path)
    if len(given.keys() & set(facts.NODE_CHOICES)) != 1:
        choices = ", ".join(facts.NODE_CHOICES)
        problems.add(path, f"needs exactly one of {choices}. Without gpu_nodes a tenant gets the nodes without GPUs.")
    for key in ("count", "shared_gpus"):
        if chosen.get(key, 1) < 1:
            problems.add(f"{path}.{key}", f"must be at least 1, not {chosen[key]}.")
    if "count" in chosen and "shared_gpus" in chosen:
        problems.add(
            f"{path}.shared_gpus", "say by names or labels which nodes are shared; by their count all are the tenant's own."
        )
    for key in ("names", "labels"):
        if key in chosen and not chosen[key]:
            problems.add(f"{path}.{key}", "is empty.")
    names = _node_names(chosen.get("names", []), f"{path}.names", problems)
    problems.extend(label_problems(chosen.get("labels", {}), f"{path}.labels"))
    labels = {key: value for key, value in chosen.get("labels", {}).items() if isinstance(value, str)}
    if "share_gpus_with" in chosen and "shared_gpus" not in chosen:
        problems.add(f"{path}.share_gpus_with", "is about nodes that are shared: give shared_gpus, too.")
    return GpuNodes(chosen.get("count"), names, labels, chosen.get("shared_gpus"), chosen.get("share_gpus_with"))


def _node_names(given: list[t.Any], path: str, problems: Problems) -> tuple[str, ...]:
    """Return names of nodes, each once, and refuse what is none."""
    names: dict[str, None] = {}
    for index, name in enumerate(given):
        here = f"{path}[{index}]"
        if not problems.typed(name, str, here):
            continue
        if name in names:
            problems.add(here, f"{named(name)} stands here twice.")
        elif not is_object(name):
            problems.add(here, f"{said(name)} is no name of a node.")
        names[name] = None
    return tuple(names)


def _network(given: JsonObject, path: str, problems: Problems) -> JsonObject:
    """Services that a tenant's network policies let through, as far as their keys and types are right."""
    network = problems.mapping(given, facts.NETWORK, path)
    for direction, services in network.items():
        checked = [problems.mapping(item, facts.SERVICE, f"{path}.{direction}[{index}]") for index, item in enumerate(services)]
        # What else is wrong with one that lacks something does not matter.
        network[direction] = [{"labels": {}} | item for item in checked if {"name", "namespace", "ports"} <= item.keys()]
    return network


def _check_vcluster(tenant: Tenant, path: str, problems: Problems) -> None:
    vcluster, values, own = tenant.vcluster, vcluster_values(tenant), tenant.own_scheduler
    shares_nodes = not tenant.gpu_nodes or tenant.gpu_nodes.shared_gpus is not None
    problems.ask(
        f"{path}.vcluster",
        lambda: check_all(
            lambda: vc.check_version(vcluster.version, vcluster.kubernetes_version or None),
            lambda: vc.check_moved(vcluster.values, vcluster.version),
            lambda: vc.check_values(values),
            lambda: check_reach(values, tenant.name, tenant.trust, shares_nodes),
        ),
    )
    needs = [("the control plane", LEAST_QUOTA), *([("KAI Scheduler", KAI_LEAST_QUOTA)] if own and own.own_kai else [])]
    problems.ask(
        path,
        lambda: check_all(
            lambda: vc.check_trust(tenant.trust, vcluster.version),
            lambda: vc.check_quota(tenant.quota),
            lambda: vc.check_expires(tenant.expires),
            lambda: vc.check_network(tenant.network, tenant.trust, vcluster.values),
            lambda: vc.check_room(values, *needs),
        ),
    )


def _scheduler(entry: JsonObject, path: str, platform: Platform, problems: Problems) -> Scheduler | None:
    """A tenant's scheduler, with the queues that have to suit its version."""
    tree = entry.get("queues", [])
    if "scheduler" not in entry:
        if tree:
            problems.add(f"{path}.queues", "need a scheduler: add scheduler with its name, kai, and version.")
        return None
    here = f"{path}.scheduler"
    given = problems.mapping(entry["scheduler"], facts.SCHEDULER, here)
    scheduler = Scheduler(**(t.cast(JsonObject, {"name": ""}) | given))
    if scheduler.shared:
        for key in [key for key in given if key not in ("name", "shared") and given[key] not in ("", {}, [], False)]:
            problems.add(f"{here}.{key}", f"a shared scheduler is the host cluster's; its release stands in {SHARED_SCHEDULER}.")
        problems.allowed(scheduler.name, (KAI,), f"{here}.name")
        problems.ask(path, lambda: queues.parse(tree))
    elif scheduler.name == KAI:
        for key in ("chart", "repository"):
            if given.get(key):
                problems.add(f"{here}.{key}", "KAI Scheduler's chart is known; leave it out.")
        return _kai(scheduler, "version" in given, tree, here, path, platform, problems)
    elif scheduler.name:
        _check_other(scheduler, tree, here, path, problems)
    return scheduler


def _check_other(scheduler: Scheduler, tree: t.Any, here: str, path: str, problems: Problems) -> None:
    """Check a scheduler that this collection does not know, and installs by its chart."""
    if not SCHEDULER_NAME.fullmatch(scheduler.name):
        problems.add(f"{here}.name", f"{said(scheduler.name)} is no name for a Helm release: a-z, 0-9 and '-', a letter first.")
    elif is_reserved(scheduler.name):
        reserved = f"{', '.join(RESERVED)} and names that begin with {RESERVED_PREFIX}"
        why = f"{scheduler.name} is a namespace of Kubernetes or KAI Scheduler, and a scheduler has a namespace of its name. Reserved are"
        problems.add(f"{here}.name", f"{why} {reserved}. KAI Scheduler is {KAI}.")
    for key in ("version", "chart"):
        if not getattr(scheduler, key):
            problems.add(f"{here}.{key}", f"is missing: {named(scheduler.name)} is not kai, so its chart has to be given.")
    for key, form, example in _CHART_FORMS:
        if getattr(scheduler, key) and not form.fullmatch(getattr(scheduler, key)):
            problems.add(f"{here}.{key}", f"{said(getattr(scheduler, key))} is {example}.")
    if scheduler.gpu_sharing:
        problems.add(f"{here}.gpu_sharing", f"is KAI Scheduler's; what {named(scheduler.name)} is to do, its values say.")
    if scheduler.accept_hazards:
        problems.add(f"{here}.accept_hazards", f"are KAI Scheduler's; none of {named(scheduler.name)} are known.")
    if tree:
        problems.add(f"{path}.queues", f"are KAI Scheduler's; {named(scheduler.name)} does not know them.")


def _kai(
    scheduler: Scheduler, versioned: bool, tree: t.Any, here: str, path: str, platform: Platform, problems: Problems
) -> Scheduler:
    """Check a release of KAI Scheduler, and whether it can schedule these queues.

    :returns: the scheduler with its version as upstream writes it, and with the values that the platform asks for.
    """
    problems.ask(here, lambda: kai.check_hazard_names(scheduler.accept_hazards))
    if not versioned:
        problems.add(f"{here}.version", "is missing.")
        return scheduler
    release = problems.ask(here, lambda: kai.release(scheduler.version))
    problems.ask(path, lambda: queues.parse(tree, *((release.queue_levels, release.version) if release else ())))
    if release is None:
        return scheduler
    problems.ask(here, lambda: kai.check_runtime_class(release, platform.runtime_class, scheduler.gpu_sharing))
    values = deep_merge(scheduler_values(platform, release, on_host=here == SHARED_SCHEDULER), scheduler.values)
    return dataclasses.replace(scheduler, version=release.version, values=values)


def _shared_scheduler(tenants: list[Tenant], given: JsonObject, platform: Platform, problems: Problems) -> Scheduler | None:
    users = [tenant for tenant in tenants if tenant.shares_scheduler and tenant.state != "absent"]
    if not given:
        for tenant in users:
            problems.add(f"{tenant.path}.scheduler.shared", f"there is none to share: {SHARED_SCHEDULER} names no scheduler.")
        return None
    entry = problems.mapping(given, facts.RELEASE, SHARED_SCHEDULER)
    scheduler = Scheduler(**(t.cast(JsonObject, {"name": ""}) | entry))
    if "name" not in entry or not problems.allowed(scheduler.name, (KAI,), f"{SHARED_SCHEDULER}.name"):
        return scheduler
    # All tenants' trees stand beside each other in it.
    tree = [queue for tenant in users for queue in tenant.queues]
    found = _kai(scheduler, "version" in entry, tree, SHARED_SCHEDULER, TENANTS, platform, problems)
    if found.gpu_sharing:
        for tenant in users:
            problems.extend(_bound_problems(tenant))
    return found


def _bound_problems(tenant: Tenant) -> list[str]:
    """Say why nothing bounds the parts of GPUs that a tenant holds on nodes it shares: a quota of Kubernetes counts whole ones only."""
    bound = tenant.gpu_nodes.shared_gpus
    try:
        tree = queues.parse(list(tenant.queues))
    except TenancyError:
        return []
    limits = {queue.name: queue.spec["resources"]["gpu"]["limit"] for queue in tree.values() if queue.parent not in tree}
    if (
        bound is None
        or not tenant.gpu_nodes.divisible
        or (all(limit >= 0 for limit in limits.values()) and sum(limits.values()) <= bound)
    ):
        return []
    said = ", ".join(f"{name} {'none' if limit < 0 else limit}" for name, limit in limits.items())
    wanted = f"Give the tenant's top queues GPU limits of {bound} together at most, as shared_gpus says. Theirs are: {said}."
    return [f"{tenant.path}.queues: parts of GPUs are bounded by the limits of queues alone. {wanted}"]


def _built(name: str) -> dict[str, str]:
    """Return what vCluster and this collection build of a tenant's name and others have to be able to tell apart, by what it is."""
    namespace = namespace_of(name)
    return {
        "name": name,
        "namespace": namespace,
        "ClusterRole": cluster_role_name(name, namespace),
        "label of its cluster-scoped objects": marker(name, namespace),
        "admission policy": policy_name(name),
    }


def _check_names(tenants: list[Tenant], problems: Problems) -> None:
    """Refuse tenants of which something would have the same name: each would change, and remove, what is the other's."""
    holders: dict[tuple[str, str], int] = {}
    for index, tenant in enumerate(tenants):
        if not tenant.name:
            continue
        others: dict[int, list[str]] = {}
        for what, text in _built(tenant.name).items():
            if (first := holders.setdefault((what, text), index)) != index:
                others.setdefault(first, []).append(f"{what} {text}")
        for first, same in others.items():
            other = tenants[first]
            if other.name == tenant.name:
                why = f"{tenant.name} is the name of {other.path} already."
            else:
                why = f"{tenant.name} and {other.path} would have the same {', '.join(same)}. Choose another name."
            problems.add(f"{tenant.path}.name", why)


def _check_rivals(tenants: list[Tenant], problems: Problems) -> None:
    """Refuse two tenants with a claim on the same nodes that the desired state alone gives away."""
    # By what is claimed: the first tenant, and the first of those that do not share it.
    first: dict[t.Any, int] = {}
    first_alone: dict[t.Any, int] = {}
    for index, tenant in enumerate(tenants):
        nodes = tenant.gpu_nodes
        if tenant.state == "absent":
            continue
        others: dict[int, list[str]] = {}
        # A tenant that shares its nodes is no rival of another one that does.
        alone = nodes.shared_gpus is None
        before = first if alone else first_alone
        for claimed in [*nodes.names, *([frozenset(nodes.labels.items())] if nodes.labels else [])]:
            if (other := before.get(claimed)) is not None:
                others.setdefault(other, []).append(claimed if isinstance(claimed, str) else "")
            first.setdefault(claimed, index)
            if alone:
                first_alone.setdefault(claimed, index)
        for other, names in others.items():
            kind, what = ("names", f"{', '.join(names)} is") if all(names) else ("labels", "the same nodes are")
            why = f"{what} claimed by {tenants[other].path} already. To share nodes, both give shared_gpus."
            problems.add(f"{tenant.path}.gpu_nodes.{kind}", why)


def unwritten_quotas(tenants: t.Iterable[Tenant]) -> list[str]:
    """List the queues in which pods may wait for ever, because a GPU quota that nobody wrote is 0."""
    found = {
        tenant.name: queues.without_gpu_quota(tenant.queues)
        for tenant in tenants
        if tenant.gpu_nodes and tenant.state != "absent"
    }
    why = "so that pods that may not be preempted, such as those of Deployments, wait there for ever for GPUs."
    return [
        f"{name}: queues.{queue}.gpu.quota is not written and therefore 0, {why} Write it, also where 0 is meant."
        for name, names in found.items()
        for queue in names
    ]


# --- hazards of KAI Scheduler's releases --------------------------------------------------------------------------


def _hazards(
    tenants: list[Tenant],
    shared: Scheduler | None,
    only: list[str],
    today: datetime.date,
    running: JsonObject | None,
    problems: Problems,
) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """Refuse releases with hazards that touch what is asked of them and that nobody accepted, where they would be installed.

    :returns: by tenant, the hazards that were accepted, and the end of support that nobody accepted and that is not refused.
    """
    accepted: dict[str, list[str]] = {}
    unsupported: dict[str, list[str]] = {}
    chosen, live = set(only), _running(running)
    wanted = [
        (f"{tenant.path}.scheduler", tenant.name, tenant.scheduler, _is_open(tenant))
        for tenant in tenants
        if tenant.state == "present"
    ]
    for path, name, scheduler, is_open in [*wanted, (SHARED_SCHEDULER, SHARED_SCHEDULER, shared, False)]:
        if scheduler is None or not scheduler.own_kai:
            continue
        left_alone = bool(chosen) and name not in chosen
        installed = left_alone or live is None or live.get(name, "none") in (None, "unknown", scheduler.version)
        for hazard in _touching(scheduler, path, is_open, today, installed, problems):
            kind = accepted if hazard.name in scheduler.accept_hazards else unsupported
            kind.setdefault(name, []).append(str(hazard))
    return accepted, unsupported


def _is_open(tenant: Tenant) -> bool:
    """Tell whether a tenant is not trusted and has GPUs of nodes on which others have some, too."""
    return tenant.trust != "high" and tenant.gpu_nodes.shared_gpus is not None


def _touching(
    scheduler: Scheduler, path: str, is_open: bool, today: datetime.date, installed: bool, problems: Problems
) -> tuple[Hazard, ...]:
    try:
        release = kai.release(scheduler.version)
    except TenancyError:
        return ()  # A problem already.
    values = deep_merge(chart_values(release, scheduler.gpu_sharing), scheduler.values)
    sharing = shares_gpus(values, release)
    asked = Asked(sharing, others=path == SHARED_SCHEDULER, shares_nodes=sharing and is_open)
    accepted = scheduler.accept_hazards
    return problems.ask(path, lambda: kai.refuse_hazards(release, asked, accepted, today, installed)) or ()


def _running(running: JsonObject | None) -> dict[str, str | None] | None:
    """Return which releases run on the cluster, for tenants by name and as the shared one; None where nothing is known."""
    if running is None:
        return None
    found = {tenant["name"]: tenant["scheduler_version"] for tenant in running.get("tenants", []) if tenant["state"] != "absent"}
    return found | {SHARED_SCHEDULER: running.get("shared_scheduler") or "none"}


# --- versions that go together -----------------------------------------------------------------------------------


def _combinations(
    given: JsonObject, variables: JsonObject, made: bool, tenants: list[Tenant], shared: Scheduler | None, problems: Problems
) -> JsonObject:
    """Refuse versions that do not go together, as far as they are known before a cluster is asked."""
    # Versions that are none have no place in the table.
    if problems:
        return _NOTHING_JUDGED
    versions = {key: str(variables.get(key) or "") for key in facts.VERSIONS}
    found = judge(tenants, shared.version if shared else "", _host(versions) if made else Host(), given[ACCEPT])
    problems.extend(found.problems)
    return {"accepted": found.accepted, "untested": found.untested}


def _host(versions: t.Mapping[str, str]) -> Host:
    """Return what is known of a cluster that is made, by the variables of the roles that make it."""
    provider = PROVIDERS.get(versions["device_plugin_provider"] or "device_plugin")
    tag = re.search(r":(v\d+\.\d+\.\d+)[^/:@]*(@[^/]*)?$", versions["nvkind_image"])
    return Host(
        kubernetes=tag[1] if tag else "",
        driver=versions["device_plugin_driver_version"] or versions["lab_driver_version"],
        toolkit=versions["docker_nvidia_runtime_toolkit_version"],
        provider=provider.name if provider else "",
        plugin=versions["device_plugin_version"] or (provider.version if provider else ""),
    )


# --- the layout of a cluster that is made ------------------------------------------------------------------------


def _layout(workers: t.Any, problems: Problems) -> list[int]:
    """Return the GPUs of each worker."""
    holders: dict[str, str] = {}
    listed = workers if problems.typed(workers, list, WORKERS) else []
    return [_worker(worker, f"{WORKERS}[{index}]", holders, problems) for index, worker in enumerate(listed)]


def _worker(given: t.Any, path: str, holders: dict[str, str], problems: Problems) -> int:
    """Return the GPUs of a worker, as role nvkind gives them to it.

    :arg holders: paths of the workers before it that name a GPU, by its index or UUID; this one's are added.
    """
    worker = problems.mapping(given, facts.WORKER, path)
    if isinstance(given, dict) and isinstance(given.get("gpus"), int):
        # The role would take it for the index of one GPU.
        problems.add(f"{path}.gpus", "names GPUs, such as [0, 1]. How many it gets says count.")
    if "gpus" in worker and "count" in worker:
        problems.add(path, "names its gpus, or gives their count, not both.")
    count = worker.get("count", 0)
    if count < 0:
        problems.add(f"{path}.count", f"must be at least 0, not {count}.")
    problems.extend(label_problems({key: str(value) for key, value in worker.get("labels", {}).items()}, f"{path}.labels"))
    for number, gpu in enumerate(worker.get("gpus", [])):
        here = f"{path}.gpus[{number}]"
        if isinstance(gpu, bool) or not isinstance(gpu, (int, str)) or not _GPU.fullmatch(str(gpu)):
            problems.add(here, f"must be the index or the UUID of a GPU, not {said(gpu)}.")
        elif (holder := holders.setdefault(str(gpu), here)) != here:
            problems.add(here, f"GPU {gpu} stands in {holder} already.")
    return len(worker["gpus"]) if "gpus" in worker else max(0, count)


def _check_layout(tenants: list[Tenant], layout: list[int] | None, gpus: int | None, problems: Problems) -> None:
    """Refuse tenants that need more nodes or GPUs than the workers have.

    :arg gpus: GPU devices of the host, where known; the workers may not ask for more.
    """
    if layout is None:
        return
    if gpus is not None and sum(layout) > gpus:
        problems.add(WORKERS, f"they ask for {sum(layout)} GPUs, the host has {gpus}.")
    # Sums over what was refused would only confuse.
    if problems:
        return
    have = sorted((count for count in layout if count), reverse=True)
    present = [tenant for tenant in tenants if tenant.state != "absent"]
    # What is shared is nobody's alone; tenant_nodes counts it when it knows the nodes.
    asked = {tenant.name: tenant.gpu_nodes.least for tenant in present if tenant.gpu_nodes and not tenant.gpu_nodes.shared_gpus}
    if sum(asked.values()) > len(have):
        who = ", ".join(f"{name} {count}" for name, count in asked.items())
        problems.add(TENANTS, f"the tenants ask for {sum(asked.values())} nodes with GPUs ({who}), the cluster has {len(have)}.")
    for tenant in present:
        if not tenant.gpu_nodes.labels:
            problems.extend(quota_problems(tenant, sum(have[: tenant.gpu_nodes.least])))


def quota_problems(tenant: Tenant, gpus: int) -> list[str]:
    """List the queues that are promised more GPU devices than the tenant has; a limit above that is harmless.

    :arg gpus: devices of its nodes.
    """
    gpus = min(gpus, tenant.gpu_nodes.shared_gpus or gpus)
    try:
        tree = queues.parse(list(tenant.queues))
    except TenancyError:
        return []
    quotas = {queue.name: queue.spec["resources"]["gpu"]["quota"] for queue in tree.values()}
    return [
        f"{tenant.path}.queues: queue {name} is promised {quota} GPUs, the tenant has {gpus} at most."
        for name, quota in quotas.items()
        if quota > gpus
    ]
