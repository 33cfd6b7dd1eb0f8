# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Charts as small as they can be that name images where upstream's do; molecule/lab compares with upstream's own."""

from __future__ import annotations

import base64
import json
from typing import Any

from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.helm import Chart
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.values import deep_merge
from ansible_collections.kubegpu.tenancy.plugins.module_utils._kai import facts as kai

Values = dict[str, Any]
HOOK = {"annotations": {"helm.sh/hook": "pre-install,pre-upgrade"}}
CLEANUP = {"annotations": {"helm.sh/hook": "post-delete"}}


def workload(kind: str, name: str, *images: str, metadata: Values | None = None, **container: Any) -> Values:
    """An object with a pod of one container for each image."""
    containers = [{"name": f"c{index}", "image": image} | container for index, image in enumerate(images)]
    spec = {"template": {"spec": {"containers": containers}}}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name} | (metadata or {}), "spec": spec}


def part(registry: str, name: str, tag: str) -> Values:
    return {"service": {"enabled": True, "image": {"name": name, "repository": registry, "tag": tag, "pullPolicy": "Always"}}}


def kai_scheduler(version: str, values: Values, *, config: Values | None = None, metadata: Values | None = None) -> list[Values]:
    """A release with an operator, as v0.12.0: the Config has no podgrouper, and of the reservation's image only the name.

    :arg config: what the Config says besides.
    :arg metadata: of the Config, by default that of a hook.
    """
    registry = values["global"]["registry"]
    env = [
        {"name": "WATCH_NAMESPACE", "valueFrom": {}},
        {"name": "MS_REPOSITORY", "value": registry},
        {"name": "MS_TAG", "value": version},
    ]
    names = {key: name for key, name in kai.PART_IMAGES.items() if key != "podGrouper"}
    spec = {key: part(registry, name, version) for key, name in names.items()}
    spec["binder"]["resourceReservation"] = {"image": {"name": "resourcereservation"}}
    spec["nodeScaleAdjuster"] = {"service": {"enabled": False, "image": {"name": "off", "repository": registry, "tag": version}}}
    kind = {
        "apiVersion": "kai.scheduler/v1",
        "kind": "Config",
        "metadata": {"name": "kai-config"} | (HOOK if metadata is None else metadata),
    }
    return [
        workload("Deployment", kai.OPERATOR, f"{registry}/operator:{version}", env=env),
        workload("Job", "crd-upgrader", f"{registry}/crd-upgrader:{version}", metadata=HOOK),
        workload("Job", "cleanup", f"{registry}/crd-upgrader:{version}", metadata=CLEANUP),
        kind | {"spec": deep_merge(spec, config or {})},
    ]


VCLUSTER_DEFAULTS: Values = {
    "controlPlane": {
        "coredns": {"enabled": True, "deployment": {"image": ""}},
        "advanced": {"defaultImageRegistry": ""},
        "distro": {"k8s": {"version": "", "image": {"tag": "v1.36.0"}}},
    },
    "sync": {
        "toHost": {
            "pods": {
                "rewriteHosts": {
                    "enabled": True,
                    "initContainer": {"image": {"registry": "mirror.gcr.io", "repository": "library/alpine", "tag": "3.20"}},
                }
            }
        }
    },
}


def vcluster(version: str, values: Values) -> list[Values]:
    config = deep_merge(VCLUSTER_DEFAULTS, values)
    control_plane = config["controlPlane"]
    distro, syncer = control_plane["distro"]["k8s"], control_plane["statefulSet"]["image"]
    kubernetes = f"ghcr.io/loft-sh/kubernetes:{distro['version'] or distro['image']['tag']}"
    pod = workload("StatefulSet", "it", f"{syncer['registry']}/{syncer['repository']}:{version}")
    pod["spec"]["template"]["spec"]["initContainers"] = [{"name": "kubernetes", "image": kubernetes}]
    data = {"config.yaml": base64.b64encode(json.dumps(config).encode()).decode()}
    return [pod, {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "vc-config-it"}, "data": data}]


class Charts:
    """The part of the Helm adapter that renders.

    :ivar rendered: the reference, release, namespace and API versions of each call.
    """

    def __init__(self) -> None:
        self.rendered: list[tuple[str, str, str, tuple[str, ...]]] = []

    def template(self, name: str, namespace: str, chart: Chart, values: Values, api_versions: tuple[str, ...] = ()) -> str:
        self.rendered.append((chart.ref, name, namespace, tuple(api_versions)))
        title = chart.ref.rpartition("/")[2]
        if title == "kai-scheduler":
            made = kai_scheduler(chart.version, values)
        elif title == "vcluster":
            made = vcluster(chart.version, values)
        elif title == "nvidia-device-plugin":
            made = [workload("DaemonSet", title, f"nvcr.io/nvidia/k8s-device-plugin:v{chart.version}")]
        elif title == "second":
            made = [workload("Deployment", title, "example.com/second:1")]
        else:
            raise TenancyError("there is no such chart.")
        return "\n---\n".join(map(json.dumps, made))
