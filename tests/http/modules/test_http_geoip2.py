"""geoip2: variables by databases of MaxMind's format, beside Debian's module, and what that has not."""

import os
import random

import pytest

from harness import binaries, geo_files, run_binary, until
from harness.geo_files import Typed

MODULE = "ngx_http_geoip2_module"

PLACE = {
    "country": {"iso_code": "US", "names": {"en": "United States", "de": "USA"}, "geoname_id": 6252001},
    "numbers": {"negative": Typed("int32", -5), "u16": Typed("uint16", 7), "u64": Typed("uint64", 2 ** 63 + 5), "float": Typed("float", 1.5),
                "double": 3.14159265, "zero": -0.0, "small": Typed("uint16", 0)},
    "yes": True, "no": False, "bytes": Typed("bytes", b"abc"), "list": ["x", "y", {"k": "z"}], "empty": "", "long": "x" * 70000, "middle": "y" * 300,
}
OTHER = {"country": {"iso_code": "DE"}}
NETWORKS = [("10.0.0.0/8", PLACE), ("20.0.0.0/8", OTHER), ("10.1.0.0/16", OTHER), ("2001:db8::/32", {"country": {"iso_code": "V6"}})]

PATHS = ["country iso_code", "country", "country names en", "country geoname_id", "numbers negative", "numbers u16", "numbers u64", "numbers float",
         "numbers double", "numbers zero", "numbers small", "yes", "no", "bytes", "list", "list 0", "list 2 k", "list -1", "list -1 k", "list -4", "list 7",
         "list x", "empty", "long", "middle", "nope", "country names fr", "country iso_code x", "metadata build_epoch", "metadata nope", "metadata", ""]

ADDRESSES = ["10.0.0.1", "10.1.0.1", "20.0.0.1", "9.0.0.1", "2001:db8::1", "2001:db9::1", "::1"]


def start(serve, lines, text, files, binary=None, more=""):
    binary = binary or binaries.under_test()
    main = binaries.load_module(MODULE, binary) if binary != binaries.under_test() else ""
    return serve("geoip2_proxy 127.0.0.1; %s geoip2 d.mmdb { %s } server { listen 127.0.0.1:@PORT@; return 200 \"%s\"; }" % (more, lines, text),
                 files=files, main=main, binary=binary)


def both(serve, lines, text, files, more=""):
    return [start(serve, lines, text, files, binary, more) for binary in (binaries.under_test(), binaries.reference())]


@pytest.mark.parametrize("shape", [(24, 6), (28, 6), (32, 6), (24, 4), (28, 4)])
@pytest.mark.parametrize("default", ["", "default=none "])
def test_as_debians_module(serve, shape, default):
    networks = [entry for entry in NETWORKS if shape[1] == 6 or ":" not in entry[0]]
    data = geo_files.mmdb(networks, record_size=shape[0], version=shape[1])
    lines = "".join("$v%d %s%s;\n" % (index, default, path) for index, path in enumerate(PATHS))
    ours, theirs = both(serve, lines, "\\n".join("%s=$v%d" % (path, index) for index, path in enumerate(PATHS)), {"d.mmdb": data})
    for address in ADDRESSES:
        head = "X-Forwarded-For: " + address
        assert ours.get("/", head).text == theirs.get("/", head).text, address


@pytest.mark.parametrize("address", ["", "nonsense", "10.0.0.1", "2001:db8::1", "[2001:db8::1]", "10.0.0.1:80", "unix:", "10.0.0.1, 20.0.0.1"])
def test_address_of_a_variable(serve, address):
    ours, theirs = both(serve, "$a source=$arg_a country iso_code; $b default=none source=$arg_a country iso_code;", "$a-$b",
                        {"d.mmdb": geo_files.mmdb(NETWORKS)})
    target = "/?a=" + address.replace(" ", "")
    assert ours.get(target, "X-Forwarded-For: 20.0.0.1").text == theirs.get(target, "X-Forwarded-For: 20.0.0.1").text


