# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Single GETs by a kubeconfig, for waits for an API server that may not answer yet."""

from __future__ import annotations

import base64
import contextlib
import ssl
import tempfile
import typing as t
import urllib.parse

from .._common.documents import LARGEST
from .._common.errors import TenancyError
from .._common.kubeconfig import chosen
from .._common.values import JsonObject
from .._common.wait import Deadline
from .answers import Answer, Pool
from .kubeconfig import MALFORMED, check_proxy
from .objects import PAGE, Most, Pages, checked, parsed
from .retry import Failure, classify, message_of

try:
    import urllib3
except ImportError:
    # AnsibleK8SModule reports the missing library before anything here is called.
    pass

# A list of one kind in one virtual cluster, whose tenant decides on it, when many of them are read.
ASKED_LIST = Most(pages=200, objects=50_000, size=32 * 2**20, page=LARGEST)


def ask(kubeconfig: JsonObject, path: str, timeout: float = 5) -> JsonObject:
    """Make one authenticated GET, without the discovery of kinds that a client begins with.

    For waits for an API server that may not answer yet. The server's certificate is verified.

    :arg kubeconfig: with its credentials inside; those of its current context are taken.
    :arg timeout: seconds, in all, however slowly the server answers.
    :raises TenancyError: with ``status`` (HTTP status, or None without an answer), and with ``permanent`` where waiting does
        not help: a certificate that does not verify, a refused credential, a malformed kubeconfig, a proxy of an unsupported
        kind. Only a credential made a moment ago may be refused until the server's caches hold it.
    """
    with _asking(kubeconfig, path, Deadline(timeout)) as get:
        return parsed(f"GET {path}", get(path))


def ask_list(kubeconfig: JsonObject, path: str, timeout: float = 30) -> list[JsonObject]:
    """Return all objects of a list, read page by page as ``ask`` reads; each has metadata of the form of the API.

    :arg path: of the list, such as ``/apis/scheduling.run.ai/v2/queues``.
    :arg timeout: seconds, in all, for all pages.
    :raises TenancyError: as ``ask`` does; also where the list is of another form, or does not end.
    """
    what, deadline = f"GET {path}", Deadline(timeout)
    with _asking(kubeconfig, path, deadline) as get:

        def fetch(limit: int, more: str) -> bytes:
            query = {"limit": limit} | ({"continue": more} if more else {})
            return get(f"{path}{'&' if '?' in path else '?'}{urllib.parse.urlencode(query)}")

        items = Pages(what, fetch, lambda: deadline.left(0), PAGE, ASKED_LIST).read()
    return [checked(what, item) for item in items]


@contextlib.contextmanager
def _asking(kubeconfig: JsonObject, path: str, deadline: Deadline) -> t.Iterator[t.Callable[[str], bytes]]:
    """Provide the call that makes one GET and returns the body; all of its calls together end by the deadline.

    :arg path: the first one, for the error of a malformed kubeconfig.
    """
    what = f"GET {path}"
    try:
        cluster, user = chosen(kubeconfig)
        server, proxy, token = (str(text or "") for text in (cluster["server"], cluster.get("proxy-url"), user.get("token")))
        what = f"GET {server}{path}"
        context = _tls(cluster, user)
    except MALFORMED as exc:
        raise _malformed(what, exc) from exc
    check_proxy(proxy)
    headers = {"Accept": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
    with _manager(proxy, context) as manager:
        pool = Pool(manager, lambda: urllib3.Timeout(total=deadline.left(0.001)), LARGEST)
        yield lambda path: _got(pool, server + path, headers)


def _got(pool: Pool, url: str, headers: dict[str, str]) -> bytes:
    what = f"GET {url}"
    try:
        answer: Answer = pool.request("GET", url, headers=headers)
    except (urllib3.exceptions.HTTPError, OSError) as exc:
        raise classify(exc).error(what) from exc
    except ValueError as exc:
        # Such as a line break in a token.
        raise _malformed(what, exc) from exc
    if answer.status != 200:
        message = message_of(answer.status, answer.reason, answer.data)
        raise Failure(message, answer.status, permanent=answer.status in (401, 403)).error(what)
    return answer.data


def _malformed(what: str, exc: BaseException) -> TenancyError:
    return Failure(f"the kubeconfig is malformed: {type(exc).__name__} {exc}", permanent=True).error(what)


def _tls(cluster: JsonObject, user: JsonObject) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=_decoded(cluster["certificate-authority-data"]))
    # As kubectl does: Python 3.13 would also refuse certificates that lack extensions which are not needed here.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if "token" not in user:
        # Python takes a client's key from files only; this one is 0600 and gone right after.
        with tempfile.NamedTemporaryFile("w", prefix="kubegpu-") as pair:
            pair.write(_decoded(user["client-certificate-data"]) + _decoded(user["client-key-data"]))
            pair.flush()
            context.load_cert_chain(pair.name)
    return context


def _manager(proxy_url: str, context: ssl.SSLContext) -> urllib3.PoolManager:
    if proxy_url:
        return urllib3.ProxyManager(proxy_url, ssl_context=context, proxy_ssl_context=context)
    return urllib3.PoolManager(ssl_context=context)


def _decoded(data: str) -> str:
    return base64.b64decode(data).decode()
