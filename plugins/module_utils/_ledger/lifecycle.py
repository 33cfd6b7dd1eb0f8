# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Read which devices of a host cluster's nodes kubelet gave to which pods."""

from __future__ import annotations

import typing as t

from .._common.parallel import concurrently
from .._common.parties import reason
from .._common.values import JsonObject
from .._nodes.status import has_devices
from .devices import Assigned, assigned, readers
from .facts import DEVICE_PLUGINS_FOLDER

if t.TYPE_CHECKING:
    from .._adapters.kubernetes import Kube


def read_devices(
    kube: Kube, nodes: list[JsonObject], pods: list[JsonObject], namespaces: list[JsonObject]
) -> tuple[dict[str, Assigned], list[str]]:
    """Read which devices the kubelet of each node with GPUs gave to which pods.

    :returns: by node, and a sentence for each node of which it could not be read.
    """
    by_node = readers(pods, namespaces)

    def read(name: str) -> Assigned | str:
        if name not in by_node:
            return f"{name}: no device plugin runs there that mounts {DEVICE_PLUGINS_FOLDER}"
        try:
            return assigned(kube.pods.read_file(**by_node[name]._asdict()))
        except Exception as exc:
            # What is read there is a program's answer on that node alone.
            return f"{name}: {reason(exc)}"

    names = sorted(node["metadata"]["name"] for node in nodes if has_devices(node))
    answers = dict(zip(names, concurrently(read, names)))
    known = {name: answer for name, answer in answers.items() if isinstance(answer, Assigned)}
    return known, [answer for answer in answers.values() if isinstance(answer, str)]
