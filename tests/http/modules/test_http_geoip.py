"""geoip: variables by databases of the legacy format, beside Debian's module, and what that has not."""

import random

import pytest

from harness import binaries, geo_files, run_binary, until

MODULE = "ngx_http_geoip_module"

COUNTRY = "$geoip_country_code|$geoip_country_code3|$geoip_country_name"
CITY = ("$geoip_city_continent_code|$geoip_city_country_code|$geoip_city_country_code3|$geoip_city_country_name|$geoip_region"
        "|$geoip_region_name|$geoip_city|$geoip_postal_code|$geoip_latitude|$geoip_longitude|$geoip_dma_code|$geoip_area_code")

DEBIAN = "/usr/share/GeoIP/GeoIP.dat"
DEBIAN_V6 = "/usr/share/GeoIP/GeoIPv6.dat"

PLACES = [
    ("10.0.0.0/8", (225, "CA", "Mountain View", "94043", 37.419, -122.0574, 807650)),
    ("20.0.0.0/8", (185, "48", "Moscow", "119034", 55.7543, 37.6202, None)),
    ("30.0.0.0/16", (76, "", "", "", 0.0, -0.0001, None)),
    ("30.1.0.0/16", (56, "01", "K\xf6ln \xff", "50667", -33.5, 6.9603, None)),
    ("30.2.0.0/16", (0, "", "", "", 0, 0, None)),
    ("30.3.0.0/16", (255, "ZZ", "Nowhere", "1", -90.0, -180.0, None)),
    ("255.255.255.255/32", (185, "", "the last", "", 1, 1, None)),
]

ADDRESSES = ["10.0.0.1", "10.255.255.255", "20.1.2.3", "30.0.0.1", "30.1.0.1", "30.2.0.1", "30.3.0.1", "9.255.255.255", "0.1.2.3",
             "255.255.255.254", "::ffff:10.0.0.1", "::1", "2001:db8::1", "2001:db8:ffff::1", "ff::"]


def start(serve, http, files, binary=None, **how):
    binary = binary or binaries.under_test()
    return serve("geoip_proxy 127.0.0.1; geoip_proxy ::1; %s server { listen 127.0.0.1:@PORT@; return 200 \"%s\"; }" % tuple(http),
                 files=files, main=binaries.load_module(MODULE, binary), binary=binary, **how)


def ask(server, address):
    return server.get("/", "X-Forwarded-For: " + address).text


def compare(serve, http, files, addresses):
    """Asks both servers for the same."""
    ours = start(serve, http, files)
    theirs = start(serve, http, files, binaries.reference())
    with ours.client() as left, theirs.client() as right:
        for address in addresses:
            head = "X-Forwarded-For: " + address
            assert left.request("/", head).text == right.request("/", head).text, address


DATABASES = {
    "country": ("geoip_country d.dat;", COUNTRY, geo_files.legacy_country([
        ("10.0.0.0/8", 225), ("20.0.0.0/7", 185), ("20.5.0.0/16", 56), ("30.0.0.0/8", 255), ("255.0.0.0/8", 1), ("0.0.0.0/8", 254)])),
    "country_v6": ("geoip_country d.dat;", COUNTRY, geo_files.legacy_country([
        ("2001:db8::/32", 225), ("::ffff:10.0.0.0/104", 56), ("::/120", 76)], 128)),
    "city": ("geoip_city d.dat;", CITY, geo_files.legacy_city(PLACES)),
    "city_utf8": ("geoip_city d.dat utf8;", CITY, geo_files.legacy_city(PLACES)),
    "city_0": ("geoip_city d.dat;", CITY, geo_files.legacy_city(PLACES, kind=6)),
    "city_v6": ("geoip_city d.dat;", CITY, geo_files.legacy_city(
        [("2001:db8::/32", PLACES[0][1]), ("::ffff:10.0.0.0/104", PLACES[1][1])], kind=30, width=128)),
    "org": ("geoip_org d.dat;", "$geoip_org", geo_files.legacy_text([("10.0.0.0/8", "Example & Sons"), ("20.0.0.0/8", "K\xf6ln")])),
    "org_utf8": ("geoip_org d.dat utf8;", "$geoip_org", geo_files.legacy_text([("10.0.0.0/8", "Example"), ("20.0.0.0/8", "K\xf6ln")])),
    "org_empty": ("geoip_org d.dat;", "$geoip_org", geo_files.legacy_text([("10.0.0.0/8", "")])),
    "as_number": ("geoip_org d.dat;", "$geoip_org", geo_files.legacy_text([("10.0.0.0/8", "AS64496 Example")], kind=9)),
    "org_v6": ("geoip_org d.dat;", "$geoip_org", geo_files.legacy_text([("2001:db8::/33", "Six")], kind=23, width=128)),
}


