# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import datetime

import pytest
from ansible_collections.kubegpu.tenancy.plugins.modules import vcluster_info


class FakeKube:
    def __init__(self, secrets):
        self.secrets = secrets
        self.asked = []

    def get(self, _api_version, kind, name, namespace):
        self.asked.append((kind, name, namespace))
        return self.secrets.get(name)


@pytest.mark.parametrize(("name", "names"), [(None, ["ml", "web"]), ("ml", ["ml"]), ("none", [])])
def test_expiry_by_one_read_each(name, names, certificate, monkeypatch):
    monkeypatch.setattr(vcluster_info, "find", lambda _kube: [{"name": n, "namespace": f"tenant-{n}"} for n in ("ml", "web")])
    kube = FakeKube({"vc-ml": {"data": {"client-certificate": certificate(datetime.datetime(2027, 11, 21, 12))}}})
    result = vcluster_info.run(name, kube)
    assert not result["changed"]
    expires = {item["name"]: item["kubeconfig_expires"] for item in result["vclusters"]}
    assert expires == {key: value for key, value in {"ml": "2027-11-21T12:00:00Z", "web": None}.items() if key in names}
    assert kube.asked == [("Secret", f"vc-{n}", f"tenant-{n}") for n in names]
