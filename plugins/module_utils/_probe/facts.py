# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Verdicts of checks."""

from __future__ import annotations

# Accepted is what went wrong as a hazard says that was accepted by name. It is no failure, and no evidence that all is well.
PASSED, FAILED, NOT_TRIED, ACCEPTED = "passed", "failed", "not_tried", "accepted"
