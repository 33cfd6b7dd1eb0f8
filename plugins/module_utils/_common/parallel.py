# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Run a call for several items at once."""

from __future__ import annotations

import concurrent.futures
import typing as t

# Calls under way at once: enough to hide the answering time of webhooks, few for an API server.
CONCURRENCY = 10

Item = t.TypeVar("Item")
Result = t.TypeVar("Result")


def concurrently(call: t.Callable[[Item], Result], items: t.Iterable[Item]) -> list[Result]:
    """Call a function with each of the items, several at once, and return the results in the items' order.

    :raises Exception: the first failure in that order, when all calls have ended.
    """
    with concurrent.futures.ThreadPoolExecutor(CONCURRENCY) as pool:
        return list(pool.map(call, items))
