"""dav_ext: PROPFIND, OPTIONS, LOCK and UNLOCK; what locks forbid; real clients."""

import os
import re
import shutil
import subprocess
import xml.etree.ElementTree as ElementTree

import pytest

from harness import Server, binaries, run_binary
from harness.h2 import H2
from harness.wait import until
from harness.workers import wait_workers

pytestmark = pytest.mark.skipif("Portunus" not in binaries.version_text(binaries.under_test()),
                                reason="the reference needs a module, and knows less of locks")

LOCKINFO = ('<?xml version="1.0"?><D:lockinfo xmlns:D="DAV:"><D:lockscope><D:%s/></D:lockscope>'
            "<D:locktype><D:write/></D:locktype><D:owner><D:href>me &amp; you</D:href></D:owner></D:lockinfo>")
HTTP = "dav_ext_lock_zone zone=locks:1m timeout=10m;"


def conf(*lines, http=HTTP):
    return """
        %s
        server {
            listen 127.0.0.1:@PORT@;
            root html;
            dav_methods PUT DELETE MKCOL COPY MOVE;
            dav_ext_methods PROPFIND OPTIONS LOCK UNLOCK;
            dav_ext_lock zone=locks;
            client_max_body_size 10m;
            %s
        }""" % (http, "\n".join(lines))


@pytest.fixture
def dav(serve):
    def start(*lines, files=None, http=HTTP, **more):
        tree = {"html/a.txt": "a\n", "html/d/b c&.txt": "b\n", "html/d/in/c.txt": "c\n", "html/other/x.txt": "x\n"}
        tree.update(files or {})
        server = serve(conf(*lines, http=http), files=tree, **more)
        for directory, _, names in os.walk(server.path("html")):
            os.chmod(directory, 0o777)
            for name in names:
                os.chmod(os.path.join(directory, name), 0o666)
        return server
    return start


def ask(server, method, target, *headers, body=None):
    with server.client() as client:
        return client.request(target, *headers, method=method, body=body)


def lock(server, target, *headers, scope="exclusive"):
    """The answer to a LOCK, and the token."""
    answer = ask(server, "LOCK", target, *headers, body=LOCKINFO % scope)
    token = answer.header("Lock-Token")
    return answer, token[1:-1] if token else None


def members(answer):
    """href: {status: {name: text}} of a multistatus."""
    assert answer.status == 207 and answer.header("Content-Type") == "text/xml; charset=utf-8", answer
    found = {}
    for response in ElementTree.fromstring(answer.body).findall("{DAV:}response"):
        stats = found.setdefault(response.find("{DAV:}href").text, {})
        for stat in response.findall("{DAV:}propstat"):
            status = int(stat.find("{DAV:}status").text.split()[1])
            stats[status] = {prop.tag: "".join(prop.itertext()).strip() for prop in stat.find("{DAV:}prop")}
    return found


def test_options(dav):
    server = dav("location /no/ { dav_ext_lock off; }", "location /off/ { dav_ext_methods off; }")
    answer = ask(server, "OPTIONS", "/a.txt")
    assert answer.status == 200 and answer.header("DAV") == "1, 2" and "PROPFIND" in answer.header("Allow") and answer.body == b""
    assert ask(server, "OPTIONS", "/no/").header("DAV") == "1"
    assert ask(server, "LOCK", "/no/x", body=LOCKINFO % "exclusive").status == 405
    assert ask(server, "OPTIONS", "/off/").status == 405


def test_properties_of_a_file(dav):
    server = dav()
    got, = members(ask(server, "PROPFIND", "/a.txt")).values()
    static = server.get("/a.txt")
    assert got[200]["{DAV:}getcontentlength"] == "2" and got[200]["{DAV:}displayname"] == "a.txt"
    assert got[200]["{DAV:}getetag"] == static.header("ETag")
    assert got[200]["{DAV:}getlastmodified"] == static.header("Last-Modified")
    assert got[200]["{DAV:}resourcetype"] == "" and list(got) == [200]


def test_members_of_a_directory(dav):
    server = dav()
    assert sorted(members(ask(server, "PROPFIND", "/d/", "Depth: 1"))) == ["/d/", "/d/b%20c&.txt", "/d/in/"]
    assert sorted(members(ask(server, "PROPFIND", "/d", "Depth: 1"))) == ["/d", "/d/b%20c&.txt", "/d/in/"]
    assert list(members(ask(server, "PROPFIND", "/d/", "Depth: 0"))) == ["/d/"]
    assert ask(server, "PROPFIND", "/d/", "Depth: infinity").status == 403
    assert ask(server, "PROPFIND", "/d/", "Depth: 2").status == 400
    assert ask(server, "PROPFIND", "/missing", "Depth: 0").status == 404


