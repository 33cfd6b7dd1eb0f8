# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""The adapter to a server that answers PromQL: Prometheus, Thanos or Mimir (Prometheus, HTTP API, range queries)."""

from __future__ import annotations

import ssl
import typing as t
import urllib.parse

try:
    import urllib3
except ImportError:
    # The module says so: it comes with the client for Kubernetes.
    pass

from .._common.documents import Unreadable, parse_json
from .._common.errors import ApiError, TenancyError
from .._common.text import shown
from .._common.wait import Deadline
from .answers import Answer, Pool

# Seconds to connect, and for one answer: Prometheus ends a query after two minutes (query.timeout).
CONNECT, TIMEOUT = 10.0, 130.0
# Bytes of one answer: a day of 10,000 series has about 8 MiB.
LARGEST = 32 * 2**20
# Seconds before the second attempt and the third one.
PAUSES = (1.0, 4.0)
_PASSING = (429, 500, 502, 503, 504)


class Prometheus:
    """Range queries, each bounded in time and size.

    :arg url: before ``/api/v1``; ``token``, ``ca`` in PEM and ``proxy``, empty for none.
    :arg org_id: tenant of a Mimir or Cortex, empty for none.
    :arg deadline: of all queries.
    :raises TenancyError: where the certificates cannot be used.
    """

    def __init__(self, url: str, deadline: Deadline, token: str = "", org_id: str = "", ca: str = "", proxy: str = "") -> None:
        self._url = f"{url.rstrip('/')}/api/v1/query_range"
        self._deadline = deadline
        self._headers = {"Content-Type": "application/x-www-form-urlencoded"}
        self._headers |= {"Authorization": f"Bearer {token}"} if token else {}
        self._headers |= {"X-Scope-OrgID": org_id} if org_id else {}
        try:
            context = ssl.create_default_context(cadata=ca or None)
        except (ssl.SSLError, ValueError) as exc:
            raise TenancyError(f"ca: its certificates cannot be used: {shown(exc)}") from exc
        self._pool = Pool(_manager(proxy, context), self._timeout, LARGEST)

    def range(self, what: str, expression: str, first: int, last: int, step: int) -> t.Any:
        """Return the answer to a query at moments from ``first`` to ``last``, seconds of Unix, each ``step`` seconds later.

        :arg what: names it in errors.
        :raises TenancyError: where there is no answer in time, or none that is one.
        """
        asked = {"query": expression, "start": first, "end": last, "step": step}
        answer = self._answer(what, urllib.parse.urlencode(asked))
        try:
            found = parse_json(answer.data, LARGEST)
        except Unreadable as exc:
            found = None
            if answer.status == 200:
                raise TenancyError(f"{what}: {self._url} gave no answer of PromQL: {shown(exc)}.") from exc
        if answer.status != 200 or not isinstance(found, dict) or found.get("status") != "success":
            said = found.get("error") if isinstance(found, dict) else answer.reason
            raise ApiError(f"{what}: {self._url} answered {answer.status}: {shown(said)}.", status=answer.status)
        return found

    def _answer(self, what: str, body: str) -> Answer:
        for pause in (*PAUSES, None):
            try:
                answer = self._pool.request("POST", self._url, body=body, headers=self._headers)
                if answer.status not in _PASSING or pause is None or self._deadline.left(0) <= pause:
                    return answer
            except (OSError, ValueError, urllib3.exceptions.HTTPError) as exc:
                if pause is None or self._deadline.left(0) <= pause:
                    raise ApiError(f"{what}: {self._url} cannot be read: {shown(exc)}.") from exc
            self._deadline.sleep(pause)
        raise AssertionError("the last attempt returns or raises")

    def _timeout(self) -> urllib3.Timeout:
        left = self._deadline.left(1.0)
        return urllib3.Timeout(connect=min(CONNECT, left), read=min(TIMEOUT, left))


def _manager(proxy: str, context: ssl.SSLContext) -> urllib3.PoolManager:
    if not proxy:
        return urllib3.PoolManager(ssl_context=context)
    parts = urllib.parse.urlsplit(proxy)
    who = urllib.parse.unquote(f"{parts.username}:{parts.password or ''}") if parts.username else None
    headers = urllib3.make_headers(proxy_basic_auth=who) if who else None
    address = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
    return urllib3.ProxyManager(address, proxy_headers=headers, ssl_context=context)
