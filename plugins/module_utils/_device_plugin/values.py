# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""The desired sharing and discovery, as values of the charts: pure functions."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
import typing as t

from .._common.names import GPU_RESOURCE
from .._common.quantity import whole
from .._common.values import Values, value_at
from .._metrics.facts import SERVICE_MONITORS
from .facts import CONFIG_LABEL, CONFIG_MAP, DEFAULT, STRATEGIES, TOLERATIONS, Provider


@dataclasses.dataclass(frozen=True)
class Group:
    """Nodes whose GPUs are shared in the same way.

    :ivar strategy: a key of STRATEGIES.
    """

    name: str
    strategy: str
    replicas: int
    nodes: tuple[str, ...]

    @property
    def config(self) -> str:
        """The group's configuration, as a file of the device plugin."""
        lines = ["version: v1", "sharing:", f"  {STRATEGIES[self.strategy]}:"]
        if self.strategy == "time_slicing":
            # A pod that asks for two would get two turns on perhaps one GPU, so it is refused; MPS always does.
            lines.append("    failRequestsGreaterThanOne: true")
        return "\n".join([*lines, "    resources:", f"      - name: {GPU_RESOURCE}", f"        replicas: {self.replicas}"])


def chart_values(
    provider: Provider,
    groups: t.Sequence[Group],
    mig_strategy: str,
    gpu_feature_discovery: bool,
    metrics: t.Mapping[str, t.Any],
) -> Values:
    """Return the values of the provider's chart.

    :arg groups: nodes that share their GPUs; without any, the chart needs no configurations.
    :arg metrics: the Prometheus that reads those of DCGM exporter; empty for no exporter.
    """
    configs = {DEFAULT: "version: v1"} | {group.name: group.config for group in groups} if groups else {}
    if provider.name == "gpu_operator":
        # What the host has by docker_nvidia_runtime and its own packages, the operator must not install again. Its MIG manager would first
        # of all end the parts of GPUs that the host has (migManager.config.default in deployments/gpu-operator/values.yaml).
        values: Values = {part: {"enabled": False} for part in ("driver", "toolkit", "migManager")}
        values |= {
            "nfd": {"enabled": True},
            "gfd": {"enabled": gpu_feature_discovery},
            "mig": {"strategy": mig_strategy},
            "daemonsets": {"tolerations": TOLERATIONS},
            "node-feature-discovery": {"worker": {"tolerations": TOLERATIONS}},
            "dcgmExporter": _exporter(metrics) if metrics else {"enabled": False},
        }
        if configs:
            config = {"create": True, "name": _config_map(configs), "default": DEFAULT, "data": configs}
            values["devicePlugin"] = {"config": config}
        return values
    values = {"runtimeClassName": "nvidia", "migStrategy": mig_strategy, "tolerations": TOLERATIONS}
    if gpu_feature_discovery:
        values |= {"gfd": {"enabled": True}, "nfd": {"worker": {"tolerations": TOLERATIONS}}}
    if configs:
        # Named, because a chart with configurations it does not read otherwise gives its pods CAP_SYS_ADMIN.
        values |= {"config": {"default": DEFAULT, "map": configs}, "deviceListStrategy": "envvar"}
    return values


def _config_map(configs: Values) -> str:
    """Return the name of the ConfigMap with the operator's configurations.

    By its name alone the operator sees that it is another one, and only new pods read it: the plugin's own chart has a checksum for that.
    """
    return f"{CONFIG_MAP}-{hashlib.sha256(json.dumps(configs, sort_keys=True).encode()).hexdigest()[:8]}"


def _exporter(metrics: t.Mapping[str, t.Any]) -> Values:
    # Its Service carries the annotations in any case.
    monitor = (
        {"enabled": True, "additionalLabels": metrics["labels"]}
        if metrics["provider"] == SERVICE_MONITORS
        else {"enabled": False}
    )
    return {"enabled": True, "serviceMonitor": monitor}


def has_configs(values: Values) -> bool:
    """Tell whether the device plugin's chart makes pods that choose among configurations, as sharing needs."""
    return bool(value_at(values, "config.map") or value_at(values, "config.name"))


def replicas_of(values: Values, labels: t.Mapping[str, str]) -> int:
    """Return how many pods share a GPU of a node, by the values of an installed release and the node's labels."""
    config = value_at(values, "config") or value_at(values, "devicePlugin.config")
    texts = value_at(config, "map") or value_at(config, "data")
    name = labels.get(CONFIG_LABEL) or str(value_at(config, "default"))
    text = texts.get(name) if isinstance(texts, dict) else None
    found = re.search(r"^ *replicas: *(\d{1,9})", text, re.MULTILINE) if isinstance(text, str) else None
    return whole(found[1]) if found else 1


def uses_dra(values: Values) -> bool:
    """Tell whether the operator offers GPUs by Dynamic Resource Allocation."""
    return value_at(values, "gpuCluster.deployCR") is True
