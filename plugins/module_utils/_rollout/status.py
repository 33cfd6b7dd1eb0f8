# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""What runs of playbooks say of a cluster in a rollout, by the evidence and the files that they leave. Pure."""

from __future__ import annotations

import collections
import typing as t

from .._common.text import pairs, shown
from .._common.values import JsonObject
from .facts import FAULTS

# Pods and alerts that are named; of more, the number.
_MOST = 5
# Characters of an alert.
_LONGEST_ALERT = 200
# Labels of an alert that are others once a pod was replaced.
_OF_POD = ("pod", "instance", "container")


def told(evidence: JsonObject | None, cluster: str, key: str) -> list[str]:
    """Return what evidence says of one cluster and its tenants.

    :arg evidence: of docs/evidence.schema.json; None where a run left none.
    :arg key: ``problems`` or ``pending``.
    """
    lines = (evidence or {}).get(key) or []
    return [shown(line) for line in lines if str(line).startswith((f"{cluster}:", f"{cluster}/"))]


def against(evidence: JsonObject | None, cluster: str) -> list[str]:
    """Return why a cluster did not pass; empty where it did.

    After site and verify, that is what failed or is left to do, and after drift, what differs or was not compared.
    """
    if cluster not in {one.get("name") for one in (evidence or {}).get("clusters") or []}:
        return [f"{cluster}: the run left no evidence of it"]
    return [*told(evidence, cluster, "problems"), *told(evidence, cluster, "pending")]


def unread(reports: t.Sequence[JsonObject], cluster: str) -> list[str]:
    """Return what could not be read of a cluster.

    :arg reports: what the playbook info writes into a file.
    """
    report = _report(reports, cluster)
    return [f"{cluster}: why its pods wait was not read"] if report is None else [shown(line) for line in report["failures"]]


def _report(reports: t.Sequence[JsonObject], cluster: str) -> JsonObject | None:
    return next((one for one in reports if one.get("cluster") == cluster), None)


def waiting(reports: t.Sequence[JsonObject], cluster: str) -> dict[str, str] | None:
    """Return the pods that a fault of a scheduler may keep waiting, each with the reason; None where they were not read.

    :arg reports: as for ``unread``.
    """
    report = _report(reports, cluster)
    if report is None or report["failures"]:
        return None
    parties = [*((one["name"], one) for one in report["tenants"]), ("shared scheduler", report["shared_scheduler"] or {})]
    return {
        f"{name}: {pod['namespace']}/{pod['name']}": str(pod["reason"])
        for name, one in parties
        for pod in one.get("pods") or []
        if pod["reason"] in FAULTS
    }


def new_faults(cluster: str, before: t.Collection[str] | None, now: t.Mapping[str, str] | None) -> list[str]:
    """Return a sentence for the pods that wait for a fault and did not before the change.

    :arg before: names of pods that did; None where that was not read, so that nothing can be told.
    """
    if before is None:
        return []
    new = [f"{name} ({reason.replace('_', ' ')})" for name, reason in (now or {}).items() if name not in before]
    return _sentence(f"{cluster}: pods wait that did not before", new)


def unread_alerts(reports: t.Sequence[JsonObject], cluster: str) -> list[str]:
    """Return why the alerts of a cluster whose Prometheus is known could not be read; empty where they were.

    :arg reports: as for ``unread``.
    """
    return [shown(f"{cluster}: {line}") for line in (_report(reports, cluster) or {}).get("alerts_unread") or []]


def alerts(reports: t.Sequence[JsonObject], cluster: str, stop_when: t.Collection[str]) -> list[str] | None:
    """Return the alerts that fire and stop a rollout, each with its labels; None where they were not read.

    :arg reports: as for ``unread``.
    :arg stop_when: names of alerts.
    """
    found = (_report(reports, cluster) or {}).get("alerts")
    return None if found is None else [_shown_alert(one) for one in found if one["name"] in stop_when]


def _shown_alert(alert: JsonObject) -> str:
    labels = pairs({key: value for key, value in alert["labels"].items() if key not in _OF_POD})
    return shown(f"{alert['name']} ({labels})" if labels else alert["name"], _LONGEST_ALERT)


def new_alerts(cluster: str, before: t.Collection[str] | None, now: t.Sequence[str] | None) -> list[str]:
    """Return a sentence for the alerts that fire and did not before the change.

    :arg before: alerts that did; None where they were not read, so that each counts. Of pods that were replaced, more than before count.
    """
    new = collections.Counter(now or ()) - collections.Counter(before or ())
    return _sentence(f"{cluster}: alerts fire that did not before", list(new))


def _sentence(start: str, new: t.Sequence[str]) -> list[str]:
    more = f" and {len(new) - _MOST} more" if len(new) > _MOST else ""
    return [shown(f"{start}: {', '.join(new[:_MOST])}{more}")] if new else []
