"""dav: what happens to the files, with links, other file systems, short of rights and of patience. Answers are in
tests/oracle/tables/editing.py."""

import os
import stat

import pytest

from harness import binaries, run_binary
from harness.h2 import H2
from harness.wait import until

needs_portunus = pytest.mark.skipif("Portunus" not in binaries.version_text(binaries.under_test()),
                                    reason="not Portunus")


def conf(*lines, methods="PUT DELETE MKCOL COPY MOVE"):
    return """
        server {
            listen 127.0.0.1:@PORT@;
            root html;
            dav_methods %s;
            %s
        }""" % (methods, "\n".join(lines))


@pytest.fixture
def dav(serve):
    """A server whose workers may write below html."""
    def start(*lines, files=None, **more):
        tree = {"html/a.txt": "a\n", "html/d/b.txt": "b\n"}
        tree.update(files or {})
        server = serve(conf(*lines), files=tree, **more)
        for directory, _, names in os.walk(server.path("html")):
            os.chmod(directory, 0o777)
            for name in names:
                if not os.path.islink(os.path.join(directory, name)):
                    os.chmod(os.path.join(directory, name), 0o666)
        return server
    return start


def ask(server, method, target, *headers, body=None):
    with server.client() as client:
        return client.request(target, *headers, method=method, body=body)


def mode(server, name):
    return stat.S_IMODE(os.stat(server.path(name)).st_mode)


def leftovers(server):
    """Temporary files that should be gone."""
    found = [name for name in os.listdir(server.path("html")) if name.startswith(".copy-")]
    for directory, _, names in os.walk(server.path("client_body_temp")):
        found += [os.path.join(directory, name) for name in names]
    return found


def test_access_of_what_is_made(dav):
    server = dav("dav_access group:rw all:r; create_full_put_path on; location /own/ { dav_access user:rw; }")
    assert ask(server, "PUT", "/new/dir/f", body="x").status == 201
    assert ask(server, "MKCOL", "/col/").status == 201
    assert mode(server, "html/new/dir/f") == 0o664
    for name in ("html/new", "html/new/dir", "html/col"):
        assert mode(server, name) in (0o775, 0o755)  # the second under a umask
    assert ask(server, "PUT", "/own/f", body="x").status == 201
    assert mode(server, "html/own/f") == 0o600


def test_date_is_the_time_of_a_file(dav):
    server = dav()
    ask(server, "PUT", "/f", "Date: Sun, 06 Nov 1994 08:49:37 GMT", body="x")
    assert os.stat(server.path("html/f")).st_mtime == 784111777
    ask(server, "PUT", "/f", "Date: Sun, 06 Nov 1894 08:49:37 GMT", body="xy")
    ask(server, "PUT", "/f", "Date: no date", body="xyz")
    assert os.stat(server.path("html/f")).st_mtime > 1600000000


