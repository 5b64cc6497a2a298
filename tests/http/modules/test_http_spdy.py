"""SPDY's directives: HTTP/2 is spoken, and each says what holds in its place."""

import pytest

import certificates
from harness import run_binary
from tls_client import connect, context, exchange, pair

NAMES = [("spdy_version 3", "http2"), ("spdy_headers_comp 1", "http2"), ("spdy_flow_control on", "http2"), ("spdy_init_recv_window_size 64k", "http2_body_preread_size"),
         ("spdy_chunk_size 8k", "http2_chunk_size"), ("spdy_pool_size 4k", "http2_pool_size"), ("spdy_max_concurrent_streams 100", "http2_max_concurrent_streams"),
         ("spdy_streams_index_size 32", "http2_streams_index_size"), ("spdy_recv_buffer_size 256k", "http2_recv_buffer_size"),
         ("spdy_recv_timeout 30s", "client_header_timeout"), ("spdy_keepalive_timeout 3m", "keepalive_timeout")]


def check(tmp_path, text):
    (tmp_path / "c").write_text("pid p; error_log stderr; events { }\nhttp {\n%s\n}\n" % text)
    return run_binary("-p", str(tmp_path), "-c", "c", "-t", "-e", "stderr")


@pytest.mark.parametrize("line, instead", NAMES)
def test_each_says_what_holds(tmp_path, line, instead):
    done = check(tmp_path, line + ";")
    assert done.returncode == 0 and 'obsolete, use the "%s" directive instead' % instead in done.stderr


@pytest.mark.parametrize("word", ["spdy", "spdy_detect"])
def test_http2_is_spoken_in_its_place(serve, word):
    server = serve("server { listen 127.0.0.1:@PORT@ ssl %s; %s return 200 $server_protocol; }" % (word, pair(certificates.own("s"))))
    with connect(server.port, made=context(alpn=["spdy/3.1", "h2", "http/1.1"])) as secure:
        assert secure.selected_alpn_protocol() == "h2"
    assert exchange(connect(server.port, made=context(alpn=["spdy/3.1", "http/1.1"])))[:2] == (200, "HTTP/1.1")
    assert 'the "%s" parameter is obsolete' % word in server.evidence()


def test_variables_of_it_are_empty(serve):
    assert serve('server { listen 127.0.0.1:@PORT@ spdy; return 200 "[$spdy][$spdy_request_priority]"; }').get("/").text == "[][]"


def test_without_tls(serve):
    assert serve("server { listen 127.0.0.1:@PORT@ spdy; return 200 $server_protocol; }").get("/").text == "HTTP/1.1"


@pytest.mark.parametrize("text", ["spdy_headers_comp;", "spdy_headers_comp 1 2;", "server { location / { spdy_pool_size 4k; } }", "server { spdy_recv_buffer_size 4k; }"])
def test_faults(tmp_path, text):
    assert check(tmp_path, text).returncode == 1
