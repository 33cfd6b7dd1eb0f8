# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A tenant, checked and with every key."""

from __future__ import annotations

import typing as t

from ..module_utils._desired.validation import tenants_from


def tenant(given: t.Any) -> dict[str, t.Any]:
    """Return a tenant with every key.

    :raises TenancyError: with everything that is wrong with it, which Ansible shows.
    """
    return tenants_from([given])[0].data()


class FilterModule:
    """The collection's filter."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"tenant": tenant}
