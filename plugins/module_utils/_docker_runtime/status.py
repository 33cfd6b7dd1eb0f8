# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Judge what Docker runs with."""

from __future__ import annotations

import dataclasses
import typing as t


@dataclasses.dataclass(frozen=True)
class Running:
    """The configuration that Docker runs with.

    :ivar runtimes: each runtime's program, by name.
    :ivar cdi: whether containers can ask for CDI devices; None for a Docker that does not report it (before 25.0).
    """

    runtimes: dict[str, str]
    default: str
    cdi: bool | None
    live_restore: bool = False

    @classmethod
    def of_info(cls, info: dict[str, t.Any]) -> Running:
        """Make it from what ``docker info`` prints as JSON."""
        return cls(
            {name: runtime.get("path", "") for name, runtime in info["Runtimes"].items()},
            info["DefaultRuntime"],
            bool(info["CDISpecDirs"]) if "CDISpecDirs" in info else None,
            info.get("LiveRestoreEnabled", False),
        )

    @classmethod
    def of_file(cls, document: dict[str, t.Any]) -> Running:
        """Make that of a Docker that was started with this daemon.json."""
        runtimes = {name: runtime.get("path", "") for name, runtime in document.get("runtimes", {}).items()}
        return cls(runtimes, document.get("default-runtime", "runc"), document.get("features", {}).get("cdi", False))
