"""memcached_pass, against the real memcached and against a server that sends what it should not."""

import contextlib
import gzip
import socket
import threading

import pytest

import cgi_backends


class Store(cgi_backends.Program):
    """memcached; set() puts an entry there."""

    def __init__(self):
        super().__init__("memcached", "-l", "127.0.0.1", "-p", "@PORT@", "-U", "0", "-u", "nobody")

    def set(self, key, value, flags=0):
        with socket.create_connection(("127.0.0.1", self.port)) as conn:
            conn.sendall(b"set %s %d 0 %d\r\n%s\r\n" % (key, flags, len(value), value))
            assert conn.recv(100) == b"STORED\r\n"

    def connections(self):
        """Ever accepted, this one left out."""
        with socket.create_connection(("127.0.0.1", self.port)) as conn:
            conn.sendall(b"stats\r\n")
            text = b""
            while not text.endswith(b"END\r\n"):
                text += conn.recv(4096)
        return int(text.split(b"total_connections ")[1].split()[0]) - 1


@pytest.fixture
def store():
    with contextlib.closing(Store()) as memcached:
        yield memcached


def test_entries(serve, store):
    store.set(b"/a.txt", b"hello")
    store.set(b"/empty", b"")
    store.set(b"/large", b"0123456789" * 50000)
    store.set(b"/a%20b%25", b"escaped")
    server = serve("""
        server { listen 127.0.0.1:@PORT@; default_type x/y;
            set $memcached_key $uri;
            location / { memcached_pass 127.0.0.1:@BACKEND@; types { text/plain txt; } }
            location /page/ { memcached_pass 127.0.0.1:@BACKEND@; error_page 404 = /fallback; }
            location /fallback { return 201 "made"; }
            location /unset { set $memcached_key ""; memcached_pass 127.0.0.1:@BACKEND@; }
        }
    """.replace("@BACKEND@", str(store.port)))
    with server.client() as client:
        response = client.request("/a.txt")
        assert (response.status, response.text) == (200, "hello")
        assert response.header("Content-Type") == "text/plain"
        assert response.header("Content-Length") == "5"
        assert client.request("/empty").body == b""
        assert client.request("/empty").header("Content-Type") == "x/y"
        assert client.request("/large").body == b"0123456789" * 50000
        assert client.request("/a%20b%25").text == "escaped"
        response = client.request("/a.txt", method="HEAD")
        assert (response.status, response.header("Content-Length")) == (200, "5")
        response = client.request("/none")
        assert response.status == 404 and "404 Not Found" in response.text
        response = client.request("/page/x")
        assert (response.status, response.text) == (201, "made")
        assert client.request("/unset").status == 500
    server.wait_log("the \"\\$memcached_key\" variable is not set")
    server.wait_log("key: \"/none\" was not found by memcached")
    with server.client() as client:
        assert client.request("/a.txt", method="POST", body=b"x").status == 405


def test_ranges(serve, store):
    """Parts of a value are served, as nginx does, though memcached has no field that offers them."""
    store.set(b"/a", b"0123456789")
    server = serve("server { listen 127.0.0.1:@PORT@; set $memcached_key $uri; location / { memcached_pass 127.0.0.1:%d; } }" % store.port)
    with server.client() as client:
        assert client.request("/a").header("Accept-Ranges") == "bytes"
        part = client.request("/a", "Range: bytes=2-4")
        assert (part.status, part.body, part.header("Content-Range")) == (206, b"234", "bytes 2-4/10")
        assert client.request("/a", "Range: bytes=20-").status == 416
        assert client.request("/none", "Range: bytes=2-4").status == 404


def test_compressed_entries(serve, store):
    store.set(b"/x", gzip.compress(b"hello"), flags=6)
    server = serve("""
        server { listen 127.0.0.1:@PORT@; set $memcached_key $uri;
            location / { memcached_pass 127.0.0.1:%d; memcached_gzip_flag 2; }
        }
    """ % store.port)
    response = server.get("/x", "Accept-Encoding: gzip")
    assert response.header("Content-Encoding") == "gzip"
    assert gzip.decompress(response.body) == b"hello"


def test_the_next_server(serve, store):
    """not_found is a reason to ask another."""
    with contextlib.closing(Store()) as other:
        other.set(b"/there", b"found")
        server = serve("""
            upstream u { server 127.0.0.1:%d; server 127.0.0.1:%d backup; }
            server { listen 127.0.0.1:@PORT@; set $memcached_key $uri;
                location / { memcached_pass u; memcached_next_upstream not_found;
                             add_header X-Tried $upstream_status always; }
            }
        """ % (store.port, other.port))
        response = server.get("/there")
        assert (response.text, response.header("X-Tried")) == ("found", "404, 200")
        response = server.get("/nowhere")
        assert (response.status, response.header("X-Tried")) == (404, "404, 404")


def test_connections_are_kept(serve, store):
    store.set(b"/x", b"hello")
    server = serve("""
        upstream u { server 127.0.0.1:%d; keepalive 4; }
        server { listen 127.0.0.1:@PORT@; set $memcached_key $uri;
            location / { memcached_pass u; }
        }
    """ % store.port)
    before = store.connections()
    with server.client() as client:
        for _ in range(10):
            assert client.request("/x").text == "hello"
            assert client.request("/none").status == 404
    assert store.connections() - before == 2  # ours, and this question


@pytest.mark.parametrize("answer, status, message", [
    (b"ERROR\r\n", 502, "memcached sent invalid response: \"ERROR\""),
    (b"SERVER_ERROR out of memory\r\n", 502, "memcached sent invalid response: \"SERVER_ERROR"),
    (b"VALUE /other 0 1\r\nx\r\nEND\r\n", 502, "memcached sent invalid key in response"),
    (b"VALUE /x 0 y\r\n", 502, "memcached sent invalid length in response"),
    (b"VALUE /x 0 1", 502, "upstream prematurely closed connection"),
    (b"VALUE /x 0 1\r\nyEND\r\n", 200, "memcached sent invalid trailer"),
    (b"VALUE /x 0 1\r\ny", 200, "upstream prematurely closed connection"),
])
def test_bad_answers(serve, answer, status, message):
    with contextlib.closing(socket.socket()) as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()

        def talk():
            with contextlib.suppress(OSError):
                conn = listener.accept()[0]
                with conn:
                    assert conn.recv(100) == b"get /x\r\n"
                    conn.sendall(answer)
        threading.Thread(target=talk, daemon=True).start()
        server = serve("""
            server { listen 127.0.0.1:@PORT@; set $memcached_key $uri;
                location / { memcached_pass 127.0.0.1:%d; }
            }
        """ % listener.getsockname()[1])
        with server.client() as client:
            client.send(b"GET /x HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            assert client.rest().startswith(b"HTTP/1.1 %d " % status)
        server.wait_log(message)
