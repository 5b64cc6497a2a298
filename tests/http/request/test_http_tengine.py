"""What Tengine adds to error pages and to the Server field."""

import re

import pytest

from harness import binaries

pytestmark = pytest.mark.skipif("Portunus" not in binaries.version_text(binaries.under_test()),
                                reason="not Portunus")

PAGE = "<html>\r\n<head><title>404 Not Found</title></head>\r\n<body>\r\n" \
       "<center><h1>404 Not Found</h1></center>\r\n%s</body>\r\n</html>\r\n"
SIGNATURE = "<hr><center>%s</center>\r\n"


def test_server_tag(serve):
    server = serve("""
        server_tag "Harbour/1 (x)";
        server { listen 127.0.0.1:@PORT@; root html;
            location / { return 200 x; }
            location /404 { return 404; }
            location /own { server_tag own; return 404; }
            location /off { server_tag off; return 200 x; }
            location /off404 { server_tag off; return 404; }
        }
    """)
    response = server.get("/")
    assert response.all("Server") == ["Harbour/1 (x)"] and response.text == "x"
    response = server.get("/404")
    assert response.all("Server") == ["Harbour/1 (x)"]
    assert response.text == PAGE % ("<hr/>Powered by Harbour/1 (x)" + SIGNATURE % "Harbour/1 (x)")
    assert server.get("/own").text == PAGE % ("<hr/>Powered by own" + SIGNATURE % "own")
    assert server.get("/off").all("Server") == []
    response = server.get("/off404")
    assert response.all("Server") == [] and response.text == PAGE % ""


def test_log_format_of_a_server_and_of_a_location(serve):
    server = serve("""
        server { listen 127.0.0.1:@PORT@; log_format outer "outer $uri"; access_log logs/a.log outer;
                 location / { return 200 x; }
                 location /in { log_format inner "inner $uri"; access_log logs/a.log inner; return 200 x; } }
    """)
    server.get("/")
    server.get("/in")
    assert server.wait_lines("logs/a.log", 2) == ["outer /", "inner /in"]


def test_the_longest_tag_fits_every_head(serve):
    server = serve("""
        server { listen 127.0.0.1:@PORT@; server_tag %s; keepalive_timeout 75 99999999;
            location / { return 200 x; }
            location /431 { return 431 ""; }
        }
    """ % ("t" * 128))
    assert server.get("/").header("Server") == "t" * 128
    assert server.get("/431").header("Server") == "t" * 128


def rows(text):
    return re.findall(r"<tr><td>(\w+):</td><td>(.*)</td></tr>\r\n", text)


def test_server_info(serve):
    server = serve("""
        server { listen 127.0.0.1:@PORT@; server_admin "the <crew> & co";
            location / { return 404; }
            location /200 { return 200 x; }
            location /301 { return 301 /; }
            location /plain { server_info off; return 404; }
        }
        server { listen 127.0.0.1:@PORT1@;
            location / { return 404; }
            location /told { server_info on; return 404; }
        }
    """)
    text = server.get('/a?b="<>').text
    assert re.fullmatch(re.escape(PAGE).replace("%s", "(?s:(.*))"), text)
    port = server.port
    found = dict(rows(text))
    assert list(found) == ["URL", "Server", "Date", "Admin"]
    assert re.fullmatch(r'http://[^/]+/a\?b=&quot;&lt;&gt;', found["URL"]), (port, found)
    assert re.fullmatch(r"\d{4}/\d\d/\d\d \d\d:\d\d:\d\d", found["Date"])
    assert found["Admin"] == "the &lt;crew&gt; &amp; co"
    assert server.get("/200").text == "x"
    assert rows(server.get("/301").text) == []
    assert rows(server.get("/plain").text) == []

    other = server.port_of("PORT1")
    assert rows(server.get("/", port=other).text) == []
    assert [name for name, _ in rows(server.get("/told", port=other).text)] == [
        "URL", "Server", "Date"]


def test_what_is_asked_for_never_becomes_markup(serve):
    """Also where the request was refused before it had a host or a path."""
    server = serve("server { listen 127.0.0.1:@PORT@; server_info on; }")
    with server.client() as client:
        client.send(b"GET http://a<b>/ HTTP/1.1\r\nHost: <i>\r\n\r\n")
        response = client.response()
        assert response.status == 400
        assert "<i>" not in response.text and "<b>" not in response.text
    with server.client() as client:
        client.send(b"GET /<script> HTTP/1.1\r\nHost: a\r\n\r\n")
        response = client.response()
        assert response.status == 404 and "<script>" not in response.text
    with server.client() as client:
        client.send(b"nonsense\r\n\r\n")
        assert client.response().status == 400
