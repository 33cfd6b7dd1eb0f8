# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Write what site would apply for the tenants of a cluster as files: read the cluster, refuse what no file can say, render the charts."""

from __future__ import annotations

import functools
import typing as t

from .._admission.lifecycle import enforces
from .._artifacts.plan import of_tenant
from .._common.names import namespace_of
from .._common.parallel import concurrently
from .._common.schema import Problems
from .._common.values import JsonObject
from .._desired.tenants import tenants_from
from .._kai.values import parse_manifests
from .._nodes.dra import list_nodes
from .._tenant.lifecycle import read_all
from .._tenant.status import Live
from .._vcluster.classes import runtime_classes
from .._vcluster.facts import minor_version
from .._vcluster.inventory import configs
from .._vcluster.overlaps import collisions
from .plan import Chart, Target, files
from .validation import Demands, Former, Seen, refusals

if t.TYPE_CHECKING:
    from .._adapters.kubernetes import Kube
    from .._artifacts.plan import Installation
    from .._desired.model import Tenant

# Returns what the chart of an installation makes, as YAML.
Template = t.Callable[["Installation"], str]
# What problems are in.
_WHAT = "what is to be rendered"


class Place(t.NamedTuple):
    """For whom files are, as of ``Target``."""

    format: str
    path: str
    source: str
    gatekeeper: bool = False


def render(
    kube: Kube, cluster: JsonObject, place: Place, former: t.Mapping[str, JsonObject], template: Template
) -> dict[str, dict[str, str]]:
    """Return the files of each tenant that is worked on, by their paths in its folder; none for one that is absent.

    :arg cluster: the desired state, as ``Cluster.data`` returns it.
    :arg former: the scheduler that the files of a tenant had until now, as of ``Former``, by its name.
    :raises Refused: for everything that no file can say, and everything that charts refuse.
    """
    only = set(cluster["only"])
    chosen = [one for one in tenants_from(cluster["tenants"]) if not only or one.name in only]
    wanted = [(one, of_tenant(one, cluster["charts"])) for one in chosen if one.state != "absent"]
    target = _target(kube, cluster, place)
    problems, look = Problems(), _Look(kube, former)
    demands = Demands(cluster["backup"]["required"], bool(cluster["rehearsal"]))
    for tenant, releases in wanted:
        problems.extend(refusals(tenant, releases, look.at(tenant, releases), demands, target))
    problems.raise_if_any(_WHAT)
    made = dict(zip((tenant.name for tenant, _releases in wanted), concurrently(lambda one: _charts(*one, template), wanted)))
    for _charts_of, refused in made.values():
        problems.extend(refused)
    problems.raise_if_any(_WHAT)
    return {one.name: files(one, made[one.name][0], target) if one.name in made else {} for one in chosen}


def _charts(tenant: Tenant, releases: t.Sequence[Installation], template: Template) -> tuple[list[Chart], Problems]:
    """Render the charts of a tenant; return them, and what they refuse."""
    found, refused = [], Problems()
    for release in releases:
        made = refused.ask(f"{tenant.name}: {release.chart}: ", functools.partial(_manifests, template, release))
        found.append(Chart(release, made or []))
    return found, refused


def _manifests(template: Template, release: Installation) -> list[JsonObject]:
    return parse_manifests(template(release))


def _target(kube: Kube, cluster: JsonObject, place: Place) -> Target:
    host = minor_version(kube.version())
    return Target(*place, host, enforces(kube), cluster["shared_scheduler"], cluster["metrics"])


class _Look:
    """What a cluster and former files have of tenants, read once."""

    def __init__(self, kube: Kube, former: t.Mapping[str, JsonObject]) -> None:
        self._live = read_all(kube)
        self._configs = configs(kube).read
        self._nodes = list_nodes(kube)
        self._classes = runtime_classes(kube)
        self._kubernetes = kube.version()
        self._former = former

    def at(self, tenant: Tenant, releases: t.Sequence[Installation]) -> Seen:
        """Return what there is of a tenant, and what its virtual cluster would book with others."""
        live = self._live.get(tenant.name, Live())
        key = f"{namespace_of(tenant.name)}/{tenant.name}"
        booked = collisions(self._nodes, self._configs | {key: releases[0].values}, only=key)
        # Of a tenant that is not there, nothing was applied.
        former = Former(**self._former[tenant.name]) if live.namespace and tenant.name in self._former else Former()
        return Seen(live, self._configs.get(key), booked, former, self._kubernetes, self._classes)
