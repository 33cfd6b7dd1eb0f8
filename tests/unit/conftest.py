# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import base64
import datetime

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import settings

# How long an example takes says nothing on a machine that does other things, too.
settings.register_profile("any machine", deadline=None)
settings.load_profile("any machine")


@pytest.fixture(scope="session", name="certificate")
def _certificate():
    """A certificate that ends at a given moment, as Secrets and kubeconfigs hold it."""
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([])

    def made(ends):
        builder = x509.CertificateBuilder(name, name, key.public_key(), 1, datetime.datetime(2020, 1, 1), ends)
        return base64.b64encode(builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)).decode()

    return made
