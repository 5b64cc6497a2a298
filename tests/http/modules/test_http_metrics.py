"""metrics: numbers for Prometheus and for people."""

import json
import os
import signal
import ssl
import threading

import pytest

import certificates
from harness import run_binary, until
from harness.workers import wait_workers
from tls_client import connect, context, exchange, pair

prometheus = pytest.importorskip("prometheus_client.parser")
openmetrics = pytest.importorskip("prometheus_client.openmetrics.parser")

OPENMETRICS = "Accept: application/openmetrics-text; version=1.0.0"
SHOW = " location = /metrics { metrics; }"


def scrape(server, path="/metrics", port="PORT"):
    """{(name, labels): value} of both forms, which say the same."""
    old = server.get(path, port=server.port_of(port))
    assert old.header("Content-Type") == "text/plain; version=0.0.4; charset=utf-8"
    samples = {}
    for family in prometheus.text_string_to_metric_families(old.text):
        for sample in family.samples:
            key = (sample.name, tuple(sorted(sample.labels.items())))
            assert key not in samples, key
            samples[key] = sample.value
    return samples


def value(samples, name, **labels):
    return samples.get(("portunus_" + name, tuple(sorted(labels.items()))), 0)


def test_both_forms_are_as_their_parsers_want_them(serve):
    server = serve("""upstream u { server 127.0.0.1:@PORT1@; } proxy_cache_path cache keys_zone=c:1m;
                      server { listen 127.0.0.1:@PORT@; server_name a.test; %s location / { return 200 x; }
                        location /p { proxy_pass http://u; proxy_cache c; status_zone "z \\"1\\" \\\\"; } }
                      server { listen 127.0.0.1:@PORT1@; server_name b.test; return 204; }""" % SHOW)
    for path in ("/", "/p", "/nope"):
        server.get(path)
    names = {name for name, _ in scrape(server)}
    answer = server.get("/metrics", OPENMETRICS)
    assert answer.header("Content-Type") == "application/openmetrics-text; version=1.0.0; charset=utf-8"
    assert answer.text.endswith("# EOF\n")
    seen = set()
    for family in openmetrics.text_string_to_metric_families(answer.text):
        assert family.documentation
        seen |= {sample.name for sample in family.samples}
    assert seen == names


def test_requests_by_server_status_and_zone(serve):
    server = serve("""server { listen 127.0.0.1:@PORT@ default_server; server_name a.test; %s location / { return 200 hello; }
                        location /z { status_zone zone; return 404; location /z/in { return 302 /; } location /z/other { status_zone other; return 500; } } }
                      server { listen 127.0.0.1:@PORT@; server_name b.test; status_zone second; return 403; }
                      server { listen 127.0.0.1:@PORT@; server_name c.test; return 418; }""" % SHOW)
    for path, count in (("/", 3), ("/z", 2), ("/z/in", 1), ("/z/other", 1)):
        for _ in range(count):
            server.get(path)
    with server.client() as client:
        client.request("/", host="b.test")
        client.request("/", host="c.test")
    seen = scrape(server)
    assert value(seen, "server_requests_total", server="a.test", code="200") == 3
    assert value(seen, "server_requests_total", server="a.test", code="404") == 2
    assert value(seen, "server_requests_total", server="second", code="403") == 1
    assert value(seen, "server_requests_total", server="c.test", code="000") == 1
    assert value(seen, "zone_requests_total", zone="zone", code="404") == 2
    assert value(seen, "zone_requests_total", zone="zone", code="302") == 1
    assert value(seen, "zone_requests_total", zone="other", code="500") == 1
    assert value(seen, "zone_requests_total", zone="second", code="403") == 0
    assert value(seen, "server_sent_bytes_total", server="a.test") > 3 * 100
    assert value(seen, "server_received_bytes_total", server="a.test") > 7 * 30


def test_histograms(serve):
    server = serve("server { listen 127.0.0.1:@PORT@; server_name a; location /x { return 200 x; } }"
                   " server { listen 127.0.0.1:@PORT1@; %s }" % SHOW)
    for _ in range(5):
        server.get("/x")
    seen = scrape(server, port="PORT1")
    buckets = [value(seen, "server_request_duration_seconds_bucket", server="a", le=le)
               for le in ("0.005", "0.01", "0.025", "0.05", "0.1", "0.25", "0.5", "1.0", "2.5", "5.0", "10.0", "+Inf")]
    assert buckets == sorted(buckets) and buckets[-1] == 5
    assert value(seen, "server_request_duration_seconds_count", server="a") == 5
    assert ("portunus_server_request_duration_seconds_sum", (("server", "a"),)) in seen


