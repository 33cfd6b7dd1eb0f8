# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Read kubeconfig files of the host that a module runs on."""

from __future__ import annotations

import os
import typing as t

from .._common.documents import LARGEST, load_document


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
