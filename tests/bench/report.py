# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""docs/contributing/benchmark.md, each of whose sections is one benchmark's."""

from __future__ import annotations

import datetime
import os
from pathlib import Path

DOCS = Path(__file__).resolve().parents[2] / "docs"
TITLE = "# Benchmarks\n"


def now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


def today() -> str:
    return f"`make bench` on {now():%Y-%m-%d}, {os.cpu_count()} cores"


def write_section(title: str, text: str) -> None:
    """Replace a section, or add it."""
    path = DOCS / "contributing/benchmark.md"
    sections = path.read_text("utf-8").split("\n## ")[1:] if path.exists() else []
    sections = [section for section in sections if not section.startswith(f"{title}\n")]
    sections.append(f"{title}\n\n{text}")
    path.write_text("\n## ".join([TITLE, *(section.strip() + "\n" for section in sorted(sections))]), "utf-8")
