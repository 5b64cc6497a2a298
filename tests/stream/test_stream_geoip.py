"""geoip and geoip2 in stream: what databases say of the client, beside Debian's modules."""

import socket

import pytest

from harness import Server, binaries, geo_files, run_binary
from harness.geo_files import Typed

MODULES = ("ngx_stream_module", "ngx_stream_geoip_module", "ngx_stream_geoip2_module")

CITY = ("$geoip_city_continent_code|$geoip_city_country_code|$geoip_city_country_code3|$geoip_city_country_name|$geoip_region"
        "|$geoip_region_name|$geoip_city|$geoip_postal_code|$geoip_latitude|$geoip_longitude|$geoip_dma_code|$geoip_area_code")
COUNTRY = "$geoip_country_code|$geoip_country_code3|$geoip_country_name|$geoip_org"

PLACES = [
    ("10.0.0.0/8", (225, "CA", "Mountain View", "94043", 37.419, -122.0574, 807650)),
    ("20.0.0.0/8", (185, "48", "Moscow", "119034", 55.7543, 37.6202, None)),
    ("30.1.0.0/16", (56, "01", "K\xf6ln \xff", "50667", -33.5, 6.9603, None)),
    ("30.2.0.0/16", (0, "", "", "", 0, 0, None)),
    ("30.3.0.0/16", (255, "ZZ", "Nowhere", "1", -90.0, -180.0, None)),
]
FACTS = {"country": {"iso_code": "US", "names": {"en": "United States"}}, "n": Typed("int32", -5), "d": 1.25, "yes": True, "list": ["x", "y"]}
FILES = {
    "country.dat": geo_files.legacy_country([("10.0.0.0/8", 225), ("20.0.0.0/7", 185), ("30.0.0.0/8", 255)]),
    "city.dat": geo_files.legacy_city(PLACES),
    "org.dat": geo_files.legacy_text([("10.0.0.0/8", "Example & Sons"), ("20.0.0.0/8", "K\xf6ln")]),
    "d.mmdb": geo_files.mmdb([("10.0.0.0/8", FACTS), ("20.0.0.0/8", {"country": {"iso_code": "RU"}}),
                              ("2001:db8::/32", {"country": {"iso_code": "V6"}})]),
}

TEXT = """%s
pid nginx.pid; error_log error.log info; worker_processes 1; daemon off; events { }
stream {
    geoip_country country.dat%s;
    geoip_city city.dat%s;
    geoip_org org.dat%s;
    geoip2 d.mmdb {
        $code default=none country iso_code; $name country names en; $n n; $d d; $yes yes; $item list 1; $map country;
        $built metadata build_epoch;
        $of_me default=none source=$server_addr country iso_code;
        $of_port source=$server_port country iso_code;
    }
    map $geoip_country_code $mapped { default away; US home; }
    log_format city '%s';
    server { listen 127.0.0.1:@PORT1@ proxy_protocol; set_real_ip_from 127.0.0.0/8; return "%s [$mapped]"; access_log city.log city; }
    server { listen 127.0.0.1:@PORT2@ proxy_protocol; set_real_ip_from 127.0.0.0/8;
             return "$code|$name|$n|$d|$yes|$item|$map|$built|$of_me|$of_port"; }
}"""


def start(binary, utf8):
    load = "".join(binaries.load_module(name, binary) for name in MODULES if binary != binaries.under_test() or "geoip2" not in name)
    return Server(conf=TEXT % (load, utf8, utf8, utf8, CITY, COUNTRY), files=FILES, binary=binary).start()


def ask(server, number, address):
    family = "TCP6 %s ::1" if ":" in address else "TCP4 %s 1.1.1.1"
    with socket.create_connection(("127.0.0.1", server.port_of("PORT%d" % number)), timeout=10) as client:
        client.sendall(("PROXY " + family % address + " 1 2\r\n").encode())
        got = b""
        while True:
            data = client.recv(65536)
            if not data:
                return got
            got += data


ADDRESSES = ["10.0.0.1", "20.1.2.3", "30.1.0.1", "30.2.0.1", "30.3.0.1", "9.255.255.255", "255.255.255.255", "::ffff:10.0.0.1", "2001:db8::1", "ff::"]


@pytest.mark.parametrize("utf8", ["", " utf8"])
def test_as_debians_modules(utf8):
    told = []
    for binary in (binaries.under_test(), binaries.reference()):
        server = start(binary, utf8)
        answers = {}
        for count, address in enumerate(ADDRESSES, 1):
            # An IPv4 address mapped into IPv6 is one of IPv6 to Debian's geoip2; here it is that of IPv4.
            answers[address] = ask(server, 1, address), "." in address and ":" in address or ask(server, 2, address)
            server.wait_lines("city.log", count)
        told.append((answers, server.lines("city.log")))
        server.close()
    ours, theirs = told
    assert ours[0] == theirs[0]
    assert ours[1] == theirs[1]
    assert theirs[0]["10.0.0.1"] == (b"US|USA|United States|Example & Sons [home]", b"US|United States|-5|1.25000|1|y||1700000000|none|")


LINES = ["geoip_country nosuch.dat;", "geoip_country country.dat latin1;", "geoip_country city.dat;", "geoip_city country.dat;", "geoip_org city.dat;",
         "geoip_country country.dat; geoip_country country.dat;", "geoip_region country.dat;", "geoip_proxy 127.0.0.1;", "server { geoip_country country.dat; }",
         "geoip2 nosuch.mmdb { }", "geoip2 country.dat { }", "geoip2 d.mmdb { } geoip2 d.mmdb { }", "geoip2 d.mmdb { nonsense; }",
         "geoip2 d.mmdb { $a source=b c; }", "server { geoip2 d.mmdb { } }"]


@pytest.mark.parametrize("line", LINES)
def test_what_is_refused(tmp_path, line):
    for name, data in FILES.items():
        (tmp_path / name).write_bytes(data)
    told = []
    for binary in (binaries.under_test(), binaries.reference()):
        load = "".join(binaries.load_module(name, binary) for name in MODULES if binary != binaries.under_test() or "geoip2" not in name)
        (tmp_path / "c").write_text("%s\npid p; error_log stderr; events { }\nstream {\n%s\n}\n" % (load, line))
        done = run_binary("-p", str(tmp_path), "-c", "c", "-t", "-e", "stderr", binary=binary, cwd=str(tmp_path))
        lines = [text.split("] ", 1)[-1].split(": ", 1)[-1] for text in done.stderr.split("\n") if "[emerg]" in text]
        told.append((done.returncode, lines[0].split(" (")[0].split(" in ")[0] if lines else ""))
    assert told[0] == told[1]