def test_peers(serve, backend):
    server = serve("""upstream u { server 127.0.0.1:@PORT1@; server 127.0.0.1:@PORT2@ down; }
                      server { listen 127.0.0.1:@PORT@; %s location / { proxy_pass http://u; } }
                      server { listen 127.0.0.1:@PORT1@; location / { return 200 x; } location /gone { return 444; } }""" % SHOW)
    server.get("/")
    server.get("/")
    assert server.get("/gone").status == 502
    seen = scrape(server)
    one, two = ("127.0.0.1:%d" % server.port_of(port) for port in ("PORT1", "PORT2"))
    assert value(seen, "upstream_requests_total", upstream="u", peer=one, code="200") == 2
    assert value(seen, "upstream_requests_total", upstream="u", peer=one, code="502") >= 1  # again on a fresh connection
    assert value(seen, "upstream_response_duration_seconds_count", upstream="u", peer=one) >= 3
    assert value(seen, "upstream_received_bytes_total", upstream="u", peer=one) > 100
    assert value(seen, "upstream_up", upstream="u", peer=one) == 1
    assert value(seen, "upstream_up", upstream="u", peer=two) == 0


def test_long_names_that_begin_alike_share_no_figures(serve):
    names = ["g" * 200 + end for end in "ab"]
    server = serve("".join("upstream %s { server 127.0.0.1:@PORT1@; } " % name for name in names)
                   + "server { listen 127.0.0.1:@PORT@; %s " % SHOW
                   + "".join("location /%d { status_zone z%s; proxy_pass http://%s; } " % (n, name, name) for n, name in enumerate(names))
                   + "} server { listen 127.0.0.1:@PORT1@; location / { return 200 x; } }")
    for uri in "/0", "/1", "/1":
        server.get(uri)
    seen = scrape(server)
    for family in "portunus_upstream_requests_total", "portunus_zone_requests_total":
        assert sorted(count for (name, labels), count in seen.items() if name == family and "ggg" in str(labels) and count != 0) == [1, 2]


def test_groups_that_came_while_the_service_runs(serve):
    server = serve("""upstream u { server 127.0.0.1:@PORT1@; }
        server { listen 127.0.0.1:@PORT@; location /metrics { metrics; } location /status { status; } location /upstream/ { dyups_interface; } }
        server { listen 127.0.0.1:@PORT1@; return 200; }""")
    one = "127.0.0.1:%d" % server.port_of("PORT1")
    assert server.get("/upstream/new", method="POST", body="server 127.0.0.1:81; server 127.0.0.1:82 backup;").status == 200
    assert server.get("/upstream/U", method="POST", body="server %s; server 127.0.0.1:83 down;" % one).status == 200
    samples = scrape(server)
    for group, peer, state in (("new", "127.0.0.1:81", 1), ("new", "127.0.0.1:82", 1), ("u", one, 1), ("u", "127.0.0.1:83", 0)):
        assert value(samples, "upstream_up", upstream=group, peer=peer) == state
    shown = json.loads(server.get("/status").text)["upstreams"]
    assert [peer["server"] for peer in shown["new"]["peers"]] == ["127.0.0.1:81", "127.0.0.1:82"]
    assert [peer["server"] for peer in shown["u"]["peers"]] == [one, "127.0.0.1:83"]
    assert server.get("/upstream/new", method="DELETE").status == 200
    assert "new" not in json.loads(server.get("/status").text)["upstreams"]


LIMITS = """limit_req_zone $arg_a zone=a:64k rate=1r/m; limit_req_zone $arg_b zone=b:64k rate=100r/s;
    limit_conn_zone $arg_c zone=c:64k; limit_req_zone $uri zone=idle:64k rate=1r/s;
    server { listen 127.0.0.1:@PORT@; location /metrics { metrics; } location /status { status; } location /api { api write=on; }
             location / { limit_req zone=a; limit_req zone=b burst=5; limit_conn c 1; empty_gif; }
             location /dry { limit_req zone=a; limit_req_dry_run on; empty_gif; } }"""
