# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import yaml
from ansible.template import trust_as_template
from ansible_collections.kubegpu.tenancy.plugins.filter.kubeconfig_via import kubeconfig_via

TEXT = "apiVersion: v1\nclusters:\n- cluster: {server: 'https://10.0.0.3:30002'}\n  name: web\n"
PROXY = "http://127.0.0.1:28080"


def test_every_cluster_gets_the_proxy():
    # A tagged string, as Ansible passes it.
    config = yaml.safe_load(kubeconfig_via(trust_as_template(TEXT), trust_as_template(PROXY)))
    assert config["clusters"] == [{"name": "web", "cluster": {"server": "https://10.0.0.3:30002", "proxy-url": PROXY}}]


def test_without_a_proxy_the_text_stays():
    assert kubeconfig_via(TEXT, "") == TEXT