@pytest.mark.parametrize("name", DATABASES)
def test_as_debians_module(serve, name):
    line, text, data = DATABASES[name]
    compare(serve, (line, text), {"d.dat": data}, ADDRESSES)


@pytest.mark.parametrize("path", [DEBIAN, DEBIAN_V6, DEBIAN + " utf8"])
def test_debians_databases(serve, path):
    random.seed(3)
    addresses = [".".join(str(random.randrange(256)) for _ in range(4)) for _ in range(300)]
    addresses += ["2%03x:%x:%x::%x" % tuple(random.randrange(0x1000) for _ in range(4)) for _ in range(200)]
    compare(serve, ("geoip_country %s;" % path, COUNTRY), {}, addresses)


def test_variables_without_a_database_are_empty(serve):
    compare(serve, ("", COUNTRY + CITY + "$geoip_org"), {}, ["10.0.0.1"])


def test_regions_of_tengine(serve):
    data = geo_files.legacy_region([("10.0.0.0/8", 1 + 26 * 2), ("20.0.0.0/8", 677 + 26 * 14 + 13), ("30.0.0.0/8", 1353 + 360 * 56), ("40.0.0.0/8", 0)])
    server = start(serve, ("geoip_region d.dat;", "$geoip_region_country_code-$geoip_region_region"), {"d.dat": data})
    assert [ask(server, "%d.0.0.1" % part) for part in (10, 20, 30, 40, 50)] == ["US-CA", "CA-ON", "DE-", "-", "-"]


def test_regions_of_the_first_form(serve):
    data = geo_files.legacy_region([("10.0.0.0/8", 1000 + 26 * 2), ("30.0.0.0/8", 56)], kind=7)
    server = start(serve, ("geoip_region d.dat;", "$geoip_region_country_code-$geoip_region_region"), {"d.dat": data})
    assert [ask(server, "%d.0.0.1" % part) for part in (10, 30, 50)] == ["US-CA", "DE-", "-"]


@pytest.mark.parametrize("recursive", ["", "geoip_proxy_recursive on;"])
@pytest.mark.parametrize("fields", [("10.0.0.1",), ("10.0.0.1, 20.0.0.1",), ("10.0.0.1, 20.0.0.1, 127.0.0.1",), ("10.0.0.1", "20.0.0.1"),
                                    ("10.0.0.1, nonsense",), ("nonsense, 10.0.0.1",), ("10.0.0.1:80",), ("",), ()])
def test_proxies(serve, recursive, fields):
    data = geo_files.legacy_country([("10.0.0.0/8", 225), ("20.0.0.0/8", 56), ("127.0.0.0/8", 76)])
    answers = []
    for binary in (binaries.under_test(), binaries.reference()):
        server = start(serve, ("geoip_country d.dat; geoip_proxy 20.0.0.0/8; " + recursive, COUNTRY), {"d.dat": data}, binary)
        answers.append(server.get("/", *("X-Forwarded-For: " + field for field in fields)).text)
    assert answers[0] == answers[1]


def test_a_stranger_is_not_believed(serve):
    data = geo_files.legacy_country([("10.0.0.0/8", 225), ("127.0.0.0/8", 56)])
    server = serve("geoip_country d.dat; geoip_proxy 192.0.2.1; server { listen 127.0.0.1:@PORT@; return 200 $geoip_country_code; }",
                   files={"d.dat": data}, main=binaries.load_module(MODULE))
    assert ask(server, "10.0.0.1") == "DE"


def test_in_the_log_and_in_subrequests(serve):
    data = geo_files.legacy_country([("10.0.0.0/8", 225), ("127.0.0.0/8", 56)])
    server = serve("""geoip_country d.dat; geoip_proxy 127.0.0.1; log_format g "$uri $geoip_country_code"; access_log logs/g g;
                   map $geoip_country_code $m { US us; default other; }
                   server { listen 127.0.0.1:@PORT@; location / { ssi on; root html; } location /s { return 200 "$geoip_country_code/$m"; } }""",
                   files={"d.dat": data, "html/a.html": '<!--#include virtual="/s" -->'}, main=binaries.load_module(MODULE))
    server.get("/a.html", "X-Forwarded-For: 10.0.0.1")
    assert server.get("/a.html", "X-Forwarded-For: 10.0.0.1").text == "US/us"
    assert server.get("/a.html").text == "DE/other"
    assert server.wait_lines("logs/g", 3) == ["/a.html US", "/a.html US", "/a.html DE"]


