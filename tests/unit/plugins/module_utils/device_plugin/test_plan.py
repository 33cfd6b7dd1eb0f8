# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the labels that nodes get and lose."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._device_plugin.facts import CONFIG_LABEL
from ansible_collections.kubegpu.tenancy.plugins.module_utils._device_plugin.plan import NOTE, note, relabels
from ansible_collections.kubegpu.tenancy.tests.unit.api import written_by

KEY = "nvidia.com/gpu.present"


def noted(labels: dict[str, str], text: str | None) -> dict[str, t.Any]:
    return {"metadata": {"name": "w1", "labels": labels, "annotations": {NOTE: text} if text else {}}}


@pytest.mark.parametrize(
    ("labels", "text", "wanted", "after", "owned"),
    [
        ({}, None, {KEY: "true"}, {KEY: "true"}, {KEY: "true"}),
        ({KEY: "true"}, f'{{"{KEY}": "true"}}', {}, {KEY: None}, {}),
        # An owned label was taken off: it comes back.
        ({}, f'{{"{KEY}": "true"}}', {KEY: "true"}, {KEY: "true"}, {KEY: "true"}),
        # An owned label was changed by another writer: it is theirs, and the annotation forgets it.
        ({KEY: "false"}, f'{{"{KEY}": "true"}}', {}, {}, {}),
        # Annotations that cannot be read.
        ({KEY: "true"}, "{", {}, {}, {}),
        ({KEY: "true"}, "[]", {}, {}, {}),
    ],
)
def test_which_labels_are_owned(
    labels: dict[str, str], text: str | None, wanted: dict[str, str], after: dict[str, t.Any], owned: dict[str, str]
) -> None:
    (found,) = relabels([noted(labels, text)], {"w1": wanted})
    assert (found.after, found.owned) == (after, owned)
    assert found.changes


@pytest.mark.parametrize(
    ("labels", "text", "wanted"),
    [
        ({}, None, {}),
        ({KEY: "true"}, None, {KEY: "true"}),
        ({KEY: "true"}, None, {}),
        ({KEY: "true"}, f'{{"{KEY}": "true"}}', {KEY: "true"}),
    ],
)
def test_labels_that_stay(labels: dict[str, str], text: str | None, wanted: dict[str, str]) -> None:
    assert relabels([noted(labels, text)], {"w1": wanted}) == []


def test_who_changed_a_label_is_said() -> None:
    node = noted({CONFIG_LABEL: "old"}, note({CONFIG_LABEL: "old"}))
    node = written_by(node, "kubectl-label", "2026-11-24T10:02:00Z", ("metadata", "labels", CONFIG_LABEL))
    (found,) = relabels([node], {node["metadata"]["name"]: {CONFIG_LABEL: "new"}})
    assert found.write == ("2026-11-24T10:02:00Z", "kubectl-label")


def test_a_retirement_keeps_the_note_of_what_stays() -> None:
    labels = {KEY: "true", CONFIG_LABEL: "a"}
    (found,) = relabels([noted(labels, note(labels))], {"w1": {KEY: "true", CONFIG_LABEL: "b"}})
    metadata = found.retirement["metadata"]
    assert metadata == {"labels": {CONFIG_LABEL: None}, "annotations": {NOTE: note({KEY: "true"})}}
