# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an inventory says of usage."""

from __future__ import annotations

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._desired.validation import desired_state
from ansible_collections.kubegpu.tenancy.tests.unit.clock import TODAY
from ansible_collections.kubegpu.tenancy.tests.unit.problems import placed

URL = "https://prometheus.example/prefix"


def test_the_token_does_not_travel_with_the_desired_state():
    cluster = desired_state({"kubegpu_usage": {"url": URL, "token": "t", "prices": {"NVIDIA-L4": 0.5}}}, "dc1", TODAY)
    assert cluster.data()["usage"] == {
        "url": URL,
        "org_id": "",
        "labels": {},
        "ca": "",
        "proxy": "",
        "evidence": "",
        "time_zone": "UTC",
        "prices": {"NVIDIA-L4": 0.5},
        "currency": "",
        "folder": "",
    }
    assert desired_state({}, "dc1", TODAY).usage == {}


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"folder": "/f"}, "url: missing"),
        ({"url": "prometheus:9090"}, "url: not-an-address"),
        ({"url": "https://user:word@prometheus"}, "url: not-an-address"),
        ({"url": "https://prometheus/?query=x"}, "url: not-an-address"),
        ({"url": "http://prometheus:9090", "token": "t"}, "token: token-in-the-clear"),
        ({"url": URL, "ca": "/etc/ca.pem"}, "ca: not-a-certificate"),
        ({"url": URL, "proxy": "socks5://proxy:1080"}, "proxy: socks-proxy"),
        ({"url": URL, "time_zone": "Mars/Base"}, "time_zone: not-a-time-zone"),
        ({"url": URL, "prices": {"NVIDIA-L4": -1}}, "prices.NVIDIA-L4: out-of-range"),
        ({"url": URL, "prices": {"NVIDIA-L4": "much"}}, "prices.NVIDIA-L4: out-of-range"),
        ({"url": URL, "org_id": "gpu\nX: y"}, "org_id: not-a-name"),
        ({"url": URL, "labels": {"a b": "c"}}, "labels.a b: not-a-label"),
        ({"url": URL, "labels": {"cluster": 1}}, "labels.cluster: not-a-label"),
        ({"url": URL, "tokn": "t"}, "tokn: unknown-key"),
    ],
)
def test_what_cannot_be_is_refused(given, problem):
    with pytest.raises(TenancyError) as caught:
        desired_state({"kubegpu_usage": given}, "dc1", TODAY)
    assert placed(caught.value.problems) == [f"kubegpu_usage.{problem}"]


def test_a_token_may_go_to_the_host_itself():
    assert desired_state({"kubegpu_usage": {"url": "http://127.0.0.1:9090", "token": "t"}}, "dc1", TODAY).usage
