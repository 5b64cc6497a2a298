"""listen: addresses, parameters, several names on one address, PROXY protocol."""

import os
import socket
import struct

import pytest

from harness import Client, binaries, run_binary

new = pytest.mark.skipif(binaries.is_nginx_before(binaries.under_test(), 1, 23),
                         reason="the reference is older")


def test_ipv6(serve):
    server = serve("""
        server { listen [::1]:@PORT@; return 200 "$server_addr $remote_addr $server_port"; }
    """)
    with Client(("::1", server.port)) as client:
        assert client.request(host="[::1]").text == "::1 ::1 %d" % server.port


def test_ipv6_wildcard_and_ipv4_wildcard_share_a_port(serve):
    server = serve("""
        server { listen [::]:@PORT@; return 200 "six"; }
        server { listen @PORT@; return 200 "four"; }
    """)
    with Client(("::1", server.port)) as client:
        assert client.request().text == "six"
    assert server.get().text == "four"


def test_ipv6only_off_takes_both(serve):
    server = serve("""
        server { listen [::]:@PORT@ ipv6only=off; return 200 "$remote_addr"; }
    """)
    with Client(("::1", server.port)) as client:
        assert client.request().text == "::1"
    assert server.get().text in ("127.0.0.1", "::ffff:127.0.0.1")


def test_unix_socket(serve):
    server = serve("""
        server { listen unix:@DIR@/listen.sock; server_name u;
                 return 200 "$remote_addr|$server_addr|$server_port|$remote_port|$host"; }
    """)
    path = server.path("listen.sock")
    assert os.stat(path).st_mode & 0o777 == 0o666
    with Client(path) as client:
        assert client.request(host="x").text == "unix:|unix:%s|||x" % path
    server.quit()
    assert not os.path.exists(path)


def test_unix_socket_access_rules(serve):
    server = serve("""
        server { listen unix:@DIR@/listen.sock; root html;
                 location /denied { deny unix:; } location /allowed { allow unix:; deny all; }
                 location /v4 { allow 127.0.0.1; deny all; } }
    """)
    with Client(server.path("listen.sock")) as client:
        assert client.request("/denied").status == 403
        assert client.request("/allowed").status == 404
        assert client.request("/v4").status == 403


def test_ipv6_access_rules(serve):
    server = serve("""
        server { listen [::1]:@PORT@; root html;
                 location /one { deny ::1; } location /net { deny ::/16; }
                 location /other { deny fe80::/10; } location /v4 { deny 0.0.0.0/0; } }
    """)
    with Client(("::1", server.port)) as client:
        assert [client.request(target).status for target in ("/one", "/net", "/other", "/v4")] \
            == [403, 403, 404, 404]


@pytest.mark.parametrize("parameters", [
    "backlog=5", "rcvbuf=16k sndbuf=16k", "deferred", "bind", "so_keepalive=on",
    "so_keepalive=off", "so_keepalive=30m::10", "so_keepalive=60:10:5", "fastopen=3", "reuseport",
    "reuseport backlog=10 deferred default_server", "default_server", "default"])
def test_parameters_are_accepted_and_serve(serve, parameters):
    server = serve("server { listen 127.0.0.1:@PORT@ %s; return 200 'x'; }" % parameters)
    with server.client() as client:
        assert client.request().text == "x"


def socket_options(server, wanted):
    """Options of a listening socket of a worker, taken over by pidfd_getfd."""
    inode = None
    with open("/proc/net/tcp", encoding="ascii") as source:
        for line in source.readlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and fields[1] == "0100007F:%04X" % server.port:
                inode = fields[9]
    assert inode, "no listening socket"
    for pid in [server.pid] + server.children():
        for name in os.listdir("/proc/%d/fd" % pid):
            try:
                if os.readlink("/proc/%d/fd/%s" % (pid, name)) == "socket:[%s]" % inode:
                    return wanted(pid, int(name))
            except FileNotFoundError:
                pass
    raise AssertionError("nobody holds the socket")


def option_of(pid, fd, level, name):
    """getsockopt on another process's socket."""
    import ctypes
    libc = ctypes.CDLL(None, use_errno=True)
    pidfd = libc.syscall(434, pid, 0)
    taken = libc.syscall(438, pidfd, fd, 0)
    os.close(pidfd)
    if taken < 0:
        pytest.skip("pidfd_getfd is not allowed here")
    with socket.socket(fileno=taken) as borrowed:
        return borrowed.getsockopt(level, name)


