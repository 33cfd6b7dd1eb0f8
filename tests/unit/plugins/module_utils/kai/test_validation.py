# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import datetime

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._kai.facts import LINES, RETRACTED, Asked, dotted
from ansible_collections.kubegpu.tenancy.plugins.module_utils._kai.validation import (
    check_hazard_names,
    check_runtime_class,
    hazards_on,
    nearest_without,
    parse_installed,
    parse_version,
    refuse_deeper_queues,
    refuse_hazards,
    release,
    touching,
)
from ansible_collections.kubegpu.tenancy.tests.unit.clock import TODAY
from ansible_collections.kubegpu.tenancy.tests.unit.problems import refuses
from hypothesis import given
from hypothesis import strategies as st

OLD, NEW = "ghcr.io/nvidia/kai-scheduler", "ghcr.io/kai-scheduler/kai-scheduler"


@pytest.mark.parametrize(
    ("version", "registry", "chart_version"),
    [
        ("v0.7.11", OLD, "v0.7.11"),
        ("v0.9.15", OLD, "v0.9.15"),
        ("v0.9.16", NEW, "v0.9.16"),
        ("v0.10.2", OLD, "v0.10.2"),
        ("v0.12.0", OLD, "v0.12.0"),
        ("0.12.18", NEW, "v0.12.18"),
        ("v0.13.0", OLD, "v0.13.0"),
        ("v0.13.1", NEW, "v0.13.1"),
        ("v0.18.6", NEW, "0.18.6"),
    ],
)
def test_where_it_comes_from(version, registry, chart_version):
    found = release(version)
    assert (found.registry, found.chart_version) == (registry, chart_version)
    assert found.chart == f"oci://{registry}/kai-scheduler"
    assert found.known


@pytest.mark.parametrize(
    ("version", "shape"),
    [
        ("v0.8.5", (False, False, True, 2, "scheduler")),
        ("v0.9.2", (True, False, True, 2, "scheduler")),
        ("v0.10.2", (True, True, True, 2, "kai-scheduler-default")),
        ("v0.12.0", (True, True, False, 2, "kai-scheduler-default")),
        ("v0.13.1", (True, True, False, None, "kai-scheduler-default")),
    ],
)
def test_shape(version, shape):
    found = release(version)
    assert (found.operator, found.shard, bool(found.foreign_crds), found.queue_levels, found.scheduler) == shape


@pytest.mark.parametrize(
    ("version", "long_term", "end", "kubernetes"),
    [
        ("v0.9.20", True, "2026-09", None),
        ("v0.12.0", True, "2026-12", None),
        ("v0.13.1", False, "2026-03", None),
        ("v0.14.9", True, "2027-03", ((1, 31), (1, 35))),
        ("v0.16.8", True, "2027-06", ((1, 28), (1, 36))),
    ],
)
def test_support(version, long_term, end, kubernetes):
    found = release(version)
    assert (found.long_term, found.end_of_support, found.kubernetes) == (long_term, end, kubernetes)


@pytest.mark.parametrize(
    ("version", "restart"),
    [("v0.9.4", False), ("v0.12.0", True), ("v0.12.22", False), ("v0.13.1", True), ("v0.14.6", False), ("v0.15.2", True)],
)
def test_restart_after_upgrade(version, restart):
    assert release(version).restart_after_upgrade is restart


@pytest.mark.parametrize("version", ["v0.19.0", "v0.21.0", "v1.0.0", "v0.14.99", "v0.12.24", "v0.17.2"])
def test_newer_ones_are_taken_for_the_newest(version):
    assert not release(version).known


@pytest.mark.parametrize(
    ("version", "code"),
    [
        ("latest", "not-a-version"),
        ("v0.13", "not-a-version"),
        ("v0.20.1", "unknown-release"),
        ("v0.11.0", "unknown-release"),
        ("v0.6.23", "unknown-release"),
        ("v0.9.100", "unknown-release"),
        ("v0.13.5", "unknown-release"),
    ],
)
def test_refused(version, code):
    with refuses(code):
        release(version)


@pytest.mark.parametrize(
    ("version", "why"),
    [
        ("v0.20.1", "v0.20.1 of KAI Scheduler was retracted upstream. Known are v0.7.0-13, "),
        ("v0.9.100", "there is no KAI Scheduler v0.9.100: the last release of its line is v0.9.20. Known are v0.7.0-13, "),
    ],
)
def test_a_refusal_says_why_and_which_releases_there_are(version, why):
    with refuses("unknown-release") as caught:
        release(version)
    assert caught.value.message.startswith(f"version: {why}")


def release_or_refusal(text):
    try:
        return release(text), ""
    except TenancyError as exc:
        return None, exc.message


