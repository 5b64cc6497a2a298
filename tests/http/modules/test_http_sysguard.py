"""sysguard: requests are turned away while the system has too much to do. The limits of these tests are those that any machine passes, or none."""

import pytest

from harness import run_binary, until

PASSED = "sysguard_mem free=1000000g%s;"     # less is free than this, everywhere
KEPT = "sysguard_mem free=1%s;"              # more is
NEVER = "sysguard_load load=ncpu*1000%s;"


def start(serve, text, places=""):
    return serve("""server { listen 127.0.0.1:@PORT@; root html; sysguard on; %s
                    location /off { sysguard off; return 200 off; } location /busy { return 200 busy-$uri-$args; } location @busy { return 200 named; }
                    location / { try_files $uri /x.html; } %s }""" % (text, places), files={"html/x.html": "page"})


def test_within_the_limits(serve):
    server = start(serve, KEPT % "" + NEVER % "" + "sysguard_rt rt=100; ")
    assert server.get("/").text == "page"


def test_beyond_a_limit(serve):
    server = start(serve, PASSED % "")
    assert server.get("/").status == 503
    assert server.get("/off").text == "off"
    assert server.wait_log(r"\[error\].*sysguard free limited, current:\d+M conf:1024000000M")
    with server.client() as client:
        assert client.request("/", method="HEAD").status == 503
        assert client.request("/off").status == 200


@pytest.mark.parametrize("action, text", [("/busy", "busy-/busy-"), ("/busy?a=1", "busy-/busy-a=1"), ("@busy", "named"), ("/x.html", "page")])
def test_actions(serve, action, text):
    server = start(serve, PASSED % (" action=" + action))
    assert server.get("/").text == text


def test_off_is_off(serve):
    server = serve("server { listen 127.0.0.1:@PORT@; %s return 200 x; location / { return 200 x; } }" % (PASSED % ""))
    assert server.get("/").text == "x"


@pytest.mark.parametrize("mode, text, status", [
    ("or", PASSED % "", 503), ("or", PASSED % "" + NEVER % "", 503), ("or", KEPT % "" + NEVER % "", 200), ("and", PASSED % "" + NEVER % "", 200),
    ("and", PASSED % "", 503), ("and", PASSED % "" + "sysguard_mem swapratio=100%;", 200), ("and", "", 200)])
def test_modes(serve, mode, text, status):
    assert start(serve, "sysguard_mode %s; %s" % (mode, text)).get("/").status == status


def test_the_last_action_holds_when_all_are_wanted(serve):
    server = start(serve, "sysguard_mode and; sysguard_rt rt=0 period=60 action=/busy;" + PASSED % " action=@busy",
                   "location /slow { limit_rate 100; root html; try_files /x.html =404; } location /sleep { proxy_pass http://127.0.0.1:1; }")
    assert server.get("/").text == "page"  # nobody has waited yet: rt is not passed


def test_response_times(serve, backend):
    server = serve("""server { listen 127.0.0.1:@PORT@; sysguard on; sysguard_rt rt=0.05 period=60 action=/busy;
                      location / { proxy_pass http://127.0.0.1:@PORT1@; } location = /busy { sysguard off; return 200 busy; } }
                      server { listen 127.0.0.1:@PORT1@; location / { limit_rate 1000; root html; try_files /big =404; } }""",
                   files={"html/big": "x" * 3000})
    assert server.get("/").status == 200
    assert until(lambda: server.get("/").text == "busy", "the mean")
    server.wait_log(r"sysguard rt limited, current:\d+\.\d\d\d conf:0\.050")


def test_levels_and_counter(serve):
    server = start(serve, PASSED % "" + "sysguard_log_level warn;", "location /c { sysguard off; return 200 $limits_reached; }")
    server.get("/")
    server.wait_log(r"\[warn\].*sysguard free limited")
    assert server.get("/c").text == "1"


def test_inheritance(serve):
    server = serve("""sysguard on; %s server { listen 127.0.0.1:@PORT@; location / { return 200 x; root html; try_files /x =404; }
                      location /a { try_files /x =404; root html; } location /b { %s root html; try_files /x =404; } }""" % (PASSED % "", KEPT % ""),
                   files={"html/x": "x"})
    assert server.get("/a").status == 503
    assert server.get("/b").text == "x"


@pytest.mark.parametrize("text, message", [
    ("sysguard_load load=x;", 'invalid parameter "load=x"'), ("sysguard_load action=/x;", "invalid number of arguments"), ("sysguard_load load=1 action=x;", "invalid parameter"),
    ("sysguard_load load=1 period=3;", "invalid parameter"), ("sysguard_cpu usage=200;", "invalid parameter"), ("sysguard_cpu usage=10 period=0;", "invalid parameter"),
    ("sysguard_rt rt=1 period=2h;", "invalid parameter"), ("sysguard_mem swapratio=10;", "invalid parameter"), ("sysguard_mem free=x;", "invalid parameter"),
    ("sysguard_mode xor;", 'invalid value "xor"'), ("sysguard maybe;", "invalid value"), ("sysguard_log_level debug;", "invalid value"),
    ("sysguard_rt rt=1; sysguard_rt rt=2;", "is duplicate")])
def test_faults(tmp_path, text, message):
    (tmp_path / "c").write_text("pid p; error_log stderr; events { }\nhttp {\n%s\n}\n" % text)
    done = run_binary("-p", str(tmp_path), "-c", "c", "-t", "-e", "stderr")
    assert done.returncode == 1 and message in done.stderr


def test_words_that_tengine_passes_over(tmp_path):
    (tmp_path / "c").write_text("pid p; error_log stderr; events { }\nhttp { sysguard_rt rt=1 period=2s actoin=/x; }\n")
    done = run_binary("-p", str(tmp_path), "-c", "c", "-t", "-e", "stderr")
    assert done.returncode == 0 and 'unknown parameter "actoin=/x", ignored' in done.stderr
