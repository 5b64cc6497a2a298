"""Beside the helpers of these tests, so that pytest lets the tests of this folder import them; and Redis, started and stopped."""

import pytest

from store_redis import REDIS, Redis


@pytest.fixture(name="redis")
def fixture_redis():
    """A function that starts a Redis with these lines in its configuration."""
    if REDIS is None:
        pytest.skip("redis-server is not installed")
    servers = []

    def start(*lines, **how):
        servers.append(Redis(*lines, **how))
        return servers[-1].start()

    yield start
    for server in servers:
        server.stop()