@pytest.mark.parametrize("parameter, level, name, check", [
    ("so_keepalive=on", socket.SOL_SOCKET, socket.SO_KEEPALIVE, lambda value: value == 1),
    ("so_keepalive=off", socket.SOL_SOCKET, socket.SO_KEEPALIVE, lambda value: value == 0),
    ("so_keepalive=77s::", socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, lambda value: value == 77),
    ("so_keepalive=:11:", socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, lambda value: value == 11),
    ("so_keepalive=::7", socket.IPPROTO_TCP, socket.TCP_KEEPCNT, lambda value: value == 7),
    ("rcvbuf=20k", socket.SOL_SOCKET, socket.SO_RCVBUF, lambda value: value == 2 * 20480),
    ("sndbuf=20k", socket.SOL_SOCKET, socket.SO_SNDBUF, lambda value: value == 2 * 20480),
    ("deferred", socket.IPPROTO_TCP, socket.TCP_DEFER_ACCEPT, lambda value: value > 0),
    ("reuseport", socket.SOL_SOCKET, socket.SO_REUSEPORT, lambda value: value == 1),
    ("fastopen=9", socket.IPPROTO_TCP, 23, lambda value: value == 9),
])
def test_parameter_reaches_the_socket(serve, parameter, level, name, check):
    server = serve("server { listen 127.0.0.1:@PORT@ %s; return 200 'x'; }" % parameter)
    assert server.get().text == "x"
    value = socket_options(server, lambda pid, fd: option_of(pid, fd, level, name))
    assert check(value), value


def test_deferred_serves_a_client_that_is_late(serve):
    server = serve("server { listen 127.0.0.1:@PORT@ deferred; return 200 'x'; }")
    with server.client() as client:
        client.readable(0.2)
        assert client.request().text == "x"


def test_several_names_on_one_address(serve):
    server = serve("""
        server { listen 127.0.0.1:@PORT@; server_name a; return 200 "a"; }
        server { listen 127.0.0.1:@PORT@; server_name b; return 200 "b"; }
        server { listen 127.0.0.1:@PORT@ default_server; server_name c; return 200 "c"; }
        server { listen 127.0.0.1:@PORT@; listen 127.0.0.1:@PORT1@; server_name d; return 200 "d"; }
    """)
    with server.client() as client:
        assert [client.request(host=name).text for name in "abcde"] == ["a", "b", "c", "d", "c"]
    assert server.get(host="a", port=server.port_of("PORT1")).text == "d"


def test_address_given_by_name(serve):
    server = serve("server { listen localhost:@PORT@; return 200 '$server_addr'; }")
    assert server.get().text == "127.0.0.1"


def test_exact_address_beats_the_wildcard(serve):
    server = serve("""
        server { listen @PORT@; server_name n; return 200 "wild"; }
        server { listen 127.0.0.2:@PORT@; server_name n; return 200 "exact"; }
    """)
    assert server.get(host="n").text == "wild"
    with Client(("127.0.0.2", server.port)) as client:
        assert client.request(host="n").text == "exact"


def test_port_range(serve):
    """listen address:first-last (1.15.10)."""
    server = serve("server { listen 127.0.0.1:@PORT@-@PORT@; return 200 'x'; }")
    assert server.get().text == "x"


@pytest.mark.skipif("Portunus" not in binaries.version_text(binaries.under_test()),
                    reason="nginx calls it a duplicate")
def test_reuseport_on_several_lines_is_no_error(serve):
    server = serve("""
        server { listen 127.0.0.1:@PORT@ reuseport; server_name a; return 200 "a"; }
        server { listen 127.0.0.1:@PORT@ reuseport; server_name b; return 200 "b"; }
    """, main="worker_processes 2;")
    assert server.get(host="a").text == "a" and server.get(host="b").text == "b"


@pytest.mark.parametrize("parameter", ["", "reuseport"])
def test_second_server_on_the_port_is_refused(serve, parameter):
    """Also where the kernel would let it in, because both set SO_REUSEPORT."""
    if parameter and "Portunus" not in binaries.version_text(binaries.under_test()):
        pytest.skip("nginx lets the second in")
    server = serve("server { listen 127.0.0.1:@PORT@ %s; return 200 'x'; }" % parameter,
                   allow=["Address already in use", "still could not bind"])
    server.write("second.conf", server.conf.replace("pid nginx.pid", "pid second.pid"))
    done = run_binary("-p", server.dir + "/", "-c", "second.conf", "-e", "second.log",
                      cwd=server.dir)
    assert done.returncode == 1
    assert "nginx: [emerg] bind() to 127.0.0.1:%d failed (98: Address already in use)\n" \
        % server.port in done.stderr
    assert done.stderr.endswith("nginx: [emerg] still could not bind()\n")
    assert server.get().text == "x"


# PROXY protocol

PROXY_CONF = """
    log_format f '$remote_addr $proxy_protocol_addr';
    server { listen 127.0.0.1:@PORT@ proxy_protocol; listen unix:@DIR@/p.sock proxy_protocol;
             access_log logs/a.log f;
             set $client "$proxy_protocol_addr|$proxy_protocol_port";
             set $server "$proxy_protocol_server_addr|$proxy_protocol_server_port";
             return 200 "$client|$server|$remote_addr"; }
"""

SIGNATURE = b"\r\n\r\n\x00\r\nQUIT\n"


def version2(command, family, addresses, tlvs=b""):
    data = addresses + tlvs
    return SIGNATURE + bytes([0x20 | command, family]) + struct.pack("!H", len(data)) + data


