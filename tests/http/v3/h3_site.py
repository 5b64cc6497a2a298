"""A site that speaks HTTP/3: what the tests of HTTP/3 share."""

import pytest

import certificates
from harness import h3

BIG = bytes(range(256)) * 4000


@pytest.fixture(name="site")
def _site(serve):
    """site(http, server, files) starts it: html/ with small, large and empty files, on QUIC and with TLS on TCP."""
    if not h3.HAS_AIOQUIC:
        pytest.skip("without aioquic: see auto/aioquic")

    def start(text="", server="", files=None, **more):
        pair = certificates.own("localhost")
        tree = {"html/a.txt": "hello\n", "html/big": BIG, "html/empty": ""}
        tree.update(files or {})
        return serve("ssl_certificate %s; ssl_certificate_key %s; lingering_timeout 50ms; %s server { listen 127.0.0.1:@PORT@ quic; "
                     "listen 127.0.0.1:@PORT@ ssl; %s location / { root html; } }" % (pair.crt, pair.key, text, server),
                     files=tree, **more)
    return start
