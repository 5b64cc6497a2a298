"""Configurations that people run: seeds/ says what each is. They start as they are, with -p."""

import ctypes.util
import os
import re
import resource

import pytest

from harness import Client, binaries, proc, run_binary, until
from harness.boxes import BoxedServer, needs_root
from harness.workers import wait_workers

SEEDS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "seeds")
TYPES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../conf/mime.types")

pytestmark = pytest.mark.skipif("Portunus" not in binaries.version_text(binaries.under_test()),
                                reason="nginx knows no reuse_port and no dso")


# May a process of ours have so many descriptors as the seeds want? In some containers not even root
# can raise the limit.
CAN_RAISE = resource.getrlimit(resource.RLIMIT_NOFILE)[1] >= 65535 or \
    int(proc.status(os.getpid(), "CapEff"), 16) >> 24 & 1


class Seed(BoxedServer):
    """A seed in a network of its own, since it listens on a port below 1024, and a /run and a
    /var/log of its own."""

    def __init__(self, name, **kwargs):
        with open(os.path.join(SEEDS, name), encoding="ascii") as source:
            super().__init__(conf=source.read(), box=["-n", "-m"], setup=(
                "ip link set lo up; mount -t tmpfs none /run; mount -t tmpfs none /var/log; "
                "mkdir /var/log/nginx; mkdir -p /etc/nginx"), **kwargs)
        with open(TYPES, "rb") as types:
            self.write("mime.types", types.read())
        self.write("nginx.pid", "")

    def wait_ready(self):
        until(lambda: self.read("logs/nginx.pid") == "%d\n" % self.pid, self.evidence)


@needs_root
@pytest.mark.parametrize("name, port", [("reuse-port.conf", 81), ("accept-mutex-off.conf", 82)])
def test_seed_starts_as_it_is(name, port):
    allow = [] if CAN_RAISE else [r"setrlimit\(RLIMIT_NOFILE, 65535\) failed"]
    with Seed(name, allow=allow) as server:
        allowed = sorted(os.sched_getaffinity(0))
        wait_workers(server, len(allowed))
        with server.network():
            assert proc.listening(port) == len(allowed)
            for _ in range(20):
                with Client(port) as client:
                    answer = client.request("/empty.gif")
                    assert answer.status == 200
                    assert answer.header("Content-Type") == "image/gif"
                    assert answer.closes and len(answer.body) == 43
                    client.expect_closed()
        assert len(server.wait_lines("logs/access.log", 20)) == 20
        for pid, cpu in zip(server.children(), allowed):
            if CAN_RAISE:
                assert proc.limit(pid, "Max open files") == ("65535", "65535")
            assert sorted(os.sched_getaffinity(pid)) == [cpu]
            assert proc.resident_kb(pid) < binaries.resident_limit(16 * 1024)


def test_what_tengine_lists_is_listed():
    """Every module of a Tengine, but for those that wait for a library that this machine has not."""
    needs = {"ngx_http_geoip_module": "libGeoIP", "ngx_http_xslt_filter_module": "libxslt", "ngx_http_image_filter_module": "libgd",
             "ngx_google_perftools_module": "libprofiler", "ngx_http_lua_module": "libluajit-5.1"}
    with open(os.path.join(SEEDS, "tengine-modules.txt"), encoding="ascii") as names:
        wanted = set(names.read().split())
    listed = set(re.findall(r"(ngx_\w+_module) \(", run_binary("-V").stderr))
    without = {name for name, library in needs.items() if ctypes.util.find_library(library[3:]) is None}
    assert len(wanted) == 96 and wanted - without <= listed, wanted - without - listed


def test_blog_is_accepted_up_to_modules_that_are_not_built(tmp_path):
    """Each module that it lacks is named, and nothing else is complained about."""
    with open(os.path.join(SEEDS, "blog-dso.conf"), encoding="ascii") as source:
        text = source.read()
    text = text.replace("/etc/nginx/mime.types", os.path.abspath(TYPES))
    (tmp_path / "nginx.conf").write_text(text)
    done = run_binary("-t", "-p", "%s/" % tmp_path, "-c", "nginx.conf", "-e", "stderr")
    errors = [line for line in done.stderr.split("\n") if "[emerg]" in line]
    skipped = set(re.findall(r"\[warn\] .*dlopen\(\) \".*/(ngx_http_\w+_module)\.so\" failed .*the module is "
                             r"not in Portunus yet in", done.stderr))
    missing = re.compile(r"unknown directive \"\w+\" \(it belongs to (ngx_http_\w+_module), which "
                         r"is not in Portunus yet\)")
    named = set()
    for line in errors:
        found = missing.search(line)
        assert found, line
        named.add(found.group(1))
    assert named <= skipped
    named = skipped
    built = set(re.findall(r"(ngx_\w+_module) \(", run_binary("-m").stdout))
    assert not named & built
    loads = set(re.findall(r"load (ngx_http_\w+_module)\.so;", text))
    assert loads <= named | built, "a module is missing without a word"
    if errors:
        assert done.returncode == 1
    # empty_gif is linked in, unless this build has it loadable.
    if "ngx_http_empty_gif_module" in built:
        assert re.search(r"\[notice\] .*module \"ngx_http_empty_gif_module\" is linked in",
                         done.stderr)


class Blog(Seed):
    """The seed of a Tengine with loadable modules, which writes its pid file below /run."""

    def configure(self, http=None, *, conf=None, main="", events=""):
        super().configure(conf=conf.replace("/etc/nginx/mime.types", os.path.abspath(TYPES)))

    def wait_ready(self):
        wait_workers(self, len(os.sched_getaffinity(0)))


@needs_root
def test_blog_starts_as_it_is_and_serves():
    names = set(re.findall(r"load (ngx_http_\w+_module)\.so;", open(os.path.join(SEEDS, "blog-dso.conf"), encoding="ascii").read()))
    if not names <= set(re.findall(r"(ngx_\w+_module) \(static", run_binary("-m").stdout)):
        pytest.skip("built without some of its modules")
    allow = [] if CAN_RAISE else [r"setrlimit"]
    with Blog("blog-dso.conf", allow=allow) as server, server.network():
        with Client(80) as client:
            assert "Active connections: " in client.request("/").text
            assert client.request("/do_not_delete.html").header("Content-Type") == "image/gif"
            assert client.request("/x/.git/config").status == 403
            assert client.request("/.htaccess").status == 403
