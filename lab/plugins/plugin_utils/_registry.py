# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this plugin util is PRIVATE to the collection: it may change in any release.
"""The registry in a cache, which serves only while images are pushed into it."""

from __future__ import annotations

import contextlib
import json
import socket
import time
import typing as t
import urllib.error
from pathlib import Path

from ansible.module_utils import urls
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError

from ._recipe import Image
from ._workshop import Workshop, running


class Registry:
    """A registry.

    :arg storage: folder that Debian's docker-registry keeps images in.
    :ivar address: where it serves, on loopback.
    """

    def __init__(self, workshop: Workshop, storage: Path) -> None:
        self._workshop = workshop
        self._storage = storage
        self.address = ""

    @contextlib.contextmanager
    def serving(self, needed: bool = True) -> t.Iterator[None]:
        """A registry on loopback that writes into the cache, only while images are pushed."""
        if not needed:
            yield
            return
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.address = f"127.0.0.1:{probe.getsockname()[1]}"
        config = {
            "version": 0.1,
            "log": {"level": "error", "accesslog": {"disabled": True}},
            "storage": {"filesystem": {"rootdirectory": str(self._storage)}},
            "http": {"addr": self.address},
        }
        with self._workshop.scratch("registry") as scratch:
            (scratch / "config.yml").write_text(json.dumps(config), "utf-8")
            with open(scratch / "log", "wb") as log, running(["docker-registry", "serve", str(scratch / "config.yml")], log):
                deadline = time.monotonic() + 20
                while not answers(f"http://{self.address}/v2/", timeout=2, use_proxy=False):
                    if time.monotonic() > deadline:
                        raise TenancyError(
                            f"docker-registry did not start within 20 s: {(scratch / 'log').read_text('utf-8')[-500:]}"
                        )
                    time.sleep(0.1)
                yield

    def copy(self, source: str, image: Image, *options: str) -> None:
        """Copy an image from where skopeo finds it into the registry."""
        command = ["skopeo", "--insecure-policy", "copy", "--quiet", "--dest-tls-verify=false", *options]
        self._workshop.run([*command, source, f"docker://{self.address}/{image.ref}"])


def answers(url: str, timeout: float, use_proxy: bool = True) -> bool:
    """Tell whether a web server is there, even if it answers with an error."""
    try:
        urls.open_url(url, timeout=timeout, use_proxy=use_proxy).close()
    except urllib.error.HTTPError:
        return True
    except (OSError, urls.ConnectionError):
        return False
    return True
