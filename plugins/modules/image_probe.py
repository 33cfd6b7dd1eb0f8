#!/usr/bin/python
# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Module kubegpu.tenancy.image_probe."""

from __future__ import annotations

DOCUMENTATION = r"""
module: image_probe
short_description: Check that a cluster can pull images
version_added: 0.1.0
author: kubegpu.tenancy contributors (@kubegpu)
description:
  - Starts one pod for each image, all at once, on a node that the cluster's default scheduler chooses. An image passes once it is there,
    whatever its container does then.
  - An image that a node has already passes without a registry being asked, unless its tag is C(latest).
  - Where a registry asks for credentials, the image is not tried, which is neither a success nor a failure. The pods have none but those
    of the nodes, and an installation may bring its own.
  - Fails when a check fails.
options:
  images:
    description:
      - The images, by name. M(kubegpu.tenancy.artifacts_info) lists the images of the desired state.
    type: list
    elements: str
    required: true
  namespace:
    default: kubegpu-image-probe
  tolerations:
    default: []
  timeout:
    default: 300
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - kubegpu.tenancy._probe
  - kubegpu.tenancy._attributes
seealso:
  - module: kubegpu.tenancy.artifacts_info
  - module: kubegpu.tenancy.cluster_info
"""

EXAMPLES = r"""
- name: List what the desired state needs
  kubegpu.tenancy.artifacts_info:
    cluster: "{{ plan.cluster }}"
  register: needed

- name: See that the cluster can pull all of it
  kubegpu.tenancy.image_probe:
    kubeconfig: /etc/kubegpu/dc1/cluster.yml
    images: "{{ needed.images | rejectattr('optional') | map(attribute='image') }}"
"""

RETURN = r"""
results:
  description: One record for each image.
  returned: success, and when a check failed
  type: list
  elements: dict
  contains:
    name:
      description: The image.
      type: str
      returned: always
    verdict:
      description: V(passed), V(failed) or V(not_tried).
      type: str
      returned: always
    reason:
      description: The node where it passed, else what was seen.
      type: str
      returned: always
    seconds:
      description: Seconds until the verdict.
      type: float
      returned: always
  sample:
    - {name: docker.io/library/busybox:1.37.0, verdict: passed, reason: on w1, seconds: 1.2}
    - {name: ghcr.io/example/none:1, verdict: failed, reason: "ErrImagePull: ghcr.io/example/none:1: not found", seconds: 0.9}
seconds:
  description: How long everything took, the removal of the pods included.
  returned: success
  type: float
  sample: 7.4
"""

from ..module_utils._common.run import Result, Run
from ..module_utils._kernel.module import run_module
from ..module_utils._probe.status import concluded, record
from ..module_utils._probe_image.lifecycle import probe
from ..module_utils._probe_image.plan import NAME, Settings

ARGUMENT_SPEC = {
    "images": {"type": "list", "elements": "str", "required": True},
    "namespace": {"type": "str", "default": NAME},
    "tolerations": {"type": "list", "elements": "dict", "default": []},
    "timeout": {"type": "int", "default": 300},
}


def reconcile(run: Run) -> Result:
    settings = Settings(**{option: run.params[option] for option in ("namespace", "images", "tolerations")})
    if run.check_mode:
        results = [record(image, "not_tried", "check mode") for image in settings.images]
    else:
        results = probe(run.kube, settings, run.deadline)
    return concluded(results, run.deadline.elapsed())


def main() -> None:
    run_module(reconcile, ARGUMENT_SPEC)


if __name__ == "__main__":
    main()
