# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Let the killed processes under a given one end.

On cgroup v1, runc freezes a container for a moment while it sets it up. Killed in that moment, it leaves the
container frozen, where not even SIGKILL arrives, and Docker waits for the host's end in vain.
"""

import pathlib
import sys

SIGKILL_PENDING = 1 << 8


def status(pid: str) -> dict[str, str]:
    try:
        lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return {}
    return dict(line.split(":\t", 1) for line in lines if ":\t" in line)


def descendants(root: str) -> set[str]:
    parents = {path.name: status(path.name).get("PPid", "") for path in pathlib.Path("/proc").glob("[0-9]*")}
    found, seen = {root}, 0
    while len(found) > seen:
        seen = len(found)
        found |= {pid for pid, parent in parents.items() if parent in found}
    return found


def freezer_state(pid: str) -> pathlib.Path | None:
    try:
        lines = pathlib.Path(f"/proc/{pid}/cgroup").read_text().splitlines()
    except OSError:
        return None
    paths = [line.split(":", 2)[2] for line in lines if line.split(":")[1] == "freezer"]
    return pathlib.Path(f"/sys/fs/cgroup/freezer{paths[0]}/freezer.state") if paths else None


for pid in descendants(sys.argv[1]) if sys.argv[1] != "0" else ():
    found = status(pid)
    killed = (int(found.get("SigPnd", "0"), 16) | int(found.get("ShdPnd", "0"), 16)) & SIGKILL_PENDING
    state = freezer_state(pid) if killed else None
    if state and state.exists() and state.read_text().strip() == "FROZEN":
        state.write_text("THAWED")
        print(f"process {pid}, {found['Name']}, was killed while it was frozen, and goes now")
