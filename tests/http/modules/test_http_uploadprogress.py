"""uploadprogress: how far uploads are, told to those who ask by their names. What each says was watched of nginx with Debian's module, but where
a comment says otherwise."""

import json
import os
import signal

import pytest

from harness import Server, run_binary, until
from harness.h2 import H2

CONFIG = """
upload_progress z 1m; client_max_body_size 1m;
server { listen 127.0.0.1:@PORT@;
    location /up { proxy_pass http://127.0.0.1:@PORT@/ok; track_uploads z 30s; }
    location /stream { proxy_pass http://127.0.0.1:@PORT@/ok; proxy_request_buffering off; track_uploads z 30s; }
    location /bad { proxy_pass http://127.0.0.1:@PORT@/no; track_uploads z 30s; }
    location /moved { proxy_pass http://127.0.0.1:@PORT@/re; track_uploads z 30s; }
    location /shut { deny all; track_uploads z 30s; }
    location /brief { proxy_pass http://127.0.0.1:@PORT@/ok; track_uploads z 0; }
    location = /ok { proxy_pass http://127.0.0.1:@PORT@/end; } location = /end { return 200 ok; } location = /no { return 404 no; } location = /re { return 302 /; }
    location = /p { report_uploads z; }
    location = /json { report_uploads z; upload_progress_json_output; }
    location = /java { report_uploads z; upload_progress_java_output; }
    location = /jsonp { report_uploads z; upload_progress_jsonp_output; upload_progress_jsonp_parameter fn; }
    location = /template { report_uploads z; upload_progress_content_type text/x; upload_progress_template starting S;
        upload_progress_template uploading "U $uploadprogress_received of $uploadprogress_length $uploadprogress_callback";
        upload_progress_template error "E $uploadprogress_status"; upload_progress_template done D; }
    location = /field { report_uploads z; upload_progress_header X-Foo; upload_progress_json_output; }
    location = /vars { return 200 "[$uploadprogress_received$uploadprogress_length$uploadprogress_status]"; }
}
"""


@pytest.fixture(scope="module")
def server():
    with_all = Server(CONFIG, main="worker_processes 2;")
    yield with_all.start()
    with_all.close()


def state(server, name, *headers):
    return json.loads(server.get("/json?X-Progress-ID=" + name, *headers).text)


def begin(server, target, length, data=b"", *headers):
    client = server.client()
    lines = ["POST %s HTTP/1.1" % target, "Host: a", "Content-Length: %d" % length, *headers]
    client.send("\r\n".join(lines).encode() + b"\r\n\r\n" + data)
    return client


def wait_received(server, name, count):
    until(lambda: state(server, name).get("received") == count, "%d bytes of %s" % (count, name))


def test_forms_of_what_is_not_known(server):
    for path, kind, text in (("/p?callback=fu", "text/javascript", 'fu({ "state" : "starting" });\r\n'), ("/p?a", "text/javascript", '({ "state" : "starting" });\r\n'),
                             ("/json?a", "application/json", '{ "state" : "starting" }\r\n'), ("/java?a", "text/javascript", "new Object({ 'state' : 'starting' })\r\n"),
                             ("/jsonp?fn=x.y", "application/javascript", 'x.y({ "state" : "starting" });\r\n'), ("/template?a", "text/x", "S")):
        answer = server.get(path + "&X-Progress-ID=none")
        assert (answer.status, answer.header("Content-Type"), answer.text) == (200, kind, text)
        assert (answer.header("Cache-Control"), answer.header("Expires")) == ("no-cache", "Thu, 01 Jan 1970 00:00:01 GMT")


@pytest.mark.parametrize("target", ["/up", "/stream"])
def test_from_the_first_byte_to_the_answer(server, target):
    name = "whole" + target[1:]
    client = begin(server, "%s?X-Progress-ID=%s" % (target, name), 100000)
    wait_received(server, name, 0)
    client.send(b"x" * 40000)
    wait_received(server, name, 40000)
    assert server.get("/p?callback=cb&X-Progress-ID=" + name).text == 'cb({ "state" : "uploading", "received" : 40000, "size" : 100000 });\r\n'
    assert server.get("/java?X-Progress-ID=" + name).text == "new Object({ 'state' : 'uploading', 'received' : 40000, 'size' : 100000 })\r\n"
    assert server.get("/template?callback=cb&X-Progress-ID=" + name).text == "U 40000 of 100000 cb"
    client.send(b"x" * 60000)
    assert client.response("POST").text == "ok"
    until(lambda: state(server, name) == {"state": "done"}, "its end")
    assert server.get("/template?X-Progress-ID=" + name).text == "D"


