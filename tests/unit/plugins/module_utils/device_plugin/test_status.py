# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of what is read from live nodes."""

from __future__ import annotations

from ansible_collections.kubegpu.tenancy.plugins.module_utils._device_plugin.status import mig_devices


def test_mig_devices_count() -> None:
    allocatable = {"nvidia.com/gpu": "0", "nvidia.com/mig-1g.10gb": "7", "nvidia.com/mig-3g.40gb": "1", "cpu": "8"}
    assert mig_devices({"status": {"allocatable": allocatable}}) == 8
