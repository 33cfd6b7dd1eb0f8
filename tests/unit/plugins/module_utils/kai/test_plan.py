# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._kai.plan import (
    CONDITIONS,
    MOVES,
    Action,
    Move,
    Transition,
    actions,
)
from ansible_collections.kubegpu.tenancy.plugins.module_utils._kai.validation import parse_version, release


def transition(before, after, **more):
    return Transition(release(after), parse_version(before), **({"installed": True, "differs": True, "replaces": True} | more))


@pytest.mark.parametrize(
    ("change", "move"),
    [
        (transition("v0.12.0", "v0.12.0", differs=False, replaces=False), Move.STAY),
        (transition("v0.12.0", "v0.12.0", installed=False, replaces=False), Move.INSTALL),
        # Other values, or parts that are missing.
        (transition("v0.12.0", "v0.12.0"), Move.UPGRADE),
        (transition("v0.12.0", "v0.12.0", replaces=False), Move.UPGRADE),
        (transition("v0.12.0", "v0.13.1"), Move.UPGRADE),
        (transition("v0.13.1", "v0.12.0"), Move.DOWNGRADE),
        (transition("v0.13.1", "v0.12.0", hooks=True), Move.REPLACE),
        # An operator without shards made another half of it.
        (transition("v0.10.5", "v0.9.5"), Move.REPLACE),
    ],
)
def test_what_becomes_of_what_is_installed(change, move):
    assert change.move is move


def test_every_move_has_its_steps():
    assert set(MOVES) == set(Move)
    assert {action for row in MOVES.values() for action in row} == set(Action)
    assert set(CONDITIONS) <= set(Action)


def test_what_is_as_wanted_takes_no_step_but_what_a_killed_run_left():
    assert actions(transition("v0.12.0", "v0.12.0", differs=False, replaces=False)) == []
    assert actions(transition("v0.12.0", "v0.12.0", differs=False, replaces=False, exported=True)) == [Action.WRITE_QUEUES]


def test_a_killed_downgrade_is_finished_by_the_next_run():
    begun = transition("v0.10.5", "v0.9.5", exported=True)
    assert actions(begun) == [Action.REMOVE, Action.APPLY_CRDS, Action.APPLY_CHART, Action.WRITE_QUEUES]
    removed = transition("v0.9.5", "v0.9.5", installed=False, replaces=False, exported=True)
    assert actions(removed) == [Action.REMOVE_REST, Action.APPLY_CRDS, Action.APPLY_CHART, Action.WRITE_QUEUES]


def test_an_unfinished_release_is_repaired_before_anything_is_applied():
    change = transition("v0.12.0", "v0.13.1", unfinished="pending-upgrade", images=("a",))
    assert actions(change)[:3] == [Action.PULL, Action.REPAIR, Action.APPLY_CRDS]


def test_texts_name_the_releases():
    names = transition("v0.13.1", "v0.12.0").names
    assert [text.format(**names) for text in Action.APPLY_CHART.value] == ["downgrade to v0.12.0", "as asked, with all values"]
    assert [text.format(**names) for text in Action.REMOVE.value] == ["remove v0.13.1", "v0.13.1 is made of other parts"]