def test_a_large_body_and_a_chunked_one(dav):
    server = dav("client_max_body_size 0; client_body_buffer_size 8k;")
    data = os.urandom(1 << 20)
    assert ask(server, "PUT", "/large", body=data).status == 201
    assert server.get("/large").body == data
    with server.client() as client:
        client.send(b"PUT /chunked HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        for at in range(0, len(data), 100000):
            piece = data[at:at + 100000]
            client.send(b"%x\r\n%s\r\n" % (len(piece), piece))
        client.send(b"0\r\n\r\n")
        assert client.response("PUT").status == 201
        assert client.request("/chunked").body == data
    assert leftovers(server) == []


def test_an_upload_that_is_cut_off_changes_nothing(dav):
    server = dav()
    with server.client() as client:
        client.send(b"PUT /a.txt HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n" + b"x" * 50000)
        until(lambda: server.lines("error.log") or any(os.scandir(server.path("client_body_temp"))), "the upload begins")
    until(lambda: leftovers(server) == [], "the temporary file is gone")
    assert server.get("/a.txt").text == "a\n"


def test_a_client_learns_of_refusals_before_it_sends(dav):
    server = dav()
    for target, status in (("/d", 409), ("/missing/f", 409), ("/d/", 409)):
        with server.client() as client:
            client.send(b"PUT %s HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 10\r\n\r\n" % target.encode())
            answer = client.response("PUT")
            assert answer.status == status and not answer.interim


def test_readers_see_the_old_file_or_the_new_one(dav):
    server = dav()
    old, new = b"o" * 100000, b"n" * 200000
    assert ask(server, "PUT", "/f", body=old).status == 201
    with server.client() as client:
        client.send(b"PUT /f HTTP/1.1\r\nHost: x\r\nContent-Length: 200000\r\n\r\n" + new[:150000])
        assert server.get("/f").body == old
        client.send(new[150000:])
        assert client.response("PUT").status == 204
    with open(server.path("html/f"), "rb") as source:
        assert source.read() == new


def test_http2(dav):
    server = dav("http2 on;")
    with H2(server.port) as h2:
        assert h2.get("/two", "PUT", body=b"over two").status == 201
        assert h2.get("/two", "MOVE", headers=[("destination", "http://localhost/three")]).status == 204
    assert server.get("/three").text == "over two"


@needs_portunus
def test_nothing_goes_into_itself(dav):
    server = dav(files={"html/t/in/f": "f\n"})
    for method in ("COPY", "MOVE"):
        for source, target in (("/t/", "/t/in/new/"), ("/t/in/", "/t/"), ("/t/", "/t/"), ("/a.txt", "/a.txt"), ("/", "/t/x/"), ("/t/", "/")):
            answer = ask(server, method, source, "Destination: " + target)
            assert answer.status == 403, (method, source, target)
    assert ask(server, "DELETE", "/").status == 403
    assert server.get("/t/in/f").text == "f\n" and server.get("/a.txt").text == "a\n"


def outside_of(server):
    """A directory beside html that the workers may write to, and a link to it."""
    path = server.path("outside")
    os.makedirs(path + "/more")
    server.write("outside/secret", "secret\n")
    for name in (path, path + "/more"):
        os.chmod(name, 0o777)
    os.symlink(path, server.path("html/out"))
    return path


@needs_portunus
def test_links_are_not_followed_where_that_is_forbidden(dav):
    server = dav("disable_symlinks on; location /open/ { disable_symlinks off; alias html/; }")
    outside = outside_of(server)
    os.symlink(outside + "/secret", server.path("html/s.txt"))
    for method, target, *headers in (("PUT", "/out/new"), ("MKCOL", "/out/col/"), ("DELETE", "/out/secret"),
                                     ("COPY", "/out/secret", "Destination: /stolen"), ("COPY", "/a.txt", "Destination: /out/a"),
                                     ("COPY", "/s.txt", "Destination: /stolen"), ("MOVE", "/out/more/", "Destination: /more/")):
        answer = ask(server, method, target, *headers, body="x" if method == "PUT" else None)
        assert answer.status in (403, 404, 409), (method, target)
    assert sorted(os.listdir(outside)) == ["more", "secret"] and not os.path.exists(server.path("html/stolen"))
    # A link itself goes, what it leads to stays.
    assert ask(server, "DELETE", "/s.txt").status == 204
    assert os.path.exists(outside + "/secret")
    assert ask(server, "COPY", "/open/a.txt", "Destination: /open/out/a").status == 204
    assert os.path.exists(outside + "/a")


@needs_portunus
def test_a_tree_with_links_is_deleted_without_what_they_lead_to(dav):
    server = dav()
    outside = outside_of(server)
    os.symlink(outside, server.path("html/d/out"))
    assert ask(server, "DELETE", "/d/").status == 204
    assert ask(server, "DELETE", "/out/").status == 204
    assert sorted(os.listdir(outside)) == ["more", "secret"]
    assert not os.path.lexists(server.path("html/out")) and not os.path.exists(server.path("html/d"))


def test_another_file_system(dav):
    """PUT and MOVE become copies there."""
    other = "/dev/shm/portunus-dav-%d" % os.getpid()
    if os.stat("/dev/shm").st_dev == os.stat("/tmp").st_dev:
        pytest.skip("there is no other file system")
    os.mkdir(other)
    os.chmod(other, 0o777)
    try:
        server = dav("client_body_buffer_size 1k;")
        os.symlink(other, server.path("html/other"))
        assert ask(server, "PUT", "/other/f", "Date: Sun, 06 Nov 1994 08:49:37 GMT", body="f" * 5000).status == 201
        assert ask(server, "PUT", "/other/small", body="small").status == 201
        assert os.stat(other + "/f").st_mtime == 784111777 and os.stat(other + "/f").st_size == 5000
        assert ask(server, "MOVE", "/other/f", "Destination: /f").status == 204
        assert ask(server, "MOVE", "/d/", "Destination: /other/d/").status == 201
        assert server.get("/other/d/b.txt").text == "b\n" and server.get("/f").text == "f" * 5000
        assert sorted(os.listdir(other)) == ["d", "small"] and not os.path.exists(server.path("html/d"))
        assert leftovers(server) == []
    finally:
        for directory, names, files in os.walk(other, topdown=False):
            for name in files:
                os.unlink(os.path.join(directory, name))
            os.rmdir(directory)


@needs_portunus
def test_what_may_not_be_written_is_told_so(dav):
    if os.getuid() != 0:
        pytest.skip("needs root, so that the workers are somebody else")
    server = dav()
    os.chmod(server.path("html"), 0o755)
    assert ask(server, "PUT", "/new", body="x").status == 403
    assert ask(server, "DELETE", "/a.txt").status == 403
    assert ask(server, "MKCOL", "/col/").status == 403
    assert ask(server, "COPY", "/a.txt", "Destination: /new").status == 403
    assert ask(server, "MOVE", "/a.txt", "Destination: /new").status == 403
    server.wait_log(r'rename\(\) to "%s" failed \(13: Permission denied\)' % server.path("html/new"))
    assert leftovers(server) == [] and sorted(os.listdir(server.path("html"))) == ["a.txt", "d"]


def test_keepalive_and_pipelining(dav):
    server = dav()
    with server.client() as client:
        client.send(b"MKCOL /p/ HTTP/1.1\r\nHost: x\r\n\r\n"
                    b"PUT /p/f HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc"
                    b"COPY /p/ HTTP/1.1\r\nHost: x\r\nDestination: /q/\r\n\r\n"
                    b"DELETE /p/ HTTP/1.1\r\nHost: x\r\n\r\n"
                    b"GET /q/f HTTP/1.1\r\nHost: x\r\n\r\n")
        assert [client.response(method).status for method in ("MKCOL", "PUT", "COPY", "DELETE")] == [201, 201, 201, 204]
        assert client.response("GET").text == "abc"


def test_a_deep_tree(dav):
    server = dav()
    path = "/"
    for _ in range(100):
        path += "d/"
    os.makedirs(server.path("html/deep" + path))
    for directory, _, _ in os.walk(server.path("html/deep")):
        os.chmod(directory, 0o777)
    assert ask(server, "COPY", "/deep/", "Destination: /copy/").status == 201
    assert os.path.isdir(server.path("html/copy" + path))
    assert ask(server, "DELETE", "/copy/").status == 204
    assert not os.path.exists(server.path("html/copy"))


def test_a_reload_while_a_body_comes(dav):
    server = dav()
    with server.client() as client:
        client.send(b"PUT /slow HTTP/1.1\r\nHost: x\r\nContent-Length: 6\r\n\r\nabc")
        server.reload()
        client.send(b"def")
        assert client.response("PUT").status == 201
    assert server.get("/slow").text == "abcdef"


@pytest.mark.parametrize("line, message", [
    ("dav_methods get;", 'invalid value "get"'),
    ("dav_methods;", 'invalid number of arguments in "dav_methods" directive'),
    ("create_full_put_path yes;", 'invalid value "yes" in "create_full_put_path" directive, it must be "on" or "off"'),
    ("min_delete_depth x;", "invalid number"),
    ("dav_access all:x;", 'invalid value "all:x"'),
    ("dav_access user:rw; dav_access user:rw;", '"dav_access" directive is duplicate'),
    ("if ($uri) { dav_methods put; }", '"dav_methods" directive is not allowed here'),
])
def test_bad_configuration(line, message, tmp_path):
    path = tmp_path / "nginx.conf"
    path.write_text("error_log stderr;\npid nginx.pid;\nevents { }\nhttp { server { location / { %s } } }\n" % line)
    result = run_binary("-t", "-c", str(path))
    assert result.returncode == 1 and message in result.stderr


@pytest.mark.parametrize("place", ["root html/new/root", "alias html/new/root/"])
def test_a_root_that_is_not_there_is_made(dav, place):
    """By full paths alone, and as one of these."""
    server = dav("location /up/ { %s; create_full_put_path on; } location /no/ { alias html/no/; }" % place)
    for target in ("/up/a/f", "/up/g"):
        assert ask(server, "PUT", target, body="abc").status == 201
        assert server.get(target).text == "abc"
    assert ask(server, "PUT", "/no/f", body="abc").status == 409


def test_directories_are_made_for_a_body_that_came(dav):
    server = dav("create_full_put_path on;")
    with server.client() as client:
        client.send(b"PUT /new/er/f HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nab")
    with server.client() as client:
        client.send(b"PUT /new/er/f HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n")
        assert client.head().status == 100
        assert not os.path.exists(server.path("html/new"))
        client.send(b"abcde")
        assert client.response("PUT").status == 201
    assert server.get("/new/er/f").text == "abcde"