@pytest.mark.parametrize("target,status", [("/bad", 404), ("/shut", 403), ("/moved", None)])
def test_answers(server, target, status):
    name = target[1:]
    assert begin(server, "%s?X-Progress-ID=%s" % (target, name), 3, b"abc").response("POST").status == (status or 302)
    until(lambda: state(server, name)["state"] != "uploading", "its end")
    assert state(server, name) == ({"state": "error", "status": status} if status else {"state": "done"})
    assert server.get("/template?X-Progress-ID=" + name).text == ("E %d" % status if status else "D")


def test_broken_off(server):
    begin(server, "/up?X-Progress-ID=off", 1000, b"xx").socket.close()
    until(lambda: state(server, "off")["state"] == "error", "its end")
    assert state(server, "off") == {"state": "error", "status": 400}


def test_too_large(server):
    with begin(server, "/up?X-Progress-ID=large", 2000000, b"xx") as client:
        assert client.response("POST").status == 413
    until(lambda: state(server, "large") == {"state": "error", "status": 413}, "the error")


def test_chunked_body_has_no_size(server):
    client = server.client()
    client.send(b"POST /up?X-Progress-ID=chunks HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n")
    wait_received(server, "chunks", 3)  # nginx's module does not count these
    assert state(server, "chunks")["size"] == -1
    client.send(b"0\r\n\r\n")
    assert client.response("POST").status == 200


def test_names(server):
    """The field comes before the argument; names are not decoded; other methods are not tracked, and requests without a name."""
    one = begin(server, "/up?X-Progress-ID=arg", 5, b"a", "X-Progress-ID: field")
    wait_received(server, "field", 1)
    assert state(server, "arg") == {"state": "starting"}
    assert server.get("/json", "X-Progress-ID: field").text == server.get("/field", "X-Foo: field").text == server.get("/field?X-Foo=field").text
    assert server.get("/field?X-Progress-ID=field").status == 404
    two = begin(server, "/up?b=1&x-progress-id=a%20b", 5, b"a")
    wait_received(server, "a%20b", 1)
    assert state(server, "x", "X-Progress-ID: a b") == {"state": "starting"}
    put = server.client()
    put.send(b"PUT /up?X-Progress-ID=put HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nxy")
    assert put.response("PUT").status == 200 and state(server, "put") == {"state": "starting"}
    assert begin(server, "/up", 2, b"xy").response("POST").status == 200
    for client in (one, two):
        client.send(b"more")
        assert client.response("POST").status == 200


def test_who_asks_for_nothing_is_answered_elsewhere(server):
    assert server.get("/p").status == 404 and server.get("/p?X-Progress-ID=").status == 404
    with server.client() as client:
        assert client.request("/p?X-Progress-ID=a", method="POST", body=b"").status == 405
        head = client.request("/p?X-Progress-ID=a", method="HEAD")
        assert (head.status, head.header("Cache-Control")) == (200, "no-cache")
    assert server.get("/vars?X-Progress-ID=a").text == "[]"


def test_a_callback_is_the_name_of_a_function(server):
    for bad in ("<script>", "alert(1)", "a;b", "a%28", "x" * 300):
        assert server.get("/p?X-Progress-ID=a&callback=" + bad).text.startswith("({")
    assert server.get("/p?X-Progress-ID=a&callback=jQuery_1.$[0]").text.startswith("jQuery_1.$[0]({")


def test_a_name_under_way_is_taken(server):
    first = begin(server, "/up?X-Progress-ID=twice", 10, b"abc")
    wait_received(server, "twice", 3)
    assert begin(server, "/up?X-Progress-ID=twice", 10, b"abc").response("POST").status == 500
    server.wait_log(r"upload_progress: tracking already registered id: twice")
    assert state(server, "twice") == {"state": "uploading", "received": 3, "size": 10}  # with nginx's module the first is in error now
    first.send(b"defghij")
    assert first.response("POST").status == 200
    until(lambda: state(server, "twice") == {"state": "done"}, "its end")
    assert begin(server, "/up?X-Progress-ID=twice", 3, b"abc").response("POST").status == 200  # nor is the name free there before its time is over


