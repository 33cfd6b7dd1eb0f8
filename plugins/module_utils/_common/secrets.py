# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""What is shown and kept in place of what may be secret: of charts' values digests, of addresses no password.

A digest tells whether two values are the same. It confirms a guess, too, so it hides no short password from an attacker who tries many.
"""

from __future__ import annotations

import hashlib
import json
import re
import typing as t

_LENGTH = 16
_DIGEST = re.compile(rf"digest [0-9a-f]{{{_LENGTH}}}")
# A user's name and password in an address. A password may hold a slash, although it should not; what follows an image's @ is none.
_PASSWORD = re.compile(r"//\S{0,2000}@(?!sha\d+:)")


def digest(value: t.Any) -> str:
    """Return what stands for a value: the same for equal ones, and for a digest itself."""
    if isinstance(value, str) and _DIGEST.fullmatch(value):
        return str(value)
    text = json.dumps(_canonical(value), sort_keys=True, default=str)
    return f"digest {hashlib.sha256(text.encode()).hexdigest()[:_LENGTH]}"


def digested(values: t.Any) -> t.Any:
    """Return a tree of values with digests as its leaves, so that its paths and what differs can be told.

    What hides nothing stays as it is: true, false, null and what is empty.
    """
    if isinstance(values, t.Mapping):
        return {key: digested(value) for key, value in values.items()}
    if isinstance(values, bool) or values in (None, "", []):
        return values
    return digest(values)


def without_password(address: str) -> str:
    """Return an address as it may be shown, without a user's name and password in it."""
    return _PASSWORD.sub("//", address) if "@" in address else address


def without_secrets(data: t.Any, key: str = "") -> t.Any:
    """Return plain data as it may be shown: digests of charts' values and of a kubeconfig's content, no password in an address.

    :arg key: under which it stands.
    """
    if key == "values" or key.endswith("_values") or (key == "kubeconfig" and isinstance(data, t.Mapping)):
        return digested(data)
    if isinstance(data, t.Mapping):
        return {name: without_secrets(value, str(name)) for name, value in data.items()}
    if isinstance(data, (list, tuple)):
        shown = [without_secrets(value) for value in data]
        return tuple(shown) if isinstance(data, tuple) else shown
    return without_password(data) if isinstance(data, str) else data


def without_values(result: dict[str, t.Any]) -> dict[str, t.Any]:
    """Return a module's result with digests of charts' values, in its diff, too."""
    hidden = dict(result)
    if "values" in result:
        hidden["values"] = digested(result["values"])
    if isinstance(diff := result.get("diff"), dict):
        hidden["diff"] = diff | {side: _digested_values(diff[side]) for side in ("before", "after") if side in diff}
    return hidden


def _digested_values(side: t.Any) -> t.Any:
    """Return one side of a diff, which is by path, or else a text."""
    if not isinstance(side, t.Mapping):
        return side
    return {what: digested(value) if str(what).partition(".")[0] == "values" else value for what, value in side.items()}


def _canonical(value: t.Any) -> t.Any:
    """Return plain data in which equal values are written alike: what a user writes as 1.0 is 1 once it was stored."""
    if isinstance(value, t.Mapping):
        return {str(key): _canonical(below) for key, below in value.items()}
    if isinstance(value, (list, tuple)):
        return [_canonical(below) for below in value]
    return round(value) if isinstance(value, float) and value.is_integer() else value
