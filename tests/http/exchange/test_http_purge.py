"""*_cache_purge in its forms: predicates, a method from some addresses, a place of its own."""

import contextlib

import pytest

import cgi_backends


@pytest.fixture
def counter():
    """A SCGI server that counts what it is asked."""
    answered = []

    def answer(pairs, body, conn):
        answered.append(dict(pairs)["URI"])
        return b"Content-Type: text/plain\r\n\r\n%d" % len(answered)
    with contextlib.closing(cgi_backends.Scripted(answer)) as backend:
        yield backend


def conf(backend, place, more=""):
    return """
        scgi_cache_path @DIR@/logs/cache keys_zone=z:1m;
        map $request_method $purges { PURGE 1; }
        server { listen 127.0.0.1:@PORT@;
            scgi_param URI $uri; scgi_cache z; scgi_cache_key $uri; scgi_cache_valid any 10m;
            location / { scgi_pass 127.0.0.1:%d; %s }
            %s
        }
    """ % (backend.port, place, more)


def texts(client, *targets):
    return [client.request(target).text for target in targets]


def test_predicates(serve, counter):
    server = serve(conf(counter, "scgi_cache_purge $purges;"))
    with server.client() as client:
        assert texts(client, "/a", "/b", "/a") == ["1", "2", "1"]
        assert client.request("/a", method="PURGE").status == 204
        assert client.request("/a", method="PURGE").status == 404
        assert texts(client, "/a", "/b") == ["3", "2"]


def test_prefixes(serve, counter):
    server = serve(conf(counter, "scgi_cache_purge $purges;"))
    with server.client() as client:
        assert texts(client, "/x/1", "/x/2", "/y", "/x/1") == ["1", "2", "3", "1"]
        assert client.request("/x/*", method="PURGE").status == 204
        assert texts(client, "/x/1", "/x/2", "/y") == ["4", "5", "3"]
        assert client.request("/nothing/*", method="PURGE").status == 404


def test_a_method(serve, counter):
    server = serve(conf(counter, "scgi_cache_purge DELETE from 127.0.0.1;",
                        "location /far/ { scgi_pass 127.0.0.1:%d; "
                        "scgi_cache_purge PURGE from 10.0.0.0/8; }" % counter.port))
    with server.client() as client:
        assert texts(client, "/a", "/far/a", "/a") == ["1", "2", "1"]
        response = client.request("/a", method="DELETE")
        assert response.status == 200 and "Key : /a" in response.text
        assert client.request("/a", method="DELETE").status == 404
        assert client.request("/far/a", method="PURGE").status == 403
        assert texts(client, "/a", "/far/a") == ["3", "2"]
    server.wait_log("access forbidden by rule")


def test_a_place_of_its_own(serve, counter):
    server = serve(conf(counter, "", """
        location ~ ^/purge(/.*)$ { allow 127.0.0.1; deny all; scgi_cache_purge z $1; }
    """))
    with server.client() as client:
        assert texts(client, "/a<b", "/c", "/a<b") == ["1", "2", "1"]
        response = client.request("/purge/a<b")
        assert response.status == 200 and "Key : /a&lt;b" in response.text
        assert client.request("/purge/a<b").status == 404
        assert client.request("/purge/c", method="POST", body=b"").status == 405
        assert texts(client, "/a<b", "/c") == ["3", "2"]


def test_places_with_conditions(serve, counter):
    """A block `if` that matches keeps what the location around it purges, as it keeps what it
    asks; one that does not match changes nothing."""
    server = serve(conf(counter, """
        scgi_cache_purge $purges;
        if ($arg_if) { set $matched 1; add_header X-If yes; }
    """, """
        location ~ ^/purge(?<key>/.*)$ {
            scgi_cache_purge z $key;
            if ($arg_if) { add_header X-If yes; }
        }
    """))
    with server.client() as client:
        for query in ("", "?if=1"):
            first = client.request("/a" + query).text
            assert client.request("/a" + query).text == first
            response = client.request("/purge/a" + query)
            assert response.status == 200 and "Key : /a" in response.text, query
            assert (("X-If", "yes") in response.headers) == (query != "")
            assert client.request("/purge/a" + query).status == 404
            second = client.request("/a" + query).text
            assert second != first
            assert client.request("/a" + query, method="PURGE").status == 204
            assert client.request("/a" + query, method="PURGE").status == 404
            assert client.request("/a" + query).text not in (first, second)
