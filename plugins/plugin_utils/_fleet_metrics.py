# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this plugin util is PRIVATE to the collection: it may change in any release.
"""The state of a fleet as series, in Prometheus' text format, which node_exporter's textfile collector and Pushgateway read. Pure.

https://prometheus.io/docs/instrumenting/exposition_formats/ describes the format.
"""

from __future__ import annotations

import datetime
import typing as t

from ..module_utils._common.values import JsonObject, stamped
from ..module_utils._usage.values import label_value

# A sample: its labels, and its value.
Sample = tuple[dict[str, str], float]

# Of a moment that never was: no evidence, no backup.
_NEVER = 0.0
_RUNNING = "running"


def metrics(fleet: JsonObject, backed_up: t.Collection[str]) -> str:
    """Return the series of a fleet.

    :arg fleet: as ``merged`` returns it.
    :arg backed_up: names of the clusters whose folder of backups was read. A running tenant of theirs without a backup has the time 0.
    """
    clusters = fleet["clusters"]
    families: dict[str, tuple[str, t.Iterable[Sample]]] = {
        "evidence_timestamp_seconds": (
            "When the newest evidence of a cluster was written; 0 without evidence.",
            [(_of(one), _seconds(one["at"])) for one in clusters],
        ),
        "cluster_differences": (
            "What the newest drift found to differ from the inventory, unless site has run since.",
            [(_of(one), len(one["differs"])) for one in clusters if one["at"]],
        ),
        "cluster_waits": (
            "What waits for a person on a cluster: what failed, is left to do, or has several owners.",
            [(_of(one), len(one["waits"])) for one in clusters if one["at"]],
        ),
        "tenant_backup_timestamp_seconds": (
            "When the newest backup of a tenant was made; 0 without a backup.",
            _backups([one for one in clusters if one["name"] in backed_up]),
        ),
        "tenant_kubeconfig_expiry_timestamp_seconds": (
            "When the certificate or token in a tenant's kubeconfig ends.",
            _kubeconfigs(clusters),
        ),
        "scheduler_support_end_timestamp_seconds": (
            "When upstream's support of a KAI Scheduler's release ends; without a tenant, of the one that tenants share.",
            _supports(clusters),
        ),
    }
    return "".join(_family(f"kubegpu_{name}", text, list(samples)) for name, (text, samples) in families.items())


def _of(cluster: JsonObject) -> dict[str, str]:
    return {"cluster": cluster["name"]}


def _tenants(clusters: t.Iterable[JsonObject]) -> t.Iterator[tuple[dict[str, str], JsonObject]]:
    for cluster in clusters:
        for tenant in cluster["tenants"]:
            yield _of(cluster) | {"tenant": tenant["name"]}, tenant


def _backups(clusters: t.Iterable[JsonObject]) -> t.Iterator[Sample]:
    """Yield the time of the newest backup of each tenant that runs: another one cannot be backed up."""
    for labels, tenant in _tenants(clusters):
        if tenant["state"] == _RUNNING:
            yield labels, _seconds(tenant["backed_up_at"])


def _kubeconfigs(clusters: t.Iterable[JsonObject]) -> t.Iterator[Sample]:
    """Yield when the kubeconfig of each tenant ends, as far as that is known."""
    for labels, tenant in _tenants(clusters):
        if tenant["kubeconfig_expires"]:
            yield labels, _seconds(tenant["kubeconfig_expires"])


def _supports(clusters: t.Iterable[JsonObject]) -> t.Iterator[Sample]:
    """Yield when the support of each KAI Scheduler ends, as far as that is known."""
    for cluster in clusters:
        own = [(tenant["name"], tenant["scheduler"]) for tenant in cluster["tenants"]]
        for name, scheduler in [*own, ("", cluster["shared_scheduler"])]:
            if scheduler and scheduler["end_of_support"] and not (name and scheduler["shared"]):
                labels = _of(cluster) | {"tenant": name, "release": scheduler["release"] or ""}
                yield labels, _end_of(scheduler["end_of_support"])


def _seconds(at: str | None) -> float:
    return stamped(at).timestamp() if at else _NEVER


def _end_of(month: str) -> float:
    """Return when a month such as ``2027-03`` is over, in seconds since 1970, UTC."""
    first = datetime.datetime.strptime(month, "%Y-%m").replace(tzinfo=datetime.UTC)
    return (first + datetime.timedelta(days=31)).replace(day=1).timestamp()


def _family(name: str, text: str, samples: t.Sequence[Sample]) -> str:
    lines = [f"# HELP {name} {text}", f"# TYPE {name} gauge"]
    lines += [f"{name}{{{_labels(labels)}}} {value:.0f}" for labels, value in samples]
    return "\n".join([*lines, ""]) if samples else ""


def _labels(labels: t.Mapping[str, str]) -> str:
    return ",".join(f"{name}={label_value(value)}" for name, value in labels.items())
