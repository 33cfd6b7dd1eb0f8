# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Kubernetes quantities, such as 250m or 64Gi."""

from __future__ import annotations

import decimal

try:
    from kubernetes.utils.quantity import parse_quantity
except ImportError:
    # kubernetes.core's module class reports the missing library before anything here is called.
    pass


def quantity(text: str | int) -> decimal.Decimal:
    """Return a quantity in whole units: devices, cores or bytes.

    :raises ValueError: on what is no quantity.
    """
    return decimal.Decimal(parse_quantity(text))