def test_chosen_properties(dav):
    server = dav()
    body = '<propfind xmlns="DAV:"><prop><getetag/><getcontentlength/><x xmlns="u:&amp;"/></prop></propfind>'
    got = members(ask(server, "PROPFIND", "/d/", "Depth: 1", body=body))
    assert set(got["/d/b%20c&.txt"][200]) == {"{DAV:}getetag", "{DAV:}getcontentlength"}
    assert set(got["/d/b%20c&.txt"][404]) == {"{u:&}x"}
    assert set(got["/d/"][404]) == {"{DAV:}getetag", "{DAV:}getcontentlength", "{u:&}x"}
    names = members(ask(server, "PROPFIND", "/a.txt", body='<D:propfind xmlns:D="DAV:"><D:propname/></D:propfind>'))
    assert len(names["/a.txt"][200]) == 7 and not any(names["/a.txt"][200].values())


@pytest.mark.one_server
@pytest.mark.parametrize("body", [
    "junk", "<propfind/>", "<D:propfind", '<propfind xmlns="DAV:">',
    '<!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/passwd">]><propfind xmlns="DAV:"><prop><a>&e;</a></prop></propfind>',
    '<propfind xmlns="DAV:"><prop><x xmlns="u:&lt;"/></prop></propfind>', '<?xml version="1"?><propfind xmlns="DAV:"><allprop/></propfind>',
    '<propfind xmlns="DAV:">' + "<a>" * 1000, '<propfind xmlns="DAV:"><prop>' + "".join("<p%d/>" % n for n in range(500)) + "</prop></propfind>",
])
def test_bad_bodies(dav, body):
    server = dav()
    assert ask(server, "PROPFIND", "/", body=body).status == 400
    assert ask(server, "LOCK", "/a.txt", body=body).status == 400
    assert server.get("/a.txt").text == "a\n"


def test_bodies_are_bounded(dav):
    server = dav("client_body_buffer_size 1k;")
    assert ask(server, "PROPFIND", "/", body="<propfind xmlns='DAV:'>" + " " * 70000 + "</propfind>").status == 413
    assert ask(server, "PROPFIND", "/", body="<propfind xmlns='DAV:'>" + " " * 60000 + "<allprop/></propfind>").status == 207


def test_names_that_xml_cannot_say(dav):
    server = dav()
    for name in (b"ctl\x01", b"bad\xff", b"<tag>", "\u20ac".encode()):
        with open(os.path.join(server.path("html").encode(), b"d", name), "wb"):
            pass
    got = members(ask(server, "PROPFIND", "/d/", "Depth: 1"))
    shown = {stats[200]["{DAV:}displayname"] for stats in got.values()}
    assert {"ctl?", "bad?", "<tag>", "\u20ac"} <= shown
    for href in got:
        assert ask(server, "PROPFIND", href).status == 207, href


def test_many_members(dav):
    server = dav()
    os.mkdir(server.path("html/many"))
    for number in range(3000):
        with open(server.path("html/many/%d" % number), "w"):
            pass
    assert len(members(ask(server, "PROPFIND", "/many/", "Depth: 1"))) == 3001


def test_links_are_left_out_where_they_are_forbidden(dav):
    server = dav("location /strict/ { disable_symlinks on; alias html/; }")
    os.symlink("/etc/passwd", server.path("html/link"))
    os.symlink("/etc", server.path("html/etc"))
    assert "/link" in members(ask(server, "PROPFIND", "/", "Depth: 1"))
    strict = members(ask(server, "PROPFIND", "/strict/", "Depth: 1"))
    assert "/strict/link" not in strict and "/strict/etc/" not in strict and "/strict/a.txt" in strict
    assert ask(server, "PROPFIND", "/strict/etc/", "Depth: 1").status in (403, 404)


