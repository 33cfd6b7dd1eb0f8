# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""The adapter to registries of images: digests, asked for without credentials (OCI Distribution Specification, Pulling manifests)."""

from __future__ import annotations

import http.client
import json
import re
import typing as t
import urllib.error
import urllib.parse
import urllib.request

from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError

# Seconds for one answer.
TIMEOUT = 10.0
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
        try:
            answer = _open(url, headers)
        except urllib.error.HTTPError as exc:
            # Some registries give everybody a token, and nobody anything without one.
            if exc.code != 401 or not (token := _token(exc.headers.get("WWW-Authenticate") or "")):
                raise
            answer = _open(url, headers | {"Authorization": f"Bearer {token}"})
    except urllib.error.HTTPError as exc:
        raise TenancyError(f"{url} is not there: {exc.code} {exc.reason}.", status=exc.code) from exc
    except (OSError, ValueError, http.client.HTTPException) as exc:
        raise TenancyError(f"{url} cannot be read: {exc}.") from exc
    if not (found := answer.get("Docker-Content-Digest")):
        raise TenancyError(f"{url} has no digest in the registry's answer.")
    return found


def _open(url: str, headers: dict[str, str]) -> t.Mapping[str, str]:
    with urllib.request.urlopen(urllib.request.Request(url, headers=headers, method="HEAD"), timeout=TIMEOUT) as answer:
        return t.cast("t.Mapping[str, str]", answer.headers)


def _token(challenge: str) -> str:
    """Return the token that everybody gets for what a registry asks for; empty where it offers none (distribution, token authentication)."""
    asked = dict(re.findall(r'(\w+)="([^"]*)"', challenge))
    realm = asked.pop("realm", "")
    if not challenge.lower().startswith("bearer ") or not realm.startswith(("http://", "https://")):
        return ""
    with urllib.request.urlopen(f"{realm}?{urllib.parse.urlencode(asked)}", timeout=TIMEOUT) as answer:
        tokens = json.load(answer)
    return str(tokens.get("token") or tokens.get("access_token") or "")