def test_what_is_over_is_forgotten(server):
    assert begin(server, "/brief?X-Progress-ID=brief", 3, b"abc").response("POST").status == 200
    until(lambda: state(server, "brief") == {"state": "starting"}, "the end of its time")


def test_http2(serve):
    server = serve(CONFIG.replace("listen 127.0.0.1:@PORT@;", "listen 127.0.0.1:@PORT@; http2 on;"))
    with H2(server.port) as h2:
        stream = h2.request("/up?X-Progress-ID=two", method="POST", headers=[("content-length", "10")], ends=False)
        h2.data(stream, b"abcd", ends=False)
        wait_received(server, "two", 4)
        h2.data(stream, b"efghij")
        assert h2.answer(stream).status == 200
    until(lambda: state(server, "two") == {"state": "done"}, "its end")


def test_workers_and_reload(serve):
    """An upload that an old worker goes on with is seen by the new ones; one whose worker died gives way."""
    server = serve(CONFIG, main="worker_processes 2; worker_shutdown_timeout 30s;", allow=[r"exited on signal 9"])
    upload = begin(server, "/up?X-Progress-ID=long", 100, b"x" * 10)
    wait_received(server, "long", 10)
    old = server.children()
    server.reload()
    until(lambda: len([pid for pid in server.children() if pid not in old]) == 2, "new workers")
    upload.send(b"x" * 20)
    wait_received(server, "long", 30)
    holder, = until(lambda: len(left := set(old) & set(server.children())) == 1 and left, "the end of the other old worker")
    os.kill(holder, signal.SIGKILL)
    until(lambda: state(server, "long") == {"state": "starting"}, "the dead worker's upload")
    assert begin(server, "/up?X-Progress-ID=long", 3, b"abc").response("POST").status == 200


def test_a_full_zone(serve):
    """What has ended gives way, what is under way does not."""
    server = serve(CONFIG.replace("z 1m", "z 32k").replace("client_max_body_size 1m;", "client_max_body_size 1m; keepalive_requests 100000;"))
    upload = begin(server, "/up?X-Progress-ID=stays", 100, b"x")
    wait_received(server, "stays", 1)
    with server.client() as client:
        for i in range(700):
            assert client.request("/bad?X-Progress-ID=n%d" % i, method="POST", body=b"x").status == 404
    assert state(server, "stays")["state"] == "uploading" and state(server, "n0") == {"state": "starting"}
    until(lambda: state(server, "n699")["state"] == "error", "the last")
    upload.send(b"x" * 99)
    assert upload.response("POST").status == 200


@pytest.mark.parametrize("text,wrong", [
    ("upload_progress z;", 'invalid number of arguments in "upload_progress"'),
    ("upload_progress z 1x;", 'invalid size of track_uploads "1x"'),
    ("upload_progress z 4k;", 'track_uploads "z" is too small'),
    ("upload_progress z 1m; upload_progress z 1m;", 'track_uploads "z" is already created'),
    ("upload_progress z 1m; server { location / { track_uploads z 5x; } }", 'track_uploads "z" timeout value invalid'),
    ("server { location / { report_uploads z; } }", 'zero size shared memory zone "z"'),
    ("server { location / { track_uploads z 5s; } }", 'zero size shared memory zone "z"'),
    ("upload_progress_template foo a;", 'unknown state "foo"'),
    ('upload_progress_template done "$foo_bar";', 'unknown "foo_bar" variable'),
    ("upload_progress_header a; upload_progress_header b;", '"upload_progress_header" directive is duplicate'),
    ("upload_progress_json_output on;", "invalid number of arguments"),
    ("upload_progress z 1m; server { location / { track_uploads z 5s; track_uploads z 5s; } }", '"track_uploads" directive is duplicate'),
])
def test_what_is_refused(tmp_path, text, wrong):
    (tmp_path / "nginx.conf").write_text("events { } http { %s }" % text)
    (tmp_path / "logs").mkdir()
    result = run_binary("-t", "-p", str(tmp_path), "-c", "nginx.conf")
    assert result.returncode == 1 and wrong in result.stderr