def test_a_lock_is_made_shown_and_given_back(dav):
    server = dav()
    answer, token = lock(server, "/a.txt", "Timeout: Infinite, Second-5")
    assert answer.status == 200 and re.fullmatch(r"urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", token)
    shown = ElementTree.fromstring(answer.body).find(".//{DAV:}activelock")
    assert shown.find("{DAV:}timeout").text == "Second-600" and shown.find("{DAV:}depth").text == "infinity"
    assert shown.find("{DAV:}owner").text == "me & you" and shown.find("{DAV:}lockroot/{DAV:}href").text == "/a.txt"
    assert token in members(ask(server, "PROPFIND", "/a.txt"))["/a.txt"][200]["{DAV:}lockdiscovery"]
    assert lock(server, "/a.txt")[0].status == 423
    assert ask(server, "UNLOCK", "/a.txt").status == 400
    assert ask(server, "UNLOCK", "/a.txt", "Lock-Token: <urn:uuid:00000000-0000-4000-8000-000000000000>").status == 409
    assert ask(server, "UNLOCK", "/d/", "Lock-Token: <%s>" % token).status == 409
    assert ask(server, "UNLOCK", "/a.txt", "Lock-Token: <%s>" % token).status == 204
    assert lock(server, "/a.txt")[0].status == 200


def test_what_is_locked_is_not_changed(dav):
    server = dav()
    _, token = lock(server, "/a.txt")
    for method, target, *headers in (("PUT", "/a.txt"), ("DELETE", "/a.txt"), ("MOVE", "/a.txt", "Destination: /z"),
                                     ("COPY", "/other/x.txt", "Destination: /a.txt"), ("MOVE", "/other/x.txt", "Destination: /a.txt")):
        answer = ask(server, method, target, *headers, body="new" if method == "PUT" else None)
        assert answer.status == 423, (method, target)
    assert server.get("/a.txt").text == "a\n"
    assert ask(server, "COPY", "/a.txt", "Destination: /copy").status == 204
    for condition in ("(<%s>)", "</a.txt> (<%s>)", "<http://localhost/a.txt> (<%s>)", "(<urn:x>) (<%s>)", "(Not <DAV:no-lock> <%s>)"):
        assert ask(server, "PUT", "/a.txt", "If: " + condition % token, body="new").status == 204, condition
    for condition, status in (("(<urn:x>)", 412), ("(Not <%s>)" % token, 412), ('(<%s> ["no"])' % token, 412), ("junk", 400),
                              ("</other/x.txt> (<%s>)" % token, 412), ("<http://elsewhere/a.txt> (<%s>)" % token, 412), ("(Not <DAV:no-lock>)", 423)):
        assert ask(server, "PUT", "/a.txt", "If: " + condition, body="no").status == status, condition
    assert server.get("/a.txt").text == "new"


def test_entity_tags_in_if(dav):
    server = dav()
    etag = server.get("/a.txt").header("ETag")
    assert ask(server, "PUT", "/a.txt", 'If: (["x"])', body="no").status == 412
    assert ask(server, "PUT", "/a.txt", "If: ([%s])" % etag, body="longer").status == 204
    assert ask(server, "DELETE", "/a.txt", "If: ([%s])" % etag).status == 412


def test_locks_of_directories(dav):
    server = dav()
    _, token = lock(server, "/d/")
    assert ask(server, "PUT", "/d/in/new", body="x").status == 423
    assert ask(server, "PUT", "/d/in/new", "If: </d/> (<%s>)" % token, body="x").status == 201
    assert ask(server, "DELETE", "/d/").status == 423
    assert lock(server, "/d/in/c.txt")[0].status == 423
    assert ask(server, "DELETE", "/d/", "If: (<%s>)" % token).status == 204
    os.mkdir(server.path("html/d"))
    os.chmod(server.path("html/d"), 0o777)
    assert ask(server, "PUT", "/d/again", body="x").status == 201  # the lock has gone with what it locked


def test_depth_0_guards_the_names_in_a_directory(dav):
    server = dav()
    _, token = lock(server, "/d/", "Depth: 0")
    assert ask(server, "PUT", "/d/b%20c&.txt", body="x").status == 204
    assert ask(server, "PUT", "/d/new", body="x").status == 423
    assert ask(server, "MKCOL", "/d/new/").status == 423
    assert ask(server, "DELETE", "/d/b%20c&.txt").status == 423
    assert ask(server, "COPY", "/a.txt", "Destination: /d/new").status == 423
    assert ask(server, "PUT", "/d/in/new", body="x").status == 201
    assert ask(server, "MKCOL", "/d/new/", "If: </d/> (<%s>)" % token).status == 201
    assert lock(server, "/d/", "Depth: 1")[0].status == 400