def test_a_reload_reads_the_file_anew(serve):
    files = {"d.dat": geo_files.legacy_country([("10.0.0.0/8", 225)])}
    server = start(serve, ("geoip_country d.dat;", COUNTRY), files)
    assert ask(server, "10.0.0.1").startswith("US")
    server.write("d.dat", geo_files.legacy_country([("10.0.0.0/8", 56)]))
    assert ask(server, "10.0.0.1").startswith("US")
    server.reload()
    until(lambda: ask(server, "10.0.0.1").startswith("DE"), "the new file")


def test_a_file_that_shrinks_under_us_is_of_no_consequence(serve):
    server = start(serve, ("geoip_city d.dat;", CITY), {"d.dat": geo_files.legacy_city(PLACES)})
    before = ask(server, "20.0.0.1")
    with open(server.path("d.dat"), "wb"):
        pass
    assert ask(server, "20.0.0.1") == before


FAULTS = ["geoip_country nope.dat;", "geoip_country d.dat foo;", "geoip_country d.dat; geoip_country d.dat;", "geoip_city d.dat;", "geoip_org d.dat;",
          "geoip_country city.dat;", "geoip_country empty.dat;", "geoip_proxy 1.2.3.4/33;", "geoip_proxy unix:;", "geoip_proxy [::1];",
          "geoip_proxy localhost;", "geoip_proxy 10.1.1.1/8;", "geoip_proxy_recursive maybe;", "geoip_country;", "geoip_country a b c;",
          "geoip_proxy_recursive on; geoip_proxy_recursive on;", "server { geoip_country d.dat; }"]


@pytest.mark.parametrize("line", FAULTS)
def test_faults_are_told_as_nginx_tells_them(tmp_path, line):
    (tmp_path / "d.dat").write_bytes(geo_files.legacy_country([("10.0.0.0/8", 225)]))
    (tmp_path / "city.dat").write_bytes(geo_files.legacy_city(PLACES))
    (tmp_path / "empty.dat").write_bytes(b"")
    told = []
    for binary in (binaries.under_test(), binaries.reference()):
        (tmp_path / "c").write_text("%s\npid p; error_log stderr; events { }\nhttp {\n%s\n}\n" % (binaries.load_module(MODULE, binary), line))
        done = run_binary("-p", str(tmp_path), "-c", "c", "-t", "-e", "stderr", binary=binary, cwd=str(tmp_path))
        lines = [text.split("] ", 1)[-1].split(": ", 1)[-1] for text in done.stderr.split("\n") if "[emerg]" in text or "[warn]" in text]
        told.append((done.returncode, [text.split(" (2:")[0] for text in lines[:1]]))
    if "failed" in told[1][1][0]:  # the reference does not say why
        assert told[0][0] == 1 and told[0][1][0].split(" failed")[0] == told[1][1][0].split(" failed")[0]
    else:
        assert told[0] == told[1]


@pytest.mark.parametrize("size", [0, 1, 9, 10, 30, 100])
def test_cut_off_files_are_refused(tmp_path, size):
    (tmp_path / "d.dat").write_bytes(geo_files.legacy_city(PLACES)[:size])
    (tmp_path / "c").write_text("%s\npid p; error_log stderr; events { }\nhttp {\ngeoip_city d.dat;\n}\n" % binaries.load_module(MODULE))
    done = run_binary("-p", str(tmp_path), "-c", "c", "-t", "-e", "stderr")
    assert done.returncode == 1 and "GeoIP" in done.stderr


def test_wrong_databases_do_no_harm(serve):
    """Whatever the bytes say, a lookup ends, and touches nothing outside."""
    random.seed(9)
    good = geo_files.legacy_city(PLACES)
    for _ in range(12):
        bad = bytearray(good)
        for _ in range(40):
            bad[random.randrange(len(bad) - 7)] = random.randrange(256)
        server = start(serve, ("geoip_city d.dat;", CITY), {"d.dat": bytes(bad)})
        for address in ADDRESSES:
            assert server.get("/", "X-Forwarded-For: " + address).status == 200
