"""A job of one product on a cluster, and the ports of its scheduler."""

import operator

from dranking.engine.cluster.open_executor import open_executor


def run(scheduler, options):
    with open_executor(str(scheduler), options) as executor:
        return executor.gather([executor.submit(operator.mul, 3, 5, name="product")])


NO_DASHBOARD = ["--no-dashboard", "--dashboard-address", "127.0.0.1:0"]


def http_addresses(scheduler):
    return [each.getsockname() for each in scheduler.http_server._sockets.values()]