def test_a_lock_on_nothing_makes_an_empty_file(dav):
    server = dav()
    answer, token = lock(server, "/fresh.txt")
    assert answer.status == 201 and server.get("/fresh.txt").body == b""
    assert ask(server, "PUT", "/fresh.txt", "If: (<%s>)" % token, body="x").status == 204
    assert lock(server, "/missing/f")[0].status == 404 or lock(server, "/missing/f")[0].status == 409
    assert lock(server, "/fresh2/")[0].status == 409
    assert lock(server, "/fresh2")[0].status == 201  # nothing stayed locked


def test_shared_locks(dav):
    server = dav()
    _, one = lock(server, "/a.txt", scope="shared")
    _, two = lock(server, "/a.txt", scope="shared")
    assert one != two and lock(server, "/a.txt")[0].status == 423
    assert ask(server, "PUT", "/a.txt", body="x").status == 423
    assert ask(server, "PUT", "/a.txt", "If: (<%s>)" % two, body="x").status == 204


def test_refresh_and_expiry(dav):
    server = dav(http="dav_ext_lock_zone zone=locks:1m timeout=1s;")
    answer, token = lock(server, "/a.txt", "Timeout: Second-100000")
    assert b"Second-1<" in answer.body
    assert ask(server, "LOCK", "/a.txt", "If: (<%s>)" % token).status == 200
    assert ask(server, "LOCK", "/a.txt", "If: (<urn:uuid:00000000-0000-4000-8000-000000000000>)").status == 412
    assert ask(server, "LOCK", "/a.txt").status == 400
    until(lambda: ask(server, "PUT", "/a.txt", body="x").status == 204, "the lock expires")


def test_locks_live_over_workers_and_reloads(dav):
    server = dav(main="worker_processes 3;")
    _, token = lock(server, "/a.txt")
    old = server.children()
    server.reload()
    wait_workers(server, 3, without=old)
    for _ in range(10):
        assert ask(server, "PUT", "/a.txt", body="x").status == 423
    assert ask(server, "UNLOCK", "/a.txt", "Lock-Token: <%s>" % token).status == 204


def test_a_full_zone(dav):
    server = dav(http="dav_ext_lock_zone zone=locks:128k;")
    statuses = [lock(server, "/f%d" % number)[0].status for number in range(150)]
    assert set(statuses) == {201, 507}
    server.wait_log(r'no room for a lock in dav_ext zone "locks"')


def test_a_resource_has_a_bounded_number_of_locks(dav):
    """Shared ones, of which an answer lists all: 18,200 held the worker."""
    server = dav(http="dav_ext_lock_zone zone=locks:4m;")
    statuses = [lock(server, "/a.txt", scope="shared")[0].status for _ in range(70)]
    assert statuses == [200] * 64 + [507] * 6
    assert lock(server, "/d/in/c.txt")[0].status == lock(server, "/d/", "Depth: 0")[0].status == 200
    answer = ask(server, "PROPFIND", "/", "Depth: 1")
    assert members(answer) and answer.body.count(b"<D:activelock>") == 65
    assert ask(server, "PROPFIND", "/d/in/", "Depth: 1").body.count(b"<D:activelock>") == 1


@pytest.mark.parametrize("destination", ["/..", "http://other.example/x", "", "nonsense", "/%zz", "/a%00b", "http://"])
def test_a_destination_that_is_none(dav, destination):
    server = dav()
    lock(server, "/a.txt")
    assert ask(server, "COPY", "/other/x.txt", "Destination: " + destination).status in (400, 409, 502)
    assert server.get("/a.txt").text == "a\n"


def test_two_names_of_one_file_have_one_lock(dav):
    server = dav("location /alias/ { alias html/; }")
    lock(server, "/a.txt")
    assert ask(server, "PUT", "/alias/a.txt", body="x").status == 423
    assert ask(server, "COPY", "/alias/other/x.txt", "Destination: /alias/a.txt").status == 423


def test_http2(dav):
    server = dav("http2 on;")
    with H2(server.port) as h2:
        assert h2.get("/d/", "PROPFIND", headers=[("depth", "1")]).status == 207
        assert h2.get("/a.txt", "LOCK", body=(LOCKINFO % "exclusive").encode()).status == 200
        assert h2.get("/a.txt", "PUT", body=b"x").status == 423