LIMITS_STREAM = """worker_processes 1; stream { limit_conn_zone $remote_addr zone=s:64k; upstream su { server 127.0.0.1:@PORT@; server 127.0.0.1:9 down; }
    server { listen 127.0.0.1:@PORT2@; limit_conn s 1; proxy_pass su; } }"""


def test_zones_of_limits(serve):
    server = serve(LIMITS, main=LIMITS_STREAM)
    assert [server.get("/x?a=1&b=1&c=1").status for _ in range(3)] == [200, 503, 503]
    assert server.get("/dry?a=1").status == 200 and server.get("/x?a=2&b=1").status == 200 and server.get("/x").status == 200
    with server.client(port=server.port_of("PORT2")) as first:
        assert first.request("/metrics").status == 200
        with server.client(port=server.port_of("PORT2")) as second:
            second.expect_closed()
    samples = scrape(server)

    def decided(zone, decision, limit="limit_req", protocol="http"):
        return value(samples, "limit_zone_decisions_total", zone=zone, limit=limit, protocol=protocol, decision=decision)

    assert [decided("a", word) for word in ("passed", "delayed", "rejected", "delayed_dry_run", "rejected_dry_run")] == [2, 0, 2, 0, 1]
    assert decided("b", "passed") + decided("b", "delayed") == 2 and decided("b", "rejected") == 0
    assert decided("idle", "passed") == 0
    assert [decided("c", word, "limit_conn") for word in ("passed", "rejected", "rejected_dry_run")] == [1, 0, 0]
    assert [decided("s", word, "limit_conn", "stream") for word in ("passed", "rejected")] == [1, 1]
    up = {peer: value(samples, "stream_upstream_up", upstream="su", peer="127.0.0.1:%d" % peer) for peer in (server.port, 9)}
    assert up == {server.port: 1, 9: 0}
    shown = json.loads(server.get("/status").text)
    assert shown["limit_reqs"]["a"] == {"passed": 2, "delayed": 0, "rejected": 2, "delayed_dry_run": 0, "rejected_dry_run": 1}
    assert shown["stream"]["limit_conns"]["s"] == {"passed": 1, "rejected": 1, "rejected_dry_run": 0}
    assert [(peer["server"], peer["state"]) for peer in shown["stream"]["upstreams"]["su"]["peers"]] == [
        ("127.0.0.1:%d" % server.port, "up"), ("127.0.0.1:9", "down")]
    assert json.loads(server.get("/api/9/http/limit_reqs").text)["a"] == shown["limit_reqs"]["a"]
    assert server.get("/api/9/http/limit_reqs/a", method="POST", body="{}").status == 405
    assert server.get("/api/9/http/limit_reqs/a", method="DELETE").status == 204
    assert json.loads(server.get("/api/9/http/limit_reqs/a").text) == {
        "passed": 0, "delayed": 0, "rejected": 0, "delayed_dry_run": 0, "rejected_dry_run": 0}
    old = server.children()
    server.reload()
    wait_workers(server, 1, without=old)
    assert json.loads(server.get("/api/9/stream/limit_conns/s").text)["rejected"] == 1


def test_cache_zones_and_service(serve):
    server = serve("""proxy_cache_path cache keys_zone=c:1m; limit_req_zone $uri zone=l:1m rate=1r/m;
                      server { listen 127.0.0.1:@PORT@; %s location / { proxy_pass http://127.0.0.1:@PORT1@; proxy_cache c; proxy_cache_valid 1h; }
                      location /l { limit_req zone=l; return 200 x; } }
                      server { listen 127.0.0.1:@PORT1@; return 200 x; }""" % SHOW)
    for _ in range(3):
        server.get("/a")
    seen = scrape(server)
    assert (value(seen, "cache_requests_total", cache="c", status="miss"), value(seen, "cache_requests_total", cache="c", status="hit")) == (1, 2)
    assert value(seen, "cache_entries", cache="c") == 1 and value(seen, "cache_bytes", cache="c") > 0
    for zone in ("c", "l", "metrics"):
        assert value(seen, "shared_memory_bytes", zone=zone, state="used") > 0
        assert value(seen, "shared_memory_bytes", zone=zone, state="free") > 0
    assert value(seen, "build_info", version=seen and [dict(labels)["version"] for name, labels in seen if name == "portunus_build_info"][0]) == 1
    assert value(seen, "reloads_total") == 0 and value(seen, "workers") == 1
    assert value(seen, "worker_resident_memory_bytes", slot="0") > 1 << 20
    assert value(seen, "requests_total") >= 4 and value(seen, "connections", state="active") >= 1
    assert value(seen, "shard_connections_total", slot="0", by="own") >= 1
    assert value(seen, "metrics_lost_total") == 0