@pytest.mark.parametrize("recursive", ["", "geoip2_proxy_recursive on;"])
@pytest.mark.parametrize("field", ["10.0.0.1", "10.0.0.1, 20.0.0.1", "10.0.0.1, 20.0.0.1, 127.0.0.1", "10.0.0.1, nonsense", "nonsense, 10.0.0.1", ""])
def test_proxies(serve, recursive, field):
    ours, theirs = both(serve, "$a country iso_code;", "$a", {"d.mmdb": geo_files.mmdb(NETWORKS)}, "geoip2_proxy 20.0.0.0/8; " + recursive)
    assert ours.get("/", "X-Forwarded-For: " + field).text == theirs.get("/", "X-Forwarded-For: " + field).text


def test_mapped_addresses_are_those_of_ipv4(serve):
    server = start(serve, "$a country iso_code; $b source=$arg_a country iso_code;", "$a-$b", {"d.mmdb": geo_files.mmdb(NETWORKS)})
    assert server.get("/?a=::ffff:20.0.0.1", "X-Forwarded-For: ::ffff:10.0.0.1").text == "US-DE"


def test_large_integers(serve):
    data = geo_files.mmdb([("10.0.0.0/8", {"n": Typed("uint128", 2 ** 127 + 3)})])
    server = start(serve, "$a n;", "$a", {"d.mmdb": data})
    assert server.get("/", "X-Forwarded-For: 10.0.0.1").text == "0x%032x" % (2 ** 127 + 3)


def test_in_maps_and_access_rules(serve):
    server = serve("""geoip2_proxy 127.0.0.1; geoip2 d.mmdb { $country default=XX country iso_code; }
                   map $country $allowed { default 1; US 0; XX 0; } log_format g "$uri $country"; access_log logs/g g;
                   server { listen 127.0.0.1:@PORT@; if ($allowed = 0) { return 403; } return 200 $country; }""",
                   files={"d.mmdb": geo_files.mmdb(NETWORKS)})
    assert [server.get("/" + address, "X-Forwarded-For: " + address).status for address in ("10.0.0.1", "20.0.0.1", "1.1.1.1")] == [403, 200, 403]
    assert server.wait_lines("logs/g", 3) == ["/10.0.0.1 US", "/20.0.0.1 DE", "/1.1.1.1 XX"]


def replace(server, data):
    """As geoipupdate does it: a new file of that name."""
    server.write("new.mmdb", data, mtime=None)
    os.rename(server.path("new.mmdb"), server.path("d.mmdb"))


def test_auto_reload(serve):
    server = start(serve, "auto_reload 1s; $a country iso_code; $e metadata build_epoch; $c metadata last_change; $k metadata last_check;", "$a $e $c $k",
                   {"d.mmdb": geo_files.mmdb(NETWORKS)})
    head = "X-Forwarded-For: 10.0.0.1"
    before = server.get("/", head).text.split()
    assert before[:2] == ["US", "1700000000"] and before[2] == before[3]
    replace(server, geo_files.mmdb([("10.0.0.0/8", OTHER)], epoch=1700000001))
    until(lambda: server.get("/", head).text.startswith("DE 1700000001 "), "the new file")
    after = server.get("/", head).text.split()
    assert int(after[2]) > int(before[2])
    assert server.wait_log("Reload MMDB")
    until(lambda: int(server.get("/", head).text.split()[3]) > int(after[3]), "another look")
    assert server.get("/", head).text.split()[2] == after[2]


def test_auto_reload_of_a_broken_file_keeps_the_old_one(serve):
    server = start(serve, "auto_reload 1s; $a country iso_code;", "$a", {"d.mmdb": geo_files.mmdb(NETWORKS)})
    head = "X-Forwarded-For: 10.0.0.1"
    replace(server, b"nonsense")
    until(lambda: server.get("/", head).text == "US" and "failed to reload" in server.read("error.log"), "the message")
    assert server.get("/", head).text == "US"
    replace(server, geo_files.mmdb([("10.0.0.0/8", OTHER)]))
    until(lambda: server.get("/", head).text == "DE", "the new file")


def test_auto_reload_beside_a_reload(serve):
    """A look at the file that is under way when its generation ends is dropped."""
    server = start(serve, "auto_reload 1s; $a country iso_code;", "$a", {"d.mmdb": geo_files.mmdb(NETWORKS)})
    head = "X-Forwarded-For: 10.0.0.1"
    for number in range(3):
        replace(server, geo_files.mmdb([("10.0.0.0/8", {"country": {"iso_code": "N%d" % number}})]))
        server.get("/", head)
        server.reload()
        until(lambda code="N%d" % number: server.get("/", head).text == code, "the new file")


