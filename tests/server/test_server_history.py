"""config_history, --diff, --history, rollback, reload_confirm: what changes, and back again."""

import os
import re
import signal
import stat
import subprocess

import pytest

from harness import binaries, run_binary, until
from harness.certificates import Authority
from harness.daemon import Daemon, follow_upgrade
from harness.workers import wait_workers

pytestmark = pytest.mark.skipif("Portunus" not in binaries.version_text(binaries.under_test()),
                                reason="nginx has no such directives")

FRAME = """
daemon off; pid nginx.pid; error_log error.log info;
%s
events { worker_connections 64; }
http { access_log off; include sites/*.conf;
    server { listen 127.0.0.1:@PORT@; location / { return 200 "%s"; } }
}
"""
SITE = 'server { listen 127.0.0.1:@PORT1@; location / { return 200 "site %s"; } }'


def frame(text, main="config_history 5 kept;"):
    return FRAME % (main, text)


def change(server, text, main="config_history 5 kept;", site=None):
    """Writes the files; nothing reads them yet."""
    server.configure(conf=frame(text, main))
    if site is not None:
        write_site(server, site)


def write_site(server, text):
    server.write("sites/a.conf", (SITE % text).replace("@PORT1@", str(server.port_of("PORT1"))))


def words(server, *args):
    return run_binary(*args, "-p", server.dir + "/", "-c", "nginx.conf", "-e", "error.log",
                      cwd=server.dir)


def tell(server, word):
    done = words(server, "-s", word)
    assert done.returncode == 0, done.stderr


def wait_text(server, text, port=None):
    until(lambda: server.get("/", port=port).text == text, server.evidence)


def history(server):
    done = words(server, "--history")
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def running(server):
    return [int(line.split()[0]) for line in history(server) if " runs" in line]


@pytest.fixture(params=["on", "off"])
def process(request):
    return "config_history 5 kept; master_process %s;" % request.param


def test_rollback_takes_the_configuration_before(serve, process):
    server = serve(conf=frame("one", process))
    change(server, "two", process)
    server.signal("reload")
    wait_text(server, "two")
    tell(server, "rollback")
    wait_text(server, "one")
    assert running(server) == [1]
    assert '"two"' in server.read("nginx.conf"), "files of the disk are left alone"
    server.signal("reload")
    wait_text(server, "two")
    tell(server, "rollback")
    wait_text(server, "one")


def test_rollback_twice_goes_back_two(serve):
    server = serve(conf=frame("one"))
    for text in ("two", "three"):
        change(server, text)
        server.signal("reload")
        wait_text(server, text)
    tell(server, "rollback")
    wait_text(server, "two")
    tell(server, "rollback")
    wait_text(server, "one")
    tell(server, "rollback")
    server.wait_log("no configuration ran before this one", "error.log")
    assert server.get("/").text == "one"


def test_rollback_brings_back_what_was_included(serve):
    server = serve(conf=frame("zero"), allow=["nonsense"])
    port = server.port_of("PORT1")
    write_site(server, "one")
    server.signal("reload")
    until(lambda: running(server) == [2], server.evidence)
    write_site(server, "two")
    server.signal("reload")
    wait_text(server, "site two", port)
    os.unlink(server.path("sites/a.conf"))
    tell(server, "rollback")
    wait_text(server, "site one", port)
    server.write("sites/b.conf", "nonsense;")
    server.signal("reload")
    server.wait_log("nonsense", "error.log")
    assert server.get("/", port=port).text == "site one"


def test_rollback_works_while_the_file_is_wrong(serve):
    server = serve(conf=frame("one"), allow=["nonsense"])
    change(server, "two")
    server.signal("reload")
    wait_text(server, "two")
    server.write("nginx.conf", server.read("nginx.conf") + "nonsense;\n")
    server.signal("reload")
    server.wait_log('unknown directive "nonsense"', "error.log")
    tell(server, "rollback")
    wait_text(server, "one")


