# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""The way from the KAI Scheduler that is installed to the release that is wanted, step by step. Pure."""

from __future__ import annotations

import dataclasses
import enum
import typing as t

from .facts import Release, Version, dotted, facts_of


class Move(enum.Enum):
    """What becomes of the release that is installed."""

    STAY = "nothing differs"
    INSTALL = "none is installed"
    UPGRADE = "a newer one, the same one with other values, or with parts that are missing"
    DOWNGRADE = "an older one, whose operator takes over what is there"
    REPLACE = "an older one, for which what is there has to be removed"


class Action(enum.Enum):
    """A step on the way: what is done, and why. Both may name fields of ``Transition.names``."""

    PULL = ("pull the images", "what is installed stays until they are there")
    EXPORT_QUEUES = ("export the queues", "a downgrade goes by removal")
    REMOVE = ("remove {before}", "{before} is made of other parts")
    REMOVE_REST = ("remove the rest of the former release", "a downgrade was killed in the middle of the removal")
    REPAIR = (
        "repair the unfinished Helm release",
        "it is {unfinished}, which a killed run leaves, and helm would refuse to go on",
    )
    APPLY_CRDS = ("apply the CRDs", "helm installs them once and never changes them")
    START_COPY = ("start a copy of the admission pod", "new pods would be refused until KAI's own is there again")
    APPLY_CHART = ("{verb} {version}", "as asked, with all values")
    WRITE_CONFIG = (
        "write back the Config",
        "helm deletes it after the upgrade, because it was an object of the former release",
    )
    RESTART = (
        "restart the scheduler",
        "its service account was made anew, and it would go on without rights (#1536)",
    )
    WRITE_QUEUES = ("write back the queues", "some may be missing or changed since the export")


# The steps of each move in their order; those of CONDITIONS only where they are needed.
MOVES: dict[Move, tuple[Action, ...]] = {
    Move.STAY: (Action.WRITE_QUEUES,),
    Move.INSTALL: (Action.REMOVE_REST, Action.APPLY_CRDS, Action.APPLY_CHART, Action.WRITE_QUEUES),
    Move.UPGRADE: (
        Action.PULL,
        Action.REPAIR,
        Action.APPLY_CRDS,
        Action.START_COPY,
        Action.APPLY_CHART,
        Action.WRITE_CONFIG,
        Action.RESTART,
        Action.WRITE_QUEUES,
    ),
    Move.DOWNGRADE: (
        Action.PULL,
        Action.REPAIR,
        Action.APPLY_CRDS,
        Action.START_COPY,
        Action.APPLY_CHART,
        Action.WRITE_QUEUES,
    ),
    Move.REPLACE: (
        Action.PULL,
        Action.EXPORT_QUEUES,
        Action.REMOVE,
        Action.APPLY_CRDS,
        Action.APPLY_CHART,
        Action.WRITE_QUEUES,
    ),
}
_VERBS = {Move.INSTALL: "install", Move.UPGRADE: "upgrade to", Move.DOWNGRADE: "downgrade to", Move.REPLACE: "install"}


@dataclasses.dataclass(frozen=True)
class Transition:
    """What is installed against the release that is wanted, read once, before a run writes.

    :ivar before: version of what is installed; that of ``release`` where nothing is.
    :ivar differs: whether anything is not as desired; ``replaces``, whether another release, or other values, take the place of
        what is installed.
    :ivar hooks: whether the chart's hooks do more than is done here, which is to bring the CRDs and the Config.
    :ivar unfinished: the state that a killed run left the Helm release in; empty where it left none.
    :ivar exported: whether a downgrade that was killed left the export of the queues.
    :ivar images: those of the wanted release that no node has.
    """

    release: Release
    before: Version
    installed: bool
    differs: bool
    replaces: bool
    hooks: bool = False
    unfinished: str = ""
    exported: bool = False
    images: tuple[str, ...] = ()

    @property
    def move(self) -> Move:
        """What becomes of the release that is installed."""
        if not self.differs:
            return Move.STAY
        if not self.installed:
            return Move.INSTALL
        if self.before <= self.release.number:
            return Move.UPGRADE
        return Move.DOWNGRADE if self.in_place else Move.REPLACE

    @property
    def made_alike(self) -> bool:
        """Whether an operator made all of what is installed, as that of the wanted release does."""
        return bool(self.release.shard and facts_of(self.before)["shard"])

    @property
    def in_place(self) -> bool:
        """Whether the wanted release takes over the Config, webhooks and service accounts of what is installed.

        Each operator removes what another one made for the same Config and it does not know itself.
        """
        return self.replaces and self.made_alike and not self.hooks

    @property
    def names(self) -> dict[str, str]:
        """What the texts of steps name."""
        before, verb = f"v{dotted(self.before)}", _VERBS.get(self.move, "")
        return {"before": before, "unfinished": self.unfinished, "verb": verb, "version": self.release.version}


CONDITIONS: dict[Action, t.Callable[[Transition], bool]] = {
    Action.PULL: lambda change: bool(change.images),
    Action.EXPORT_QUEUES: lambda change: not change.exported,
    Action.REMOVE_REST: lambda change: change.exported,
    Action.REPAIR: lambda change: bool(change.unfinished),
    Action.START_COPY: lambda change: change.in_place,
    Action.WRITE_CONFIG: lambda change: facts_of(change.before)["config_by_helm"] and not change.release.config_by_helm,
    Action.RESTART: lambda change: change.release.restart_after_upgrade and (change.hooks or not change.made_alike),
    Action.WRITE_QUEUES: lambda change: change.exported or change.move is Move.REPLACE,
}


def actions(change: Transition) -> list[Action]:
    """Return the steps to the wanted release; a run that was killed between two of them is finished by the next."""
    return [action for action in MOVES[change.move] if action not in CONDITIONS or CONDITIONS[action](change)]
