# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the one life of a Helm release: every state in which it can be, on the way to the desired state and to its removal."""

from __future__ import annotations

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.helm import Chart, Release
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.wait import Deadline
from ansible_collections.kubegpu.tenancy.plugins.module_utils._helm.facts import INCOMPLETE, UNFINISHED
from ansible_collections.kubegpu.tenancy.plugins.module_utils._helm.lifecycle import HelmRelease
from ansible_collections.kubegpu.tenancy.tests.unit.api import InMemoryApi
from ansible_collections.kubegpu.tenancy.tests.unit.helm import InMemoryHelm

CHART = Chart("oci://registry.example/charts/web", "2.0.0")
VALUES = {"replicas": 2}
STATES = ["deployed", "failed", "superseded", "uninstalled", *sorted(UNFINISHED)]


class Setting:
    """A release that has two revisions, the last of them in a given state; None for no release."""

    def __init__(self, status: str | None) -> None:
        self.kube = InMemoryApi()
        self.helm = InMemoryHelm(self.kube)
        if status:
            self.helm.record(Release("web", "apps", "superseded", 1, "web", "1.0.0", {}))
            self.helm.record(Release("web", "apps", status, 2, "web", "2.0.0", VALUES))
        self.release = HelmRelease(self.kube, self.helm, "web", "apps")  # type: ignore[arg-type]
        self.release.inspect()


def statuses(setting: Setting) -> list[str]:
    return [release.status for release in setting.helm._history("web", "apps")]


@pytest.mark.parametrize(
    ("status", "calls"),
    [
        (None, [("upgrade", "web")]),
        *[(status, [("upgrade", "web")]) for status in STATES if status not in UNFINISHED],
        ("pending-upgrade", [("upgrade", "web")]),
        ("pending-rollback", [("upgrade", "web")]),
        ("pending-install", [("uninstall", "web", "--no-hooks"), ("upgrade", "web")]),
        ("uninstalling", [("uninstall", "web", "--no-hooks"), ("upgrade", "web")]),
    ],
)
def test_every_state_ends_deployed(status, calls):
    setting = Setting(status)
    assert (setting.release.found is None) == (status is None)
    setting.release.apply(CHART, VALUES, Deadline(10))
    assert setting.helm.calls == calls
    found = setting.release.inspect()
    assert (found.status, found.chart_version, found.values) == ("deployed", "2.0.0", VALUES)
    assert setting.release.changes("2.0.0", VALUES) == []
    # A revision that was never finished is forgotten; helm keeps the others.
    assert not set(statuses(setting)) & UNFINISHED


@pytest.mark.parametrize("status", ["pending-upgrade", "pending-rollback"])
def test_only_the_record_of_an_unfinished_revision_is_deleted(status):
    setting = Setting(status)
    setting.release.repair(Deadline(10))
    assert setting.kube.writes == [("delete", "Secret", "sh.helm.release.v1.web.v2")]
    assert (setting.helm.calls, statuses(setting)) == ([], ["superseded"])


@pytest.mark.parametrize("status", [None, *STATES])
def test_only_unfinished_states_are_repaired(status):
    setting = Setting(status)
    assert setting.release.unfinished == (status in UNFINISHED)
    before = statuses(setting)
    setting.release.repair(Deadline(10))
    assert (statuses(setting) == before) == (status not in UNFINISHED)
    assert bool(setting.helm.calls) == (status in INCOMPLETE)


@pytest.mark.parametrize("status", sorted(UNFINISHED))
def test_what_was_ended_once_is_not_repaired_again(status):
    for end in ("repair", "remove"):
        setting = Setting(status)
        getattr(setting.release, end)(Deadline(10))
        setting.helm.calls.clear()
        setting.kube.writes.clear()
        setting.release.apply(CHART, VALUES, Deadline(10))
        assert setting.helm.calls == [("upgrade", "web")]
        assert not [write for write in setting.kube.writes if write[0] == "delete"]


