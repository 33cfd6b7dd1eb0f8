# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Names of an inventory's variables, and values in them, that more than one subject knows."""

from __future__ import annotations

PREFIX = "kubegpu_"
TENANTS = "kubegpu_tenants"
BLUEPRINT = "kubegpu_blueprint"
TEMPORARY = "kubegpu_temporary_tenant"
SHARED_SCHEDULER = "kubegpu_shared_scheduler"
METRICS = "kubegpu_metrics"
USAGE = "kubegpu_usage"
GATEWAY = "kubegpu_gateway"
ROLLOUT = "kubegpu_rollout"
WORKERS = "nvkind_workers"

# Name of KAI Scheduler among schedulers.
KAI = "kai"
VOLCANO = "volcano"