def check(version):
    """A version gives a release that holds together, or is refused with the known ones."""
    text = dotted(version)
    line = next((line for line in LINES if line.first[:2] == version[:2]), None)
    exists = line.first <= version <= line.last if line else False
    found, refusal = release_or_refusal(text)
    if found is None:
        assert not exists
        assert refusal.startswith("version: ")
        assert "Known are v0.7.0-13, " in refusal
        return
    assert found.known == exists
    assert found.version == f"v{text}"
    assert found.scheduler in found.deployments
    assert version[:2] not in RETRACTED
    assert not (line and line.ended and not exists)


EDGES = sorted({0, 1, 99, 100, 101, 10**9 - 1} | {line.last[2] + extra for line in LINES for extra in (0, 1)})


@pytest.mark.parametrize(("major", "minor"), [*((0, minor) for minor in range(26)), (1, 0)])
def test_every_version_is_a_release_or_refused_at_the_edges_of_each_line(major, minor):
    for patch in EDGES:
        check((major, minor, patch))


@given(
    st.tuples(st.integers(0, 1), st.integers(0, 30) | st.integers(0, 10**9 - 1), st.integers(0, 120) | st.integers(0, 10**9 - 1))
)
def test_every_version_is_a_release_or_refused(version):
    check(version)


@given(st.text("v.0123456789- ") | st.text())
def test_every_text_is_a_version_or_refused(text):
    found, refusal = release_or_refusal(text)
    assert found or refusal.startswith("version: ")


def test_a_version_is_read_with_and_without_its_v():
    assert parse_version("v0.13.1") == parse_version("0.13.1") == (0, 13, 1)
    assert release("0.13.01").version == "v0.13.1"


def test_an_installed_chart_of_other_making_is_named():
    assert parse_installed("0.18.6") == (0, 18, 6)
    with refuses("unknown-release"):
        parse_installed("0.0.0-dev")


def test_queues_deeper_than_a_release_schedules():
    queues = [
        {"metadata": {"name": name}, "spec": {"parentQueue": parent}} for name, parent in (("a", ""), ("b", "a"), ("c", "b"))
    ]
    refuse_deeper_queues(release("v0.13.1"), queues)
    refuse_deeper_queues(release("v0.12.0"), queues[:2])
    with refuses("queues-too-deep"):
        refuse_deeper_queues(release("v0.12.0"), queues)


# --- hazards -------------------------------------------------------------------------------------------------------

NEW_YEAR = datetime.date(2027, 1, 1)
PLAIN, SHARING, OTHERS = Asked(), Asked(gpu_sharing=True), Asked(others=True)
EVERYTHING = Asked(gpu_sharing=True, others=True)


def names(version, asked, today=TODAY):
    return [hazard.name for hazard in touching(release(version), asked, today)]


@pytest.mark.parametrize(
    ("version", "asked", "expected"),
    [
        ("v0.12.0", PLAIN, []),
        ("v0.12.0", SHARING, ["#1103", "#1673"]),
        ("v0.12.0", OTHERS, ["#104"]),
        ("v0.12.0", EVERYTHING, ["#104", "#1103", "#1673"]),
        ("v0.12.19", EVERYTHING, ["#104", "#1673"]),
        ("v0.12.22", EVERYTHING, ["#104"]),
        ("v0.13.1", PLAIN, ["end-of-support"]),
        ("v0.13.1", EVERYTHING, ["#1103", "#1673", "end-of-support"]),
        ("v0.7.11", SHARING, ["#1103", "#1673", "#340", "end-of-support"]),
        ("v0.7.12", SHARING, ["#1103", "#1673", "end-of-support"]),
        ("v0.14.0", EVERYTHING, ["#1103", "#1673"]),
        ("v0.14.5", EVERYTHING, ["#1673"]),
        ("v0.14.6", EVERYTHING, []),
        ("v0.16.8", EVERYTHING, []),
        # Newer than the table.
        ("v0.19.0", EVERYTHING, []),
    ],
)
def test_a_hazard_touches_what_is_asked_for(version, asked, expected):
    assert names(version, asked) == expected


