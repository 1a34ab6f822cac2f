"""aiohttp without the authorities of the system."""

from __future__ import annotations

import os
import subprocess
import sys

import certifi

CODE = """
import client_agent.link.http, ssl, aiohttp.connector
ours = aiohttp.connector._SSL_CONTEXT_VERIFIED
print(ours.cert_store_stats()["x509"], ours.verify_mode.name, ours.check_hostname)
print(ssl.create_default_context().cert_store_stats()["x509"] > 0)
"""


def test_a_request_without_trust_of_its_own_trusts_nobody_and_others_are_as_they_were() -> None:
    env = {**os.environ, "SSL_CERT_FILE": certifi.where()}
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True, env=env)
    assert done.stdout.splitlines() == ["0 CERT_REQUIRED True", "True"]
