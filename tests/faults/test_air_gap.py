# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A mirror that holds what kubegpu.tenancy.artifacts lists, and nothing else, is enough for site, as docs/how-to/air-gap.md has it filled and named."""

from __future__ import annotations

import json
import re
import subprocess
import urllib.request
from pathlib import Path

from ansible_collections.kubegpu.tenancy.tests.faults.labs import Lab

# On the host, where the nodes reach it; 5000 is the lab's own registry, with all that any lab needs.
PORT = 5001
OWN = "127.0.0.1:5000/"
CHARTS = "/srv/charts"
MIRROR = f"""
mkdir -p {CHARTS} /srv/mirror
cat > /srv/mirror.yml << 'YAML'
version: 0.1
log: {{level: warn, accesslog: {{disabled: true}}}}
storage: {{filesystem: {{rootdirectory: /srv/mirror}}}}
http: {{addr: ":{PORT}"}}
YAML
systemd-run --quiet --unit=mirror docker-registry serve /srv/mirror.yml
"""
VARIABLES = {
    "nvkind_image": f"127.0.0.1:{PORT}/docker.io/kindest/node:v1.35.4",
    "nvkind_registry_mirrors": {
        name: f"http://10.255.255.1:{PORT}/v2/{name}"
        for name in ("docker.io", "ghcr.io", "mirror.gcr.io", "nvcr.io", "registry.k8s.io")
    },
    "kubegpu_charts": CHARTS,
    "docker_nvidia_runtime_probe_image": f"127.0.0.1:{PORT}/docker.io/library/busybox:1.37.0",
}
# What kind's own node image brings, and the lab's, where it is built, has the nodes pull: Kubernetes itself, network and storage.
OF_NODE_IMAGE = ("registry.k8s.io/", "docker.io/kubegpu/lab-cni", "docker.io/rancher/local-path-provisioner")
LISTED = ("--extra-vars=artifacts_host=lab", "--extra-vars=artifacts_digests=true")


def of_node_image(address: str) -> list[str]:
    """Return the images that the lab's registry has in place of the node image."""

    def read(path: str) -> dict:
        with urllib.request.urlopen(f"http://{address}:5000/v2/{path}", timeout=30) as answer:
            return json.load(answer)

    names = [name for name in read("_catalog?n=1000")["repositories"] if name.startswith(OF_NODE_IMAGE)]
    return [f"{name}:{tag}" for name in names for tag in read(f"{name}/tags/list")["tags"]]


def copy(image: str, address: str) -> None:
    """Copy an image from the lab's own registry to the mirror, by skopeo as the page does."""
    source, target = (f"docker://{address}:{port}/{image}" for port in (5000, PORT))
    command = ["skopeo", "copy", "--quiet", "--all", "--src-tls-verify=false", "--dest-tls-verify=false", source, target]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, f"{image}: {done.stderr}"


def test_a_mirror_with_the_list_and_nothing_else_is_enough(tmp_path: Path) -> None:
    with Lab("kubegpu-air-gap") as lab:
        lab.site("--tags=lab")
        said = lab.play("artifacts", *LISTED, f"--extra-vars=artifacts_dest={tmp_path}")
        assert lab.code == 0, said[-6000:]
        listed = json.loads((tmp_path / "artifacts.json").read_text())["lab"]
        # Of the optional images, the lab's own registry has some only.
        images = [each["image"].removeprefix(OWN) for each in listed["images"] if not each["optional"]]
        charts = listed["charts"]
        assert (len(images) > 20, len(charts) > 3) == (True, True)

        lab.run("bash", "-c", MIRROR)
        for chart in charts:
            lab.run("cp", f"/usr/local/share/charts/{chart['name']}-{chart['version']}.tgz", CHARTS)
        address = json.loads(lab.run("ip", "-json", "address", "show", "eth0"))[0]["addr_info"][0]["local"]
        missing = next(image for image in images if "/kai-scheduler/scheduler:" in image)
        for image in images + of_node_image(address):
            if image != missing:
                copy(image, address)

        # From here on there is no other registry, and no way to one.
        lab.run("systemctl", "stop", "docker-registry")
        lab.run("ip", "route", "del", "default")
        pointed = ("--skip-tags=lab", f"--extra-vars={json.dumps(VARIABLES)}")
        said = lab.play("artifacts", *LISTED, *pointed[1:])
        assert lab.code != 0
        assert re.search(rf"{re.escape(missing)}.*10\.255\.255\.1:{PORT}", said), said[-6000:]

        lab.run("systemctl", "start", "docker-registry")
        lab.run("timeout", "60", "bash", "-c", "until (: < /dev/tcp/127.0.0.1/5000) 2>/dev/null; do sleep 0.2; done")
        copy(missing, address)
        lab.run("systemctl", "stop", "docker-registry")
        said = lab.play("artifacts", *LISTED, *pointed[1:])
        assert lab.code == 0, said[-6000:]
        lab.site(*pointed)
