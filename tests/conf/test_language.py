"""The configuration language from outside: what has no counterpart in the reference."""

import os
import re

import pytest

from harness import Server, binaries, run_binary

portunus = pytest.mark.skipif("Portunus" not in binaries.version_text(binaries.under_test()),
                              reason="not Portunus")

HEAD = "pid nginx.pid;\nerror_log error.log;\nevents {\n}\n"
SEEDS = os.path.join(os.path.dirname(__file__), "../../../shared/seeds")


@pytest.fixture
def check():
    """check(text, files, *options) runs -t on a whole file and gives the finished process."""
    servers = []

    def run(text, files=None, options=("-t",)):
        server = Server(conf=text, files=files)
        servers.append(server)
        done = run_binary(*options, "-p", server.dir + "/", "-c", "nginx.conf", "-e", "error.log",
                          cwd=server.dir)
        done.path = server.path("nginx.conf")
        return done

    yield run
    for server in servers:
        server.close(check=False)


@portunus
def test_all_errors_in_one_pass(check):
    """The first in the usual form, the last line as usual, the others between them."""
    done = check(HEAD + "one;\nworker_processes x;\nhttp {\n    sendfile maybe;\n    server {\n"
                        "        two 2;\n        root;\n    }\n}\n")
    lines = done.stderr.rstrip("\n").split("\n")
    assert done.returncode == 1
    assert lines[0] == 'nginx: [emerg] unknown directive "one" in %s:5' % done.path
    assert lines[-1] == "nginx: configuration file %s test failed" % done.path
    for line, word in ((6, "worker_processes"), (8, 'invalid value "maybe"'), (10, '"two"'),
                       (11, 'invalid number of arguments in "root"')):
        wanted = "%s.* in %s:%d" % (re.escape(word), re.escape(done.path), line)
        assert re.search(wanted, done.stderr), done.stderr


@portunus
def test_no_caret_without_a_terminal(check):
    done = check(HEAD + "worker_proceses 1;\n")
    assert "^" not in done.stderr and "did you mean" not in done.stderr


@portunus
@pytest.mark.parametrize("options", [("-t", "-t"), ("-tt",)])
def test_caret_and_suggestion_when_asked_twice(check, options):
    done = check(HEAD + "worker_proceses 1;\n", options=options)
    assert done.stderr.startswith('nginx: [emerg] unknown directive "worker_proceses" in ')
    assert "^" in done.stderr and "worker_processes" in done.stderr, done.stderr


def test_comment_only_at_the_start_of_a_word(serve):
    server = serve("""
        server { listen 127.0.0.1:@PORT@; # a comment with ; { } " '
            location /a { return 200 a#b; }#glued comment
            location /c { return 200 "c # d"; }
        }
    """)
    assert server.get("/a").text == "a#b" and server.get("/c").text == "c # d"


def test_quotes_and_escapes(serve):
    r"""Only \" \' \\ \t \r \n are decoded; before a blank or ; a backslash protects and stays."""
    server = serve(r"""
        server { listen 127.0.0.1:@PORT@;
            location /1 { return 200 "a\"b\\c\td"; }
            location /2 { return 200 'a\'b"c'; }
            location /3 { return 200 a\ b\;c; }
            location /4 { return 200 "$uri\n${uri}x"; }
            location /5 { return 200 'single $uri'; }
            location /6 { return 200 "\d\."; }
            location /7 { return 200 a"b'c; }
        }
    """)
    assert [server.get("/%d" % number).text for number in (1, 2, 3, 4, 5, 6, 7)] == [
        'a"b\\c\td', "a'b\"c", "a\\ b\\;c", "/4\n/4x", "single /5", "\\d\\.", "a\"b'c"]


def test_line_ends_of_every_kind(serve):
    server = serve("server {\r\n listen 127.0.0.1:@PORT@;\r\n\r\n\treturn\r\n200\r\n'x\r\ny'\r\n;"
                   "\r\n}\r\n")
    assert server.get("/").body == b"x\r\ny"


def test_directive_after_a_nested_block_reaches_it(serve):
    server = serve("""
        server { listen 127.0.0.1:@PORT@; location / { } root html; default_type text/x-late; }
    """, files={"html/a": "late"})
    response = server.get("/a")
    assert response.text == "late" and response.header("Content-Type") == "text/x-late"


def test_includes_are_sorted(serve):
    server = serve("""
        server { listen 127.0.0.1:@PORT@; set $order ""; include parts/*.conf;
                 location / { return 200 "$order"; } }
    """, files={"parts/%s.conf" % name: 'set $order "${order}%s";\n' % name
                for name in ("b", "a", "10", "9", "c")})
    assert server.get("/").text == "109abc"


