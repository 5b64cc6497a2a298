"""Variables whose value is different each time: identity, uniqueness, consistency."""

import os
import re
import time

CONF = """
    log_format f '$request_id $connection $pid $msec $request_time';
    access_log logs/a.log f;
    server {
        listen 127.0.0.1:@PORT@;
        location /id { add_header X-Id $request_id; return 200 "$request_id"; }
        location /again { rewrite ^ /id last; }
        location /serial { return 200 "$connection $connection_requests $pid"; }
        location /time { return 200 "$msec|$time_iso8601|$time_local|$connection_time|$time_iso8601_ms"; }
        location /binary { return 200 "$binary_remote_addr"; }
        location /tcp { set $rtt "$tcpinfo_rtt $tcpinfo_rttvar";
                        return 200 "$rtt $tcpinfo_snd_cwnd $tcpinfo_rcv_space"; }
    }
    server { listen [::1]:@PORT@; return 200 "$binary_remote_addr"; }
"""


def test_request_id_is_unique_and_constant(serve):
    server = serve(CONF)
    seen = []
    with server.client() as client:
        for target in ["/id"] * 20 + ["/again"] * 5:
            response = client.request(target)
            assert re.fullmatch(r"[0-9a-f]{32}", response.text)
            assert response.header("X-Id") == response.text
            seen.append(response.text)
    assert len(set(seen)) == len(seen)
    assert [line.split()[0] for line in server.wait_lines("logs/a.log", 25)] == seen


def test_connection_serial_stays_and_requests_count(serve):
    server = serve(CONF)
    with server.client() as client:
        serial, count, pid = client.request("/serial").text.split()
        assert (count, int(pid)) == ("1", server.children()[0])
        assert client.request("/serial").text == "%s 2 %s" % (serial, pid)
    assert server.get("/serial").text.split()[0] != serial


def test_clock_variables_are_near_the_clock(serve):
    server = serve(CONF, main="env TZ;", env=dict(os.environ, TZ="UTC"))
    before = time.time()
    msec, iso, local, age, iso_ms = server.get("/time").text.split("|")
    after = time.time()
    assert before - 2 <= float(msec) <= after + 2 and float(age) < 60
    assert iso_ms == iso[:19] + msec[-4:] + iso[19:]
    assert abs(time.mktime(time.strptime(iso, "%Y-%m-%dT%H:%M:%S+00:00"))
               - time.mktime(time.strptime(local, "%d/%b/%Y:%H:%M:%S +0000"))) <= 1


def test_clock_moves_while_the_server_is_idle(serve):
    """A cached clock must be renewed before it is used."""
    server = serve(CONF)
    with server.client() as client:
        first = float(client.request("/time").text.split("|")[0])
        client.readable(1.1)
        assert float(client.request("/time").text.split("|")[0]) >= first + 1


def test_binary_address(serve):
    from harness import Client
    server = serve(CONF)
    assert server.get("/binary").body == b"\x7f\x00\x00\x01"
    with Client(("::1", server.port)) as client:
        assert client.request("/").body == bytes(15) + b"\x01"


def test_tcp_info(serve):
    rtt, rttvar, cwnd, space = map(int, serve(CONF).get("/tcp").text.split())
    assert rtt > 0 and rttvar > 0 and cwnd > 0 and space > 0
