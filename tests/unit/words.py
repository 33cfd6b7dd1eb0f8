# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Words that the manual and the code do without: a reader meets them nowhere else, or has to find out whom they stand for."""

from __future__ import annotations

import re

_DIALECT = (
    r"those (?:that|who|which)|whoever|whatever|somebody|someone else's|nobody's|is there to|what is wanted|as wanted|"
    r"of which nobody|not un(?!der|til|less)\w+|with hands|on the way of|come to be"
)
DIALECT = re.compile(rf"\b({_DIALECT})\b", re.IGNORECASE)
# The manual may say that nobody does something; a comment names the user, client or pod that does not.
DIALECT_OF_CODE = re.compile(rf"\b({_DIALECT}|nobody|what was wanted)\b", re.IGNORECASE)
