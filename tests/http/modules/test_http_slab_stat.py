"""slab_stat: zones of shared memory as a page."""

import re

import pytest

from harness import run_binary

ZONES = "limit_req_zone $uri zone=one:1m rate=1r/s; proxy_cache_path cache keys_zone=two:2m; "
SERVER = "server { listen 127.0.0.1:@PORT@; location /s { slab_stat; } location / { limit_req zone=one burst=100 nodelay; return 200; } }"


def zones(server):
    """{name: (total, free, page, pages, {size: (total, used, requests, fails)})}"""
    found, current = {}, None
    for line in server.get("/s").text.splitlines():
        numbers = [int(number) for number in re.findall(r":\s*(\d+)(?=[( ]|$)", line)]
        if line.startswith("* shared memory: "):
            current = found[line.split(": ")[1]] = [None, None, None, None, {}]
        elif line.startswith("total:"):
            current[0:3] = numbers
        elif line.startswith("pages:"):
            assert re.fullmatch(r"pages:\s*\d+\(KB\) start:[0-9A-F]{16} end:[0-9A-F]{16}", line)
            current[3] = numbers[0]
        else:
            assert line.startswith("slot:")
            current[4][numbers[0]] = tuple(numbers[1:])
    return found


def test_zones(serve):
    seen = zones(serve(ZONES + SERVER))
    assert {"one", "two"} <= set(seen)
    assert seen["one"][0] == 1024 and seen["two"][0] == 2048
    for total, free, page, pages, slots in seen.values():
        assert page == 4 and free <= pages <= total
        assert sorted(slots) == [16, 32, 64, 128, 256, 512, 1024, 2048]
        assert all(used <= count for count, used, _, _ in slots.values())


def test_what_is_allocated_is_told(serve):
    seen = zones(serve(ZONES + SERVER))["one"]
    assert seen[1] < seen[3]  # the table took pages
    assert sum(requests for _, _, requests, _ in seen[4].values()) > 0
    assert all(failed == 0 for _, _, _, failed in seen[4].values())


def test_the_server_is_a_place_too(serve):
    assert "* shared memory: one" in serve(ZONES + "server { listen 127.0.0.1:@PORT@; slab_stat; }").get("/any").text


def test_no_zones(serve):
    answer = serve("server { listen 127.0.0.1:@PORT@; location /s { slab_stat; } }").get("/s")
    assert answer.status == 200 and "shared memory: one" not in answer.text


def test_numbers_stay_over_a_reload(serve):
    server = serve(ZONES + SERVER)
    before = zones(server)["one"]
    server.reload()
    assert zones(server)["one"][4][2048][2] >= before[4][2048][2]


@pytest.mark.parametrize("method, status", [("HEAD", 200), ("POST", 405), ("PUT", 405)])
def test_methods(serve, method, status):
    with serve(ZONES + SERVER).client() as client:
        answer = client.request("/s", method=method)
        assert answer.status == status and (method != "HEAD" or answer.body == b"")


def test_no_address_is_told(serve):
    text = serve(ZONES + SERVER).get("/s").text
    assert all(int(end, 16) <= 2 << 20 for end in re.findall(r"end:([0-9A-F]+)", text))


@pytest.mark.parametrize("text", ["slab_stat;", "server { slab_stat on; }", "server { slab_stat; slab_stat; }"])
def test_faults(tmp_path, text):
    (tmp_path / "c").write_text("pid p; error_log stderr; events { }\nhttp {\n%s\n}\n" % text)
    assert run_binary("-p", str(tmp_path), "-c", "c", "-t", "-e", "stderr").returncode == 1