@pytest.mark.skipif(shutil.which("litmus") is None, reason="litmus is not installed")
def test_litmus(dav, tmp_path):
    """What wants collections without their slash fails."""
    server = dav("location /dav/ { dav_ext_methods PROPFIND PROPPATCH OPTIONS LOCK UNLOCK; }")
    os.mkdir(server.path("html/dav"))
    os.chmod(server.path("html/dav"), 0o777)
    # TESTS means something to litmus, too; `make check` sets it.
    done = subprocess.run(["litmus", "-k", "http://127.0.0.1:%d/dav/" % server.port], cwd=tmp_path, capture_output=True,
                          text=True, timeout=60, errors="replace",
                          env={name: value for name, value in os.environ.items() if name != "TESTS"})
    got = {name: (int(run), int(passed)) for name, run, passed in
           re.findall(r"summary for `(\w+)': of (\d+) tests run: (\d+) passed", done.stdout)}
    assert got["basic"] == (16, 16) and got["http"] == (4, 4)
    failed = re.findall(r"(\w+)\.+ FAIL", done.stdout)
    assert got["props"][0] == got["props"][1] and set(failed) <= {"copy_overwrite", "move", "move_coll"}, done.stdout


@pytest.mark.skipif(shutil.which("cadaver") is None, reason="cadaver is not installed")
def test_cadaver(dav, tmp_path):
    server = dav()
    (tmp_path / "up.txt").write_text("from cadaver\n")
    script = "put up.txt\nmkcol c\ncopy up.txt copied.txt\nlock copied.txt\nmove up.txt moved.txt\nls\nunlock copied.txt\ndelete moved.txt\nquit\n"
    done = subprocess.run(["cadaver", "http://127.0.0.1:%d/" % server.port], cwd=tmp_path, input=script, capture_output=True,
                          text=True, timeout=60, env=dict(os.environ, HOME=str(tmp_path)))
    assert server.get("/copied.txt").text == "from cadaver\n", done.stdout
    assert "failed" not in done.stdout and "moved.txt" in done.stdout
    assert not os.path.exists(server.path("html/moved.txt")) and os.path.isdir(server.path("html/c"))


@pytest.mark.parametrize("http, location, message", [
    ("dav_ext_lock_zone zone=x;", "", 'invalid zone size "zone=x"'),
    ("dav_ext_lock_zone zone=x:1k;", "", 'zone "zone=x:1k" is too small'),
    ("dav_ext_lock_zone timeout=1m;", "", '"dav_ext_lock_zone" must have "zone" parameter'),
    ("dav_ext_lock_zone zone=x:1m timeout=x;", "", 'invalid parameter "timeout=x"'),
    ("", "dav_ext_lock zone=none;", "none"),
    ("", "dav_ext_lock none;", 'invalid parameter "none"'),
    ("", "dav_ext_methods get;", 'invalid value "get"'),
])
def test_bad_configuration(http, location, message, tmp_path):
    path = tmp_path / "nginx.conf"
    path.write_text("error_log stderr;\npid nginx.pid;\nevents { }\nhttp { %s server { location / { %s } } }\n" % (http, location))
    result = run_binary("-t", "-c", str(path))
    assert result.returncode == 1 and message in result.stderr


def test_an_answer_is_not_many_times_the_question(dav):
    server = dav()
    asked = ('<D:propfind xmlns:D="DAV:" xmlns:x="urn:%s"><D:prop>%s</D:prop></D:propfind>')
    few = ask(server, "PROPFIND", "/a.txt", body=asked % ("x" * 4000, "<x:a/>"))
    assert few.status == 207 and b"x" * 4000 in few.body
    assert ask(server, "PROPFIND", "/a.txt", body=asked % ("x" * 40000, "<x:a/>" * 60)).status == 400
    assert ask(server, "PROPFIND", "/a.txt", body=asked % ("x" * 400, "<x:a/>" * 60)).status == 400
    server.wait_log("client sent an invalid PROPFIND body")


def test_a_lock_holds_under_any_spelling(dav):
    server = dav("merge_slashes off;")
    _, token = lock(server, "/d//in//c.txt")
    for target in ("/d/in/c.txt", "/d//in/c.txt", "//d/in/c.txt"):
        assert ask(server, "PUT", target, body="x").status == 423
        assert ask(server, "DELETE", target).status == 423
    assert ask(server, "COPY", "/a.txt", "Destination: //d///in/c.txt").status == 423
    assert ask(server, "UNLOCK", "/d/in//c.txt", "Lock-Token: <%s>" % token).status == 204


