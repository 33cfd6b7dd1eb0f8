# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._gateway.plan import need
from ansible_collections.kubegpu.tenancy.plugins.module_utils._gateway.status import Service
from ansible_collections.kubegpu.tenancy.plugins.module_utils._gateway.values import Forward, configuration

SETTINGS = {"address": "10.0.0.5", "allow": ["10.20.0.0/16"]}
WEB, ML = Forward("tenant-web", 31234, "172.18.0.3"), Forward("tenant-ml", 31235, "172.18.0.3")
DESIRED = configuration("dc1", SETTINGS, [ML, WEB])
ACTIVE = Service("active", True)


@pytest.mark.parametrize(
    ("running", "service", "files_differ", "expected"),
    [
        (DESIRED, ACTIVE, False, "nothing"),
        (DESIRED, Service("active", False), False, "nothing"),
        (configuration("dc1", SETTINGS, [WEB]), ACTIVE, False, "reload"),
        (configuration("dc1", SETTINGS, [ML, WEB._replace(server="172.18.0.4")]), ACTIVE, False, "reload"),
        # Connections that may not be any more would stay.
        (configuration("dc1", SETTINGS | {"allow": ["10.0.0.0/8"]}, [ML, WEB]), ACTIVE, False, "restart"),
        (configuration("dc1", SETTINGS | {"address": "10.0.0.6"}, [ML, WEB]), ACTIVE, False, "restart"),
        (DESIRED, ACTIVE, True, "restart"),
        (DESIRED, Service("active", True, stale=True), False, "restart"),
        (DESIRED, Service("failed", True), False, "restart"),
        (None, ACTIVE, False, "restart"),
    ],
)
def test_what_it_takes(running, service, files_differ, expected):
    assert need(running, DESIRED, service, files_differ) == expected


@pytest.mark.parametrize(
    ("printed", "expected"),
    [
        ("ActiveState=active\nUnitFileState=enabled\nNeedDaemonReload=no\n", ACTIVE),
        ("ActiveState=inactive\nUnitFileState=\nNeedDaemonReload=yes\n", Service("inactive", False, True)),
        ("", Service("inactive", False)),
    ],
)
def test_what_systemd_says_of_a_unit(printed, expected):
    assert Service.of_properties(printed) == expected
