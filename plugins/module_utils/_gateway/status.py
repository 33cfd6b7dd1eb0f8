# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""What HAProxy's configuration says, and how the unit that runs it stands. Pure."""

from __future__ import annotations

import dataclasses
import re
import typing as t

from .._common.quantity import whole
from .._common.values import JsonObject
from .facts import CLUSTER_SECTION, TENANT_SECTION

_HEAD = re.compile(r"^# (address|allow): (.+)$", re.MULTILINE)
_PORT = re.compile(r"^listen (\S+)\n    bind \S+:([0-9]{1,5})$", re.MULTILINE)


@dataclasses.dataclass(frozen=True)
class Service:
    """A unit of systemd.

    :ivar state: such as active; inactive also where there is no such unit.
    :ivar stale: whether its file was changed since systemd read it.
    """

    state: str
    enabled: bool
    stale: bool = False

    @classmethod
    def of_properties(cls, printed: str) -> Service:
        """Make it from what ``systemctl show`` prints."""
        found = dict(line.split("=", 1) for line in printed.splitlines() if "=" in line)
        state, stale = found.get("ActiveState", "inactive"), found.get("NeedDaemonReload") == "yes"
        return cls(state, found.get("UnitFileState") == "enabled", stale)

    @property
    def active(self) -> bool:
        return self.state == "active"


def described(text: str) -> JsonObject:
    """Return what a configuration says, as a diff shows it: the address, the networks that may connect, and a port for each tenant."""
    head: JsonObject = {key: value if key == "address" else value.split() for key, value in _HEAD.findall(text)}
    return head | {f"port of {owner(section)}": port for section, port in ports(text).items()}


def ports(text: str) -> dict[str, int]:
    """Return the ports of a configuration by the names of its sections."""
    return {section: whole(port) for section, port in _PORT.findall(text)}


def owner(section: str) -> str:
    """Return whose port a section forwards."""
    return "the cluster" if section == CLUSTER_SECTION else section.removeprefix(TENANT_SECTION)


def bound(text: str) -> set[tuple[str, int]]:
    """Return the addresses and ports that a configuration binds."""
    return {(str(described(text).get("address", "")), port) for port in ports(text).values()}


def head(text: str) -> str:
    """Return a configuration without its ports."""
    return text.partition("\nlisten ")[0]


def changes(before: JsonObject, after: JsonObject) -> t.Iterator[tuple[str, t.Any, t.Any]]:
    """List what differs between what two configurations say."""
    for what in {**before, **after}:
        if before.get(what) != after.get(what):
            yield what, before.get(what), after.get(what)