def test_a_lock_does_not_make_a_member_of_a_locked_collection(dav):
    """7.4: a lock of depth 0 forbids to add members, and LOCK of what is not there adds one."""
    server = dav()
    _, token = lock(server, "/d/", "Depth: 0")
    answer, _ = lock(server, "/d/new.txt")
    assert answer.status == 423 and not os.path.exists(server.path("html/d/new.txt"))
    assert lock(server, "/d/b%20c&.txt")[0].status == 200
    answer, _ = lock(server, "/d/new.txt", "If: </d/> (<%s>)" % token)
    assert answer.status == 201


# ---- PROPPATCH ----

PROPERTIES = "dav_ext_methods PROPFIND PROPPATCH OPTIONS LOCK UNLOCK; dav_methods PUT DELETE MKCOL COPY MOVE; dav_ext_lock zone=locks;"


@pytest.fixture(scope="module")
def props():
    with Server("%s server { listen 127.0.0.1:@PORT@; root html; client_max_body_size 10m; %s }" % (HTTP, PROPERTIES), files={"html/d/x": "x"}) as server:
        for directory, _, names in os.walk(server.path("html")):
            os.chmod(directory, 0o777)
        yield server


def patch(server, target, *lines, space='xmlns:a="urn:a" xmlns:D="DAV:"', headers=()):
    """The status, and {(namespace, name): status} of what each property came to. Lines: "+<a:x>1</a:x>" sets, "-<a:x/>" removes."""
    body = "<D:propertyupdate %s>%s</D:propertyupdate>" % (space, "".join(
        "<D:%s><D:prop>%s</D:prop></D:%s>" % (word, line[1:], word) for line in lines for word in ["set" if line[0] == "+" else "remove"]))
    answer = ask(server, "PROPPATCH", target, "Content-Type: text/xml", *headers, body=body.encode())
    return answer.status, states(answer) if answer.status == 207 else {}


def states(answer):
    found = {}
    for propstat in ElementTree.fromstring(answer.body).iter("{DAV:}propstat"):
        for one in propstat.find("{DAV:}prop"):
            found[one.tag] = int(propstat.find("{DAV:}status").text.split()[1])
    return found


def look(server, target, *names, depth=0, what=None):
    """{href: {name: element}} of what is there."""
    body = what or "<D:prop>%s</D:prop>" % "".join('<%s xmlns="%s"/>' % (name, space) for space, name in names)
    answer = ask(server, "PROPFIND", target, "Depth: %d" % depth, body=('<D:propfind xmlns:D="DAV:">%s</D:propfind>' % body).encode())
    assert answer.status == 207
    found = {}
    for response in ElementTree.fromstring(answer.body):
        there = found.setdefault(response.find("{DAV:}href").text, {})
        for propstat in response.iter("{DAV:}propstat"):
            if " 200 " in propstat.find("{DAV:}status").text:
                there.update({one.tag: one for one in propstat.find("{DAV:}prop")})
    return found


def value(server, target, name, space="urn:a"):
    element = look(server, target, (space, name))[target].get("{%s}%s" % (space, name))
    return None if element is None else element.text


def put(server, target, body=b"x"):
    assert ask(server, "PUT", target, body=body).status in (201, 204)


def test_properties_are_set_and_removed(props):
    put(props, "/one")
    assert patch(props, "/one", "+<a:x>1</a:x><a:y>2 &amp; &lt;3</a:y>") == (207, {"{urn:a}x": 200, "{urn:a}y": 200})
    assert (value(props, "/one", "x"), value(props, "/one", "y"), value(props, "/one", "z")) == ("1", "2 & <3", None)
    assert patch(props, "/one", "-<a:x/>", "+<a:x>new</a:x>", "-<a:y/><a:none/>")[1] == {"{urn:a}x": 200, "{urn:a}y": 200, "{urn:a}none": 200}
    assert (value(props, "/one", "x"), value(props, "/one", "y")) == ("new", None)
    patch(props, "/one", "-<a:x/>")
    assert os.listxattr(props.path("html/one")) == []


def test_namespaces_and_markup_are_kept(props):
    put(props, "/names")
    patch(props, "/names", '+<x xmlns="urn:b"><y q="&quot;1"/><a:z xmlns:c="urn:c"><c:t/></a:z><![CDATA[<raw>]]></x>', '+<a:P xmlns:P="urn:p"><P:in/></a:P>', "+<plain>v</plain>",
          "+<a:empty/>", "+<a:high>&#65536;</a:high>")
    there = look(props, "/names", ("urn:b", "x"), ("urn:a", "P"), ("", "plain"), ("urn:a", "empty"), ("urn:a", "high"))["/names"]
    x = there["{urn:b}x"]
    assert [one.tag for one in x] == ["{urn:b}y", "{urn:a}z"] and x[0].get("q") == '"1' and x[1][0].tag == "{urn:c}t" and x[1].tail == "<raw>"
    assert there["{urn:a}P"][0].tag == "{urn:p}in" and there["plain"].text == "v" and there["{urn:a}empty"].text is None and there["{urn:a}high"].text == "\U00010000"