@pytest.mark.parametrize("status", [None, *STATES])
def test_every_state_but_deployed_is_a_change(status):
    setting = Setting(status)
    if status is None:
        assert setting.release.changes("2.0.0", VALUES) == [("version", None, "2.0.0"), ("values", None, VALUES)]
    else:
        expected = [] if status == "deployed" else [("release", status, "deployed")]
        assert setting.release.changes("2.0.0", VALUES) == expected


@pytest.mark.parametrize(
    ("deployed_at", "expected"), [("2026-11-24T10:02:00Z", ("2026-11-24T10:02:00Z", "Helm, revision 3")), ("", None)]
)
def test_a_revision_is_the_write_of_what_there_is(deployed_at, expected):
    setting = Setting(None)
    assert setting.release.write is None
    setting.helm.record(Release("web", "apps", "deployed", 3, "web", "2.0.0", VALUES, deployed_at))
    setting.release.inspect()
    assert setting.release.write == expected


def test_changes_name_version_and_each_value():
    setting = Setting("failed")
    assert setting.release.changes("2.1.0", {"replicas": 3, "image": "x"}) == [
        ("release", "failed", "deployed"),
        ("version", "2.0.0", "2.1.0"),
        ("values.replicas", 2, 3),
        ("values.image", None, "x"),
    ]


@pytest.mark.parametrize("status", STATES)
@pytest.mark.parametrize("hooks", [True, False])
def test_every_state_can_be_removed(status, hooks):
    setting = Setting(status)
    setting.release.remove(Deadline(10), hooks)
    assert setting.helm.calls == [("uninstall", "web", *([] if hooks else ["--no-hooks"]))]
    # What was found stays what a run decides by, as in check mode; what is there is read anew.
    assert setting.release.found is not None
    assert setting.release.inspect() is None


def test_without_a_release_nothing_is_removed():
    setting = Setting(None)
    setting.release.remove(Deadline(10))
    assert setting.helm.calls == []


@pytest.mark.parametrize("status", [None, *STATES])
def test_a_chart_that_refuses_its_values_is_refused_before_the_first_write(status):
    setting = Setting(status)
    setting.helm.refusal = "values.replicas: no"
    for attempt in (
        lambda: setting.release.preview(CHART, VALUES),
        lambda: setting.release.apply(CHART, VALUES, Deadline(10)),
    ):
        with pytest.raises(TenancyError, match=r"values\.replicas: no"):
            attempt()
    assert (setting.helm.calls, setting.kube.writes) == ([], [])


def test_a_chart_is_rendered_once_with_the_kinds_it_asks_for():
    setting = Setting(None)
    setting.release.preview(CHART, VALUES, ["resource.k8s.io/v1/DeviceClass"])
    setting.release.apply(CHART, VALUES, Deadline(10))
    assert setting.helm.rendered == [(VALUES, ("resource.k8s.io/v1/DeviceClass",))]


def test_values_other_than_those_previewed_are_rendered_too():
    setting = Setting(None)
    setting.release.preview(CHART, VALUES)
    setting.release.apply(CHART, {"replicas": 3}, Deadline(10))
    assert [values for values, _kinds in setting.helm.rendered] == [VALUES, {"replicas": 3}]


def test_helm_gets_the_time_that_is_left_of_the_deadline():
    setting = Setting("uninstalling")
    given = []
    setting.helm.upgrade = lambda *args, **_kwargs: given.append(args[-1])
    setting.helm.uninstall = lambda *args, **_kwargs: given.append(args[-1])
    now = [0.0]
    deadline = Deadline(100, clock=lambda: now[0])
    now[0] = 40.7
    setting.release.apply(CHART, VALUES, deadline)
    assert given == [59, 59]
    now[0] = 200.0
    setting.release.inspect()
    setting.release.remove(deadline)
    assert given[2:] == [1]
