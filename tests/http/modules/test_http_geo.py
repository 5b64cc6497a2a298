"""geo: what the reference cannot show: volatile, IPv6 clients, unix sockets, files of many lines."""

import random
import socket

import pytest

from harness import run_binary


def value(server, address):
    return server.get("/?a=" + address).text


PLACE = " server { listen 127.0.0.1:@PORT@; location / { %s return 200 $g; } }"


def test_volatile_is_looked_up_at_each_use(serve):
    server = serve("geo $a $g { default d; 10.0.0.0/8 ten; 192.0.2.0/24 test; volatile; }"
                   + PLACE % "set $a 10.0.0.1; set $first $g; set $a 192.0.2.1; return 200 $first-$g;")
    assert server.get("/").text == "ten-test"


def test_without_volatile_it_is_looked_up_once(serve):
    server = serve("geo $a $g { default d; 10.0.0.0/8 ten; 192.0.2.0/24 test; }"
                   + PLACE % "set $a 10.0.0.1; set $first $g; set $a 192.0.2.1; return 200 $first-$g;")
    assert server.get("/").text == "ten-ten"


def test_a_unix_socket_is_the_last_address(serve):
    server = serve("geo $g { default d; 255.255.255.255 none; } geo $r { ranges; default d; 255.255.255.255-255.255.255.255 none; }"
                   " server { listen 127.0.0.1:@PORT@; listen unix:@DIR@/u.sock; return 200 $g-$r; }")
    assert server.get("/").text == "d-d"
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(server.path("u.sock"))
        client.sendall(b"GET / HTTP/1.0\r\n\r\n")
        seen = b""
        while part := client.recv(4096):
            seen += part
    assert seen.endswith(b"none-none")


def test_the_address_is_that_of_realip(serve):
    server = serve("set_real_ip_from 127.0.0.1; geo $g { default d; 192.0.2.0/24 test; }" + PLACE % "")
    assert server.get("/", "X-Real-IP: 192.0.2.7").text == "test"


def test_the_last_block_of_a_name_holds(serve):
    server = serve("geo $g { default one; } geo $g { default two; }" + PLACE % "")
    assert server.get("/").text == "two"


def number(address):
    return ".".join(str(address >> shift & 255) for shift in (24, 16, 8, 0))


def test_files_of_many_lines(serve):
    """100,000 ranges out of order, and as many networks; read twice, as a reload does."""
    random.seed(5)
    count = 100000
    edges = sorted(random.sample(range(1 << 32), 2 * count))
    ranges = [(edges[2 * n], edges[2 * n + 1], n) for n in range(count)]
    random.shuffle(ranges)
    networks = random.sample(range(1 << 24), count)
    server = serve("geo $arg_a $g { include nets; } geo $arg_a $r { ranges; default d; include ranges; }"
                   " server { listen 127.0.0.1:@PORT@; return 200 $g-$r; }",
                   files={"ranges": "".join("%s-%s %d;\n" % (number(a), number(b), n) for a, b, n in ranges),
                          "nets": "".join("%s/24 %d;\n" % (number(net << 8), n) for n, net in enumerate(networks))})
    server.reload()
    with server.client() as client:
        for n in range(0, count, 997):
            net = networks[n] << 8 | random.randrange(256)
            assert client.request("/?a=" + number(net)).text.split("-")[0] == str(n)
            first, last, which = ranges[n]
            for address in (first, last, random.randint(first, last)):
                assert client.request("/?a=" + number(address)).text.split("-")[1] == str(which)
            if which and first - 1 > edges[2 * which - 1]:
                assert client.request("/?a=" + number(first - 1)).text.split("-")[1] == "d"


@pytest.mark.parametrize("lines, message", [
    ("default a; default b; default c;", 'duplicate network "default", value: "b", old value: "a"'),
    ("10.0.0.1/8 a; 10.0.0.0/8 b;", "low address bits of 10.0.0.1/8 are meaningless"),
    ("10.0.0.0/8 a; delete 10.0.0.0/9;", 'no network "10.0.0.0/9" to delete'),
    ("ranges; 10.0.0.0-10.0.0.9 a; delete 10.0.0.1-10.0.0.2;", 'no address range "10.0.0.1-10.0.0.2" to delete'),
])
def test_warnings(serve, lines, message):
    server = serve("geo $g { %s }" % lines + PLACE % "")
    done = run_binary("-t", "-p", server.dir + "/", "-c", "nginx.conf", "-e", "stderr", cwd=server.dir)
    assert done.returncode == 0 and message in done.stderr, done.stderr
