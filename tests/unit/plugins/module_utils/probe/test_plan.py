# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ansible_collections.kubegpu.tenancy.plugins.module_utils._probe.plan import page_spec


def test_a_page_is_ready_when_it_is_served():
    spec = page_spec("busybox", "hello", 8080)
    (container,) = spec["containers"]
    assert container["readinessProbe"]["httpGet"] == {"path": "/", "port": 8080}
    assert "echo hello > /page/index.html" in container["command"][-1]
    assert spec["volumes"] == [{"name": "page", "emptyDir": {}}]
