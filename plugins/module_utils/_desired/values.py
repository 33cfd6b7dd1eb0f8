# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Values for the charts of a tenant as it is desired."""

from __future__ import annotations

import typing as t

from ansible_collections.kubegpu.tenancy.plugins.module_utils._nodes.status import node_selector
from ansible_collections.kubegpu.tenancy.plugins.module_utils._vcluster.values import tenant_values

if t.TYPE_CHECKING:
    from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.values import Values
    from ansible_collections.kubegpu.tenancy.plugins.module_utils._desired.model import Tenant


def vcluster_values(tenant: Tenant) -> Values:
    """Return the Helm values of a tenant's virtual cluster."""
    vcluster = tenant.vcluster
    return tenant_values(
        tenant.own_scheduler is not None,
        node_selector(tenant.name),
        tenant.trust,
        vcluster.kubernetes_version or None,
        vcluster.values,
        host_kai=tenant.shares_scheduler,
        gpu_quota=tenant.gpu_nodes.shared_gpus,
        quota=tenant.quota,
        network=tenant.network,
        dedicated_to=tenant.name if tenant.trust == "zero" else "",
    )
