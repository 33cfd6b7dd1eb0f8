# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""What is refused of a rollout, with all problems at once. Pure."""

from __future__ import annotations

import collections
import datetime
import typing as t

from .._common.errors import did_you_mean
from .._common.schema import Problems, plain, quoted
from .._common.values import JsonObject
from .._common.variables import ROLLOUT, USAGE
from .._vcluster.values import age
from .facts import CONTENT, NAME, OTHER_ALERTS, STOP_WHEN, WAVE
from .values import Groups, Rollout, digest_of, members, named_hosts, waves_of

_WAVES = f"{ROLLOUT}.waves"


def rollout(
    given: t.Sequence[t.Any], clusters: t.Sequence[str], groups: Groups, servers: t.Mapping[str, str] | None = None
) -> Rollout:
    """Return the rollout that an inventory describes.

    :arg given: the variable of each cluster; empty where one has none.
    :arg clusters: their names, in the order of the inventory.
    :arg groups: names of inventory hosts by group.
    :arg servers: addresses by cluster, at which alerts are read; empty where there is none.
    :raises Refused: with all ``problems``.
    """
    problems = Problems()
    first = given[0] if given else {}
    if any(one != first for one in given):
        others = [name for name, one in zip(clusters, given) if one != first]
        text = f"is another one on {', '.join(others)} than on {clusters[0]}. A rollout is of all clusters: write it once, for their group."
        problems.add("different-rollouts", ROLLOUT, text)
    content = plain(first, problems, ROLLOUT)
    if content == {}:
        problems.add("missing", ROLLOUT, "is missing: say which clusters are changed after which (docs/how-to/many-clusters.md).")
        problems.raise_if_any("the rollout")
    found = {key: field.default for key, field in CONTENT.items()} | problems.mapping(content, CONTENT, ROLLOUT)
    if found["name"] and not NAME.fullmatch(found["name"]):
        problems.add("not-a-name", f"{ROLLOUT}.name", f"{quoted(found['name'])} is not a name of a-z, 0-9, '.' and '-'.")
    soak = age(found["soak"]) if found["soak"] else datetime.timedelta()
    if soak is None:
        problems.add("not-an-age", f"{ROLLOUT}.soak", f"{quoted(found['soak'])} is not an age such as 30m, 2h or 7d.")
    entries = [_wave(wave, f"{_WAVES}[{index}]", clusters, groups, problems) for index, wave in enumerate(found["waves"] or [])]
    stop_when = _stop_when(found["stop_when"], [name for name in clusters if not (servers or {}).get(name)], problems)
    waves = waves_of(entries, clusters, groups)
    _check_clusters([wave.clusters for wave in waves], clusters, problems)
    problems.raise_if_any("the rollout")
    # Waves by percent that are left without a cluster.
    held = tuple(wave for wave in waves if wave.clusters)
    return Rollout(found["name"], digest_of(content), held, t.cast(t.Any, soak), found["back_to"], found["folder"], stop_when)


def _stop_when(given: t.Sequence[t.Any] | None, unwatched: t.Sequence[str], problems: Problems) -> tuple[str, ...]:
    """Return the names of alerts that stop a rollout; those of schedulers where none are given.

    :arg unwatched: clusters whose alerts are not read, which is refused where alerts are given.
    """
    if given is None:
        return STOP_WHEN
    path = f"{ROLLOUT}.stop_when"
    names = [name for index, name in enumerate(given) if problems.typed(name, str, f"{path}[{index}]")]
    if any(not name or name != name.strip() for name in names):
        problems.add("not-a-name", path, "has a name that is empty, or that begins or ends with a space.")
    known = (*STOP_WHEN, *OTHER_ALERTS)
    for name in names:
        if name.startswith("Kubegpu") and name not in known:
            problems.add("unknown-alert", path, f"there is no alert {quoted(name)}.{did_you_mean(name, known)}")
    if names and unwatched:
        text = f"names alerts, and {USAGE} of {', '.join(unwatched)} has no url, at which they would be read."
        problems.add("no-server", path, text)
    return tuple(names)


def _wave(given: t.Any, path: str, clusters: t.Sequence[str], groups: Groups, problems: Problems) -> JsonObject:
    """Return the entry of a wave, without what is wrong with it."""
    wave = problems.mapping(given, WAVE, path)
    if isinstance(given, dict) and ("hosts" in given) == ("percent" in given):
        problems.add("not-one-of", path, "needs either hosts or percent.")
        return {}
    if not 1 <= wave.get("percent", 1) <= 100:
        problems.add("out-of-range", f"{path}.percent", f"is {wave.pop('percent')}; a part of all clusters is from 1 to 100.")
    if wave.get("at_once", 0) < 0:
        problems.add("out-of-range", f"{path}.at_once", f"is {wave.pop('at_once')}; 0 stands for all of the wave.")
    names = named_hosts(wave.get("hosts", ""))
    for name in names:
        if name not in groups and name not in groups.get("all", clusters):
            hint = did_you_mean(name, [*groups, *clusters])
            problems.add("unknown-hosts", f"{path}.hosts", f"there is no group or cluster {quoted(name)}.{hint}")
        # Of a run with --limit, some waves may be left out.
        elif not members(name, groups.get("kubegpu_clusters", clusters), groups):
            problems.add("no-clusters", f"{path}.hosts", f"{name} holds no cluster.")
    if "hosts" in wave and not names:
        problems.add("no-clusters", f"{path}.hosts", "names nothing.")
    return wave


def _check_clusters(waves: t.Sequence[t.Sequence[str]], clusters: t.Sequence[str], problems: Problems) -> None:
    """Refuse clusters in several waves, and in none."""
    counts = collections.Counter(name for names in waves for name in names)
    for name in clusters:
        if counts[name] > 1:
            numbers = [str(number) for number, names in enumerate(waves, 1) if name in names]
            problems.add("in-several-waves", _WAVES, f"{name} is in waves {' and '.join(numbers)}. A cluster is changed once.")
    left = [name for name in clusters if not counts[name]]
    # Of waves that cannot be read, it is not known whom they hold.
    if left and not problems:
        text = f"{', '.join(left)} {'is' if len(left) == 1 else 'are'} in no wave. A last wave with percent: 100 holds all the others."
        problems.add("in-no-wave", _WAVES, text)
