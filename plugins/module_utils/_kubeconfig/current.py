# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""The context of a kubeconfig that counts: its cluster and its user, and the files and the program that these name. Pure.

Which keys name files, what they are relative to, and which key of two counts, is that of kubectl: ResolveLocalPaths and
GetAuthInfoFileReferences in k8s.io/client-go, tools/clientcmd/loader.go, and the types in tools/clientcmd/api.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import ipaddress
import posixpath
import typing as t
import urllib.parse

from .._common.errors import TenancyError
from .._common.kubeconfig import ENTRIES, entry, program_of
from .._common.text import shown
from .._common.values import JsonObject

# By the lists of entries, the keys that name a file, and the keys that hold the content of such a file in base64.
FILES = {
    "clusters": {"certificate-authority": "certificate-authority-data"},
    "users": {"client-certificate": "client-certificate-data", "client-key": "client-key-data"},
}
# Names a file that another program renews; its content counts more than BEARER.
BEARER_FILE = "tokenFile"
BEARER = "token"


class File(t.NamedTuple):
    """A file that a kubeconfig names.

    :ivar kind: the list of the entry, such as ``users``.
    :ivar key: the key that names the file.
    :ivar path: absolute.
    """

    kind: str
    key: str
    path: str


def alone(config: JsonObject, path: str) -> JsonObject:
    """Return a kubeconfig with its current context alone; the program and the file with a token that it names are found from any folder.

    :arg config: as ``plan.read`` returns it.
    :arg path: of its file, for errors, and from whose folder relative paths count.
    :raises TenancyError: where it has no such context.
    """
    current = config.get("current-context")
    names = entry(config, "contexts", t.cast(str, current))
    if not names:
        known = ", ".join(shown(item["name"], 100) for item in config.get("contexts") or []) or "none"
        raise TenancyError(
            f"{path}: its current-context {shown(current)!r} is none of its contexts ({known}). Choose one: "
            f"kubectl config use-context NAME --kubeconfig {path}"
        )
    wanted = {"contexts": current, "clusters": names.get("cluster"), "users": names.get("user")}
    kept = {kind: [item for item in config.get(kind) or [] if item["name"] == wanted[kind]][:1] for kind in ENTRIES}
    if not kept["clusters"]:
        raise TenancyError(
            f"{path}: its context {shown(current)} leads to the cluster {shown(names.get('cluster'))}, which it has not."
        )
    if names.get("user") and not kept["users"]:
        raise TenancyError(f"{path}: its context {shown(current)} names the user {shown(names['user'])}, which it has not.")
    kept["users"] = [item | {"user": _from_anywhere(item.get("user") or {}, path)} for item in kept["users"]]
    return config | kept


def _from_anywhere(user: JsonObject, path: str) -> JsonObject:
    user = user | ({BEARER_FILE: _from(path, str(user[BEARER_FILE]))} if user.get(BEARER_FILE) else {})
    program = program_of(user)
    command = str(program.get("command") or "")
    # Without a slash it is looked for along PATH.
    if "/" not in command or posixpath.isabs(command):
        return user
    return user | {"exec": program | {"command": _from(path, command)}}


def _from(path: str, file: str) -> str:
    """Return the path of a file that a kubeconfig names, from the path of the kubeconfig."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(path), file))


def loopback(cluster: JsonObject) -> str:
    """Return the server of a kubeconfig's cluster where it is a loopback address; empty where it is not, or is behind a proxy."""
    server = str(cluster.get("server") or "")
    try:
        host = urllib.parse.urlsplit(server).hostname or ""
    except ValueError:
        return ""
    if cluster.get("proxy-url"):
        return ""
    with contextlib.suppress(ValueError):
        return server if ipaddress.ip_address(host).is_loopback else ""
    return server if host == "localhost" else ""


def files_of(config: JsonObject, path: str) -> list[File]:
    """Return the files of a kubeconfig with one context whose content counts.

    :arg config: as ``alone`` returns it.
    """
    found = []
    for kind in ("clusters", "users"):
        for content in (item.get(ENTRIES[kind]) or {} for item in config[kind]):
            keys = [key for key, inline in FILES[kind].items() if not content.get(inline)]
            keys += [BEARER_FILE] if kind == "users" else []
            named = {key: str(content[key]) for key in keys if content.get(key)}
            found += [File(kind, key, _from(path, file)) for key, file in named.items()]
    return found


def with_contents(config: JsonObject, contents: t.Mapping[File, str]) -> JsonObject:
    """Return a kubeconfig with one context that holds what its files held, and names none of these.

    :arg config: as ``alone`` returns it.
    :arg contents: of ``files_of``, in base64; a file with a token may be left out, and is then still named.
    :raises TenancyError: for a token that is no text; without a part of it.
    """
    return config | {
        kind: [item | {ENTRIES[kind]: _held(item.get(ENTRIES[kind]) or {}, kind, contents)} for item in config[kind]]
        for kind in ("clusters", "users")
    }


def _held(entry_: JsonObject, kind: str, contents: t.Mapping[File, str]) -> JsonObject:
    held = {file.key: content for file, content in contents.items() if file.kind == kind}
    named = {*FILES[kind], *({BEARER_FILE} & held.keys())}
    kept = {key: value for key, value in entry_.items() if key not in named}
    kept |= {FILES[kind][key]: content for key, content in held.items() if key in FILES[kind]}
    if BEARER_FILE in held:
        path = next(file.path for file in contents if file.key == BEARER_FILE)
        kept[BEARER] = _token(held[BEARER_FILE], path)
    return kept


def _token(content: str, path: str) -> str:
    try:
        token = base64.b64decode(content, validate=True).decode().strip()
    except (binascii.Error, UnicodeDecodeError):
        raise TenancyError(f"{path} holds no token, because it is no text.") from None
    if not token:
        raise TenancyError(f"{path} holds no token, but blanks only.")
    return token
