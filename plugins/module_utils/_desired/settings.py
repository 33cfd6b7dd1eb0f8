# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Settings of a cluster: the variables of its inventory host, and whether what they say of the cluster itself can be."""

from __future__ import annotations

import dataclasses
import re
import typing as t

from .._combinations.validation import ACCEPT
from .._combinations.validation import check_names as check_combinations
from .._common.errors import did_you_mean
from .._common.quantity import whole
from .._common.schema import Problems, named, quoted
from .._common.values import JsonObject
from .._common.variables import GATEWAY, METRICS, PREFIX, USAGE
from .._gateway.validation import gateway
from .._kind.validation import check_name as check_cluster_name
from .._metrics.validation import reader
from .._usage.validation import usage
from .._vcluster.validation import check_proxy
from . import facts
from .names import NAME

# Both name folders.
_SOURCE = re.compile(r"(?:[A-Za-z0-9_][A-Za-z0-9_.-]*/)?[a-z0-9][a-z0-9-]*")
_PLAIN_NAMES = frozenset(name.replace("_", "") for name in facts.CLUSTER)
# Absolute, or below a home directory, which the host knows. The clients read a colon as two paths, and Ansible a dollar as a variable.
_FILE = re.compile(r"(?:~[A-Za-z0-9_.-]*)?/[^:$\x00-\x1f\x7f]*[^/:$\s\x00-\x1f\x7f]")
_PLACE = re.compile(r"[^-\s][^\x00-\x1f\x7f]*")


@dataclasses.dataclass(frozen=True)
class Settings:
    """What an inventory says of a cluster.

    :ivar host: name of its inventory host.
    :ivar given: every variable of the schema, defaults included.
    :ivar variables: all of the host, those of roles among them.
    """

    host: str
    given: JsonObject
    variables: JsonObject

    @property
    def made(self) -> bool:
        """Whether this collection makes the cluster."""
        return bool(self.given["kubegpu_cluster_provider"] != "existing")


def settings_of(variables: JsonObject, host: str, problems: Problems) -> Settings:
    """Return the settings of a cluster, and refuse variables that are unknown or of another type.

    :arg host: name of the inventory host; one that stands for a tenant, such as gpu1/ml, has variables that no user writes.
    """
    known = [*facts.CLUSTER, *(facts.INTERNAL if "/" in host else facts.FOUND)]
    for key in variables:
        if _is_meant(key) and key not in known:
            meant = key.lower()
            hint = f" Did you mean {meant}?" if meant in facts.CLUSTER else did_you_mean(meant, facts.CLUSTER)
            problems.add("unknown-variable", named(key), f"unknown variable.{hint} Known are {', '.join(facts.CLUSTER)}.")
    return Settings(host, {key: _given(variables, key, problems) for key in facts.CLUSTER}, variables)


def _is_meant(key: str) -> bool:
    """Tell whether the name of a variable is meant as one of this collection's: by how it begins, or but for case and underscores."""
    plain = key.lower()
    return plain.startswith(PREFIX) or plain.replace("_", "") in _PLAIN_NAMES


def _given(variables: JsonObject, key: str, problems: Problems) -> t.Any:
    """Return what a variable says; its default where it says nothing, or what it cannot."""
    field = facts.CLUSTER[key]
    value = variables.get(key, field.default)
    if key == "kubegpu_only" and isinstance(value, str):
        value = [name.strip() for name in value.split(",") if name.strip()]
    # The command line knows no booleans.
    if field.kind is bool and value in ("true", "false"):
        value = value == "true"
    right = problems.typed(value, field.kind, key) and problems.allowed(value, field.choices, key)
    return value if right else field.default


def as_given(settings: Settings) -> JsonObject:
    """Return what Cluster has as the inventory gives it."""
    given = settings.given
    accept = ("accept_unenforced_network_policies", "accept_lost_pods", "accept_lost_volumes", "accept_combinations")
    same = {key: given[f"{PREFIX}{key}"] for key in ("kubeconfig_proxy", "charts", "unlisted", *accept)}
    # Their problems are among those of the settings.
    metrics, reached = reader(given[METRICS], METRICS, Problems()), gateway(given[GATEWAY], GATEWAY, Problems())
    built = {"metrics": metrics, "gateway": reached, "rehearsal": _rehearsal(given), "backup": _backup(given)}
    built["usage"] = usage(given[USAGE], USAGE, Problems())
    return same | {"provider": given["kubegpu_cluster_provider"]} | built


def places(settings: Settings, problems: Problems) -> JsonObject:
    """Return where kubeconfigs are, as Cluster has it."""
    given, made, folder = settings.given, settings.made, f"{facts.CONTROLLER_FOLDER}/{settings.host}"
    name = _cluster_name(settings.variables.get("nvkind_cluster_name", facts.CLUSTER_NAME), problems) if made else ""
    return {
        "kubeconfig": given["kubegpu_kubeconfig"] or f"{facts.STATE_FOLDER}/{name}/cluster.yml",
        "tenants_folder": f"{facts.STATE_FOLDER}/{name}/tenants" if made else f"{folder}/tenants",
        "kubeconfig_dir": given["kubegpu_kubeconfig_dir"] or folder,
    }


