"""proxy_set_header_inherit, fastcgi_param_inherit and the others: on, off, merge."""

import pytest

import cgi_backends
import fastcgi_backends
from harness.server import run_binary

SHOW = 'return 200 "$http_host|$http_x_a|$http_x_b|$http_x_c";'


def ask(server, path):
    with server.client() as client:
        return client.request(path).text


def test_set_header(serve):
    """Merged lines override those of the same name, whatever its case; nested blocks inherit what was merged."""
    server = serve("""
        proxy_set_header Host outer; proxy_set_header X-A http; proxy_set_header X-B http;
        server {
            listen 127.0.0.1:@PORT@;
            location /on { proxy_set_header X-C own; proxy_pass http://127.0.0.1:@PORT1@; }
            location /none { proxy_pass http://127.0.0.1:@PORT1@; }
            location /merge {
                proxy_set_header_inherit merge;
                proxy_set_header x-b own; proxy_set_header X-C own;
                proxy_pass http://127.0.0.1:@PORT1@;
                location /merge/plain { proxy_pass http://127.0.0.1:@PORT1@; }
                location /merge/again { proxy_set_header X-C inner; proxy_pass http://127.0.0.1:@PORT1@; }
                location /merge/on { proxy_set_header_inherit on; proxy_set_header X-C inner; proxy_pass http://127.0.0.1:@PORT1@; }
                location /merge/if { if ($arg_x) { proxy_pass http://127.0.0.1:@PORT1@; } }
                location /merge/empty { proxy_set_header X-A ""; proxy_pass http://127.0.0.1:@PORT1@; }
            }
            location /off {
                proxy_set_header_inherit off; proxy_pass http://127.0.0.1:@PORT1@;
                location /off/own { proxy_set_header X-C own; proxy_pass http://127.0.0.1:@PORT1@; if ($arg_x) { set $y 1; } }
            }
        }
        server { listen 127.0.0.1:@PORT1@; location / { %s } }
    """ % SHOW)
    port1 = server.port_of("PORT1")
    host = "127.0.0.1:%d" % port1
    assert ask(server, "/none") == "outer|http|http|"
    assert ask(server, "/on") == host + "|||own"
    assert ask(server, "/merge") == "outer|http|own|own"
    assert ask(server, "/merge/plain") == "outer|http|own|own"
    assert ask(server, "/merge/again") == "outer|http|own|inner"
    assert ask(server, "/merge/on") == host + "|||inner"
    assert ask(server, "/merge/if?x=1") == "outer|http|own|own"
    assert ask(server, "/merge/empty") == "outer||own|own"
    assert ask(server, "/off") == host + "|||"
    assert ask(server, "/off/own?x=1") == host + "|||own"


def test_line_of_merge_may_come_last(serve):
    """Where the row is in the block makes no difference."""
    server = serve("""
        proxy_set_header X-A http;
        server {
            listen 127.0.0.1:@PORT@;
            location / { proxy_set_header X-B own; proxy_pass http://127.0.0.1:@PORT1@; proxy_set_header_inherit merge; }
            proxy_set_header X-C server; proxy_set_header X-A server;
        }
        server { listen 127.0.0.1:@PORT1@; location / { %s } }
    """ % SHOW)
    assert ask(server, "/") == "127.0.0.1:%d|server|own|server" % server.port_of("PORT1")


