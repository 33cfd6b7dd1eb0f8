# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Where the charts of Helm releases are."""

from __future__ import annotations

from .._adapters.helm import Chart, find_chart
from .._artifacts.plan import Installation


def charts_of(item: Installation) -> tuple[Chart, Chart]:
    """Return where an installation's chart is upstream, and where it is taken from."""
    upstream = Chart(item.reference, item.version, item.repository)
    return upstream, find_chart(item.source, item.chart, item.version, upstream)
