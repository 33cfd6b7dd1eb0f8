# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""What is refused of a virtual cluster's options and values before anything is written. Pure."""

from __future__ import annotations

import decimal
import re
import typing as t
import urllib.parse

from .._common.errors import Problem, did_you_mean, refusal, refuse
from .._common.forms import LABEL, NAMESPACE, is_label_value, is_namespace, label_problems
from .._common.quantity import quantity, whole
from .._common.schema import named, quoted
from .._common.secrets import without_password
from .._common.values import Values, value_at
from .facts import (
    BAD_VERSIONS,
    DEFAULT_KUBERNETES,
    GPU_QUOTA,
    KUBELET_FIX,
    KUBERNETES_VERSION,
    LICENSED,
    MOVED,
    NEWEST_PATCH,
    OLD_TENANT_FIX,
    OLDEST_VERSION,
    POD_SECURITY_LEVELS,
    PROFILES_SINCE,
    QUOTA,
    RELEASE,
    SAME_BOUND,
    STORE_MOVES,
    is_version,
    parse_version,
)
from .values import age, backing_store, has_own_scheduler

T = t.TypeVar("T")


PROXY_SCHEMES = ("http", "https")

# What the control plane cannot read, though the chart's schema takes it. The syntax is Kubernetes' own, except for tolerations
# (pkg/util/toleration), mappings (pkg/config/validation.go) and services (pkg/controllers/register.go).
_OBJECT = r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?"
_TOLERATION = re.compile(rf"\*|[^:=]*(=({LABEL})?)?(:(NoSchedule|PreferNoSchedule|NoExecute)?)?")
# Both sides of a mapping from the host, with "=" between. Without a namespace on the left it is the tenant's own.
_MAPPINGS = {
    "configMaps": re.compile(
        rf"({NAMESPACE})?/({_OBJECT})?={NAMESPACE}/({_OBJECT}|\*)?|({NAMESPACE})?/\*={NAMESPACE}/\*"
        rf"|={NAMESPACE}(/({_OBJECT}|\*)?)?"
    ),
    "gateways": re.compile(rf"{NAMESPACE}/{_OBJECT}={NAMESPACE}/{_OBJECT}|{NAMESPACE}/\*={NAMESPACE}/\*"),
}
_MAPPINGS["secrets"] = _MAPPINGS["configMaps"]
_SERVICES = {
    "fromHost": {"from": re.compile(r"[^/]+(/[^/]+)?"), "to": re.compile(r"[^/]+/[^/]+")},
    "toHost": {"from": re.compile(r"[^/]+/[^/]+"), "to": re.compile(r"[^/]+")},
}
# Names of bounds that a ResourceQuota knows (kubernetes.io, Resource Quotas): others count nothing, or are refused late.
_COUNTED = "configmaps|endpoints|events|persistentvolumeclaims|pods|replicationcontrollers|resourcequotas|secrets|serviceaccounts|services"
_BOUND = re.compile(
    rf"(requests|limits)\.(cpu|memory|storage|ephemeral-storage|hugepages-\w+|[\w.-]+/[\w.-]+)|count/({_COUNTED}|[a-z]+\.[a-z0-9.-]+)"
    rf"|{_COUNTED}|services\.(nodeports|loadbalancers)|cpu|memory|[\w.-]+\.storageclass\.storage\.k8s\.io/[a-z.]+",
    re.ASCII,
)
_SELECTED = ("runtimeClasses", "ingressClasses", "gatewayClasses", "priorityClasses", "storageClasses")


# --- names and addresses -----------------------------------------------------------------------------------------


def check_name(name: str) -> None:
    """Refuse names that cannot be labels: a Service carries the name, a StatefulSet adds eleven characters to it in a label."""
    if not re.fullmatch(r"[a-z]([-a-z0-9]{0,50}[a-z0-9])?", name):
        raise refusal(
            "not-a-name",
            f"name: {name!r} is not a name Kubernetes accepts here: at most 52 of a-z, 0-9 and '-', "
            "a letter first, no '-' at the end.",
        )


