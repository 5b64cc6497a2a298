"""What follows an error on a terminal, or with -t said twice: the place, the mark and the usual reason. The first line is
nginx's own, for tools."""

import os
import pathlib
import pty
import re
import shutil
import socket
import subprocess
import tempfile

import pytest

from harness import binaries, run_binary

HEAD = "error_log stderr; pid pid; events { }\n"


@pytest.fixture
def hints(tmp_path):
    """What -tt says of a configuration, line by line, without date and numbers."""
    def run(text):
        if isinstance(text, str):
            text = (HEAD + text).encode()
        (tmp_path / "nginx.conf").write_bytes(text)
        done = run_binary("-tt", "-p", "%s/" % tmp_path, "-c", "nginx.conf", "-e", "stderr")
        said = done.stderr.replace("%s/" % tmp_path, "")
        return [re.sub(r"^(nginx: |\S+ \S+ )(\[\w+\]) (\d+#\d+: )?", r"\2 ", line) for line in said.split("\n")]
    return run


@pytest.mark.parametrize("text, first, more", [
    # what is open at the end
    ("http {\n server {\n listen 80;\n", 'unexpected end of file, expecting "}" in nginx.conf:5',
     ['the block "server" of line 3 is open']),
    ("http {\n root html\n", 'unexpected end of file, expecting ";" or "}" in nginx.conf:4',
     ['is ";" missing after "root html"?']),
    ("http {\n root 'x;\n }\n", 'unexpected end of file, expecting ";" or "}" in nginx.conf:5',
     ["the quote that opens in line 3 is not closed"]),
    ("http {\n root 'x;\n" + "#\n" * 2500 + " }\n",
     'too long parameter, probably missing terminating "\'" character in nginx.conf:3',
     ["the quote that opens in line 3 is not closed"]),
    # a semicolon
    ("http {\n root html\n }\n", 'unexpected "}" in nginx.conf:4', ['is ";" missing after "root html"?']),
    ("http {\n root html\n index x;\n }\n", 'invalid number of arguments in "root" directive in nginx.conf:4',
     ["root html", "^", 'is ";" missing after "root html"?']),
    ("http {\n gzip maybe\n root html;\n }\n", 'invalid number of arguments in "gzip" directive in nginx.conf:4',
     ["gzip maybe", "^", 'is ";" missing after "gzip maybe"?']),
    # units, and the mark under the value
    ("http {\nclient_body_timeout 10x;\n}\n", '"client_body_timeout" directive invalid value in nginx.conf:3',
     ["client_body_timeout 10x;", " " * 20 + "^", "a time is a number of seconds, or has ms, s, m, h, d, w, M (months)"]),
    ("http {\nclient_max_body_size 10q;\n}\n", '"client_max_body_size" directive invalid value in nginx.conf:3',
     ["client_max_body_size 10q;", " " * 21 + "^", "a size is a number of bytes, or has k, m or g behind it"]),
    ("http {\nproxy_buffers 4 x;\n}\n", '"proxy_buffers" directive invalid value in nginx.conf:3',
     ["proxy_buffers 4 x;", " " * 16 + "^", "a size is a number of bytes, or has k or m behind it"]),
    ("http {\nkeepalive_requests 10k;\n}\n", '"keepalive_requests" directive invalid number in nginx.conf:3',
     ["keepalive_requests 10k;", " " * 19 + "^", "a number has no unit"]),
    ("http {\nkeepalive_timeout 5z;\n}\n", '"keepalive_timeout" directive invalid value in nginx.conf:3',
     ["keepalive_timeout 5z;", " " * 18 + "^", "a time is"]),
    # both places
    ("http { server {\nlocation /a { }\nlocation /a { }\n} }\n", 'duplicate location "/a" in nginx.conf:4',
     ["the first one is in nginx.conf:3"]),
    ("http {\nserver { listen 127.0.0.1:1; server_name a; }\nserver { listen 127.0.0.1:1; server_name a; }\n}\n",
     'conflicting server name "a" on 127.0.0.1:1, ignored',
     ["the server in nginx.conf:3 has it already, that in nginx.conf:4 goes without"]),
    # where it is named
    ("http {\nserver {\nlisten 127.0.0.1:1 ssl;\nssl_certificate none.crt;\nssl_certificate_key none.key;\n}\n}\n",
     'cannot load certificate "none.crt"', ['"ssl_certificate" in nginx.conf:5 names it']),
    ("http {\nproxy_ssl_certificate none.crt;\nproxy_ssl_certificate_key none.key;\n"
     "server { location / { proxy_pass https://127.0.0.1; } }\n}\n",
     'cannot load certificate "none.crt"', ['"proxy_ssl_certificate" in nginx.conf:3 names it']),
    # words
    ("http { server {\nssl_protocols TLSv1.4;\n} }\n", 'invalid value "TLSv1.4" in nginx.conf:3',
     ["ssl_protocols TLSv1.4;", " " * 14 + "^", 'did you mean "TLSv1.3"?']),
    ("http {\nserver {\n\u00a0listen 80;\n} }\n", 'unknown directive "\xc2\xa0listen" in nginx.conf:4',
     ["listen 80;", "^", "there is a no-break space (bytes C2 A0) in it"]),
    (b"\xef\xbb\xbfevents { }\n", 'unknown directive "\xef\xbb\xbfevents" in nginx.conf:1',
     ["events { }", "^", "the file begins with a byte order mark (bytes EF BB BF)"]),
])
def test_hints(hints, text, first, more):
    lines = hints(text)
    assert first in lines[0], lines
    for wanted in more:
        assert any(line == "    " + wanted if wanted.strip() == "^" else line.startswith("    ") and wanted in line
                   for line in lines[1:]), lines


