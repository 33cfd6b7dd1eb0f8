# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ansible_collections.kubegpu.tenancy.plugins.module_utils._probe_network import status


def test_pods_that_are_gone_are_seen():
    assert status.server_address([]) == (None, "the server's pod does not exist")
    assert status.reaching([], ["same_node"]) == (set(), "pod client-same-node does not exist")
