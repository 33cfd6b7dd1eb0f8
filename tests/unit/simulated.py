# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A cluster of rehearsals in memory, with a scheduler and a KWOK of a few lines."""

from __future__ import annotations

from ansible_collections.kubegpu.tenancy.plugins.module_utils._rehearsal.facts import KWOK_NAMESPACE
from ansible_collections.kubegpu.tenancy.tests.unit.api import InMemoryApi

REAL = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "real", "labels": {}}, "spec": {}, "status": {}}


class Cluster(InMemoryApi):
    """A cluster on which KWOK makes nodes ready, and every pod runs on the first node at once."""

    def __init__(self):
        super().__init__([REAL])
        self.react("create", "Node", self._ready)
        self.react("apply", "Deployment", self._kwok)
        self.react("create", "Pod", self._runs)

    def _ready(self, node):
        self.put(node | {"status": node["status"] | {"conditions": [{"type": "Ready", "status": "True"}]}})

    def _kwok(self, deployment):
        metadata = {"name": "kwok-1", "namespace": KWOK_NAMESPACE, "labels": {"app": "kwok"}}
        ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        self.put({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"nodeName": "real"}, "status": ready})

    def _runs(self, pod):
        asks = pod["spec"]["containers"][0]["resources"]["limits"]
        phase = "Succeeded" if pod["metadata"]["annotations"].get("rehearsal.kubegpu.tenancy/runs") else "Running"
        if asks or phase == "Running":
            self.put(pod | {"spec": pod["spec"] | {"nodeName": "simulated-0-0"}, "status": {"phase": phase}})
        else:
            self.put(pod | {"status": {"phase": "Pending"}})

    def names(self, kind, namespace=None):
        return sorted(key[3] for key in self.objects if key[1] == kind and namespace in (None, key[2]))
