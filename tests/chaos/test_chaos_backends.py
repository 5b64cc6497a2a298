"""A backend is killed and started again under load: only what may not be repeated is lost, and that only where it was
under way at the one that died. Nothing is sent twice, and no answer goes astray."""

import contextlib
import time

import pytest

from harness import until
from mortal import Callers, Mortal

KINDS = ("http", "fastcgi", "fastcgi-kept", "fastcgi-mux")


def configuration(kind, backends):
    """Peers that are asked again at once after a failure, so that load meets the one that is dead."""
    servers = " ".join("server 127.0.0.1:%d max_fails=0;" % backend.port for backend in backends)
    passing = "proxy_pass http://app;" if kind == "http" else """fastcgi_pass app;
        fastcgi_param REQUEST_METHOD $request_method; fastcgi_param REQUEST_URI $request_uri;"""
    return "upstream app { %s } server { listen 127.0.0.1:@PORT@; location / { %s } }" % (servers,
                                                                                     passing)


def wait_is_used(backend):
    """Waits until more POSTs come to a backend."""
    before = len(backend.posts())
    until(lambda: len(backend.posts()) > before, "a request to port %d" % backend.port)


def check_calls(callers, backends):
    """What may be lost, and what may not."""
    lost = callers.failures("POST")
    print("%d requests, %d deaths, %d POSTs lost" % (
        len(callers.calls), sum(len(backend.deaths) for backend in backends), len(lost)))
    assert not callers.failures("GET")
    assert {call.error for call in lost} <= {"status 502"}
    for call in lost:
        # Its sockets end one after the other: until the last has, requests may come to it.
        death = max((times for backend in backends for times in backend.deaths
                     if times[0] < call.ended), default=(0, 0))
        assert call.began < death[1], "%r was lost although nobody died" % call
    came = [uri for backend in backends for uri in backend.posts()]
    assert len(came) == len(set(came)), "a POST came twice"
    answered = {call.uri for call in callers.calls
                if call.method == "POST" and call.error is None}
    assert answered <= set(came)


@pytest.mark.parametrize("kind", KINDS)
def test_one_of_two_backends_dies_again_and_again(serve, kind):
    with Mortal(kind) as victim, Mortal(kind) as other:
        server = serve(configuration(kind, [victim, other]), main="worker_processes 2;")
        with Callers(server.port) as callers:
            for _ in range(8):
                wait_is_used(victim)
                callers.wait_for_all(3)
                victim.kill()
                callers.wait_for_all(3)
                victim.start()
            wait_is_used(victim)
        check_calls(callers, [victim, other])
        assert "upstream: " in server.error_log     # the deaths were met, not slept through


@pytest.mark.parametrize("kind", KINDS)
def test_backends_die_in_turn(serve, kind):
    """Never two at a time."""
    with contextlib.ExitStack() as stack:
        backends = [stack.enter_context(Mortal(kind)) for _ in range(3)]
        server = serve(configuration(kind, backends), main="worker_processes 2;")
        with Callers(server.port) as callers:
            for turn in range(9):
                backends[turn % 3].kill()
                callers.wait_for_all(2)
                backends[turn % 3].start()
                wait_is_used(backends[turn % 3])
                callers.wait_for_all(1)
        check_calls(callers, backends)


@pytest.mark.parametrize("kind", KINDS)
def test_the_only_backend_comes_back(serve, kind):
    """Meanwhile there is nobody to ask: errors, at once; and none from the moment on that it is back."""
    with Mortal(kind) as only:
        server = serve(configuration(kind, [only]), main="worker_processes 2;")
        with Callers(server.port) as callers:
            for _ in range(5):
                callers.wait_for_all(3)
                only.kill()
                callers.wait_for_all(3)
                only.start()
                back = time.monotonic()
                callers.wait_for_all(3)
                late = [call for call in callers.calls
                        if call.error is not None and call.began > back]
                assert not late, late
        failed = callers.failures("GET") + callers.failures("POST")
        assert {call.error for call in failed} == {"status 502"}
        came = only.posts()
        assert len(came) == len(set(came)), "a POST came twice"
