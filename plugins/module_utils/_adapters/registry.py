# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""The adapter to registries of images: digests, asked for without credentials (OCI Distribution Specification, Pulling manifests)."""

from __future__ import annotations

import re
import urllib.parse
import urllib.request

try:
    import urllib3
except ImportError:
    # The module says so: it comes with the client for Kubernetes.
    pass

from .._common.documents import parse_json
from .._common.errors import ApiError, TenancyError
from .._common.text import shown
from .answers import Answer, bounded, read

# Seconds for one answer, and its bytes: a token has a few thousand.
TIMEOUT = 10.0
LARGEST = 2**20
# What a registry gives as a digest (OCI Image Specification, Descriptors).
_DIGEST = re.compile(r"[a-z0-9]+(?:[+._-][a-z0-9]+)*:[a-zA-Z0-9=_-]{32,128}")
# An image for several platforms has the digest of its index, which is what nodes record.
_ACCEPT = ", ".join(
    (
        "application/vnd.oci.image.index.v1+json",
        "application/vnd.docker.distribution.manifest.list.v2+json",
        "application/vnd.oci.image.manifest.v1+json",
        "application/vnd.docker.distribution.manifest.v2+json",
    )
)


def digest(url: str) -> str:
    """Return the digest of the manifest at an address.

    :raises TenancyError: where the registry does not answer, or has no such image for everybody.
    """
    headers = {"Accept": _ACCEPT}
    try:
        answer = _ask("HEAD", url, headers)
        # Some registries give every client a token, and answer no client without one.
        if answer.status == 401 and (token := _token(answer.headers.get("WWW-Authenticate") or "")):
            answer = _ask("HEAD", url, headers | {"Authorization": f"Bearer {token}"})
    except (OSError, ValueError, urllib3.exceptions.HTTPError) as exc:
        raise TenancyError(f"{url} cannot be read: {shown(exc)}.") from exc
    if answer.status != 200:
        raise ApiError(f"{url} is not there: {answer.status} {shown(answer.reason)}.", status=answer.status)
    found = answer.headers.get("Docker-Content-Digest") or ""
    if not _DIGEST.fullmatch(found):
        raise TenancyError(f"{url} has no digest in the registry's answer.")
    return found


def _ask(method: str, url: str, headers: dict[str, str] | None = None) -> Answer:
    """Return the answer of a registry, by the proxy that the environment names for it."""
    address = urllib.parse.urlsplit(url)
    bypassed = urllib.request.proxy_bypass(address.netloc)
    proxy = None if bypassed else urllib.request.getproxies().get(address.scheme)
    pool = bounded(urllib3.ProxyManager(proxy) if proxy else urllib3.PoolManager())
    timeout = urllib3.Timeout(total=TIMEOUT)
    # A registry may ask to come again later, after as long as it likes.
    retries = urllib3.Retry(connect=0, read=0, redirect=3, respect_retry_after_header=False)
    return read(pool.request(method, url, headers=headers, timeout=timeout, retries=retries, preload_content=False), LARGEST)


def _token(challenge: str) -> str:
    """Return the token that everybody gets for what a registry asks for; empty where it offers none (distribution, token authentication)."""
    # A word is tried from its beginning only: a header may be one word of 64 KiB.
    asked = dict(re.findall(r'(?<!\w)(\w+)="([^"]*)"', challenge))
    realm = asked.pop("realm", "")
    if not challenge.lower().startswith("bearer ") or not realm.startswith(("http://", "https://")):
        return ""
    tokens = parse_json(_ask("GET", f"{realm}?{urllib.parse.urlencode(asked)}").data)
    token = (tokens.get("token") or tokens.get("access_token")) if isinstance(tokens, dict) else None
    return token if isinstance(token, str) else ""