def test_tls_and_http2(serve):
    server = serve("""server { listen 127.0.0.1:@PORT@; %s }
                      server { listen 127.0.0.1:@PORT1@ ssl; server_name secure; http2 on; %s return 200 x; }""" % (SHOW, pair(certificates.own("m"))))
    port = server.port_of("PORT1")
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3, ssl.TLSVersion.TLSv1_3):
        assert exchange(connect(port, version=version))[0] == 200
    made = context(version=ssl.TLSVersion.TLSv1_2)
    first = connect(port, made=made)
    exchange(first)
    assert connect(port, made=made, session=first.session).session_reused
    with pytest.raises(ssl.SSLError):
        made = context(version=ssl.TLSVersion.TLSv1_2)
        made.set_ciphers("AES128-SHA")
        connect(port, made=made)
    connect(port, made=context(alpn=["h2"])).close()
    seen = until(lambda: (lambda now: now if value(now, "http2_connections_total") else None)(scrape(server)), "the connection of HTTP/2")
    assert value(seen, "tls_handshakes_total", version="1.2") == 3
    assert value(seen, "tls_handshakes_total", version="1.3") == 3
    assert value(seen, "tls_resumed_total") == 1
    assert value(seen, "tls_failures_total") == 1
    assert value(seen, "certificate_expiry_timestamp_seconds", server="secure") > 1700000000


@pytest.mark.parametrize("method, status", [("HEAD", 200), ("POST", 405), ("DELETE", 405)])
def test_methods(serve, method, status):
    server = serve("server { listen 127.0.0.1:@PORT@; %s }" % SHOW)
    with server.client() as client:
        answer = client.request("/metrics", method=method)
        assert answer.status == status
        if method == "HEAD":
            assert answer.body == b""
        assert client.request("/metrics").status == 200


def test_memory_of_lua(serve):
    server = serve("""server { listen 127.0.0.1:@PORT@; %s
                        location /keep { content_by_lua_block { kept = kept or {}; _G.kept = string.rep("x", 4000000); ngx.say(1) } }
                        location /drop { content_by_lua_block { _G.kept = nil; collectgarbage(); ngx.say(1) } } }""" % SHOW)
    sizes = []
    for path in ("/keep", "/drop"):
        assert server.get(path).status == 200
        sizes.append(value(scrape(server), "lua_memory_bytes", slot="0"))
    assert sizes[0] > 4000000 and 10000 < sizes[1] < sizes[0] - 3900000


def test_connections_that_wait_at_a_slot(serve):
    """A script keeps the only worker from accepting until the connections are there, and then looks."""
    server = serve("""server { listen 127.0.0.1:@PORT@; %s
                        location /look { content_by_lua_block { ngx.log(ngx.ERR, "begun"); while not io.open(ngx.config.prefix() .. "go") do end
                            ngx.print(ngx.location.capture("/metrics").body) } } }
                      server { listen 127.0.0.1:@PORT1@; }""" % SHOW, allow=["begun"])
    client = server.client()
    client.request("/metrics")
    client.send("GET /look HTTP/1.1\r\nHost: x\r\n\r\n")
    server.wait_log("begun")
    waiting = [server.client(server.port_of("PORT1")) for _ in range(3)]
    server.write("go", "")
    samples = client.response("GET").text
    assert 'portunus_shard_queue{slot="0"} 3\n' in samples and 'portunus_shard_connections_lent_total{slot="0"} 0' in samples
    for one in waiting:
        one.request("/")
    assert value(scrape(server), "shard_queue", slot="0") == 0


def test_a_browser_gets_a_page(serve):
    server = serve("server { listen 127.0.0.1:@PORT@; %s }" % SHOW)
    page = server.get("/metrics", "Accept: text/html,application/xhtml+xml,*/*;q=0.8")
    assert page.header("Content-Type") == "text/html; charset=utf-8" and page.header("Vary") == "Accept"
    assert "src=" not in page.text and "://" not in page.text.replace("http://www.w3.org/2000/svg", "")  # the name of a namespace


