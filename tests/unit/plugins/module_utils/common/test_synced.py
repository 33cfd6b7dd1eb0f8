# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common import synced
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.ownership import MARKER_LABEL

LONG = "p" * 60


def pod(name, noted):
    labels = {MARKER_LABEL: "web", synced.SYNCED_FROM_LABEL: "shop"}
    metadata = {"name": name, "namespace": "tenant-web", "labels": labels, "annotations": {synced.SYNCED_NAME: noted}}
    return {"metadata": metadata}


def test_a_long_name_is_what_its_tenant_noted():
    name = synced.joined(LONG, "x", "shop", "x", "web")
    assert synced.virtual_name(pod(name, LONG)) == f"shop/{LONG}"
    assert synced.virtual_name(pod(name, "another")) == f"shop/{name}"


@pytest.mark.parametrize("noted", ["p\x1b[2J\nPLAY RECAP *** gpu1 : ok=99", "P", "p/q", "{{ p }}", ""])
def test_what_is_no_name_counts_for_none_even_if_the_digest_fits(noted, monkeypatch):
    """Ten digits of a digest are found in seconds."""
    name = synced.joined(LONG, "x", "shop", "x", "web")
    monkeypatch.setattr(synced, "joined", lambda *_parts: name)
    assert synced.virtual_name(pod(name, noted)) == f"shop/{name}"
