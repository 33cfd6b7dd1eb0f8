# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""The desired state of a tenant, down to the values of its Helm charts."""

from __future__ import annotations

import typing as t

from .._admission.plan import policies, record_policies
from .._common.names import namespace_of
from .._desired.model import Tenant
from .._desired.values import vcluster_values
from .._metrics.plan import kai_objects
from .._schedulers.families import family_of
from .._vcluster.values import added_image
from .status import digest

# Of a role's variables, these change how long something takes, not what is there in the end.
_PACE = ("_timeout", "_max_age")
# Only tenants that share it get anything of it.
_SHARED = "vcluster_tenant_shared_scheduler"
# Only of a KAI Scheduler of a tenant's own anything is read.
_METRICS = "vcluster_tenant_metrics"


def wanted(tenant: Tenant, settings: t.Mapping[str, t.Any]) -> str:
    """Return a digest of everything that is wanted of a tenant, by the values its charts would get, the policies of the API server
    and what a Prometheus reads it by.

    :arg settings: variables of roles that are set for the tenant's cluster.
    """
    own, values = tenant.own_scheduler, vcluster_values(tenant)
    scheduler = family_of(own.name).default_values(own) if own else None
    # What they let in follows from the data; how they say it, from this collection.
    queues, shares_nodes = (() if tenant.shares_scheduler else None), tenant.gpu_nodes.shared_gpus is not None
    gpu_sharing = tenant.scheduler is not None and tenant.scheduler.gpu_sharing
    guards = (
        policies(tenant.name, tenant.trust, queues, shares_nodes, gpu_sharing, tenant.runtime_class, added_image(values)) or None
    )
    chosen = {key: value for key, value in settings.items() if not key.endswith(_PACE)}
    if not tenant.shares_scheduler:
        chosen.pop(_SHARED, None)
    metrics = chosen.pop(_METRICS, None)
    read_by = [kai_objects(tenant.name, namespace_of(tenant.name), metrics)] if own and own.own_kai and metrics else []
    # The nodes themselves are part of what the host cluster shows.
    data = {key: value for key, value in tenant.data().items() if key != "gpu_nodes"}
    return digest([data, values, scheduler, guards, record_policies(tenant.name), chosen, *read_by])
