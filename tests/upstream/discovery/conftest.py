"""Beside the helpers of these tests, so that pytest lets the tests of this folder import them; and the engines, started and closed."""

import pytest

from engines import Consul, Etcd, Kubernetes


def _made(kind, end):
    @pytest.fixture
    def fixture():
        running = []

        def start(**how):
            running.append(kind(**how))
            return running[-1]

        yield start
        for engine in running:
            end(engine)

    return fixture


consul = _made(Consul, Consul.close)
kubernetes = _made(Kubernetes, Kubernetes.close)


@pytest.fixture(name="etcd")
def fixture_etcd():
    server = Etcd()
    try:
        yield server.start()
    finally:
        server.stop()
