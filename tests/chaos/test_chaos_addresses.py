"""The form of an address changes by reload, and no connection is lost."""

import pytest

from test_chaos_shards import HTTP, main
from harness.workers import wait_workers
from traffic import Traffic

FORMS = ("*", "127.0.0.1")


@pytest.mark.parametrize("workers", [1, 2])
def test_an_address_becomes_the_wildcard_and_back(serve, workers):
    server = serve(HTTP, main=main(workers))
    with Traffic(server.port, short=8, kept=2, each=20) as traffic:
        for turn in range(8):
            old = server.children()
            server.configure(HTTP.replace("127.0.0.1:", FORMS[turn % 2] + ":"), main=main(workers))
            server.signal("reload")
            wait_workers(server, workers, without=old)
            traffic.wait_for(200)
    traffic.assert_nothing_lost()


def test_the_form_changes_back_at_once(serve):
    """The former sockets may still be there, hidden: they are nobody else's."""
    server = serve(HTTP, main=main(2))
    with Traffic(server.port, short=8, kept=0, each=1) as traffic:
        for turn in range(12):
            old = server.children()
            server.configure(HTTP.replace("127.0.0.1:", FORMS[turn % 2] + ":"), main=main(2))
            server.signal("reload")
            wait_workers(server, 2, without=old)
        traffic.wait_for(500)
    traffic.assert_nothing_lost()
