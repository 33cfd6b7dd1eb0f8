# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Pods of probes, which every trust profile accepts."""

from __future__ import annotations

import dataclasses
import typing as t

from .._common.names import GPU_RESOURCE, KAI_SCHEDULER_NAME, RUNTIME_CLASS
from .._common.pods import pod_spec
from .._common.run import Params
from .._common.values import JsonObject

# Of pods that need a shell, a web server and its client, but no GPU.
IMAGE = "docker.io/library/busybox:1.37.0"
# Options of module probe that several kinds take, with their defaults: about pods, and about pods of KAI Scheduler.
POD_OPTIONS: Params = {"image": IMAGE, "tolerations": []}
KAI_OPTIONS: Params = {
    **POD_OPTIONS,
    "gpu_resource": GPU_RESOURCE,
    "runtime_class": RUNTIME_CLASS,
    "scheduler_name": KAI_SCHEDULER_NAME,
}


@dataclasses.dataclass(frozen=True)
class Settings:
    """How a probe's pods are made: the options of module probe with these names."""

    namespace: str
    image: str = IMAGE
    tolerations: tuple[JsonObject, ...] = ()
    scheduler_name: str = ""
    gpu_resource: str = GPU_RESOURCE
    runtime_class: str = ""
    node_selector: t.Mapping[str, str] = dataclasses.field(default_factory=dict)

    @classmethod
    def of(cls, params: t.Mapping[str, t.Any]) -> Settings:
        """Make them from a module's options, some of which not every kind of probe takes."""
        names = [field.name for field in dataclasses.fields(cls)]
        given = {name: params[name] for name in names if params.get(name) is not None}
        return cls(**(given | {"tolerations": tuple(given.get("tolerations", ()))}))


def pod(settings: Settings, spec: JsonObject, **metadata: t.Any) -> JsonObject:
    """Return a pod of a probe; ``metadata`` has its name, and overrides its namespace."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"namespace": settings.namespace} | metadata,
        "spec": spec | {"tolerations": list(settings.tolerations)},
    }


def on_node(name: str) -> JsonObject:
    """Return the affinity of a pod that runs on a node. Unlike its nodeName, it leaves the pod to the scheduler, which counts what it takes."""
    terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]}]
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}


def page_spec(image: str, page: str, port: int) -> JsonObject:
    """Return the spec of a pod that serves a page and is ready when it does."""
    return pod_spec(
        image,
        f"echo {page} > /page/index.html && exec httpd -f -p {port} -h /page",
        ports=[{"containerPort": port}],
        readinessProbe={"httpGet": {"path": "/", "port": port}, "periodSeconds": 1},
        volumeMounts=[{"name": "page", "mountPath": "/page"}],
    ) | {"volumes": [{"name": "page", "emptyDir": {}}]}
