# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""What it takes for HAProxy to run with the configuration that is desired. Pure.

A reload keeps connections, and with them those of a network that may not connect any more. So it is enough only where nothing but the
ports of tenants differs.
"""

from __future__ import annotations

import typing as t

from .status import Service, head

Need = t.Literal["nothing", "reload", "restart", "stop"]


def need(running: str | None, desired: str, service: Service, files_differ: bool) -> Need:
    """Return what it takes.

    :arg running: the configuration with which HAProxy runs; None where there is none.
    :arg desired: with the nodes' present addresses.
    :arg files_differ: whether the unit or its script is another one.
    """
    if not service.active or service.stale or running is None or files_differ or head(running) != head(desired):
        return "restart"
    return "nothing" if running == desired else "reload"