def _rehearsal(given: JsonObject) -> JsonObject:
    """Return what a change of KAI Scheduler needs; empty where it needs nothing."""
    keys = ("verdicts", "max_age")
    needs = {key: given[f"kubegpu_rehearsal_{key}"] for key in keys} | {"accept_holds": given["kubegpu_accept_holds"]}
    return needs if given["kubegpu_rehearsal"] == facts.REQUIRED else {}


def _backup(given: JsonObject) -> JsonObject:
    """Return where backups are kept, how many, whether they are encrypted, the seconds for one, and whether changes need one."""
    kept = {key: given[f"kubegpu_backup_{key}"] for key in ("folder", "keep", "encrypt", "timeout")}
    return kept | {"required": given["kubegpu_backup"] == facts.REQUIRED}


def _cluster_name(name: t.Any, problems: Problems) -> str:
    """Return the name of a cluster that is made; folders are named after it."""
    if not problems.typed(name, str, "nvkind_cluster_name"):
        return ""
    problems.ask("nvkind_cluster_", lambda: check_cluster_name(name))
    return str(name)


def lab_gpus(gpus: t.Any, problems: Problems) -> int | None:
    """Return the number of a lab's GPU devices; None for a host that is no lab. The command line knows no numbers."""
    if gpus is None:
        return None
    try:
        return whole(gpus)
    except ValueError:
        problems.add("not-a-whole-number", "lab_gpus", f"must be a whole number from 0, not {quoted(gpus)}.")
        return None


def only(names: list[t.Any], problems: Problems) -> list[str]:
    """Return the names of the tenants to act on, each once."""
    right = [name for index, name in enumerate(names) if problems.typed(name, str, f"kubegpu_only[{index}]")]
    for index, name in enumerate(right):
        if not NAME.fullmatch(name):
            problems.add("not-a-name", f"kubegpu_only[{index}]", f"{quoted(name)} is not the name of a tenant.")
    return list(dict.fromkeys(right))


def check_settings(settings: Settings, problems: Problems) -> None:
    """Refuse settings of the cluster that cannot be."""
    given = settings.given
    _check_access(given, settings.made, problems)
    _check_rehearsal(given, problems)
    reader(given[METRICS], METRICS, problems)
    usage(given[USAGE], USAGE, problems)
    problems.ask("", lambda: check_combinations(given[ACCEPT]))


def _check_access(given: JsonObject, made: bool, problems: Problems) -> None:
    """Refuse a cluster that cannot be reached as it is written."""
    if given["kubegpu_charts"] and not _PLACE.fullmatch(given["kubegpu_charts"]):
        problems.add(
            "not-a-place",
            "kubegpu_charts",
            f"{quoted(given['kubegpu_charts'])} is no folder on the host, and no prefix such as oci://registry.example.",
        )
    if not made and not given["kubegpu_kubeconfig"]:
        problems.add(
            "missing", "kubegpu_kubeconfig", "is missing: say where on the inventory host the existing cluster's kubeconfig is."
        )
    if (file := given["kubegpu_kubeconfig"]) and not _FILE.fullmatch(file):
        problems.add(
            "not-a-path",
            "kubegpu_kubeconfig",
            f"{quoted(file)} is no path of a file on the inventory host. One begins with / or ~ and has no colon and no variable.",
        )
    _check_gateway(given, made, problems)
    problems.ask("", lambda: check_proxy("kubegpu_kubeconfig_proxy", given["kubegpu_kubeconfig_proxy"]))


def _check_gateway(given: JsonObject, made: bool, problems: Problems) -> None:
    """Refuse a gateway that cannot be, or has nothing to lead to."""
    gateway(given[GATEWAY], GATEWAY, problems)
    if not given[GATEWAY]:
        return
    if not made:
        problems.add(
            "not-applicable", GATEWAY, "is for a cluster that is made on a GPU host. Tenants of others have kubegpu_tenant_api."
        )
    if (kind := given["kubegpu_tenant_api"].get("type", facts.NODE_PORT)) != facts.NODE_PORT:
        problems.add("not-applicable", GATEWAY, f"leads to ports of nodes, and kubegpu_tenant_api asks for {quoted(kind)}.")


def _check_rehearsal(given: JsonObject, problems: Problems) -> None:
    """Refuse verdicts that are required, and cannot be there."""
    if given["kubegpu_rehearsal"] == facts.REQUIRED and not given["kubegpu_rehearsal_verdicts"]:
        problems.add("missing", "kubegpu_rehearsal_verdicts", "is missing: say in which folder the verdicts of rehearsals are.")
    if (most := given["kubegpu_rehearsal_max_age"]) < 1:
        problems.add("out-of-range", "kubegpu_rehearsal_max_age", f"is {most}; it is one day at least.")
    if (keep := given["kubegpu_backup_keep"]) < 1:
        problems.add("out-of-range", "kubegpu_backup_keep", f"is {keep}; one backup of each tenant is kept at least.")
    if (seconds := given["kubegpu_backup_timeout"]) < 1:
        problems.add("out-of-range", "kubegpu_backup_timeout", f"is {seconds}; it is one second at least.")
    if (source := given["kubegpu_restore_from"]) and not _SOURCE.fullmatch(source):
        problems.add("not-a-name", "kubegpu_restore_from", f"{quoted(source)} is neither TENANT nor INVENTORY_HOST/TENANT.")
