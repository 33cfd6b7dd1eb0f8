# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""The queries to a server that answers PromQL, and what its answers mean. Pure.

Each query has the server add up an hour from its steps, where a step without a sample adds nothing: a gap makes less of an hour, never
another number of GPUs.
"""

from __future__ import annotations

import math
import re
import typing as t

from .._common.names import RESERVATION_NAMESPACE
from .._common.quantity import number, plain
from .._common.text import shown
from .._common.values import JsonObject
from .facts import (
    DCGM,
    HOST_SERIES,
    HOUR,
    KUBE_STATE_METRICS,
    OWN_KAI,
    OWNER_LABEL,
    PRODUCT_LABEL,
    QUEUE_SERIES,
    QUEUES,
    RANGE,
    SHARED_KAI,
    STEP,
    UNKNOWN,
)
from .model import Hours, Party, Readings, many
from .values import Span, label_value

# How the namespace of a tenant begins on the host cluster.
_TENANT = "tenant-"
_STEPS = HOUR // STEP


class Series(t.NamedTuple):
    """A series of an answer: its labels, and its amounts by hour."""

    labels: t.Mapping[str, str]
    hours: Hours


def host_queries() -> dict[str, str]:
    """Return the queries about the host cluster, by the name of the reading."""
    return {name: hourly(series) for name, series in HOST_SERIES.items()}


def queue_queries(tenants: t.Sequence[Party], shared: bool) -> dict[str, str]:
    """Return the queries about queues that the inventory lists, by the name of the reading; none without any.

    No other queue is read: a tenant can make as many as it likes.

    :arg shared: whether they are those of the host cluster's KAI Scheduler.
    """
    names = sorted({name for tenant in tenants for name in tenant.queues})
    if not names:
        return {}
    where = SHARED_KAI if shared else f'{OWN_KAI},namespace=~"{_any(_TENANT + tenant.name for tenant in tenants)}"'
    which = f'{where},queue_name=~"{_any(names)}"'
    return {name: hourly(series % which) for name, series in QUEUE_SERIES.items()}


def hourly(series: str) -> str:
    """Return the expression for the GPU-hours of the hour before a moment, of one for GPUs."""
    return f"sum_over_time(({series})[{RANGE}]) / {_STEPS}"


def of_cluster(expression: str, labels: t.Mapping[str, str]) -> str:
    """Return an expression for the series that have some labels, whose every selector is in braces."""
    return expression.replace("{", "{" + "".join(f"{name}={label_value(value)}," for name, value in labels.items()))


def _any(names: t.Iterable[str]) -> str:
    """Return a regular expression of RE2 for some names, as a string of PromQL holds it."""
    return "|".join(re.escape(name).replace("\\", "\\\\") for name in names)


def series_of(answer: t.Any, span: Span) -> tuple[list[Series], list[str]]:
    """Return the series of an answer to a range query, and a sentence for each kind of thing in it that was not read.

    :arg span: that of the query; amounts of other hours are none.
    :raises ValueError: where it is no such answer.
    """
    try:
        results = answer["data"]["result"]
        found = [_series(one, span) for one in results]
    except (AttributeError, KeyError, TypeError, IndexError):
        raise ValueError("it is no answer to a range query of PromQL") from None
    odd = sum(count for _series, count in found)
    notes = [f"the server warns: {shown(text)}" for text in (answer.get("warnings") or [])[:10]]
    return [one for one, _count in found], [*notes, *([f"{odd} values are no amounts"] if odd else [])]


def _series(result: JsonObject, span: Span) -> tuple[Series, int]:
    hours: Hours = {}
    wanted, odd = span.hours(), 0
    for moment, text in result["values"]:
        # An hour is named by its beginning, and its sum is read at its end.
        hour = math.floor(moment) - HOUR
        try:
            amount = plain(number(text)) * 1.0
        except ValueError:
            odd += 1
        else:
            if hour in wanted:
                hours[hour] = amount
    return Series({str(key): str(value) for key, value in result["metric"].items()}, hours), odd


# --- what it means ---------------------------------------------------------------------------------------------------------


def of_host(read: t.Mapping[str, t.Sequence[Series]]) -> Readings:
    """Return what series of the host cluster say.

    :arg read: the series of each reading.
    """
    readings = Readings()
    products = _products([*read["seen"], *read["labels"]])
    for name in ("measured", "use_measured"):
        for one in read[name]:
            _add(getattr(readings, name), one.hours)
    capacity = many()
    for one in read["capacity"]:
        node = _own(one, "node")
        _add(capacity[node], one.hours)
        _add(readings.capacity[products.get(node, UNKNOWN)], one.hours)
    for one in read["taken"]:
        if node := _own(one, "node"):
            _add(readings.taken[tenant_of(one), products.get(node, UNKNOWN)], one.hours)
            if _own(one, "namespace") == RESERVATION_NAMESPACE:
                _add(readings.reserved[products.get(node, UNKNOWN)], one.hours)
    for name in ("seen", "used"):
        for one in read[name]:
            _add(getattr(readings, name)[tenant_of(one), _product(one.labels.get("modelName"))], one.hours)
    for name in ("exists", "quota"):
        for one in read[name]:
            if tenant := tenant_of(one):
                _add(getattr(readings, name)[tenant], one.hours)
    _own_nodes(readings, read["labels"], capacity, products)
    return readings


def _own_nodes(
    readings: Readings, labels: t.Iterable[Series], capacity: t.Mapping[str, Hours], products: t.Mapping[str, str]
) -> None:
    """Add the GPU-hours of tenants' own nodes: those of the node, for as much of each hour as it had the tenant's label."""
    # Prometheus has underscores in place of the dashes of a name.
    names = {re.sub(r"\W", "_", name): name for name in [*readings.exists, *(tenant for tenant, _product in readings.taken)]}
    for one in labels:
        node = _own(one, "node")
        for label in one.labels:
            if label.startswith(OWNER_LABEL) and one.labels[label] == "true" and node in capacity:
                tenant = names.get(label[len(OWNER_LABEL) :])
                if tenant:
                    part = {hour: min(1.0, share / (readings.measured.get(hour) or 1.0)) for hour, share in one.hours.items()}
                    offered = {hour: capacity[node].get(hour, 0.0) * share for hour, share in part.items()}
                    _add(readings.own[tenant, products.get(node, UNKNOWN)], offered)


def of_queues(readings: Readings, read: t.Mapping[str, t.Sequence[Series]], whose: t.Mapping[str, str] | None = None) -> None:
    """Add what series of queues say.

    :arg whose: of the host cluster's KAI Scheduler, the tenant of each queue; None for those of tenants' own.
    """
    for one in read.get("queues_measured", ()):
        for tenant in [tenant_of(one)] if whose is None else dict.fromkeys(whose.values()):
            _add(readings.queues_measured[tenant], one.hours)
    for name in ("queue_promised", "queue_held"):
        for one in read.get(name, ()):
            queue = one.labels.get("queue_name", "")
            # By the label of the target alone: others come from what is scraped.
            tenant = _named(one.labels.get("namespace", "")) if whose is None else whose.get(queue, "")
            if tenant:
                _add(getattr(readings, name)[tenant, queue], one.hours)


def tenant_of(one: Series) -> str:
    """Return the tenant that a series is about; empty for none."""
    return _named(_own(one, "namespace"))


def _named(namespace: str) -> str:
    return namespace[len(_TENANT) :] if namespace.startswith(_TENANT) else ""


def _own(one: Series, label: str) -> str:
    """Return a label as the exporter gave it, not that of the target."""
    return one.labels.get(f"exported_{label}") or one.labels.get(label, "")


def _products(read: t.Iterable[Series]) -> dict[str, str]:
    """Return the GPU product of each node, as DCGM exporter or a label of the node has it."""
    found: dict[str, str] = {}
    for one in read:
        node = one.labels.get("Hostname") or _own(one, "node")
        if product := one.labels.get("modelName") or one.labels.get(PRODUCT_LABEL):
            found.setdefault(node, _product(product))
    return found


def _product(name: str | None) -> str:
    """Return a product's name in one form: DCGM has blanks where labels of nodes have dashes."""
    return shown(name, 100).replace(" ", "-") if name else UNKNOWN


def _add(to: Hours, more: Hours) -> None:
    for hour, amount in more.items():
        to[hour] = to.get(hour, 0.0) + amount


def sourced(readings: Readings) -> Readings:
    """Return readings that say by what GPUs were counted: kube-state-metrics, else DCGM exporter, else queues.

    DCGM exporter names the pod that has a GPU. It knows no nodes that have none of its own, and no GPUs of pods that wait for their start.
    """
    if readings.measured:
        readings.source = KUBE_STATE_METRICS
        return readings
    readings.source = DCGM if readings.seen else QUEUES
    readings.measured = readings.use_measured
    for (tenant, product), hours in readings.seen.items():
        _add(readings.capacity[product], hours)
        # Of a GPU without a pod it says no namespace, and so does a GPU of a pod of no tenant.
        if tenant:
            _add(readings.taken[tenant, product], hours)
    readings.notes.append(f"There is no series of kube-state-metrics. GPUs are counted by what {readings.source} said.")
    return readings
