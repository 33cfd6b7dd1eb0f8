# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Read kubeconfig files of the host that a module runs on, and refuse what no client here takes."""

from __future__ import annotations

import os
import ssl
import stat
import typing as t

from .._common.documents import LARGEST, load_document
from .._common.errors import ApiError
from .._common.secrets import without_password

# Proxies that urllib3 speaks; kubectl knows socks5 as well, for which Python needs a library of its own.
PROXY_SCHEMES = ("http", "https")

# What reading raises: a kubeconfig that lacks something, or holds what is no certificate or key; kinds of another form.
MALFORMED = (KeyError, IndexError, TypeError, AttributeError, ValueError, ssl.SSLError, RecursionError)


def read_kubeconfig(path: str) -> dict[str, t.Any] | None:
    """Return the kubeconfig in a file; None where there is none, or it cannot be read as one."""
    try:
        with open(os.path.expanduser(path), encoding="utf-8") as file:
            config = load_document(file.read(LARGEST + 1))
    except (OSError, ValueError):
        return None
    return config if isinstance(config, dict) else None


def kubeconfig_exists(path: str) -> bool:
    """Tell whether there is anything in a kubeconfig's place, readable or not; of several files, which a colon separates, in that of one."""
    return any(os.path.lexists(os.path.expanduser(file)) for file in (path, *path.split(os.pathsep)) if file)


def is_private_folder(path: str) -> bool:
    """Tell whether a folder is there in which its owner alone may read and write."""
    try:
        mode = os.stat(os.path.expanduser(path)).st_mode
    except OSError:
        return False
    return stat.S_ISDIR(mode) and stat.S_IMODE(mode) == 0o700


def check_proxy(url: str | None) -> None:
    """Refuse a proxy that the Python client cannot speak to; None stands for no proxy.

    :raises TenancyError: with ``permanent``.
    """
    scheme = (url or "http://").partition("://")[0].lower()
    if scheme not in PROXY_SCHEMES:
        raise ApiError(
            f"The proxy {without_password(str(url))} is of kind {scheme}, which is not supported. Name one that begins with http:// or https://.",
            permanent=True,
        )