def test_nothing_is_kept_of_a_reload_that_fails_or_changes_nothing(serve):
    server = serve(conf=frame("one"), allow=["nonsense"])
    server.reload()
    server.write("nginx.conf", server.read("nginx.conf") + "nonsense;\n")
    server.signal("reload")
    server.wait_log('unknown directive "nonsense"', "error.log")
    assert [line.split()[0] for line in history(server)] == ["1"]


def test_so_many_are_kept(serve):
    server = serve(conf=frame("0", "config_history 2 kept;"))
    for number in range(1, 6):
        change(server, str(number), "config_history 2 kept;")
        server.signal("reload")
        wait_text(server, str(number))
    assert [line.split()[0] for line in history(server)] == ["4", "5", "6"]


def test_records_belong_to_the_user_of_the_master(serve):
    server = serve(conf=frame("one"))
    assert stat.S_IMODE(os.stat(server.path("kept")).st_mode) == 0o700
    for name in os.listdir(server.path("kept")):
        info = os.stat(server.path("kept/" + name))
        assert stat.S_IMODE(info.st_mode) == 0o600 and info.st_uid == os.getuid()


def test_a_directory_that_others_write_is_not_used(serve):
    server = serve(conf=frame("one", ""))
    os.mkdir(server.path("kept"))
    os.chmod(server.path("kept"), 0o777)
    change(server, "two")
    server.signal("reload")
    wait_text(server, "two")
    server.wait_log('the directory "[^"]*kept" of "config_history" is writable by other users',
                    "error.log")
    assert os.listdir(server.path("kept")) == []
    tell(server, "rollback")
    server.wait_log("no configuration ran before this one", "error.log")


def test_a_link_in_place_of_a_record_is_not_followed(serve):
    server = serve(conf=frame("one"))
    change(server, "two")
    server.signal("reload")
    wait_text(server, "two")
    os.rename(server.path("kept/00000001"), server.path("elsewhere"))
    os.symlink(server.path("elsewhere"), server.path("kept/00000001"))
    tell(server, "rollback")
    server.wait_log("configuration 1 in .* cannot be read", "error.log")
    assert server.get("/").text == "two"


