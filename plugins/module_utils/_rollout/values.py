# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""A rollout as it was read, and the clusters of each of its waves. Pure."""

from __future__ import annotations

import dataclasses
import datetime
import math
import typing as t

from .._common.secrets import digest
from .._common.values import JsonObject

Groups = t.Mapping[str, t.Sequence[str]]


@dataclasses.dataclass(frozen=True)
class Wave:
    """Clusters that are changed after one another, ``at_once`` of them together, and then observed."""

    clusters: tuple[str, ...]
    at_once: int


@dataclasses.dataclass(frozen=True)
class Rollout:
    """A rollout.

    :ivar digest: of what the inventory says of it; which clusters its groups hold may change meanwhile.
    :ivar soak: how long a wave is observed.
    :ivar back_to: name of a blueprint, or path of one; empty for no way back.
    :ivar folder: on the controller.
    :ivar stop_when: names of alerts.
    """

    name: str
    digest: str
    waves: tuple[Wave, ...]
    soak: datetime.timedelta
    back_to: str
    folder: str
    stop_when: tuple[str, ...] = ()

    @property
    def clusters(self) -> tuple[str, ...]:
        """All clusters, in the order of the waves."""
        return tuple(name for wave in self.waves for name in wave.clusters)

    def wave_of(self, cluster: str) -> int:
        """Return the number of a cluster's wave, from 1."""
        return next(number for number, wave in enumerate(self.waves, 1) if cluster in wave.clusters)


def digest_of(given: JsonObject) -> str:
    """Return what tells two rollouts of one name apart, by what the inventory says of each."""
    return digest(given)


def named_hosts(hosts: str) -> list[str]:
    """Return the groups and inventory hosts that a wave names."""
    return [name.strip() for name in hosts.split(",") if name.strip()]


def members(hosts: str, clusters: t.Collection[str], groups: Groups) -> list[str]:
    """Return the clusters that a wave names, in the order of the inventory; hosts that are no clusters are left out."""
    found = {host for name in named_hosts(hosts) for host in (groups.get(name) or [name])}
    return [cluster for cluster in clusters if cluster in found]


def waves_of(given: t.Sequence[JsonObject], clusters: t.Sequence[str], groups: Groups) -> list[Wave]:
    """Return the waves with their clusters; a wave by percent may hold none, where few clusters are left.

    :arg given: entries that hold what the schema says.
    """
    named = [members(wave.get("hosts", ""), clusters, groups) for wave in given]
    taken = {name for names in named for name in names}
    others = [name for name in clusters if name not in taken]
    waves, before = [], 0
    for wave, names in zip(given, named):
        wanted = max(math.ceil(len(clusters) * wave["percent"] / 100) - before, 0) if "percent" in wave else 0
        held, others = [*names, *others[:wanted]], others[wanted:]
        before += len(held)
        waves.append(Wave(tuple(held), wave.get("at_once", 0) or max(len(held), 1)))
    return waves
