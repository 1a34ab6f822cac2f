"""`client-agent metrics`: the daemon's counts, for Prometheus."""

from __future__ import annotations

import sys

from client_agent.cli.calls import AsJson
from client_agent.cli.printing import fail, print_json


def metrics(as_json: AsJson = False) -> None:
    """Print what the daemon counted since it started, in Prometheus' text format.

    No port is opened for it: let a timer write it where node_exporter's textfile collector reads. Needs the extra
    `metrics`; --json does not.
    """
    from client_agent import config
    from client_agent.local_api.client import connecting

    with connecting(config.state_dir()) as daemon:
        told = daemon.request("metrics")
    if as_json:
        print_json(told)
        return
    from client_agent.metrics import expose

    try:
        sys.stdout.write(expose(told))
    except ImportError:
        fail("this needs the extra `metrics`: pip install 'client-agent[metrics]'")
