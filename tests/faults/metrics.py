# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A Prometheus of Debian with series that were made up, on the loopback. Needs no lab."""

from __future__ import annotations

import datetime
import json
import os
import shutil
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Iterable, Iterator
from pathlib import Path

from ansible_collections.kubegpu.tenancy.tests.faults.labs import free_ports

STEP = 300


def at(day: int, hour: int = 0, minute: int = 0, month: int = 10) -> int:
    """Return a second of Unix in 2026, in UTC."""
    return int(datetime.datetime(2026, month, day, hour, minute, tzinfo=datetime.UTC).timestamp())


class Scrapes:
    """Samples of a span, every five minutes, as a Prometheus that was down for a while has them.

    :ivar begin: of the span, whose first sample is a step later; ``end``, that of the last sample.
    :arg down: beginning and end of the time without samples; ``labels``, of each series that has no other values of its own.
    """

    def __init__(self, begin: int, end: int, down: tuple[int, int] = (0, 0), labels: dict[str, str] | None = None) -> None:
        self.begin, self.end, self._down, self._labels = begin, end, down, labels or {}
        self._lines: dict[str, list[Iterator[str]]] = {}

    def add(self, name: str, labels: dict[str, str], *spans: tuple[int, int, float]) -> None:
        """Add a series with a value in each span; without any, it is 1 all the time."""
        inside = ",".join(f'{key}="{value}"' for key, value in (self._labels | labels).items())
        self._lines.setdefault(name, []).append(self._samples(f"{name}{{{inside}}}", spans or ((self.begin, self.end, 1.0),)))

    def _samples(self, series: str, spans: Iterable[tuple[int, int, float]]) -> Iterator[str]:
        for begin, end, value in spans:
            for moment in range(max(begin, self.begin) + STEP, min(end, self.end) + 1, STEP):
                if not self._down[0] < moment <= self._down[1]:
                    yield f"{series} {value:g} {moment}\n"

    def write(self, path: Path) -> None:
        """Write them in the form of OpenMetrics."""
        with path.open("w") as out:
            for name, each in self._lines.items():
                out.write(f"# TYPE {name} gauge\n")
                for samples in each:
                    out.writelines(samples)
            out.write("# EOF\n")


class Server:
    """A Prometheus with blocks of samples, or one that reads what its configuration names.

    :ivar url: its address.
    """

    def __init__(self, folder: Path, configuration: str = "scrape_configs: []\n") -> None:
        self._data = folder / "data"
        self._log = folder / "log"
        self._text = folder / "samples"
        self._process: subprocess.Popen[bytes] | None = None
        self._data.mkdir()
        (folder / "prometheus.yml").write_text(configuration)
        self._configuration = folder / "prometheus.yml"
        (port,) = free_ports(1)
        self._address = f"127.0.0.1:{port}"
        self.url = f"http://{self._address}"

    def load(self, scrapes: Scrapes) -> None:
        """Make blocks of samples, before it is started."""
        assert shutil.which("promtool"), "tools/package promtool prometheus installs it"
        scrapes.write(self._text)
        command = ["promtool", "tsdb", "create-blocks-from", "--max-block-duration=744h", "openmetrics", self._text, self._data]
        subprocess.run(command, check=True, capture_output=True, timeout=900)
        self._text.unlink()

    def __enter__(self) -> Server:
        command = [
            "prometheus",
            f"--config.file={self._configuration}",
            f"--storage.tsdb.path={self._data}",
            "--storage.tsdb.retention.time=100y",
            f"--web.listen-address={self._address}",
        ]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, env=os.environ | {"GOMAXPROCS": "2"})
        for _attempt in range(120):
            try:
                with urllib.request.urlopen(f"{self.url}/-/ready", timeout=5):
                    return self
            except OSError:
                assert self._process.poll() is None, self._log.read_text()[-2000:]
                time.sleep(0.5)
        raise AssertionError(self._log.read_text()[-2000:])

    def __exit__(self, *_args: object) -> None:
        if self._process:
            self._process.terminate()
            self._process.wait(60)

    def computed(self) -> float:
        """Return the seconds of processors that it took so far."""
        assert self._process
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def value(self, expression: str, moment: int) -> float:
        """Return the only value of an expression at a moment."""
        query = urllib.parse.urlencode({"query": expression, "time": moment})
        with urllib.request.urlopen(f"{self.url}/api/v1/query?{query}", timeout=120) as answer:
            (found,) = json.load(answer)["data"]["result"]
        return float(found["value"][1])
