# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""The namespace of a scheduler in a virtual cluster. Pure."""

from __future__ import annotations

from .._common.values import JsonObject
from .facts import LABEL


def namespace(name: str) -> JsonObject:
    """Return the namespace of a scheduler, which is found by its label.

    :arg name: of the scheduler.
    """
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {LABEL: name}}}
