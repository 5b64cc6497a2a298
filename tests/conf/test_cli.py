"""The command line: options, their faults, what is printed where, exit codes."""

import os
import re

import pytest

from harness import Client, Server, binaries, run_binary, until

PRODUCT = r"Portunus version: Portunus/\d+\.\d+\.\d+\S*\n"
VERSION = r"(%s)?nginx version: nginx/\d+\.\d+\.\d+[^\n]*\n" % PRODUCT
CONF = "pid nginx.pid;\nerror_log error.log;\nevents {\n}\n"

is_portunus = "Portunus" in binaries.version_text(binaries.under_test())
portunus = pytest.mark.skipif(not is_portunus, reason="not Portunus")


@pytest.fixture
def place():
    """A directory with a good configuration; place(...) runs the binary in it."""
    server = Server(conf=CONF)

    def run(*args):
        return run_binary(*args, "-p", server.dir + "/", "-c", "nginx.conf", "-e", "error.log",
                          cwd=server.dir)
    run.server = server
    run.path = server.path("nginx.conf")
    yield run
    server.close(check=False)


def base(server):
    """The words that make a command find the server's files."""
    return ["-p", server.dir + "/", "-c", "nginx.conf", "-e", "error.log"]


def test_version():
    done = run_binary("-v")
    assert (done.returncode, done.stdout) == (0, "")
    assert re.fullmatch(VERSION, done.stderr), done.stderr


@portunus
def test_version_names_both():
    assert re.fullmatch(PRODUCT + r"nginx version: nginx/1\.31\.5\n", run_binary("-v").stderr)


def test_build_facts():
    done = run_binary("-V")
    assert done.returncode == 0 and done.stdout == ""
    assert re.match(VERSION + r"built (by|with) ", done.stderr), done.stderr
    assert re.search(r"^configure arguments:", done.stderr, re.M)
    # Said only when true: a build without TLS must not claim it.
    assert "TLS SNI support enabled\n" not in done.stderr or "ssl_module" in done.stderr


@portunus
def test_build_facts_list_modules():
    text = run_binary("-V").stderr
    modules = text.split("loaded modules:\n")[1].strip("\n").split("\n")
    assert modules
    for line in modules:
        assert re.fullmatch(r"\s*\S+ \((static|shared[^)]*)\)", line), line
    names = [line.split()[0] for line in modules]
    for name in ("ngx_http_core_module", "ngx_http_static_module", "ngx_http_stub_status_module"):
        assert name in names


@pytest.mark.parametrize("option", ["-h", "-?"])
def test_help(option):
    done = run_binary(option)
    assert done.returncode == 0 and done.stdout == ""
    assert re.match(VERSION + r"Usage: nginx \[-\S+\]", done.stderr), done.stderr
    for letter in "hvVtTqspecg":
        assert re.search(r"^\s+(-\S,)*-%s\b" % letter, done.stderr, re.M), letter
    assert "Options:" in done.stderr


def test_test_says_ok(place):
    done = place("-t")
    assert done.returncode == 0 and done.stdout == ""
    assert done.stderr == (
        "nginx: the configuration file %s syntax is ok\n"
        "nginx: configuration file %s test is successful\n" % (place.path, place.path))


def test_quiet_test_says_nothing(place):
    for words in (["-t", "-q"], ["-tq"], ["-qt"], ["-q", "-t"]):
        done = place(*words)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_quiet_test_still_tells_errors(place):
    place.server.configure(conf=CONF + "bad;\n")
    done = place("-tq")
    assert done.returncode == 1
    assert done.stderr == (
        'nginx: [emerg] unknown directive "bad" in %s:5\n'
        "nginx: configuration file %s test failed\n" % (place.path, place.path))


def test_dump(place):
    done = place("-T")
    assert done.returncode == 0
    assert done.stdout == "# configuration file %s:\n%s\n" % (place.path, CONF)
    assert "test is successful" in done.stderr
    done = place("-Tq")
    assert done.stderr == "" and done.stdout.startswith("# configuration file ")


def test_bundled_and_glued(place):
    directory = place.server.dir
    whole = directory + "/nginx.conf"
    for words in (["-tp" + directory, "-cnginx.conf", "-eerror.log"],
                  ["-tp", directory, "-c", "nginx.conf", "-e", "error.log"],
                  ["-t", "-p" + directory + "/", "-c" + whole, "-e", "error.log"]):
        done = run_binary(*words, cwd="/")
        assert done.returncode == 0, done.stderr