def test_numbers_survive_a_reload(serve):
    http = "server { listen 127.0.0.1:@PORT@; server_name a; %s %s location / { return 200 x; } }"
    server = serve(http % (SHOW, ""))
    server.get("/")
    old = wait_workers(server, 1)
    server.configure(http % (SHOW, "location /more { status_zone new; return 200 x; }"))
    server.reload()
    wait_workers(server, 1, without=old)
    assert value(scrape(server), "reloads_total") == 1
    server.get("/")
    server.get("/more")
    seen = scrape(server)
    assert value(seen, "server_requests_total", server="a", code="200") >= 3
    assert value(seen, "zone_requests_total", zone="new", code="200") == 1


@pytest.mark.parametrize("master", ["on", "off"])
def test_reloads_that_change_nothing_are_counted(serve, master):
    http = "server { listen 127.0.0.1:@PORT@; %s %s }"
    server = serve(http % (SHOW, ""), main="master_process %s;" % master, allow=["nonsense"])
    assert value(scrape(server), "reload_failures_total") == 0
    server.configure(http % (SHOW, "nonsense on;"))
    for failures in (1, 2):
        server.signal("reload")
        seen = until(lambda: (lambda now: now if value(now, "reload_failures_total") == failures else None)(scrape(server)), "the reload's end")
        assert value(seen, "reloads_total") == 0
    server.configure(http % (SHOW, ""))
    server.signal("reload")
    seen = until(lambda: (lambda now: now if value(now, "reloads_total") == 1 else None)(scrape(server)), "the reload")
    assert value(seen, "reload_failures_total") == 2 and value(seen, "worker_resident_memory_bytes", slot="0") > 1 << 20


def test_memory_of_each_worker(serve):
    server = serve("server { listen 127.0.0.1:@PORT@; %s }" % SHOW, main="worker_processes 3;")
    workers = wait_workers(server, 3)
    seen = scrape(server)
    assert {dict(labels)["slot"] for name, labels in seen if name == "portunus_worker_resident_memory_bytes"} == {"0", "1", "2"}
    os.kill(sorted(workers)[0], signal.SIGQUIT)     # another comes with its slot
    wait_workers(server, 3, without=sorted(workers)[:1])
    until(lambda: len([name for name, _ in scrape(server) if name == "portunus_worker_resident_memory_bytes"]) == 3, "the new worker")


def test_without_metrics_nothing_is_counted_and_later_it_is(serve):
    server = serve("server { listen 127.0.0.1:@PORT@; server_name a; status_zone z; location / { return 200 x; } }")
    assert server.get("/").status == 200
    old = wait_workers(server, 1)
    server.configure("server { listen 127.0.0.1:@PORT@; server_name a; %s location / { return 200 x; } }" % SHOW)
    server.reload()
    wait_workers(server, 1, without=old)    # until it is told to end the old one answers, too
    server.get("/")
    assert value(scrape(server), "server_requests_total", server="a", code="200") >= 1
    server.configure("server { listen 127.0.0.1:@PORT@; server_name a; location / { return 200 x; } }")
    server.reload()
    until(lambda: server.get("/metrics").text == "x", "the last worker")


def test_workers_that_are_killed_leave_their_numbers(serve):
    server = serve("server { listen 127.0.0.1:@PORT@; server_name a; %s location / { return 200 x; } }" % SHOW,
                   main="worker_processes 3;", allow=["exited on signal 9", "worker process"])
    done, end = [0], threading.Event()

    def load():
        while not end.is_set():
            try:
                with server.client() as client:
                    for _ in range(20):
                        if client.request("/").status == 200:
                            done[0] += 1
            except (OSError, AssertionError, Exception):  # pylint: disable=broad-except
                continue

    thread = threading.Thread(target=load)
    thread.start()
    former = 0
    try:
        for _ in range(6):
            reached = done[0] + 50
            until(lambda reached=reached: done[0] > reached, "more requests")
            os.kill(sorted(server.children())[0], signal.SIGKILL)
            now = until(lambda: scrape_or_none(server), "an answer")
            count = value(now, "server_requests_total", server="a", code="200")
            assert count >= former
            former = count
    finally:
        end.set()
        thread.join()
    seen = until(lambda: scrape_or_none(server), "an answer")
    assert value(seen, "server_requests_total", server="a", code="200") >= done[0]
    assert value(seen, "metrics_lost_total") == 0


def scrape_or_none(server):
    try:
        return scrape(server)
    except (OSError, Exception):  # pylint: disable=broad-except
        return None


