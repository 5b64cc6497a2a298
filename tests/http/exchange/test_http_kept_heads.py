"""After a HEAD the connection of its backend is usable or closed, whenever the body comes that nobody wanted."""

import socket
import threading

import pytest

import fastcgi_backends as fcgi


class Store:
    """A memcached whose values are their keys ten times; each answer to the first request comes in parts, of which those after
    the first wait for `go`."""

    def __init__(self, cut):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.cut, self.go, self.connections, self.problems = cut, threading.Event(), 0, []
        self.is_first = True
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        while True:
            try:
                conn = self.listener.accept()[0]
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self.talk, args=(conn,), daemon=True).start()

    def talk(self, conn):
        with conn, conn.makefile("rb") as stream:
            for line in stream:
                word, key = line.split()
                if word != b"get":
                    self.problems.append(line)
                value = key * 10
                answer = b"VALUE %s 0 %d\r\n%s\r\nEND\r\n" % (key, len(value), value)
                at = len(answer) + self.cut if self.is_first and self.cut < 0 else len(answer)
                self.is_first = False
                try:
                    conn.sendall(answer[:at])
                    if at != len(answer):
                        assert self.go.wait(10)
                        conn.sendall(answer[at:])
                except OSError:
                    return


PASSES = ["memcached_pass u;", "set $memc_key $uri; memc_pass u;"]


@pytest.mark.parametrize("way", PASSES)
@pytest.mark.parametrize("cut", [0, -1, -5, -7, -20, -27], ids="whole,LF,END,value,half,line".split(","))
def test_memcached(serve, cut, way):
    back = Store(cut)
    server = serve("""upstream u { server 127.0.0.1:%d; keepalive 4; }
        server { listen 127.0.0.1:@PORT@; set $memcached_key $uri; location / { %s } }""" % (back.port, way))
    with server.client() as client:
        answer = client.request("/a", method="HEAD")
        assert (answer.status, answer.header("Content-Length"), answer.body) == (200, "20", b"")
        for key in ("/b", "/c"):
            assert client.request(key).text == key * 10
        back.go.set()
        for key in ("/d", "/e"):
            assert client.request(key, method="HEAD").header("Content-Length") == "20"
            assert client.request(key).text == key * 10
    assert not back.problems and back.connections <= 3
    back.listener.close()


@pytest.mark.parametrize("keep", ["on", "off", "auto"])
@pytest.mark.parametrize("parts", [1, 2, 3])
def test_fastcgi(serve, keep, parts):
    """Applications send a body to HEAD, or end without one."""
    go = threading.Event()

    def reply(request, conn):
        uri = request.params["REQUEST_URI"].encode()
        pieces = [fcgi.record(fcgi.STDOUT, b"Content-Length: 20\r\n\r\n"), fcgi.record(fcgi.STDOUT, uri * 10),
                  fcgi.record(fcgi.STDOUT) + fcgi.end()]
        if request.params["REQUEST_METHOD"] == "HEAD" and uri == b"/a" and parts > 1:
            conn.sendall(b"".join(pieces[:parts - 1]))
            go.wait(10)
            return b"".join(pieces[parts - 1:])
        return b"".join(pieces)

    with fcgi.Scripted(reply) as back:
        server = serve("""upstream u { server 127.0.0.1:%d; keepalive 4; }
            server { listen 127.0.0.1:@PORT@; location / { fastcgi_pass u; fastcgi_keep_conn %s;
                fastcgi_param REQUEST_URI $request_uri; fastcgi_param REQUEST_METHOD $request_method; } }""" % (back.port, keep))
        with server.client() as client, server.client() as other:
            client.send("HEAD /a HTTP/1.1\r\nHost: a\r\n\r\n")
            for key in ("/b", "/c"):
                assert other.request(key).text == key * 10
            go.set()
            answer = client.response(method="HEAD")
            assert (answer.status, answer.header("Content-Length")) == (200, "20")
            for key in ("/d", "/e"):
                assert client.request(key, method="HEAD").header("Content-Length") == "20"
                assert client.request(key).text == key * 10
