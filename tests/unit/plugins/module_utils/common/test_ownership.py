# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.ownership import (
    OWNED_LABELS,
    annotations_of,
    is_owned,
    labels_of,
)


@pytest.mark.parametrize(
    "item", [None, {}, {"metadata": None}, {"metadata": {}}, {"metadata": {"labels": None, "annotations": None}}]
)
def test_what_has_no_labels_is_not_owned(item):
    assert (labels_of(item), annotations_of(item), is_owned(item)) == ({}, {}, False)


def test_the_label_of_the_collection_marks_what_is_owned():
    assert is_owned({"metadata": {"labels": OWNED_LABELS | {"app": "x"}}})
    assert not is_owned({"metadata": {"labels": {"app.kubernetes.io/managed-by": "Helm"}}})
    assert annotations_of({"metadata": {"annotations": {"a": "1"}}}) == {"a": "1"}
