"""Logs that go to programs: lines, a program that ends, one that does not read, reload, -t."""

import fcntl
import os
import signal

import pytest

from harness import proc, run_binary, until

FORMAT = "log_format f '$status $request_uri';"
F_GETPIPE_SZ = 1032  # fcntl has its name from Python 3.10 on
ALLOW = ["log program"]


def keeper(tmp_path, name):
    """A target: a program that tells its number, then writes what it reads, and "EOF" at the end of it."""
    path = tmp_path / name
    return ("pipe:echo $$ >>%s.pids; while read -r line; do echo \\\"$line\\\" >>%s; done; echo EOF >>%s"
            % (path, path, path))


def lines_of(tmp_path, name):
    path = tmp_path / name
    return path.read_text().splitlines() if path.exists() else []


@pytest.mark.parametrize("main", ["", "master_process off;"])
def test_lines_of_both_logs_and_the_end(serve, tmp_path, main):
    server = serve(FORMAT + """
        access_log "%s" f;
        access_log "%s" f if=$arg_twice;
        server { listen 127.0.0.1:@PORT@; error_log "%s" error;
                 location / { return 200 "x"; }
                 location /none { root html; } }
    """ % (keeper(tmp_path, "a"), keeper(tmp_path, "a"), keeper(tmp_path, "e")), main=main + "pipe_set_size 128k;")
    server.get("/one")
    server.get("/two?twice=1")
    server.get("/none")
    wanted = ["200 /one", "200 /two?twice=1", "200 /two?twice=1", "404 /none"]
    until(lambda: lines_of(tmp_path, "a") == wanted, "lines of the access log")
    until(lambda: any("/html/none\" failed" in line for line in lines_of(tmp_path, "e")), "a line of the error log")
    assert len(lines_of(tmp_path, "a.pids")) == 1, "one process for a command"
    pipe = os.open("/proc/%s/fd/0" % lines_of(tmp_path, "a.pids")[0], os.O_RDONLY | os.O_NONBLOCK)
    assert fcntl.fcntl(pipe, F_GETPIPE_SZ) == 128 * 1024
    os.close(pipe)
    assert server.quit() == 0
    until(lambda: lines_of(tmp_path, "a")[-1] == "EOF" and lines_of(tmp_path, "e")[-1] == "EOF", "the end of both")


@pytest.mark.parametrize("main", ["", "master_process off;"])
def test_program_that_ends_is_started_again(serve, tmp_path, main):
    server = serve(FORMAT + """
        access_log "%s" f;
        server { listen 127.0.0.1:@PORT@; return 200 "x"; }
    """ % keeper(tmp_path, "a"), main=main, allow=ALLOW)
    until(lambda: len(lines_of(tmp_path, "a.pids")) == 1, "the program")
    os.kill(int(lines_of(tmp_path, "a.pids")[0]), signal.SIGKILL)
    server.wait_log(r"log program \d+ .* exited on signal 9, starting it again")
    server.get("/between")
    until(lambda: lines_of(tmp_path, "a") == ["200 /between"], "the line that waited")
    assert len(lines_of(tmp_path, "a.pids")) == 2


def test_program_that_does_not_read(serve, tmp_path):
    """What has no room in the pipe is lost and counted; lines that are too long are cut."""
    server = serve(FORMAT + """
        log_format long '$request_uri$arg_x$arg_x$arg_x';
        server { listen 127.0.0.1:@PORT@;
                 location / { access_log "pipe:exec sleep 60" long; return 200 $limits_reached; }
                 location /long { access_log "%s" long; return 200 "x"; } }
    """ % keeper(tmp_path, "l"), allow=ALLOW)
    target = "/?x=" + "y" * 3000
    for _ in range(20):
        server.get(target)
    assert int(server.get("/").text) >= 4
    server.wait_log(r"\d+ lines for the log program \"exec sleep 60\" were lost \(11: Resource temporarily unavailable\)")
    assert server.error_log.count("were lost") == 1
    server.get("/long?x=" + "y" * 3000)
    server.get("/long?next")
    until(lambda: len(lines_of(tmp_path, "l")) == 2, "lines")
    assert [len(line) for line in lines_of(tmp_path, "l")] == [4095, len("/long?next---")]


def test_reload_and_reopen(serve, tmp_path):
    conf = FORMAT + """
        access_log "%s" f;
        server { listen 127.0.0.1:@PORT@; return 200 "x"; }
    """
    server = serve(conf % keeper(tmp_path, "old"))
    server.get("/old")
    server.signal("reopen")
    server.wait_log("reopening logs")
    server.get("/reopened")
    server.configure(conf % keeper(tmp_path, "new"))
    server.signal("reload")
    until(lambda: lines_of(tmp_path, "old") == ["200 /old", "200 /reopened", "EOF"], "the end of the old one")
    server.get("/new")
    until(lambda: lines_of(tmp_path, "new") == ["200 /new"], "the new one")
    assert len(lines_of(tmp_path, "old.pids")) == 1


