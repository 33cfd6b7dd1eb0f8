# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Which alerts fire, by what a Prometheus answers. Pure."""

from __future__ import annotations

import typing as t

from .._common.errors import TenancyError
from .._common.values import JsonObject

# Labels of the series that are no labels of the alert.
_OF_SERIES = ("__name__", "alertname", "alertstate", "severity")


def firing(answer: t.Any) -> list[JsonObject]:
    """Return the alerts of an answer to a query for FIRING, by their names: each with ``name``, ``severity`` and its other ``labels``.

    :raises TenancyError: where it is no such answer.
    """
    try:
        metrics = [{str(key): str(value) for key, value in one["metric"].items()} for one in answer["data"]["result"]]
        found = [_alert(metric) for metric in metrics]
    except (AttributeError, KeyError, TypeError):
        raise TenancyError("Alerts: the server's answer is none to a query of PromQL for alerts.") from None
    return sorted(found, key=lambda one: (one["name"], sorted(one["labels"].items())))


def _alert(metric: t.Mapping[str, str]) -> JsonObject:
    labels = {key: value for key, value in sorted(metric.items()) if key not in _OF_SERIES}
    return {"name": metric["alertname"], "severity": metric.get("severity", ""), "labels": labels}
