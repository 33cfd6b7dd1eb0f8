# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs the module of the same name, and keeps its result from the screen: the desired state in it has the values of charts."""

from __future__ import annotations

from ..plugin_utils._quiet import QuietAction


class ActionModule(QuietAction):
    """See the module's documentation."""