def check_namespace(namespace: str | None) -> None:
    """Refuse what is no name of a namespace; None, from which it follows from the tenant's name, is fine."""
    if namespace and not is_namespace(namespace):
        raise refusal(
            "not-a-name",
            f"namespace: {namespace!r} is not a name Kubernetes accepts here: at most 63 of a-z, 0-9 and '-', no '-' at the ends.",
        )


def check_node_selector(labels: dict[str, t.Any]) -> None:
    """Refuse what is no set of labels."""
    refuse(label_problems(labels, "node_selector"))


def check_expires(expires: str | None) -> None:
    """Refuse an age that cannot be read; none is given where it is empty.

    :raises TenancyError: with an example.
    """
    if expires and age(expires) is None:
        raise refusal("not-an-age", f"expires: {expires!r} is not an age such as 30m, 2h or 7d.")


def usable_parts(url: str, schemes: tuple[str, ...]) -> urllib.parse.SplitResult | None:
    """Return the parts of an address; None for what no client can use as one."""
    try:
        parts = urllib.parse.urlsplit(url)
        # Reading a port that is no number raises.
        return parts if parts.scheme in schemes and parts.hostname and parts.port != 0 else None
    except ValueError:
        return None


def check_url(option: str, url: str | None, schemes: tuple[str, ...]) -> None:
    """Refuse what no client can use as an address; None and an empty text are fine.

    :arg option: its path in the error.
    """
    if url and usable_parts(url, schemes) is None:
        raise refusal(
            "not-an-address", f"{option}: {without_password(url)!r} is not an address such as {schemes[0]}://host.example:6443."
        )


def check_proxy(option: str, url: str | None) -> None:
    """Refuse what cannot be the address of an HTTP proxy; None and an empty text are fine."""
    if url and url.startswith("socks"):
        raise refusal(
            "socks-proxy",
            f"{option}: {without_password(url)!r} is a SOCKS proxy, and the clients that Ansible reaches API servers with speak "
            "HTTP only to a proxy. Give the address of an HTTP proxy, http:// or https://.",
        )
    check_url(option, url, PROXY_SCHEMES)


# --- versions ----------------------------------------------------------------------------------------------------


def check_version(version: str, kubernetes_version: str | None = None) -> None:
    """Refuse versions that are none, too old, or known to be bad.

    :arg kubernetes_version: of the tenant; None for the chart's own.
    """
    problems = []
    if parse_version(version)[:2] < OLDEST_VERSION:
        oldest = ".".join(map(str, OLDEST_VERSION))
        problems.append(
            Problem(
                "version-too-old",
                f"version: vCluster {version} is older than {oldest}, the oldest one this collection can drive.",
            )
        )
    # A pre-release has the faults of its release.
    if bad := BAD_VERSIONS.get(version.partition("-")[0]):
        problems.append(Problem("version-refused", f"version: vCluster {version} is refused: {bad}."))
    if kubernetes_version and not KUBERNETES_VERSION.fullmatch(kubernetes_version):
        problems.append(
            Problem("not-a-version", f"kubernetes_version: {kubernetes_version!r} is not a Kubernetes version such as v1.35.4.")
        )
    refuse(problems)


def upgrade_path(current: str, wanted: str, available: t.Collection[str] | None) -> list[str]:
    """Return the versions by which an upgrade goes, the wanted one last: upstream tests upgrades by one minor version.

    :arg available: versions of the chart that can be had; None for those of upstream.
    :raises Refused: for a downgrade, and where no version between is known or can be had.
    """
    have, want = parse_version(current), parse_version(wanted)
    anyway = "force_version does it all the same."
    if (want, "-" not in wanted) < (have, "-" not in current):
        raise refusal(
            "downgrade", f"version: vCluster {current} is running; a downgrade to {wanted} is not supported upstream. {anyway}"
        )
    if want[0] != have[0]:
        raise refusal(
            "minor-version-skipped", f"version: vCluster {current} is running; {wanted} has another major version. {anyway}"
        )
    between = _newest(have[0], available)
    missing = next((minor for minor in range(have[1] + 1, want[1]) if minor not in between), None)
    if missing is not None:
        where = "known" if available is None else "among the charts"
        raise refusal(
            "minor-version-skipped",
            f"version: vCluster {current} is running; an upgrade to {wanted} goes over {have[0]}.{missing}, of which no release is {where}. "
            f"Add one, with its images, or write it as the version first. {anyway}",
        )
    return [*(between[minor] for minor in range(have[1] + 1, want[1])), wanted]