def test_what_is_kept_is_what_was_understood(props):
    """Attributes, xml:lang from around, line ends and references, written anew."""
    put(props, "/kept")
    body = ("<?xml version='1.0' encoding='utf-8'?><!-- c --><D:propertyupdate xmlns:D='DAV:' xml:lang='de'><D:set><D:prop xml:lang='fr'>"
            "<x xmlns='urn:b' q=' 1\n2&#10;&quot;&lt;' xmlns:p='urn:p' p:q='&#x41;'>a\r\nb&#13;]]&gt;<!-- c --><?pi x?><y xml:lang=''/>\u00e4</x>"
            "</D:prop></D:set><D:set><D:prop><z/></D:prop></D:set></D:propertyupdate>")
    assert ask(props, "PROPPATCH", "/kept", body=body.encode()).status == 207
    there = look(props, "/kept", ("urn:b", "x"), ("", "z"))["/kept"]
    x, lang = there["{urn:b}x"], "{http://www.w3.org/XML/1998/namespace}lang"
    assert dict(x.attrib) == {"q": ' 1 2\n"<', "{urn:p}q": "A", lang: "fr"} and x.text == "a\nb\r]]>" and x[0].tail == "\u00e4"
    assert dict(x[0].attrib) == {lang: ""} and there["z"].get(lang) == "de"


def test_all_or_nothing(props):
    put(props, "/all")
    status, states_ = patch(props, "/all", "+<a:x>1</a:x><D:getetag>mine</D:getetag>", "-<D:resourcetype/>")
    assert (status, states_) == (207, {"{urn:a}x": 424, "{DAV:}getetag": 403, "{DAV:}resourcetype": 403})
    assert value(props, "/all", "x") is None


def test_allprop_propname_and_members(props):
    for name in "ab":
        put(props, "/d/" + name)
        patch(props, "/d/" + name, "+<a:of>%s</a:of>" % name)
    patch(props, "/d/", "+<a:of>d</a:of>")
    found = look(props, "/d/", ("urn:a", "of"), depth=1)
    assert {href: there.get("{urn:a}of").text for href, there in found.items() if "{urn:a}of" in there} == {"/d/": "d", "/d/a": "a", "/d/b": "b"}
    every = look(props, "/d/", depth=1, what="<D:allprop/>")
    assert every["/d/a"]["{urn:a}of"].text == "a" and "{DAV:}getetag" in every["/d/a"] and "{urn:a}of" not in every["/d/x"]
    names = look(props, "/d/a", what="<D:propname/>")["/d/a"]
    assert names["{urn:a}of"].text is None and "{DAV:}displayname" in names


def test_they_follow_their_file(props):
    """Through PUT, COPY and MOVE, of files and of collections."""
    ask(props, "MKCOL", "/c/")
    put(props, "/c/f")
    for target in ("/c/", "/c/f"):
        patch(props, target, "+<a:x>%s</a:x>" % target)
    put(props, "/c/f", b"other")
    assert props.get("/c/f").text == "other" and value(props, "/c/f", "x") == "/c/f"
    assert ask(props, "COPY", "/c/", "Destination: /e/").status in (201, 204) and ask(props, "MOVE", "/c/f", "Destination: /c/g").status in (201, 204)
    assert [value(props, target, "x") for target in ("/e/", "/e/f", "/c/g")] == ["/c/", "/c/f", "/c/f"]
    assert ask(props, "DELETE", "/c/g").status == 204
    put(props, "/c/g")
    assert value(props, "/c/g", "x") is None


def test_what_is_too_much(props):
    put(props, "/much")
    assert patch(props, "/much", "+<a:x>%s</a:x>" % ("v" * 31000))[1] in ({"{urn:a}x": 507}, {"{urn:a}x": 200})  # as the file system has room
    assert patch(props, "/much", "+<a:y>%s</a:y><a:z>1</a:z>" % ("v" * 32000))[1] in ({"{urn:a}y": 507, "{urn:a}z": 507}, {"{urn:a}y": 200, "{urn:a}z": 200})
    assert patch(props, "/much", "+<a:y>%s</a:y>" % ("v" * 40000))[0] == 400
    assert patch(props, "/much", "+" + "".join("<a:n%d/>" % i for i in range(300)))[0] == 400
    assert patch(props, "/much", "+<a:y>%s</a:y>" % ("v" * 70000))[0] == 413
    props.wait_log("the body|client sent a body|cannot be kept")


