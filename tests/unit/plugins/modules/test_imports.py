# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""All that runs on hosts can be imported, which tests/check also tries with the oldest Python."""

from __future__ import annotations

import importlib
from pathlib import Path

PLUGINS = Path(__file__).parents[4] / "plugins"


def test_modules_and_what_they_use_can_be_imported():
    files = [file for folder in ("modules", "module_utils") for file in (PLUGINS / folder).rglob("*.py")]
    names = [".".join(file.relative_to(PLUGINS).with_suffix("").parts) for file in files]
    assert "modules.vcluster" in names
    for name in names:
        importlib.import_module(f"ansible_collections.kubegpu.tenancy.plugins.{name}")