def _newest(major: int, available: t.Collection[str] | None) -> dict[int, str]:
    """Return the newest release of each minor version, by its number."""
    if available is None:
        return {minor: f"0.{minor}.{patch}" for minor, patch in NEWEST_PATCH.items()}
    found = sorted(parse_version(one) for one in available if RELEASE.fullmatch(one) and one not in BAD_VERSIONS)
    return {one[1]: ".".join(map(str, one)) for one in found if one[0] == major}


def check_kubernetes_upgrade(current: str | None, wanted: str | None) -> None:
    """Refuse downgrades of a tenant's Kubernetes, and upgrades by more than one minor version: Kubernetes supports neither.

    :arg current: version such as v1.34.0, None where it is not known; ``wanted`` alike.
    """
    found = [re.match(r"v1\.(\d{1,9})", version or "") for version in (current, wanted)]
    if not all(found):
        return
    have, want = (whole(version[1]) for version in found if version)
    anyway = "force_version does it all the same."
    if want < have:
        raise refusal(
            "downgrade", f"kubernetes_version: {current} is running; a downgrade to {wanted} is not supported. {anyway}"
        )
    if want > have + 1:
        raise refusal(
            "minor-version-skipped",
            f"kubernetes_version: {current} is running; {wanted} skips a minor version. Go to v1.{have + 1} first. {anyway}",
        )


def check_skew(version: str, kubernetes_version: str | None, host_version: str) -> None:
    """Refuse a tenant whose pods would never become ready on a newer host.

    :arg kubernetes_version: of the tenant; None for the chart's own.
    :arg host_version: of the host cluster's API server.
    """
    _major, minor, patch = parse_version(version)
    host = re.match(r"v1\.(\d{1,9})", host_version)
    asked = re.match(r"v1\.(\d{1,9})", kubernetes_version or "")
    tenant = whole(asked[1]) if asked else DEFAULT_KUBERNETES.get(minor)
    fixed = minor > max(OLD_TENANT_FIX) or patch >= OLD_TENANT_FIX.get(minor, patch + 1)
    if host and tenant and tenant <= 33 and whole(host[1]) >= 34 and not fixed:
        raise refusal(
            "versions-too-far-apart",
            f"kubernetes_version: with vCluster {version}, pods of a tenant with Kubernetes 1.{tenant} never become ready on a host "
            f"with {host_version} (loft-sh/vcluster#3578). Take v1.34 or later for the tenant, or vCluster 0.35.3, 0.36.1 or later.",
        )


def missing_sandbox(name: str, tenant: str, there: t.Collection[str]) -> Problem | None:
    """Return the problem of a tenant whose pods are to run in a RuntimeClass that the host cluster lacks; None without one.

    :arg name: of the RuntimeClass; empty for a tenant without a sandbox.
    :arg there: RuntimeClasses of the host cluster.
    """
    if not name or name in there:
        return None
    others = ", ".join(sorted(there)) or "none"
    return Problem(
        "no-runtime-class",
        f"sandbox: there is no RuntimeClass {name}, in which all pods of tenant {tenant} are to run. There are: {others}.",
    )


def check_trust(trust: str, version: str) -> None:
    """Refuse trust profiles that need what the chart's version does not have; ``check_version`` refuses what is no version."""
    if trust == "high" or not is_version(version):
        return
    major, minor, patch = parse_version(version)
    if (major, minor) < PROFILES_SINCE:
        oldest = ".".join(map(str, PROFILES_SINCE))
        raise refusal(
            "version-too-old",
            f"trust: {trust} needs vCluster {oldest} or later, whose network policies it sets; {version} was asked for.",
        )
    fixed = KUBELET_FIX.get(minor, 0)
    # A pre-release may be from before what its release mends.
    if major == 0 and (patch < fixed or (patch == fixed > 0 and "-" in version)):
        raise refusal(
            "version-too-old",
            f"trust: {trust} needs vCluster 0.{minor}.{fixed} or later; with {version} a tenant reads pods and logs of others through the "
            "kubelets of its nodes (loft-sh/vcluster#3723).",
        )