def test_version_with_test(place):
    done = place("-v", "-t")
    assert done.returncode == 0
    assert re.match(VERSION + "nginx: the configuration file ", done.stderr)


@pytest.mark.parametrize("words, text", [
    (["word"], 'invalid option: "word"'),
    (["-x"], 'invalid option: "x"'),
    (["-tx"], 'invalid option: "x"'),
    (["--help"], 'invalid option: "-"'),
    (["-s", "bad"], 'invalid option: "-s bad"'),
    (["-sbad"], 'invalid option: "-s bad"'),
    (["-s"], 'option "-s" requires parameter'),
    (["-p"], 'option "-p" requires directory name'),
    (["-c"], 'option "-c" requires file name'),
    (["-e"], 'option "-e" requires file name'),
    (["-g"], 'option "-g" requires parameter'),
])
def test_option_faults(words, text):
    done = run_binary(*words)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "nginx: %s\n" % text)


def test_missing_configuration(place):
    done = run_binary("-t", "-p", place.server.dir + "/", "-c", "nosuch.conf", "-e", "error.log")
    assert done.returncode == 1
    path = place.server.path("nosuch.conf")
    assert done.stderr == (
        'nginx: [emerg] open() "%s" failed (2: No such file or directory)\n'
        "nginx: configuration file %s test failed\n" % (path, path))


def test_g_directives(place):
    done = place("-t", "-g", "worker_processes 2; daemon off;")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("text, message", [
    ("bad on;", 'unknown directive "bad" in command line'),
    ("worker_processes x;", '"worker_processes" directive invalid value in command line'),
    ("events { }", "block directives are not supported in -g option"),
    ("daemon off", 'unexpected end of parameter, expecting ";" in command line'),
    ("pid other.pid;", '"pid" directive is duplicate in'),
    ("daemon", 'unexpected end of parameter, expecting ";" in command line'),
])
def test_g_faults(place, text, message):
    done = place("-t", "-g", text)
    assert done.returncode == 1 and message in done.stderr, done.stderr
    assert done.stderr.startswith("nginx: [emerg] ")


def test_error_log_that_cannot_be_opened(place):
    done = run_binary("-t", "-p", place.server.dir + "/", "-c", "nginx.conf", "-e", "no/such/log")
    assert done.stderr.startswith(
        'nginx: [alert] could not open error log file: open() "%s" failed '
        '(2: No such file or directory)\n' % place.server.path("no/such/log"))
    assert done.returncode == 0


def test_error_log_word_stderr(place):
    done = run_binary("-t", "-p", place.server.dir + "/", "-c", "nginx.conf", "-e", "stderr")
    assert done.returncode == 0
    assert not os.path.exists(place.server.path("stderr"))


@pytest.mark.parametrize("word", ["stop", "quit", "reload", "reopen"])
def test_signal_without_a_server(place, word):
    done = place("-s", word)
    assert done.returncode == 1
    assert 'nginx: [error] open() "%s" failed (2: No such file or directory)\n' \
        % place.server.path("nginx.pid") in done.stderr


def test_signal_with_a_bad_pid_file(place):
    place.server.write("nginx.pid", "abc\n")
    done = place("-s", "stop")
    assert done.returncode == 1
    assert 'nginx: [error] invalid PID number "abc" in "%s"\n' \
        % place.server.path("nginx.pid") in done.stderr


def test_signal_to_a_process_that_is_gone(place):
    gone = os.fork()
    if gone == 0:
        os._exit(0)
    os.waitpid(gone, 0)
    place.server.write("nginx.pid", "%d\n" % gone)
    done = place("-s", "reload")
    assert done.returncode == 1
    assert "nginx: [alert] kill(%d, 1) failed (3: No such process)\n" % gone in done.stderr


@pytest.mark.parametrize("word", ["stop", "quit"])
def test_signal_ends_a_server(serve, word):
    server = serve("server { listen 127.0.0.1:@PORT@; return 200 'x'; }")
    done = run_binary("-s", word, *base(server))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert server.wait_end() == 0
    assert not os.path.exists(server.path("nginx.pid"))
    server.wait_log("signal process started")


