"""browser in maps, ifs and logs, over HTTP/2, with long and odd values. Who is what is in tests/oracle/tables/browsing.py."""

import pytest

from harness.h2 import H2

CONF = """
    map $modern_browser$ancient_browser $page { new /new; old /old; }
    log_format browsers '$uri "$modern_browser" "$ancient_browser" "$msie"';
    modern_browser gecko 1.8; modern_browser msie 6; modern_browser unlisted; ancient_browser Links;
    modern_browser_value new; ancient_browser_value old;
    server {
        listen 127.0.0.1:@PORT@; http2 on; access_log logs/browsers.log browsers;
        location / { return 200 "$modern_browser-$ancient_browser-$msie\\n"; }
        location /map { return 200 "$page\\n"; }
        location /if { if ($ancient_browser) { rewrite ^ /old last; } return 200 "as you are\\n"; }
        location /strict { modern_browser gecko 100.2; return 200 "$modern_browser-$ancient_browser\\n"; }
        location /page { ssi on; ssi_types *; root html; }
    }"""
OLD, NEW = "User-Agent: Links (2.1)", "User-Agent: Mozilla/5.0 (X11; rv:109.0) Gecko/20100101 Firefox/115.0"


@pytest.fixture
def site(serve):
    return serve(CONF, files={"html/page": "<!--#include virtual=\"/\" -->"})


def test_values(site):
    assert site.get("/", NEW).text == "new--\n"
    assert site.get("/", OLD).text == "-old-\n"
    assert site.get("/", "User-Agent: Mozilla/4.0 (compatible; MSIE 5.5; x)").text == "-old-1\n"
    assert site.get("/").text == "new--\n"


def test_map(site):
    assert site.get("/map", NEW).text == "/new\n"
    assert site.get("/map", OLD).text == "/old\n"


def test_if(site):
    assert site.get("/if", OLD).text == "-old-\n"
    assert site.get("/if", NEW).text == "as you are\n"


def test_what_is_not_said_is_empty_in_logs(site):
    site.get("/", OLD)
    site.get("/", NEW)
    assert site.wait_lines("logs/browsers.log", 2) == ['/ "" "old" ""', '/ "new" "" ""']


def test_versions_are_compared_part_by_part(site):
    for version, is_new in (("100.2", True), ("100.10", True), ("100.1", False), ("99.100", False), ("101", True), ("100.2.0.1", True)):
        text = site.get("/strict", "User-Agent: Mozilla/5.0 (X11; rv:%s) Gecko" % version).text
        assert text == ("new-\n" if is_new else "-old\n"), version


def test_first_of_two_fields(site):
    assert site.get("/", OLD, NEW).text == "-old-\n"


def test_http2(site):
    with H2(site.port) as client:
        assert client.get("/", headers=[("user-agent", "Links")]).body == b"-old-\n"
        assert client.get("/").body == b"new--\n"


def test_part_of_a_page(site):
    assert site.get("/page", OLD).text == "-old-\n"


def test_keepalive_does_not_remember(site):
    with site.client() as client:
        for field, text in ((OLD, "-old-\n"), (NEW, "new--\n")) * 3:
            assert client.request("/", field).text == text


@pytest.mark.one_server
@pytest.mark.parametrize("agent", ["MSIE " * 1000, "Opera" * 1000, "rv:" * 2000, "Mozilla/5.0 (" + "9" * 6000, "Mozilla/5.0 (rv:" + "9." * 3000,
                                   "Mozilla/5.0 (rv:" + "1" * 4000, "Mozilla/", "Mozilla/4", "\xff" * 50])
def test_long_and_odd(site, agent):
    assert site.get("/", "User-Agent: " + agent).status == 200


def test_head(site):
    assert site.get("/", OLD, method="HEAD").header("Content-Length") == "6"