# --- values ------------------------------------------------------------------------------------------------------


def check_moved(values: Values, version: str) -> None:
    """Refuse a user's values that the version's chart has under another name, or not at all."""
    at = parse_version(version)[:2]
    refuse(
        Problem("moved-value", f"values.{path}: vCluster {version} does not have it any more. Write {now}.")
        for path, gone, now in MOVED
        if at >= gone and value_at(values, path) is not None
    )


def check_store(current: Values, wanted: Values) -> None:
    """Refuse a change of the backing store that the control plane refuses; changes to licensed stores are refused anyway."""
    have, want = backing_store(current), backing_store(wanted)
    if have != want and (have, want) not in STORE_MOVES:
        raise refusal(
            "store-cannot-change",
            f"values.controlPlane.backingStore: the store is {have}; the control plane does not start when it becomes {want}.",
        )


def check_values(values: Values) -> None:
    """Refuse values that the chart installs and the control plane then does not start with: without a licence, or at all."""
    refuse([*_licensed(values), *_conflicts(values), *_illegible(values)])


def check_quota(quota: t.Mapping[str, t.Any]) -> None:
    """Refuse bounds that no ResourceQuota knows, and amounts that are none."""

    def problems() -> t.Iterator[Problem]:
        for name, amount in quota.items():
            if name == GPU_QUOTA:
                yield Problem(
                    "not-applicable", f"quota.{name}: GPUs are bounded by gpu_nodes.shared_gpus, or by gpu_quota of the module."
                )
            elif not isinstance(name, str) or not _BOUND.fullmatch(name):
                yield Problem(
                    "unknown-bound", f"quota.{named(name)}: a ResourceQuota knows no such bound.{did_you_mean(name, QUOTA)}"
                )
            elif _amount(amount) is None:
                yield Problem("not-an-amount", f"quota.{name}: {quoted(amount)} is not an amount such as 16, 500m or 64Gi.")

    refuse(problems())


def check_network(network: t.Mapping[str, t.Any], trust: str, values: Values) -> None:
    """Refuse services that a tenant's network policies cannot let through as they are written.

    :arg values: the user's for the chart.
    """

    def problems() -> t.Iterator[Problem]:
        if trust == "high" and any(network.values()):
            yield Problem("not-applicable", "network: a tenant of trust high has no network policies: everything is let through.")
        for direction, services in network.items():
            if services and value_at(values, f"policies.networkPolicy.workload.{direction}") is not None:
                yield Problem(
                    "listed-twice",
                    f"network.{direction}: stands among the values, too, as policies.networkPolicy.workload.{direction}.",
                )
            names: set[str] = set()
            for index, service in enumerate(services or []):
                yield from _service_problems(service, names, f"network.{direction}[{index}]")
                names.add(service["name"])

    refuse(problems())


def _service_problems(service: t.Mapping[str, t.Any], before: t.Container[str], path: str) -> t.Iterator[Problem]:
    """List what is wrong with a service of the host cluster.

    :arg before: names of the services that stand before it.
    """
    if service["name"] in before:
        yield Problem("listed-twice", f"{path}.name: {named(service['name'])} stands here twice.")
    if not is_namespace(service["namespace"]):
        yield Problem("not-a-name", f"{path}.namespace: {quoted(service['namespace'])} is no name of a namespace.")
    if not service["ports"]:
        yield Problem("empty", f"{path}.ports: is empty.")
    for port in service["ports"]:
        if isinstance(port, bool) or not isinstance(port, int) or not 0 < port < 65536:
            yield Problem("not-a-port", f"{path}.ports: {quoted(port)} is no port from 1 to 65535.")
    yield from label_problems(service.get("labels") or {}, f"{path}.labels")