def test_a_file_that_shrinks_under_us_is_of_no_consequence(serve):
    server = start(serve, "auto_reload 1s; $a country iso_code;", "$a", {"d.mmdb": geo_files.mmdb(NETWORKS)})
    os.truncate(server.path("d.mmdb"), 0)
    head = "X-Forwarded-For: 10.0.0.1"
    until(lambda: server.get("/", head).text == "US" and "failed to reload" in server.read("error.log"), "the message")


FAULTS = ["{ $a country; }", "{ }", "{ $a; }", "{ a country; }", "{ $a default=X default=Y country; }", "{ $a source=arg_a country; }", "{ $a source= country; }",
          "{ $a default= country; }", "{ $a source=$arg_a source=$arg_b country; }", "{ auto_reload; }", "{ auto_reload 5m 6m; }", "{ auto_reload 0; }",
          "{ auto_reload 5m; auto_reload 6m; }", "{ foo bar; }", "{ } geoip2 d.mmdb { }", "{ $uri country; }", "{ $ country; }", ";", "{ $a country; $a country; }",
          "{ $a source=$nope country; }"]


def check(tmp_path, binary, text):
    main = binaries.load_module(MODULE, binary) if binary != binaries.under_test() else ""
    (tmp_path / "c").write_text("%s\npid p; error_log stderr; events { }\nhttp {\n%s\n}\n" % (main, text))
    done = run_binary("-p", str(tmp_path), "-c", "c", "-t", "-e", "stderr", binary=binary, cwd=str(tmp_path))
    told = [line.split("] ", 1)[-1].split(": ", 1)[-1] for line in done.stderr.split("\n") if "[emerg]" in line or "[warn]" in line]
    return done.returncode, told[:1]


@pytest.mark.parametrize("text", ["geoip2 d.mmdb " + fault for fault in FAULTS] + [
    "geoip2 { }", "geoip2 nope { }", "geoip2 empty { }", "geoip2 nonsense { }", "geoip2 half { }", "geoip2_proxy 1.2.3.4/99;", "geoip2_proxy unix:;",
    "geoip2_proxy_recursive x;", "geoip2_proxy 10.1.1.1/8;", "server { geoip2 d.mmdb { } }"])
def test_faults_are_told_as_debians_module_tells_them(tmp_path, text):
    data = geo_files.mmdb(NETWORKS)
    for name, content in (("d.mmdb", data), ("empty", b""), ("nonsense", b"x" * 5000), ("half", data[:len(data) // 2])):
        (tmp_path / name).write_bytes(content)
    assert check(tmp_path, binaries.under_test(), text) == check(tmp_path, binaries.reference(), text)


def test_a_wrong_interval(tmp_path):
    """Debian's module writes nonsense here."""
    (tmp_path / "d.mmdb").write_bytes(geo_files.mmdb(NETWORKS))
    assert check(tmp_path, binaries.under_test(), "geoip2 d.mmdb { auto_reload x; }") == (1, [
        'invalid interval for auto_reload "x" in %s:4' % (tmp_path / "c")])


def test_wrong_databases_do_no_harm(serve):
    """Whatever the bytes say, a lookup ends, and touches nothing outside."""
    random.seed(11)
    place = {"country": {"iso_code": "US", "names": {"en": "x", "de": "y"}}, "list": [1, 2, {"k": [3, "z"]}], "f": 2.0}
    good = geo_files.mmdb([("10.0.0.0/8", place), ("::/1", OTHER)], record_size=24)
    end = good.rindex(b"\xab\xcd\xef")
    for _ in range(12):
        bad = bytearray(good)
        for _ in range(60):
            bad[random.randrange(end)] = random.randrange(256)
        server = start(serve, "$a country names de; $b list 2 k 1; $c f;", "$a $b $c", {"d.mmdb": bytes(bad)})
        for address in ADDRESSES:
            assert server.get("/", "X-Forwarded-For: " + address).status == 200