@pytest.mark.parametrize("name, zone", [("limit_req zone=two", "limit_req"), ("limit_conn two 1", "limit_conn")])
def test_a_zone_that_nobody_defines(hints, name, zone):
    lines = hints("http {\naccess_log off;\n%s;\n}\n" % name)
    assert lines[1] == '[emerg] zero size shared memory zone "two"', lines
    assert lines[2].startswith('    "%s" in nginx.conf:4 uses it, and nothing defines it: "%s_zone' % (zone, zone))


def test_no_hints_for_tools(tmp_path):
    (tmp_path / "nginx.conf").write_text(HEAD + "http {\n root html\n }\n")
    done = run_binary("-t", "-p", "%s/" % tmp_path, "-c", "nginx.conf", "-e", "stderr")
    assert "missing" not in done.stderr and len(done.stderr.strip().split("\n")) == 2


# ---- on a terminal


def on_a_terminal(tmp_path, text, *words, user=None):
    """What the binary says whose standard error is a terminal."""
    (tmp_path / "nginx.conf").write_text(text)
    os.chmod(tmp_path / "nginx.conf", 0o644)
    master, slave = pty.openpty()
    done = subprocess.Popen([binaries.under_test(), *words, "-p", "%s/" % tmp_path, "-c", "nginx.conf"],
                            stderr=slave, stdin=subprocess.DEVNULL, user=user)
    os.close(slave)
    said = b""
    while True:
        try:
            part = os.read(master, 65536)
        except OSError:
            break
        if not part:
            break
        said += part
    done.wait(30)
    os.close(master)
    return said.decode().replace("\r", "")


def test_reload_shows_hints(tmp_path):
    """-s reads the file, too."""
    (tmp_path / "logs").mkdir()
    said = on_a_terminal(tmp_path, HEAD + "http {\n root html\n }\n", "-s", "reload")
    assert 'is ";" missing after "root html"?' in said


def test_who_has_the_port(tmp_path):
    (tmp_path / "logs").mkdir()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = on_a_terminal(tmp_path, "error_log logs/e; daemon off; pid pid; events { } http { access_log off; server { "
                             "listen 127.0.0.1:%d; } }" % port)
    assert "still could not bind()" in said
    assert "    port %d is in use by process %d (" % (port, os.getpid()) in said, said


@pytest.fixture
def open_folder():
    """A folder that every user reaches. tmp_path is none: each pytest that starts closes its root to others again."""
    made = tempfile.mkdtemp(prefix="portunus-test-")
    os.chmod(made, 0o777)
    yield pathlib.Path(made)
    shutil.rmtree(made)


@pytest.mark.skipif(os.getuid() != 0, reason="takes another user")
def test_ports_and_folders_of_others(open_folder):
    """A user who may not have port 80, and may not write where the log is to be."""
    (open_folder / "locked").mkdir()
    os.chmod(open_folder / "locked", 0o755)
    said = on_a_terminal(open_folder, "error_log %s/locked/e; pid pid; events { }" % open_folder, user=65534)
    assert 'open() "%s/locked/e" failed (13: Permission denied)' % open_folder in said
    assert '    the user nobody (65534) may not make files in "%s/locked": it belongs to root (0), mode 0755' \
        % open_folder in said, said
    os.chmod(open_folder / "locked", 0o700)
    said = on_a_terminal(open_folder, "error_log %s/locked/in/e; pid pid; events { }" % open_folder, user=65534)
    assert '    the user nobody (65534) may not search "%s/locked": it belongs to root (0), mode 0700' % open_folder in said
    said = on_a_terminal(open_folder, "error_log %s/none/in/e; pid pid; events { }" % open_folder, user=65534)
    assert '    there is no folder "%s/none"' % open_folder in said
    with open("/proc/sys/net/ipv4/ip_unprivileged_port_start", encoding="ascii") as source:
        if int(source.read()) <= 81:
            return
    said = on_a_terminal(open_folder, "error_log %s/e; daemon off; pid pid; events { } http { access_log off; "
                         "client_body_temp_path b; proxy_temp_path b; fastcgi_temp_path b; uwsgi_temp_path b; "
                         "scgi_temp_path b; server { listen 127.0.0.1:81; } }" % open_folder, user=65534)
    assert "a port below 1024 needs root, or the capability CAP_NET_BIND_SERVICE" in said, said