def test_include_is_relative_to_the_configuration_file(check):
    done = check(HEAD + "include sub/a.conf;\n", files={"sub/a.conf": "include b.conf;\n",
                                                         "b.conf": "worker_processes 1;\n"})
    assert done.returncode == 0, done.stderr


def test_include_in_an_included_file_names_that_file(check):
    done = check(HEAD + "include sub/a.conf;\n", files={"sub/a.conf": "\n\nbad;\n"})
    assert re.search(r'unknown directive "bad" in \S+/sub/a\.conf:3\n', done.stderr)


def test_include_of_itself_ends(check):
    """However it is told, it must be an error, soon (nginx crashes)."""
    done = check(HEAD + "include loop.conf;\n", files={"loop.conf": "include loop.conf;\n"})
    assert done.returncode == 1 and "[emerg]" in done.stderr


def test_long_words(check):
    text = HEAD + "http { server { listen 127.0.0.1:@PORT@; return 200 '%s'; } }"
    done = check(text % ("x" * 4000))
    assert done.returncode == 0, done.stderr
    done = check(text % ("x" * 5000))
    assert done.returncode == 1 and "too long parameter" in done.stderr


@pytest.mark.parametrize("data", [
    bytes(range(256)), b"\x00" * 100, b"{" * 5000, b"events {" * 300, b'"' + b"\\" * 5000,
    b"}" * 100, b"a" * 100000, b";" * 10, b"${" * 100, b"\xef\xbb\xbfevents {}"],
    ids=lambda data: repr(data[:12]))
def test_garbage_is_refused_cleanly(check, data):
    done = check(data.decode("latin-1"))
    assert done.returncode == 1 and done.stderr.startswith("nginx: [emerg] "), done.stderr


def test_deep_nesting_is_bounded(check):
    done = check(HEAD + "http { server { " + "location /a { " * 2000 + "} " * 2000 + "} }")
    assert done.returncode in (0, 1), "crashed: %d" % done.returncode


def test_many_servers_and_locations(serve):
    server = serve("".join(
        "server { listen 127.0.0.1:@PORT@; server_name s%d.example; %s }\n" % (number, "".join(
            "location /l%d/ { return 200 '%d-%d'; }" % (at, number, at) for at in range(10)))
        for number in range(300)))
    for number in (0, 7, 123, 299):
        assert server.get("/l3/", host="s%d.example" % number).text == "%d-3" % number


@portunus
def test_directive_of_a_later_capability_is_named(check):
    done = check(HEAD + "http { server { listen 127.0.0.1:@PORT@;\n location / {\n"
                        "tfs_pass x;\n} } }\n")
    assert done.returncode == 1 and "tfs_pass" in done.stderr.split("\n")[0]


@portunus
@pytest.mark.parametrize("parameter", ["ssl", "http2", "proxy_protocol", "deferred", "fastopen=3", "so_keepalive=on"])
def test_listen_parameters_that_do_not_go_with_quic(check, parameter):
    for text in "quic " + parameter, parameter + " quic":
        done = check(HEAD + "http { server { listen 127.0.0.1:@PORT@ %s; } }\n" % text)
        assert done.returncode == 1 and "incompatible with" in done.stderr, done.stderr


@portunus
def test_load_module_that_is_missing(check):
    done = check("load_module modules/nosuch.so;\n" + HEAD)
    assert done.returncode == 0
    assert re.search(r'nginx: \[warn\] dlopen\(\) "\S*modules/nosuch\.so" failed \(.*\) '
                     r'in \S+:1\n', done.stderr), done.stderr


@portunus
def test_dso_skips_what_is_linked_in(check):
    done = check("dso {\n load ngx_http_stub_status_module.so;\n"
                 " load ngx_http_empty_gif_module;\n}\n" + HEAD)
    assert done.returncode == 0, done.stderr
    assert "test is successful" in done.stderr


@portunus
@pytest.mark.skipif(not os.path.isdir(SEEDS), reason="the seeds are not here")
@pytest.mark.parametrize("name", ["tengine-reuse-port.conf", "nginx-accept-mutex-off.conf"])
def test_seed_is_accepted_as_it_is(name):
    server = Server(conf="", files={"logs/x": "", "mime.types": "types { text/html html; }\n"})
    with open(os.path.join(SEEDS, name), encoding="latin-1") as source:
        server.write("nginx.conf", source.read())
    done = run_binary("-t", "-p", server.dir + "/", "-c", "nginx.conf", "-e", "error.log",
                      cwd=server.dir)
    server.close(check=False)
    assert done.returncode == 0, done.stderr