def inet(source, destination, source_port, destination_port):
    return (socket.inet_aton(source) + socket.inet_aton(destination)
            + struct.pack("!HH", source_port, destination_port))


def inet6(source, destination, source_port, destination_port):
    return (socket.inet_pton(socket.AF_INET6, source)
            + socket.inet_pton(socket.AF_INET6, destination)
            + struct.pack("!HH", source_port, destination_port))


GOOD = {
    "v1 tcp4": (b"PROXY TCP4 192.0.2.1 192.0.2.2 1234 5678\r\n", "192.0.2.1|1234|192.0.2.2|5678"),
    "v1 tcp6": (b"PROXY TCP6 2001:db8::1 2001:db8::2 1 65535\r\n",
                "2001:db8::1|1|2001:db8::2|65535"),
    "v1 unknown": (b"PROXY UNKNOWN\r\n", "|||"),
    "v1 unknown with rest": (b"PROXY UNKNOWN some thing 1 2\r\n", "|||"),
    "v2 tcp4": (version2(1, 0x11, inet("192.0.2.1", "192.0.2.2", 1234, 5678)),
                "192.0.2.1|1234|192.0.2.2|5678"),
    "v2 tcp6": (version2(1, 0x21, inet6("2001:db8::1", "2001:db8::2", 1, 2)),
                "2001:db8::1|1|2001:db8::2|2"),
    "v2 local": (version2(0, 0, b""), "|||"),
    "v2 local with address": (version2(0, 0x11, inet("192.0.2.1", "192.0.2.2", 1, 2)), "|||"),
    "v2 unspec": (version2(1, 0, b""), "|||"),
    "v2 unix": (version2(1, 0x31, bytes(216)), "|||"),
    "v2 with tlv": (version2(1, 0x11, inet("192.0.2.1", "192.0.2.2", 3, 4), b"\x02\x00\x01h"),
                    "192.0.2.1|3|192.0.2.2|4"),
}


@pytest.mark.parametrize("name", GOOD)
def test_proxy_protocol(serve, name):
    header, expected = GOOD[name]
    server = serve(PROXY_CONF)
    with server.client() as client:
        client.send(header)
        assert client.request().text == expected + "|127.0.0.1"
        assert client.request().text == expected + "|127.0.0.1"
    address = expected.split("|")[0] or "-"
    assert server.wait_lines("logs/a.log", 2) == ["127.0.0.1 " + address] * 2


@pytest.mark.parametrize("name", ["v1 tcp4", "v2 tcp4", "v2 with tlv"])
def test_proxy_protocol_byte_by_byte(serve, name):
    header, expected = GOOD[name]
    server = serve(PROXY_CONF)
    with Client(server.path("p.sock")) as client:
        if name.startswith("v1"):
            client.send(header)
        else:
            # Both servers want the fixed part whole or not, but must not answer before the end.
            for at in range(len(header)):
                client.send(header[at:at + 1])
                assert not client.readable(0.001) or at < 16
                if client.readable(0):
                    return
        assert client.request().text.startswith(expected)


BAD = {
    "no header": b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
    "v1 unknown family": b"PROXY TCP5 192.0.2.1 192.0.2.2 1 2\r\n",
    "v1 bad port": b"PROXY TCP4 192.0.2.1 192.0.2.2 99999 2\r\n",
    "v1 missing port": b"PROXY TCP4 192.0.2.1 192.0.2.2\r\n",
    "v1 too long": b"PROXY TCP4 " + b"1" * 120 + b"\r\n",
    "v1 lower case": b"proxy tcp4 192.0.2.1 192.0.2.2 1 2\r\n",
    "v2 wrong version": SIGNATURE + b"\x31\x11\x00\x0c" + bytes(12),
    "v2 short address": version2(1, 0x11, bytes(4)),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_proxy_protocol_is_closed(serve, name):
    server = serve(PROXY_CONF)
    with server.client() as client:
        client.send(BAD[name] + b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        client.expect_closed()
    assert "192.0.2" not in server.read("logs/a.log")


@new
def test_proxy_protocol_tlv(serve):
    server = serve("""
        server { listen 127.0.0.1:@PORT@ proxy_protocol;
                 set $one "$proxy_protocol_tlv_authority|$proxy_protocol_tlv_alpn";
                 set $two "$proxy_protocol_tlv_unique_id|$proxy_protocol_tlv_0xea";
                 set $three "$proxy_protocol_tlv_0x02|$proxy_protocol_tlv_ssl_cn";
                 return 200 "$one|$two|$three"; }
    """)

    def tlv(kind, value):
        return struct.pack("!BH", kind, len(value)) + value
    ssl = tlv(0x20, b"\x01\x00\x00\x00\x00" + tlv(0x22, b"common name"))
    header = version2(1, 0x11, inet("192.0.2.1", "192.0.2.2", 1, 2),
                      tlv(1, b"h2") + tlv(2, b"host.example") + tlv(5, b"id")
                      + tlv(0xea, b"own") + ssl)
    with server.client() as client:
        client.send(header)
        assert client.request().text == "host.example|h2|id|own|host.example|common name"
