# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Read a span from a server that answers PromQL, query by query."""

from __future__ import annotations

import typing as t

from .._common.errors import TenancyError
from .._common.parties import attempt
from .facts import HOUR
from .model import Party, Readings
from .plan import Series, host_queries, of_cluster, of_host, of_queues, queue_queries, series_of, sourced
from .values import Span

if t.TYPE_CHECKING:
    from .._adapters.prometheus import Prometheus

# By the name of a reading, the series of a day.
_Read = dict[str, list[Series]]


class OfCluster:
    """A server for several clusters, of which the series of one are read.

    :arg labels: that the series of the cluster have.
    """

    def __init__(self, server: Prometheus, labels: t.Mapping[str, str]) -> None:
        self._server, self._labels = server, labels

    def range(self, what: str, expression: str, first: int, last: int, step: int) -> t.Any:
        """Return the answer to a query, as ``Prometheus.range`` does."""
        return self._server.range(what, of_cluster(expression, self._labels), first, last, step)


def read(server: OfCluster, tenants: t.Sequence[Party], span: Span) -> Readings:
    """Return what the server's series say of a span.

    :raises TenancyError: where series of the host cluster are not read. Those of queues may be missing: a tenant may have spoilt them.
    """
    notes: dict[str, None] = {}
    readings = sourced(of_host(_all(server, host_queries(), span, notes)))
    sharing, own = ([tenant for tenant in tenants if tenant.shared is shared and tenant.queues] for shared in (True, False))
    whose = {name: tenant.name for tenant in sharing for name in tenant.queues}
    found, unread = _try(server, sharing, True, span, notes)
    of_queues(readings, found, whose)
    readings.notes += unread
    found, unread = _try(server, own, False, span, notes)
    if unread:
        # What one of them spoilt is missing of that one alone.
        for tenant in own:
            found, unread = _try(server, [tenant], False, span, notes)
            of_queues(readings, found)
            readings.notes += unread
    else:
        of_queues(readings, found)
    readings.notes += notes
    return readings


def _try(
    server: OfCluster, tenants: t.Sequence[Party], shared: bool, span: Span, notes: dict[str, None]
) -> tuple[_Read, list[str]]:
    """Return the series of some tenants' queues; none, and a sentence, where they cannot be read."""
    queries = queue_queries(tenants, shared)
    what = f"Queues of {', '.join(tenant.name for tenant in tenants)}"
    found, unread = attempt(what, lambda: _all(server, queries, span, notes))
    return found or {}, [f"{unread.sentence}."] if unread else []


def _all(server: OfCluster, queries: t.Mapping[str, str], span: Span, notes: dict[str, None]) -> _Read:
    """Return the series that some queries give, those of all parts of a span, and add to the notes."""
    return {name: [*_one(server, name, query, span, notes)] for name, query in queries.items()}


def _one(server: OfCluster, name: str, query: str, span: Span, notes: dict[str, None]) -> t.Iterator[Series]:
    what = f"Reading {name.replace('_', ' ')}"
    for part in span.chunks():
        answer = server.range(what, query, part.begin + HOUR, part.end, HOUR)
        try:
            found, odd = series_of(answer, part)
        except ValueError as exc:
            raise TenancyError(f"{what}: {exc}.") from exc
        notes.update(dict.fromkeys(f"{what}: {one}." for one in odd))
        yield from found
