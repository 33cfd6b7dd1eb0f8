# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Which alerts fire, by what a Prometheus answers. Pure."""

from __future__ import annotations

import typing as t

from .._common.errors import TenancyError
from .._common.names import namespace_of
from .._common.text import shown
from .._common.values import JsonObject

# Labels of the series that are no labels of the alert.
_OF_SERIES = ("__name__", "alertname", "alertstate", "severity")


def firing(answer: t.Any) -> list[JsonObject]:
    """Return the alerts of an answer to a query for FIRING, by their names: each with ``name``, ``severity`` and its other ``labels``.

    :raises TenancyError: where it is no such answer, or only a part of one.
    """
    try:
        if warnings := answer.get("warnings"):
            raise TenancyError(f"Alerts: the server's answer is not whole: {shown(warnings[0])}.")
        found = [_alert({str(key): str(value) for key, value in one["metric"].items()}) for one in _series_of(answer)]
    except (AttributeError, KeyError, TypeError, IndexError):
        raise TenancyError("Alerts: the server's answer is none to a query of PromQL for alerts.") from None
    return sorted(filter(None, found), key=lambda one: (one["name"], sorted(one["labels"].items())))


def _series_of(answer: JsonObject) -> list[t.Any]:
    """Return the series of an answer.

    :raises TypeError: where they are no list.
    """
    found = answer["data"]["result"]
    if not isinstance(found, list):
        raise TypeError
    return found


def _alert(metric: t.Mapping[str, str]) -> JsonObject | None:
    """Return an alert; None for a series that was read from a tenant's pod, which can be forged: Prometheus names where it reads."""
    if metric.get("instance") and metric.get("namespace", "").startswith(namespace_of("")):
        return None
    labels = {key: value for key, value in sorted(metric.items()) if key not in _OF_SERIES}
    return {"name": metric["alertname"], "severity": metric.get("severity", ""), "labels": labels}