def test_more_servers_than_there_is_room_for(serve):
    servers = "".join("server { listen 127.0.0.1:@PORT@; server_name s%d; location / { return 200 x; } }" % number for number in range(1100))
    server = serve("server { listen 127.0.0.1:@PORT@ default_server; server_name a; %s location / { return 200 x; } }" % SHOW + servers)
    assert "there are more than 1024" in server.evidence()
    with server.client() as client:
        client.request("/", host="s3")
        client.request("/", host="s1099")
    seen = scrape(server)
    assert value(seen, "server_requests_total", server="s3", code="200") == 1
    assert value(seen, "server_requests_total", server="s1099", code="200") == 0
    assert value(seen, "metrics_lost_total") > 0


def test_names_that_clients_give_do_not_take_all_room(serve):
    """Backends that variables name: whoever names them must not end the counting of all others."""
    server = serve("""server { listen 127.0.0.1:@PORT@; server_name a; keepalive_requests 5000; proxy_connect; proxy_connect_allow all; %s
                               location / { proxy_pass http://$arg_to:@PORT1@; } location /b { proxy_pass http://127.0.0.1:@PORT1@; }
                               location /u { proxy_pass http://$arg_to; }
                               location /again { proxy_pass http://$arg_to:@PORT1@; error_page 502 = @other; }
                               location @other { proxy_pass http://u; } }
                      upstream u { server 127.0.0.1:@PORT1@; }
                      server { listen 127.0.0.1:@PORT1@; listen 127.0.1.1:@PORT1@; location / { return 200 x; } }""" % SHOW)
    with server.client() as client:
        for number in range(1100):
            client.request("/?to=127.0.%d.%d" % (2 + number // 250, 1 + number % 250))
        assert client.request("/b").status == 200
        assert client.request("/?to=127.0.1.1").status == 200
        assert client.request("/u?to=u").status == 200
        assert client.request("/again?to=127.0.77.77").status == 200
    with server.client() as client:
        client.send(b"CONNECT 127.0.1.1:%d HTTP/1.1\r\nHost: a\r\n\r\n" % server.port_of("PORT1"))
        assert client.head().status == 200
    until(lambda: value(scrape(server), "upstream_response_duration_seconds_count", upstream="(any)", peer="(any)") == 1, "the tunnel's end")
    seen = scrape(server)
    address = "127.0.0.1:%d" % server.port_of("PORT1")
    assert value(seen, "upstream_requests_total", upstream="u", peer=address, code="200") == 2
    assert not [key for key in seen if "127.0.77.77" in str(key)]
    assert value(seen, "upstream_requests_total", upstream=address, peer=address, code="200") == 1
    assert value(seen, "metrics_lost_total") == 0
    named = {"upstream": "http://$arg_to:%d" % server.port_of("PORT1"), "peer": "(any)"}
    assert value(seen, "upstream_requests_total", code="502", **named) == 1101
    assert value(seen, "upstream_requests_total", code="200", **named) == 1


@pytest.mark.parametrize("text, message", [
    ("server { metrics; }", '"metrics" directive is not allowed here'), ("server { location / { metrics on; } }", 'invalid number of arguments in "metrics"'),
    ("server { location / { metrics; metrics; } }", '"metrics" directive is duplicate'), ("status_zone x;", '"status_zone" directive is not allowed here'),
    ('server { status_zone ""; }', 'invalid zone name ""'), ("metrics_zone_size 1k; server { location / { metrics; } }", "metrics_zone_size")])
def test_faults(tmp_path, text, message):
    (tmp_path / "c").write_text("pid p; error_log stderr; events { }\nhttp {\n%s\n}\n" % text)
    done = run_binary("-p", str(tmp_path), "-c", "c", "-t", "-e", "stderr")
    assert done.returncode == 1 and message in done.stderr


STATUS = """upstream u { zone u 256k; server 127.0.0.1:@PORT1@ weight=3; server 127.0.0.1:@PORT2@ backup; server 127.0.0.1:@PORT3@ down; } proxy_cache_path cache keys_zone=c:1m max_size=10m;
    server { listen 127.0.0.1:@PORT@; server_name a.test; location = /status { status; } location = /metrics { metrics; } location = /jsonp { status; status_format jsonp; }
      location = /named { status; status_format jsonp $arg_f; } location /back { status; status_format jsonp x; location = /back/no { } }
      location /z { status_zone "z\\"\xff"; return 404; } location /p { proxy_cache c; proxy_cache_valid 1m; proxy_pass http://u; } }
    server { listen 127.0.0.1:@PORT1@; server_name b.test; return 200 hello; }"""


def test_status(serve):
    """The document that nginx Plus' `status` gave, as its documentation has it."""
    server = serve(STATUS)
    for path in ("/z", "/z", "/p", "/p"):
        server.get(path)
    answer = server.get("/status")
    assert (answer.header("Content-Type"), answer.header("Cache-Control")) == ("application/json", "no-store")
    seen = json.loads(answer.text)
    assert {"version", "nginx_version", "address", "generation", "timestamp", "pid", "ppid", "connections", "ssl", "requests", "slabs", "server_zones", "upstreams", "caches"} <= set(seen)
    assert seen["version"] == 8 and seen["nginx_version"] == "1.31.5" and seen["address"] == "127.0.0.1" and seen["generation"] == 1 and seen["pid"] in server.children()
    assert set(seen["connections"]) == {"accepted", "dropped", "active", "idle"} and seen["connections"]["active"] >= 1 and seen["requests"]["current"] >= 1
    zone = seen["server_zones"]["a.test"]
    assert zone["responses"] == {"1xx": 0, "2xx": 2, "3xx": 0, "4xx": 2, "5xx": 0, "codes": {"200": 2, "404": 2}, "total": 4} and zone["requests"] == 5 and zone["processing"] == 1 and zone["received"] > 0 < zone["sent"]
    assert seen["location_zones"]['z"']["responses"]["4xx"] == 2
    peers = seen["upstreams"]["u"]["peers"]
    assert [(peer["id"], peer["backup"], peer["weight"], peer["state"]) for peer in peers] == [(0, False, 3, "up"), (1, False, 1, "down"), (2, True, 1, "up")]
    assert peers[0]["requests"] == 1 and peers[0]["responses"]["2xx"] == 1 and peers[0]["server"] == "127.0.0.1:%d" % server.port_of("PORT1")
    cache = seen["caches"]["c"]
    assert cache["max_size"] == 10 << 20 and cache["hit"]["responses"] == 1 and cache["miss"]["responses"] == 1 and cache["cold"] in (True, False)
    slab = seen["slabs"]["u"]
    assert slab["pages"]["used"] + slab["pages"]["free"] > 0 and set(slab["slots"]["8"]) == {"used", "free", "reqs", "fails"} if "8" in slab["slots"] else slab["slots"]
    assert set(json.loads(server.get("/metrics", "Accept: application/json").text)) == set(seen)


def test_status_as_a_call(serve):
    server = serve(STATUS)
    answer = server.get("/jsonp")
    assert answer.header("Content-Type") == "application/javascript" and answer.text.startswith("ngx_status_jsonp_callback({") and answer.text.endswith("});")
    assert server.get("/named?f=a.b").text.startswith("a.b({") and server.get("/named?f=alert(1)").status == 400
    assert server.get("/back/no").status == 404  # `status` itself is not inherited
    with server.client() as client:
        assert client.request("/status", method="POST", body=b"").status == 405 and client.request("/status", method="HEAD").status == 200


@pytest.mark.parametrize("text,wrong", [("status_format xml;", 'invalid value "xml"'), ("status_format json a;", 'invalid value "a"'), ("status_format jsonp $nothing_such;", "unknown"),
                                        ("status;", '"status" directive is not allowed here')])
def test_status_is_refused(tmp_path, text, wrong):
    (tmp_path / "nginx.conf").write_text("events { } http { %s }" % text)
    (tmp_path / "logs").mkdir()
    result = run_binary("-t", "-p", str(tmp_path), "-c", "nginx.conf")
    assert result.returncode == 1 and wrong in result.stderr


@pytest.mark.parametrize("directive", ["vhost_traffic_status_zone", "vhost_traffic_status_display"])
def test_a_module_of_others_is_told_what_does_the_same(tmp_path, directive):
    (tmp_path / "c").write_text("pid p; error_log stderr; events { } http { %s; }" % directive)
    done = run_binary("-t", "-p", str(tmp_path), "-c", "c", "-e", "stderr")
    assert done.returncode == 1 and 'unknown directive "%s" (it belongs to the module nginx-module-vts; "metrics" in a location' % directive in done.stderr