@pytest.mark.parametrize("protocol", ["proxy", "scgi", "uwsgi", "fastcgi"])
def test_hidden_and_passed_fields(serve, protocol):
    """What both lists name is passed; names differ by no case."""
    head = b"Content-Type: text/plain\r\nX-A: 1\r\nX-B: 2\r\nX-Accel-Charset: none\r\nX-Pad: p\r\nStatus: 200\r\n"
    if protocol == "fastcgi":
        back = "127.0.0.1:%d" % fastcgi_backends.Scripted(fastcgi_backends.answer(b"hello", head + b"\r\n")).port
    elif protocol == "proxy":
        back = "http://127.0.0.1:@PORT1@"
    else:
        read = cgi_backends.read_scgi if protocol == "scgi" else cgi_backends.read_uwsgi
        back = "127.0.0.1:%d" % cgi_backends.Scripted(lambda *_: head + b"\r\nhello", read=read).port
    server = serve("""
        PROTO_hide_header X-A; PROTO_pass_header X-Accel-Charset;
        server {
            listen 127.0.0.1:@PORT@; PROTO_read_timeout 5s; PROTO_pass_header_inherit merge;
            location / { PROTO_pass BACK; }
            location /on { PROTO_hide_header X-B; PROTO_pass BACK; }
            location /merge { PROTO_hide_header_inherit merge; PROTO_hide_header x-b; PROTO_pass_header x-pad; PROTO_pass BACK;
                location /merge/both { PROTO_pass_header X-A; PROTO_pass BACK; }
                location /merge/if { if ($arg_x) { PROTO_pass BACK; } } }
            location /off { PROTO_hide_header_inherit off; PROTO_pass_header_inherit off; PROTO_pass BACK;
                location /off/own { PROTO_hide_header X-B; PROTO_pass BACK; } }
        }
        server { listen 127.0.0.1:@PORT1@; add_header X-A 1; add_header X-B 2; add_header X-Accel-Charset none; add_header X-Pad p; location / { return 200 hello; } }
    """.replace("PROTO", protocol).replace("BACK", back))

    def fields(path):
        answer = server.get(path)
        assert answer.status == 200
        names = ("X-A", "X-B", "X-Accel-Charset", "X-Pad") if protocol == "proxy" else ("X-A", "X-B", "X-Accel-Charset")
        return [name for name in names if answer.header(name) is not None]

    pad = ["X-Pad"] if protocol == "proxy" else []
    assert fields("/") == ["X-B", "X-Accel-Charset"]
    assert fields("/on") == ["X-A", "X-Accel-Charset"]
    assert fields("/merge") == ["X-Accel-Charset"] + pad
    assert fields("/merge/both") == ["X-A", "X-Accel-Charset"] + pad
    assert fields("/merge/if?x=1") == ["X-Accel-Charset"] + pad
    assert fields("/off") == ["X-A", "X-B"]
    assert fields("/off/own") == ["X-A"]


def configured(pairs):
    return [(name, value) for name, value in pairs if name.lower().startswith("p_")]


@pytest.mark.parametrize("protocol", ["scgi", "uwsgi", "fastcgi"])
def test_params(serve, protocol):
    """Names of parameters differ by case; a name that a block has several times stays so."""
    if protocol == "fastcgi":
        back = fastcgi_backends.Scripted(fastcgi_backends.answer())
    else:
        read = cgi_backends.read_scgi if protocol == "scgi" else cgi_backends.read_uwsgi
        back = cgi_backends.Scripted(lambda *_: b"Content-Type: text/plain\r\n\r\nhello", read=read)
    server = serve("""
        PROTO_param P_A http; PROTO_param P_B http;
        server {
            listen 127.0.0.1:@PORT@; PROTO_read_timeout 5s;
            location /on { PROTO_param P_C own; PROTO_pass 127.0.0.1:BACK; }
            location /merge {
                PROTO_param_inherit merge; PROTO_param P_B own; PROTO_param p_a own; PROTO_param P_B more; PROTO_pass 127.0.0.1:BACK;
            }
            location /off { PROTO_param_inherit off; PROTO_pass 127.0.0.1:BACK; }
        }
    """.replace("PROTO", protocol).replace("BACK", str(back.port)))
    sent = []
    for path in ("/on", "/merge", "/off"):
        assert ask(server, path) == "hello"
        sent.append(configured(back.requests[-1].pairs if protocol == "fastcgi" else back.requests[-1][0]))
    assert sent == [[("P_C", "own")], [("P_A", "http"), ("P_B", "own"), ("p_a", "own"), ("P_B", "more")], []]


@pytest.mark.parametrize("name", ["proxy_set_header", "grpc_set_header", "fastcgi_param", "scgi_param", "uwsgi_param",
                                  "proxy_hide_header", "grpc_pass_header", "fastcgi_hide_header"])
def test_values(tmp_path, name):
    for value, error in (("on", None), ("off", None), ("merge", None), ("x", "invalid value \"x\"")):
        (tmp_path / "nginx.conf").write_text("events {} http { %s_inherit %s; server { listen unix:x; } }" % (name, value))
        result = run_binary("-t", "-p", str(tmp_path), "-c", "nginx.conf", "-e", "stderr")
        assert (error or "syntax is ok") in result.stderr