def check_room(values: Values, *needs: tuple[str, t.Mapping[str, str | int]]) -> None:
    """Refuse a quota that leaves no room for what the tenant needs before it runs anything of its own.

    :arg needs: pairs of who needs something, and what by the names of a ResourceQuota.
    """
    enabled = value_at(values, "policies.resourceQuota.enabled") in (True, "true")
    found = value_at(values, "policies.resourceQuota.quota") if enabled else None
    # The chart's schema refuses anything else.
    bounds = found if isinstance(found, dict) else {}

    def problems() -> t.Iterator[Problem]:
        for name, bound in bounds.items():
            amount, key = _amount(bound), SAME_BOUND.get(name) or name
            least = {who: need[key] for who, need in needs if key in need}
            if amount is not None and amount < sum(map(quantity, least.values())):
                taken = ", ".join(f"{who} takes {need}" for who, need in least.items())
                yield Problem("no-room-in-quota", f"quota.{name}: {bound} leaves no room, because {taken}.")

    refuse(problems())


def _amount(text: t.Any) -> decimal.Decimal | None:
    """Return a quantity of Kubernetes; None for what is none."""
    if not isinstance(text, (str, int)):
        return None
    try:
        return quantity(text)
    except ValueError:
        return None


def _licensed(values: Values) -> t.Iterator[Problem]:
    for path, feature in LICENSED.items():
        value = value_at(values, path)
        # A section on the first level counts even when it is empty.
        if value or (value == {} and "." not in path):
            yield Problem(
                "needs-licence",
                f"values.{path}: {feature} needs a vCluster licence; without one the control plane does not start.",
            )
    for path in _patches(values.get("sync"), "sync"):
        yield Problem(
            "needs-licence", f"values.{path}: patches need a vCluster licence; without one the control plane does not start."
        )


def _conflicts(values: Values) -> t.Iterator[Problem]:
    """Values that contradict each other (pkg/config/validation.go)."""
    if has_own_scheduler(values) and not value_at(values, "sync.fromHost.nodes.enabled"):
        yield Problem(
            "own-scheduler-without-nodes",
            "values.sync.fromHost.nodes.enabled: an own scheduler needs the host's nodes; it cannot be false.",
        )
    for kind in ("storageClasses", "priorityClasses"):
        if value_at(values, f"sync.fromHost.{kind}.enabled") in (True, "true") and value_at(
            values, f"sync.toHost.{kind}.enabled"
        ):
            yield Problem(
                "not-exactly-one",
                f"values.sync.toHost.{kind}.enabled: {kind} are synced either from the host or to it, not both.",
            )
    replicas = value_at(values, "controlPlane.statefulSet.highAvailability.replicas")
    if isinstance(replicas, int) and replicas > 1 and backing_store(values) == "database embedded":
        yield Problem(
            "embedded-database-replicas",
            "values.controlPlane.statefulSet.highAvailability.replicas: the embedded database has one writer, so it cannot be "
            f"{replicas}. More need controlPlane.backingStore.etcd.deploy.",
        )
    if value_at(values, "controlPlane.endpoint"):
        yield Problem("needs-licence", "values.controlPlane.endpoint: is only for private nodes, which need a vCluster licence.")
    budget = value_at(values, "controlPlane.advanced.podDisruptionBudget") or {}
    if all(value_at(budget, key) is not None for key in ("minAvailable", "maxUnavailable")) and value_at(budget, "enabled"):
        yield Problem(
            "not-exactly-one", "values.controlPlane.advanced.podDisruptionBudget: takes minAvailable or maxUnavailable, not both."
        )


