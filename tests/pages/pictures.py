# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write the pictures of pages in docs/images, each the first screen of a page.

    . tools/activate dev pages
    PYTHONPATH=$ANSIBLE_COLLECTIONS_PATH python tests/pages/pictures.py

tenancy.json beside this file is the evidence of a run of site.yml on the lab, and rehearsal.json the report of a rehearsal in it, as the runs wrote
them.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from ansible_collections.kubegpu.tenancy.plugins.plugin_utils import _evidence_page, _rehearsal_page
from playwright.sync_api import sync_playwright

FOLDER = Path(__file__).resolve().parents[2] / "docs/images"
HERE = Path(__file__).parent
# Of a picture, in pixels and bytes.
SIZE, MOST_BYTES = {"width": 1100, "height": 640}, 150_000


def pages() -> Iterator[tuple[str, str]]:
    """Yield the name of each picture, and the page that it shows."""
    for name, page in {"tenancy": _evidence_page.page, "rehearsal": _rehearsal_page.page}.items():
        yield name, page(json.loads((HERE / f"{name}.json").read_text()))


def write() -> Iterator[Path]:
    """Write each picture, and yield where it is."""
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"))
        for name, text in pages():
            (file := Path(folder) / f"{name}.html").write_text(text)
            shown = browser.new_page(viewport=SIZE)
            shown.goto(file.as_uri())
            shown.screenshot(path=FOLDER / f"{name}.png")
            yield FOLDER / f"{name}.png"
        browser.close()


if __name__ == "__main__":
    sizes = {picture: picture.stat().st_size for picture in write()}
    if large := [f"{picture.name} has {size} bytes" for picture, size in sizes.items() if size > MOST_BYTES]:
        sys.exit(f"{', '.join(large)}, and {MOST_BYTES} are allowed: make it smaller.")
