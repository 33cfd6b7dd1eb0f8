# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Where kubelet keeps what it knows of devices."""

from __future__ import annotations

DEVICE_PLUGINS_FOLDER = "/var/lib/kubelet/device-plugins"
CHECKPOINT = "kubelet_internal_checkpoint"