@pytest.mark.parametrize("damage", [lambda text: text[:len(text) // 2],
                                    lambda text: text.replace(b"one", b"1ne"),
                                    lambda text: b""], ids=["cut", "altered", "empty"])
def test_a_damaged_record_is_not_taken(serve, damage):
    server = serve(conf=frame("one"))
    change(server, "two")
    server.signal("reload")
    wait_text(server, "two")
    with open(server.path("kept/00000001"), "rb") as file:
        text = file.read()
    with open(server.path("kept/00000001"), "wb") as file:
        file.write(damage(text))
    tell(server, "rollback")
    server.wait_log("configuration 1 in .* is damaged", "error.log")
    assert server.get("/").text == "two"
    assert history(server)[0] == "1 damaged"


def test_what_was_left_half_written_does_no_harm(serve):
    server = serve(conf=frame("one"))
    with open(server.path("kept/new"), "wb") as file:
        file.write(b"half a rec")
    change(server, "two")
    server.signal("reload")
    wait_text(server, "two")
    tell(server, "rollback")
    wait_text(server, "one")


def test_a_history_that_begins_with_a_reload_knows_what_ran(serve):
    server = serve(conf=frame("one", ""))
    tell(server, "rollback")
    server.wait_log('no configuration was kept, set "config_history"', "error.log")
    change(server, "two")
    server.signal("reload")
    wait_text(server, "two")
    tell(server, "rollback")
    wait_text(server, "one")


def test_a_history_that_ends_with_a_reload_can_be_returned_to(serve):
    server = serve(conf=frame("one"))
    change(server, "two", "")
    server.signal("reload")
    wait_text(server, "two")
    tell(server, "rollback")
    wait_text(server, "one")


def test_the_next_start_continues_the_history(serve):
    server = serve(conf=frame("one"))
    server.quit()
    server.wait_end()
    change(server, "two")
    server.start()
    until(lambda: running(server) == [2], server.evidence)
    tell(server, "rollback")
    wait_text(server, "one")


def test_a_rollback_waits_for_the_reload_under_way(serve):
    server = serve(conf=frame("one"))
    change(server, "two")
    wait_workers(server, 1)
    server.signal("reload")
    server.signal(signal.SIGURG)
    # The reload may have to wait for the first workers itself; then the rollback cancels it.
    server.wait_log("configuration 1 runs again|the reload that waited is cancelled", "error.log")
    wait_text(server, "one")
    assert running(server) == [1]


# ---- confirmation

WAITS = "config_history 5 kept; reload_confirm 1h;"


def test_a_reload_that_nobody_confirms_returns(serve, process):
    """With the files that it includes, which -T shows of both."""
    main, site = process + " reload_confirm 300ms;", 'map "" $site { default %s; }'
    server = serve(conf=frame("one $site", main), files={"sites/a.conf": site % "former"})
    change(server, "two $site", main)
    server.write("sites/a.conf", site % "later")
    shown = words(server, "-T", "--diff").stdout
    assert site % "later" in shown and re.search(r"~ return 200 .*one \$site.* -> .*two \$site", shown), shown
    server.signal("reload")
    server.wait_log("configuration 2 was not confirmed in time, returning to 1", "error.log")
    wait_text(server, "one former")
    assert running(server) == [1] and site % "former" in words(server, "-T", "--history=1").stdout


def test_a_reload_that_is_confirmed_stays(serve, process):
    main = process + " reload_confirm 1h;"
    server = serve(conf=frame("one", main))
    change(server, "two", main)
    server.signal("reload")
    wait_text(server, "two")
    until(lambda: history(server)[-1].endswith(" runs, not confirmed"), server.evidence)
    tell(server, "confirm")
    server.wait_log("configuration 2 is confirmed", "error.log")
    until(lambda: history(server)[-1].endswith(" runs"), server.evidence)
    tell(server, "confirm")
    server.wait_log("no configuration waits for its confirmation", "error.log")


def test_two_reloads_return_to_the_one_that_was_confirmed(serve):
    server = serve(conf=frame("one", WAITS))
    change(server, "two", WAITS)
    server.signal("reload")
    wait_text(server, "two")
    main = "config_history 5 kept; reload_confirm 300ms;"
    change(server, "three", main)
    server.signal("reload")
    server.wait_log("configuration 3 was not confirmed in time, returning to 1", "error.log")
    wait_text(server, "one")


def test_what_was_confirmed_is_kept_while_others_wait(serve):
    """More reloads than `config_history` keeps: the one to return to is not among those removed."""
    main = "config_history 1 kept; reload_confirm 1h;"
    server = serve(conf=frame("one", main))
    for text in ("two", "three", "four", "five"):
        change(server, text, main)
        server.signal("reload")
        wait_text(server, text)
    assert [int(line.split()[0]) for line in history(server)] == [1, 4, 5]
    change(server, "six", main.replace("1h", "300ms"))
    server.signal("reload")
    server.wait_log("configuration 6 was not confirmed in time, returning to 1", "error.log")
    wait_text(server, "one")


def test_another_directory_does_not_change_where_to_return(serve):
    """A number names a record of the directory in which it was confirmed."""
    server = serve(conf=frame("one", WAITS))
    change(server, "two", WAITS)
    server.signal("reload")
    wait_text(server, "two")
    change(server, "three", "config_history 5 other; reload_confirm 300ms;")
    server.signal("reload")
    server.wait_log("configuration 2 was not confirmed in time, returning to 1", "error.log")
    wait_text(server, "one")


def test_a_rollback_ends_the_wait(serve):
    server = serve(conf=frame("one", WAITS))
    change(server, "two", WAITS)
    server.signal("reload")
    wait_text(server, "two")
    tell(server, "rollback")
    wait_text(server, "one")
    tell(server, "confirm")
    server.wait_log("no configuration waits for its confirmation", "error.log")


def test_confirmation_needs_a_history(serve):
    server = serve(conf=frame("one"), allow=["reload_confirm"])
    change(server, "two", "reload_confirm 10s;")
    done = words(server, "-t")
    assert done.returncode == 1 and 'set "config_history"' in done.stderr


# ---- upgrade of the binary

@pytest.fixture
def daemon():
    servers = []

    def start(conf):
        server = Daemon(conf=conf)
        servers.append(server)
        return server.start()
    yield start
    for server in servers:
        server.close()


def test_history_continues_over_an_upgrade(daemon):
    main = "daemon on; config_history 5 kept;"
    server = daemon(frame("one", main).replace("daemon off;", ""))
    old = server.pid
    server.configure(conf=frame("two", main).replace("daemon off;", ""))
    server.signal("upgrade")
    until(lambda: running(server) == [2], server.evidence)
    os.kill(old, signal.SIGURG)
    server.wait_log("a new binary runs: the configuration is not rolled back", "error.log")
    os.kill(old, signal.SIGQUIT)
    follow_upgrade(server)
    wait_text(server, "two")
    tell(server, "rollback")
    wait_text(server, "one")


def test_the_old_binary_keeps_its_history_when_the_new_one_leaves(daemon):
    main = "daemon on; config_history 5 kept;"
    server = daemon(frame("one", main).replace("daemon off;", ""))
    server.configure(conf=frame("two", main).replace("daemon off;", ""))
    server.signal("upgrade")
    until(lambda: running(server) == [2], server.evidence)
    os.kill(int(until(lambda: server.read("nginx.pid"), "the new pid file")), signal.SIGQUIT)
    until(lambda: running(server) == [1], server.evidence)


def test_a_new_binary_keeps_what_the_old_one_may_return_to(daemon):
    def conf(text):
        main = "daemon on; config_history 1 kept; reload_confirm 1h;"
        return frame(text, main).replace("daemon off;", "")
    server = daemon(conf("one"))
    master = server.read("nginx.pid")
    server.configure(conf=conf("two"))
    server.signal("reload")
    until(lambda: running(server) == [2], server.evidence)
    server.configure(conf=conf("three"))
    server.signal("upgrade")
    until(lambda: running(server) == [3], server.evidence)
    assert [int(line.split()[0]) for line in history(server)] == [1, 2, 3]
    os.kill(int(until(lambda: server.read("nginx.pid"), "the new pid file")), signal.SIGQUIT)
    until(lambda: server.read("nginx.pid") == master, "the pid file of before")
    until(lambda: running(server) == [2], server.evidence)
    tell(server, "rollback")
    wait_text(server, "one")


# ---- what --history and --diff print

def test_a_kept_configuration_is_tested_and_printed(serve):
    server = serve(conf=frame("one"), files={"sites/a.conf": "# of the site\n"}, allow=["nonsense"])
    change(server, "two")
    server.signal("reload")
    wait_text(server, "two")
    server.write("nginx.conf", "config_history 5 kept;\nnonsense;\n")
    done = words(server, "-T", "--history=1")
    assert done.returncode == 0, done.stderr
    assert '"one"' in done.stdout
    assert "# configuration file %s:\n# of the site\n" % server.path("sites/a.conf") in done.stdout
    assert words(server, "-t", "--history=7").returncode == 1
    assert words(server, "--history=x").returncode == 1


def diff(server):
    done = words(server, "-t", "--diff")
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_diff_of_the_same_is_empty(serve):
    server = serve(conf=frame("one"))
    assert diff(server) == "nothing would change\n"


OLD = """
daemon off; pid nginx.pid; error_log error.log info; config_history 5 kept;
events { }
http { access_log off;
    upstream b { server 127.0.0.1:1; server 127.0.0.1:2; }
    upstream gone { server 127.0.0.1:1; }
    server { listen 127.0.0.1:@PORT@; server_name a.example; ssl_trusted_certificate a.crt;
        location / { return 200 one; }
        location /gone { return 204; }
        location ~ a { return 200 a; }
        location ~ b { return 200 b; }
    }
    server { listen 127.0.0.1:@PORT1@; server_name old.example; }
}
"""
NEW = """
daemon off; pid nginx.pid; error_log error.log info; config_history 5 kept;
events { }
http { access_log off;
    upstream b { server 127.0.0.1:1 weight=2; server 127.0.0.1:3; }
    server { listen 127.0.0.1:@PORT@ backlog=9; server_name a.example; ssl_trusted_certificate b.crt;
        location / { return 200 two; }
        location ~ b { return 200 b; }
        location ~ a { return 200 a; }
        location /new { location /new/in { return 204; } }
    }
    server { listen 127.0.0.1:@PORT2@; server_name new.example; }
}
"""


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    directory = tmp_path_factory.mktemp("certificates")
    return {name + ".crt": Authority(directory, name).read(name + ".crt") for name in "ab"}


def test_diff_says_what_a_reload_would_change(serve, certificates):
    server = serve(conf=OLD, files=certificates)
    server.configure(conf=NEW)
    port, former, later = (server.port_of(name) for name in ("PORT", "PORT1", "PORT2"))
    path = server.path("nginx.conf")
    lines = diff(server).splitlines()
    for line in (
            "    + 127.0.0.1:%d" % later,
            "    - 127.0.0.1:%d" % former,
            "    ~ 127.0.0.1:%d backlog=9" % port,
            "    + %s" % server.path("b.crt"),
            "    - %s" % server.path("a.crt"),
            "        ~ upstream b (%s:5)" % path,
            "            ~ server 127.0.0.1:1 -> 127.0.0.1:1 weight=2 (%s:5)" % path,
            "            ~ server 127.0.0.1:2 -> 127.0.0.1:3 (%s:5)" % path,
            "        - upstream gone (%s:6)" % path,
            "            ~ location / (%s:7)" % path,
            "                ~ return 200 one -> 200 two (%s:7)" % path,
            "            + location /new (%s:10)" % path,
            "            - location /gone (%s:9)" % path,
            '            ~ another order of "location" (%s:9)' % path,
            "        + server; listen 127.0.0.1:%d; server_name new.example (%s:12)" % (later, path),
            "        - server; listen 127.0.0.1:%d; server_name old.example (%s:13)" % (former, path),
            "summary: listeners +1 -1 ~1, servers +1 -1 ~1, locations +2 -1 ~1, "
            "upstreams +0 -1 ~1, others +0 -0 ~6"):
        assert line in lines, "\n".join(lines)


def test_diff_sees_a_certificate_that_was_renewed(serve, certificates):
    server = serve(conf=OLD, files=certificates)
    server.write("a.crt", certificates["b.crt"])
    assert diff(server) == "certificates:\n    ~ %s: the file has changed\n" % server.path("a.crt")
    server.signal("reload")
    until(lambda: diff(server) == "nothing would change\n", server.evidence)
    assert running(server) == [1]


def test_diff_needs_a_history(serve):
    server = serve(conf=frame("one", ""))
    done = words(server, "-t", "--diff")
    assert done.returncode == 1 and 'set "config_history"' in done.stderr


@pytest.mark.skipif(os.getuid() != 0, reason="needs root")
def test_others_may_not_read_the_history(serve):
    server = serve(conf=frame("one"))
    done = subprocess.run([binaries.under_test(), "--history", "-p", server.dir + "/", "-c", "nginx.conf",
                           "-e", "stderr"], user="nobody", capture_output=True, check=False, encoding="utf-8")
    assert done.returncode == 1 and done.stdout == "", done
    assert "Permission denied" in done.stderr
