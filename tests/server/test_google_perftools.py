"""google_perftools_profiles: a profile of CPU time of each worker."""

import os
import re

import pytest

from harness import binaries, until
from harness.workers import wait_workers

NAME = "ngx_google_perftools_module"
pytestmark = pytest.mark.skipif(NAME not in binaries.load_module(NAME), reason="built where gperftools is")
HTTP = "server { listen 127.0.0.1:@PORT@; location / { return 200 ok; } location /gz { gzip on; gzip_comp_level 9; gzip_types *; alias html/big; } }"


def profiled(serve, more="", env=None, **words):
    return serve(HTTP, main=binaries.load_module(NAME) + " google_perftools_profiles logs/cpu; " + more, env=env,
                 files={"html/big": "".join("%d " % (number * number) for number in range(60000))}, **words)


def profile(server, pid):
    """The words of a profile: the format's header, and how many samples there are."""
    with open(server.path("logs/cpu.%d" % pid), "rb") as file:
        data = file.read()
    words = [int.from_bytes(data[at:at + 8], "little") for at in range(0, len(data) - 7, 8)]
    assert words[:3] == [0, 3, 0], words[:5]  # header count, words after it, version
    samples, at = 0, 5
    while words[at + 1] != 1 or words[at] != 0:  # the trailer: 0, 1, 0
        samples += words[at]
        at += 2 + words[at + 1]
    return words[3], samples


def work(server, seconds=0.5):
    """Lets the workers compute until they have used so much CPU time."""
    def used():
        return sum(sum(int(word) for word in open("/proc/%d/stat" % pid, encoding="ascii").read().rsplit(")", 1)[1].split()[11:13])
                   for pid in server.children()) / os.sysconf("SC_CLK_TCK")
    begun = used()

    def is_enough():
        assert server.get("/gz", "Accept-Encoding: gzip").status == 200
        return used() - begun > seconds
    until(is_enough, "CPU time to be used")


@pytest.mark.parametrize("how", ["quit", "stop"])
def test_a_profile_of_each_worker(serve, how):
    server = profiled(serve, "worker_processes 2;")
    workers = wait_workers(server, 2)
    work(server)
    getattr(server, how)()
    counts = [profile(server, pid) for pid in workers]
    assert all(period == 10000 for period, _ in counts)
    assert sum(samples for _, samples in counts) >= 10
    assert sorted(name for name in os.listdir(server.path("logs")) if name.startswith("cpu")) == sorted("cpu.%d" % pid for pid in workers)


def test_a_reload(serve):
    server = profiled(serve)
    [former] = wait_workers(server, 1)
    server.reload()
    [worker] = wait_workers(server, 1, without=[former])
    until(lambda: os.path.exists(server.path("logs/cpu.%d" % former)) and profile(server, former), "the former worker's profile")
    work(server)
    server.quit()
    assert profile(server, worker)[1] >= 10


def test_one_process(serve):
    """A reload begins a file anew, since the process is the same."""
    server = profiled(serve, "master_process off;")
    server.signal("reload")
    server.wait_log("reconfiguring")
    until(lambda: server.get("/").text == "ok")
    server.stop()
    profile(server, int(re.search(r"cpu\.(\d+)", " ".join(os.listdir(server.path("logs")))).group(1)))


def test_what_cpuprofile_says_is_the_masters(serve, tmp_path):
    """The library begins by itself with it; the workers have profiles of their own all the same."""
    server = profiled(serve, env={**os.environ, "CPUPROFILE": str(tmp_path / "master")})
    [worker] = wait_workers(server, 1)
    work(server)
    server.quit()
    assert profile(server, worker)[1] >= 10


def test_a_file_that_cannot_be_written(serve):
    server = serve(HTTP, main=binaries.load_module(NAME) + " google_perftools_profiles none/cpu;")
    assert server.get("/").text == "ok"
    server.wait_log(r"\[crit\] .* cannot write a CPU profile to \"%s\.\d+\" \(2: No such file" % re.escape(server.path("none/cpu")))


def test_without_the_directive_nothing_is_written(serve):
    server = serve(HTTP, main=binaries.load_module(NAME))
    assert server.get("/").text == "ok"
    server.quit()
    assert not [name for name in os.listdir(server.path("logs")) if "cpu" in name]


def test_beside_lua(serve):
    """Lua's watch over scripts that compute for long has a signal of its own."""
    if "ngx_http_lua_module (static)" not in binaries.version_text(binaries.under_test()):
        pytest.skip("built without Lua")
    server = serve("lua_time_limit 50ms; server { listen 127.0.0.1:@PORT@; location / { content_by_lua_block {"
                   " local from = os.clock() while os.clock() - from < 0.4 do end ngx.say('done') } } }",
                   main=binaries.load_module(NAME) + " google_perftools_profiles logs/cpu;")
    [worker] = wait_workers(server, 1)
    assert server.get("/").text == "done\n"
    server.wait_log("computes for more than 50 ms")
    server.quit()
    assert profile(server, worker)[1] >= 10