@pytest.mark.parametrize("main, target, message", [
    ("", "pipe:touch @MARK@", "test is successful"),
    ("", "pipe:rollback logs/a.log interval=1h baknum=5 maxsize=2G adjust=60", "test is successful"),
    ("", "pipe:rollback", 'no file in "pipe:rollback"'),
    ("", "pipe:rollback a.log baknum=0", 'invalid parameter "baknum=0" in "pipe:rollback"'),
    ("", "pipe:rollback a.log baknum=1001", 'invalid parameter "baknum=1001" in "pipe:rollback"'),
    ("", "pipe:rollback a.log maxsize=x", 'invalid parameter "maxsize=x" in "pipe:rollback"'),
    ("", "pipe:rollback a.log interval=x", 'invalid parameter "interval=x" in "pipe:rollback"'),
    ("", "pipe:rollback a.log b.log", 'invalid parameter "b.log" in "pipe:rollback"'),
    ("", "pipe: ", 'no command in "pipe: "'),
    ("pipe_set_size 4k;", "pipe:touch @MARK@", '"pipe_set_size"'),
])
def test_configuration(tmp_path, main, target, message):
    mark = tmp_path / "mark"
    (tmp_path / "logs").mkdir()
    conf = tmp_path / "nginx.conf"
    conf.write_text('%s pid p; error_log "%s"; events {} http { access_log "%s"; server { listen 127.0.0.1:1; } }' % (
        main, target.replace("@MARK@", str(mark)), target.replace("@MARK@", str(mark))))
    done = run_binary("-t", "-p", str(tmp_path), "-c", str(conf))
    assert message in done.stderr + done.stdout
    assert not mark.exists()


def test_rollback_by_size(serve):
    """Lines stay whole, the newest backup is .1, and no more are kept than baknum says."""
    server = serve("""
        log_format own "$uri"; access_log "pipe:rollback logs/a.log maxsize=100 baknum=2" own;
        server { listen 127.0.0.1:@PORT@; location / { return 200; } }
    """)
    with server.client() as client:
        for number in range(20):
            client.request("/%029d" % number)
            until(lambda: "/%029d" % number in server.read("logs/a.log"), "the line")
    names = sorted(name for name in os.listdir(server.path("logs")) if name.startswith("a.log"))
    assert names == ["a.log", "a.log.1", "a.log.2"]
    kept = "".join(server.read("logs/" + name) for name in reversed(names))
    assert kept == "".join("/%029d\n" % number for number in range(20 - kept.count("\n"), 20))
    assert max(len(server.read("logs/" + name)) for name in names) <= 100


def test_the_process_of_rollback_is_not_taken_for_a_master(serve):
    server = serve(http="""
        access_log "pipe:rollback logs/a.log" combined;
        server { listen 127.0.0.1:@PORT@; location / { return 200; } }
    """)
    master = server.process.pid

    def titles():
        with open("/proc/%d/task/%d/children" % (master, master), encoding="ascii") as file:
            return [proc.title(int(pid)) for pid in file.read().split()]
    until(lambda: sorted(titles()) == ["nginx: log process", "nginx: worker process"], titles)


def test_why_a_file_of_rollback_is_not_written(serve):
    server = serve(http="""
        access_log "pipe:rollback none/a.log" combined;
        server { listen 127.0.0.1:@PORT@; location / { return 200; } }
    """, allow=ALLOW + ["open"])
    reason = 'open() "%s/none/a.log" failed (2: No such file' % server.dir
    until(lambda: reason in server.read("stderr.txt"), server.evidence)


def test_rollback_by_time(serve):
    """Without a line that comes; an empty file is not rotated."""
    server = serve("""
        log_format own "$uri"; access_log "pipe:rollback logs/a.log interval=300ms" own;
        server { listen 127.0.0.1:@PORT@; location / { return 200; } }
    """)
    server.get("/one")
    until(lambda: server.read("logs/a.log.1") == "/one\n", "the backup")
    server.get("/two")
    until(lambda: server.read("logs/a.log.1") == "/two\n", "the next backup")


def test_rollback_after_a_long_line(serve):
    """One that is larger than maxsize has a file for itself."""
    server = serve("""
        log_format own "$arg_a"; access_log "pipe:rollback logs/a.log maxsize=100 baknum=3" own;
        server { listen 127.0.0.1:@PORT@; location / { return 200; } }
    """)
    for value in ("a" * 50, "b" * 500, "c"):
        server.get("/?a=" + value)
        until(lambda: value + "\n" in server.read("logs/a.log"), "the line")
    assert [server.read("logs/a.log" + end) for end in ("", ".1", ".2")] == ["c\n", "b" * 500 + "\n", "a" * 50 + "\n"]