@pytest.mark.parametrize("body", ["", "<a/>", "<D:propertyupdate xmlns:D='DAV:'/>", "<D:propertyupdate xmlns:D='DAV:'><D:set><D:prop><x></D:prop></D:set></D:propertyupdate>",
                                  "<D:propertyupdate xmlns:D='DAV:'><D:set><D:prop><a:x/></D:prop></D:set></D:propertyupdate>",
                                  *("<D:propertyupdate xmlns:D='DAV:'><D:set><D:prop>%s</D:prop></D:set></D:propertyupdate>" % inside for inside in (
                                      "<x b='1' b='2'/>", "<x xmlns:p='urn:1' xmlns:q='urn:1' p:b='1' q:b='2'/>", "<x xmlns:p='urn:1' xmlns:p='urn:1'/>", "<x p:b='1'/>",
                                      "<x><y b='1' b='1'/></x>", "<x><y p:b='1'/></x>", "<x>]]></x>", "<x>\x01</x>", "<x b='\x02'/>", "<x>&#1;</x>", "<x b='&#0;'/>", "<x b='&no;'/>",
                                      "<x b='<'/>", "<x>\ufffe</x>", "<x xmlns:xml='urn:1'/>", "<x xmlns:p='http://www.w3.org/XML/1998/namespace'/>", "<x xmlns:xmlns='urn:1'/>",
                                      "<x><!-- a -- b --></x>", "<x><!-- \x01 --></x>", "<x><?xml version='1.0'?></x>", "<x><?p \x01?></x>", "<x><??></x>", "<1x/>", "<a:1/>", "<x:y:z/>", "<\u00d7/>",
                                      "<x b=1/>", "<x b/>", "<x b='1'c='2'/>", "<x><![CDATA[\x01]]></x>", "<x xmlns:p=''/>")),
                                  "<!DOCTYPE a [<!ENTITY b 'c'>]><D:propertyupdate xmlns:D='DAV:'><D:set><D:prop><x>&b;</x></D:prop></D:set></D:propertyupdate>"])
def test_bodies_that_are_none(props, body):
    assert ask(props, "PROPPATCH", "/d/x", body=body.encode()).status == 400


def test_locks_and_what_is_not_there(props):
    put(props, "/held")
    assert patch(props, "/nowhere", "+<a:x>1</a:x>")[0] == 404
    _, token = lock(props, "/held")
    assert patch(props, "/held", "+<a:x>1</a:x>")[0] == 423
    assert patch(props, "/held", "+<a:x>1</a:x>", headers=("If: (<%s>)" % token.strip("<>"),))[1] == {"{urn:a}x": 200}
    assert value(props, "/held", "x") == "1"
    assert "PROPPATCH" in ask(props, "OPTIONS", "/held").header("Allow")


def test_an_attribute_that_is_none_of_ours(props):
    put(props, "/foreign")
    for text in (b"nonsense", b"<properties><a", b"<properties><a/></properties><b/>", b"\xff"):
        os.setxattr(props.path("html/foreign"), "user.portunus.dav", text)
        assert look(props, "/foreign", ("", "a"))["/foreign"] == {}
    assert patch(props, "/foreign", "+<a:x>1</a:x>")[1] == {"{urn:a}x": 200} and value(props, "/foreign", "x") == "1"


def test_links_are_followed_where_they_may_be(serve):
    server = serve("server { listen 127.0.0.1:@PORT@; root html; dav_ext_methods PROPFIND PROPPATCH; location /no/ { alias html/; disable_symlinks on; } }", files={"html/x": "x"})
    os.chmod(server.path("html/x"), 0o666)
    os.symlink("x", server.path("html/link"))
    assert patch(server, "/no/link", "+<a:x>1</a:x>")[0] == 403
    assert patch(server, "/link", "+<a:x>1</a:x>")[0] == 207 and value(server, "/x", "x") == "1"


def test_without_the_word_it_is_not_there(dav):
    server = dav()
    assert patch(server, "/a.txt", "+<a:x>1</a:x>")[0] == 405
    assert "PROPPATCH" not in ask(server, "OPTIONS", "/a.txt").header("Allow")