@pytest.mark.parametrize("line", LINES, ids=lambda line: dotted(line.first))
def test_the_end_of_support_is_a_hazard_from_the_month_after_it_on(line):
    for number in (line.first, line.last):
        found = release(dotted(number))
        year, month = map(int, found.end_of_support.split("-"))
        last = datetime.date(year, month, 28)
        after = datetime.date(year + month // 12, month % 12 + 1, 1)
        assert [hazard.name for hazard in hazards_on(found, last)] == [hazard.name for hazard in found.hazards]
        assert str(hazards_on(found, after)[-1]) == (
            f"end-of-support: upstream has corrected nothing in it since the end of {found.end_of_support}"
        )
        assert touching(found, PLAIN, last) == ()
        assert len(touching(found, PLAIN, after)) == 1


@pytest.mark.parametrize(
    ("version", "asked", "today", "expected"),
    [
        ("v0.12.0", SHARING, TODAY, "v0.12.22"),
        ("v0.12.0", SHARING, NEW_YEAR, "v0.14.6"),
        ("v0.12.0", OTHERS, TODAY, "v0.14.0"),
        ("v0.12.0", EVERYTHING, TODAY, "v0.14.6"),
        ("v0.7.11", PLAIN, TODAY, "v0.12.0"),
        ("v0.13.1", PLAIN, TODAY, "v0.14.0"),
        ("v0.15.3", SHARING, TODAY, "v0.16.0"),
        ("v0.17.0", PLAIN, TODAY, "v0.18.0"),
        ("v0.13.1", PLAIN, datetime.date(2028, 1, 1), None),
    ],
)
def test_the_nearest_release_without(version, asked, today, expected):
    found = nearest_without(parse_version(version), asked, today)
    assert (found.version if found else None) == expected


def refusal(version, asked, accepted=(), today=TODAY, installed=False):
    with pytest.raises(TenancyError) as caught:
        refuse_hazards(release(version), asked, accepted, today, installed)
    return caught.value.message


def test_a_refusal_says_why_and_what_to_do():
    assert refusal("v0.13.1", SHARING) == (
        "version: v0.13.1 is refused. #1103: when pods that share GPUs start at once, a GPU's reservation can be taken away while "
        "it is used, and the GPU is given twice; #1673: two reservation pods can take two GPUs for pods that share one, and no pod "
        "gets the other GPU any more; end-of-support: upstream has corrected nothing in it since the end of 2026-03. "
        'Use v0.14.6, the nearest release without, or accept it with accept_hazards: ["#1103", "#1673", "end-of-support"].'
    )
    # What is accepted already is part of the list that would do, and is no reason.
    half = refusal("v0.13.1", SHARING, ["end-of-support"])
    assert "upstream" not in half
    assert half.endswith('accept_hazards: ["#1103", "#1673", "end-of-support"].')
    assert "No later release that is known is without: accept it with accept_hazards: " in refusal(
        "v0.16.8", PLAIN, (), datetime.date(2028, 1, 1)
    )


def test_what_is_accepted_is_not_refused():
    touched = refuse_hazards(release("v0.13.1"), SHARING, ["#1103", "#1673", "end-of-support", "#104"], TODAY, False)
    assert [hazard.name for hazard in touched] == ["#1103", "#1673", "end-of-support"]
    assert refuse_hazards(release("v0.16.8"), SHARING, ["#1103"], TODAY, False) == ()


def test_the_end_of_support_refuses_nothing_that_is_installed():
    (ended,) = refuse_hazards(release("v0.12.0"), PLAIN, (), NEW_YEAR, True)
    assert ended.name == "end-of-support"
    refusal("v0.12.0", PLAIN, (), NEW_YEAR)
    assert "#1103" in refusal("v0.12.0", SHARING, (), NEW_YEAR, installed=True)


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (
            "#1102",
            "accept_hazards[0]: '#1102' is no hazard. Did you mean #1103? Known are #104, #1103, #1673, #340, end-of-support, open-gpus",
        ),
        ("1103", "accept_hazards[0]: '1103' is no hazard. Did you mean #1103? Known are "),
        ("end of support", "accept_hazards[0]: 'end of support' is no hazard. Did you mean end-of-support? Known are "),
        ("rain", "accept_hazards[0]: 'rain' is no hazard. Known are "),
        (1103, "accept_hazards[0]: 1103 is no hazard. Did you mean #1103? Known are "),
    ],
)
def test_unknown_names_are_refused_with_a_guess(given, problem):
    check_hazard_names(["#104", "#1103", "#340", "end-of-support"])
    with pytest.raises(TenancyError) as caught:
        check_hazard_names([given])
    assert caught.value.message.startswith(problem)


@pytest.mark.parametrize(
    ("version", "runtime_class", "gpu_sharing", "later"),
    [
        ("v0.7.12", "", True, "v0.16.0"),
        ("v0.9.5", "other", True, "v0.16.0"),
        ("v0.12.0", "", False, "v0.13.0"),
        ("v0.12.0", "", True, "v0.16.0"),
        ("v0.13.1", "", True, "v0.16.0"),
    ],
)
def test_a_release_whose_pods_would_name_a_runtime_class_that_is_not_there(version, runtime_class, gpu_sharing, later):
    with pytest.raises(TenancyError, match=f"name the RuntimeClass nvidia .* Take {later} or later, or give"):
        check_runtime_class(release(version), runtime_class, gpu_sharing)


@pytest.mark.parametrize(
    ("version", "runtime_class", "gpu_sharing"),
    [
        ("v0.12.0", "nvidia", True),
        ("v0.12.0", "other", True),
        ("v0.7.11", "", True),
        ("v0.9.6", "", True),
        ("v0.13.1", "", False),
        ("v0.16.8", "", True),
    ],
)
def test_a_release_that_does_with_the_clusters_runtime_class(version, runtime_class, gpu_sharing):
    check_runtime_class(release(version), runtime_class, gpu_sharing)
