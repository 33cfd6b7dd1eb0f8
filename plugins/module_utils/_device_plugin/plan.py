# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""The desired state of a cluster: the chart's values, and the labels of its nodes. Pure functions over Node objects."""

from __future__ import annotations

import dataclasses
import json
import typing as t

from .._common.documents import parse_json
from .._common.errors import Problem, refuse
from .._common.ownership import annotations_of, labels_of, last_write
from .._common.values import Change, JsonObject, Values, Write, deep_merge
from .facts import CONFIG_LABEL, MPS_LABEL, PRESENT_LABEL, PROVIDERS
from .validation import validated
from .values import Group, chart_values, uses_dra

Labels = dict[str, str]

# Annotation of a node: the labels that this collection put on it for the device plugin, with their values, as JSON.
NOTE = "kubegpu.tenancy/device-plugin-labels"


@dataclasses.dataclass(frozen=True)
class Plan:
    """The desired state of a cluster.

    :ivar values: of the chart.
    :ivar labels: by node, the labels it needs.
    :ivar expected: by node, how many GPU devices it has, where that was given.
    :ivar replicas: by node, how many pods share a GPU.
    :ivar dra: whether GPUs are offered by ResourceSlices instead of as an extended resource.
    :ivar metrics: the Prometheus that reads those of DCGM exporter; empty for none.
    """

    values: Values
    groups: tuple[Group, ...]
    labels: dict[str, Labels]
    expected: dict[str, int]
    dra: bool
    metrics: t.Mapping[str, t.Any]

    @property
    def replicas(self) -> dict[str, int]:
        return {node: group.replicas for group in self.groups for node in group.nodes}


def plan(params: t.Mapping[str, t.Any], version: str, nodes: list[JsonObject], kubernetes: str) -> Plan:
    """Return what the module's options ask of these nodes.

    :arg version: of the chart.
    :arg kubernetes: the API server's version, such as v1.35.4.
    :raises TenancyError: with all ``problems``.
    """
    groups, expected, metrics = validated(params, version, nodes, kubernetes)
    discovery = params["gpu_feature_discovery"]
    values = chart_values(PROVIDERS[params["provider"]], groups, params["mig_strategy"], discovery, metrics)
    return Plan(
        deep_merge(values, params["values"]),
        groups,
        _wanted_labels(params["nodes"], groups, discovery),
        expected,
        uses_dra(params["values"]),
        metrics,
    )


def _wanted_labels(nodes: list[str], groups: t.Iterable[Group], gpu_feature_discovery: bool) -> dict[str, Labels]:
    wanted: dict[str, Labels] = {name: {PRESENT_LABEL: "true"} for name in nodes}
    for group in groups:
        more = {CONFIG_LABEL: group.name}
        if group.strategy == "mps" and not gpu_feature_discovery:
            # Feature discovery sets it by the configuration, to false elsewhere.
            more[MPS_LABEL] = "true"
        for node in group.nodes:
            wanted[node] = wanted.get(node, {}) | more
    return wanted


@dataclasses.dataclass(frozen=True)
class Relabel:
    """Labels of a node that change.

    :ivar before: their values now, None for a label that does not exist; ``after`` the values they get.
    :ivar noted: the node's annotation with the labels owned by this collection, as text; ``owned`` those it will have.
    :ivar write: the last write of these labels; None where that is not known.
    """

    node: str
    before: dict[str, str | None]
    after: dict[str, str | None]
    noted: str | None
    owned: Labels
    write: Write | None = None

    @property
    def changes(self) -> list[Change]:
        if not self.before:
            return [(f"{self.node} annotation {NOTE}", self.noted, note(self.owned))]
        return [(f"{self.node} label {key}", self.before[key], self.after[key]) for key in sorted(self.before)]

    @property
    def retirement(self) -> JsonObject:
        """The patch that takes off the labels that change, so that no node names a configuration that is about to go."""
        gone = {key: None for key, value in self.before.items() if value is not None}
        return _patch(gone, {key: value for key, value in self.owned.items() if key not in self.before}) if gone else {}

    @property
    def patch(self) -> JsonObject:
        return _patch(self.after, self.owned)


def note(owned: Labels) -> str | None:
    """Return the annotation for these labels; None for no labels."""
    return json.dumps(owned, sort_keys=True) if owned else None


def _patch(labels: t.Mapping[str, str | None], owned: Labels) -> JsonObject:
    return {"metadata": {"labels": dict(labels), "annotations": {NOTE: note(owned)}}}


def relabels(nodes: list[JsonObject], wanted: dict[str, Labels]) -> list[Relabel]:
    """List what changes for the nodes to have these labels, and no others that are owned by this collection.

    A label is owned when this collection put it there and it was not changed since. Other labels stay, and satisfy the desired
    state where they have the same value.

    :raises TenancyError: where a label that is not owned has another value than wanted, with all ``problems``.
    """
    found, problems = [], []
    for node in nodes:
        name, labels = node["metadata"]["name"], labels_of(node)
        noted = annotations_of(node).get(NOTE)
        owned = {key: value for key, value in _read_note(noted).items() if labels.get(key) == value}
        due = wanted.get(name, {})
        after: dict[str, str | None] = {key: None for key in owned if key not in due}
        for key, value in due.items():
            if key in labels and labels[key] != value and key not in owned:
                problems.append(
                    Problem(
                        "label-of-others",
                        f"node {name} has the label {key}={labels[key]}, which was not set by this collection, and {value} is wanted. "
                        "Remove the label, or leave the node out.",
                    )
                )
            elif labels.get(key) != value:
                after[key] = value
        owned = {key: value for key, value in (owned | after).items() if value is not None}
        if after or note(owned) != noted:
            write = last_write(node, *(("metadata", "labels", key) for key in after))
            found.append(Relabel(name, {key: labels.get(key) for key in after}, after, noted, owned, write))
    refuse(problems)
    return found


def _read_note(text: str | None) -> Labels:
    try:
        noted = parse_json(text or "{}")
    except ValueError:
        # It was edited by hand: then no label is known to be owned.
        return {}
    return noted if isinstance(noted, dict) else {}