def test_signal_reload_and_reopen(serve):
    server = serve("access_log logs/a.log; server { listen 127.0.0.1:@PORT@; return 200 'one'; }")
    assert server.get().text == "one"
    server.configure("access_log logs/a.log; server { listen 127.0.0.1:@PORT@; return 200 'two'; }")
    assert run_binary("-s", "reload", *base(server)).returncode == 0
    until(lambda: server.get().text == "two", "the new configuration")
    os.rename(server.path("logs/a.log"), server.path("logs/b.log"))
    assert run_binary("-s", "reopen", *base(server)).returncode == 0
    until(lambda: os.path.exists(server.path("logs/a.log")), "the new log file")


def test_test_does_not_bind(serve):
    """-t beside a running server on the same port is no fault."""
    server = serve("server { listen 127.0.0.1:@PORT@; return 200 'x'; }")
    pid = server.read("nginx.pid")
    done = run_binary("-t", *base(server))
    assert done.returncode == 0 and "test is successful" in done.stderr
    assert server.read("nginx.pid") == pid, "-t has touched the pid file"
    assert server.get().text == "x"


def test_relative_prefix(place):
    done = run_binary("-t", "-p", ".", "-c", "nginx.conf", "-e", "error.log", cwd=place.server.dir)
    assert done.returncode == 0, done.stderr


def test_daemon_goes_to_the_background():
    """daemon on: the command returns when the server listens, and the pid file names it."""
    server = Server(conf="daemon on;\n" + CONF + """
        http {
            access_log off;
            server { listen 127.0.0.1:@PORT@; return 200 'x'; }
        }
    """)
    try:
        done = run_binary(*base(server), cwd=server.dir)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
        until(lambda: server.read("nginx.pid").strip(), "the pid file")
        pid = int(server.read("nginx.pid"))
        with Client(server.port) as client:
            assert client.request().text == "x"
        assert os.getsid(pid) != os.getsid(0)
        assert run_binary("-s", "stop", *base(server)).returncode == 0
        until(lambda: not os.path.exists("/proc/%d" % pid), "the end of the server")
    finally:
        server.close(check=False)


def test_master_process_off(serve):
    server = serve("server { listen 127.0.0.1:@PORT@; return 200 '$pid'; }",
                   main="master_process off;")
    assert server.get().text == str(server.pid) and server.children() == []


@portunus
def test_list_modules_and_directives():
    done = run_binary("-m")
    assert done.returncode == 0
    assert "ngx_http_core_module (static)" in done.stdout and done.stderr == ""
    done = run_binary("-l")
    assert done.returncode == 0
    for name in ("worker_processes", "listen", "try_files", "add_header_inherit", "reuse_port"):
        assert re.search(r"\b%s\b" % name, done.stdout), name
    assert done.stderr == ""


def test_http3_without_quic(tmp_path):
    """What is said of HTTP/3 is accepted where nothing listens with quic; values are checked all the same."""
    text = "events { } http { access_log off; log_format x '$http3'; %s server { listen 127.0.0.1:1; %s } }"
    lines = ("http3 on; http3_hq off; http3_max_concurrent_streams 64; http3_stream_buffer_size 32k; quic_gso on; quic_retry on; "
             "quic_active_connection_id_limit 4; quic_host_key key;")
    (tmp_path / "key").write_bytes(b"k" * 32)
    for where in (lines, ""), ("", lines), ("http3 off;", "http3 on; add_header Alt-Svc 'h3=\":443\"; ma=86400';"):
        (tmp_path / "nginx.conf").write_text("pid p; " + text % where)
        done = run_binary("-t", "-p", str(tmp_path), "-c", "nginx.conf", "-e", "stderr")
        assert done.returncode == 0 and "[warn]" not in done.stderr, done.stderr
    (tmp_path / "nginx.conf").write_text("pid p; " + text % ("", "http3 perhaps;"))
    assert 'invalid value "perhaps" in "http3" directive' in run_binary("-t", "-p", str(tmp_path), "-c", "nginx.conf").stderr


@pytest.mark.parametrize("name", ["types_hash_bucket_size", "types_hash_max_size", "variables_hash_max_size", "map_hash_bucket_size",
                                  "proxy_headers_hash_bucket_size"])
def test_tables_of_no_size(tmp_path, name):
    for number, code in ("0", 1), ("1", 0):
        (tmp_path / "nginx.conf").write_text("pid p; events { } http { access_log off; %s %s; server { listen 127.0.0.1:1; } }" % (name, number))
        done = run_binary("-t", "-p", str(tmp_path), "-c", "nginx.conf", "-e", "stderr")
        assert done.returncode == code
        assert code == 0 or "could not build %s_hash, you should increase %s: 0" % (name.split("_hash_")[0], name) in done.stderr