def _illegible(values: Values) -> t.Iterator[Problem]:
    """Texts that the control plane cannot read; the chart's schema refuses wrong types."""
    level = value_at(values, "policies.podSecurityStandard")
    if level and level not in POD_SECURITY_LEVELS:
        yield Problem(
            "not-a-choice", f"values.policies.podSecurityStandard: {level!r} is not one of {', '.join(POD_SECURITY_LEVELS)}."
        )
    for index, text in enumerate(_entries(values, "sync.toHost.pods.enforceTolerations", str)):
        if not _TOLERATION.fullmatch(text):
            yield Problem(
                "not-a-toleration",
                f"values.sync.toHost.pods.enforceTolerations[{index}]: {text!r} is not a toleration such as key=value:NoSchedule.",
            )
    server = value_at(values, "exportKubeConfig.server")
    if isinstance(server, str) and server and not server.startswith(("https://", "http://")):
        yield Problem("not-an-address", f"values.exportKubeConfig.server: {server!r} does not start with https://.")
    grants = value_at(values, "sync.toHost.gatewayApi.referenceGrants.enabled")
    if grants not in (None, "", True, False, "auto", "true", "false"):
        yield Problem(
            "not-a-choice", f"values.sync.toHost.gatewayApi.referenceGrants.enabled: {grants!r} is not one of auto, true, false."
        )
    for kind in _MAPPINGS:
        yield from _bad_mappings(values, kind)
    for way, patterns in _SERVICES.items():
        path = f"networking.replicateServices.{way}"
        for index, service in enumerate(_entries(values, path, dict)):
            for end, pattern in patterns.items():
                if not pattern.fullmatch(str(service.get(end, ""))):
                    wanted = "namespace/service" if pattern.fullmatch("a/b") else "service, without a namespace"
                    yield Problem(
                        "not-a-service", f"values.{path}[{index}].{end}: {service.get(end)!r} does not have the form {wanted}."
                    )
    for kind in _SELECTED:
        yield from _bad_selector(values, f"sync.fromHost.{kind}.selector")


def _bad_mappings(values: Values, kind: str) -> t.Iterator[Problem]:
    path = f"sync.fromHost.{kind}.mappings.byName"
    if value_at(values, f"sync.fromHost.{kind}.enabled"):
        mappings = value_at(values, path)
        if not mappings:
            yield Problem(
                "empty",
                f"values.{path}: is empty. List what is synced, such as a/*: b/* for everything in the host's namespace a.",
            )
        for source, target in mappings.items() if isinstance(mappings, dict) else ():
            if not _MAPPINGS[kind].fullmatch(f"{source}={target}"):
                yield Problem(
                    "not-a-mapping",
                    f"values.{path}: {source!r} to {target!r} is not a mapping such as a/name: b/name or a/*: b/*.",
                )


def _bad_selector(values: Values, path: str) -> t.Iterator[Problem]:
    """Label selectors: the schema takes any text for an operator, and values with each of them."""
    for index, expression in enumerate(_entries(values, f"{path}.matchExpressions", dict)):
        operator, listed = expression.get("operator"), bool(expression.get("values"))
        if operator not in ("In", "NotIn", "Exists", "DoesNotExist"):
            yield Problem(
                "not-a-choice",
                f"values.{path}.matchExpressions[{index}].operator: {operator!r} is not one of In, NotIn, Exists, DoesNotExist.",
            )
        elif listed != (operator in ("In", "NotIn")):
            yield Problem(
                "not-a-selector",
                f"values.{path}.matchExpressions[{index}].values: In and NotIn need some, Exists and DoesNotExist take none.",
            )
    labels = value_at(values, f"{path}.matchLabels")
    for label, value in labels.items() if isinstance(labels, dict) else ():
        if isinstance(value, str) and not is_label_value(value):
            yield Problem("not-a-label-value", f"values.{path}.matchLabels.{label}: {value!r} is not the value of a label.")


def _entries(values: Values, path: str, kind: type[T]) -> list[T]:
    """Return a list whose entries are of one type; empty for anything else, which the chart's schema refuses."""
    entries = value_at(values, path)
    return entries if isinstance(entries, list) and all(isinstance(item, kind) for item in entries) else []


def _patches(tree: t.Any, path: str) -> t.Iterator[str]:
    if isinstance(tree, dict):
        for key, value in tree.items():
            if key == "patches" and value:
                yield f"{path}.{key}"
            else:
                yield from _patches(value, f"{path}.{key}")
