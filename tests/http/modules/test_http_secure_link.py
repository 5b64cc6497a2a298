"""secure_link over protocols, subrequests and reloads, and what a caller makes of it. Which links hold is in
tests/oracle/tables/linking.py."""

import base64
import hashlib

import pytest

from harness.h2 import H2
from harness.workers import wait_workers

FAR, PAST = 4102444800, 1000000000


def sign(path, expires, secret="word"):
    digest = hashlib.md5(("%d%s %s" % (expires, path, secret)).encode()).digest()
    return "%s?md5=%s&expires=%d" % (path, base64.urlsafe_b64encode(digest).rstrip(b"=").decode(), expires)


CONF = """
    log_format links '$uri $secure_link $secure_link_expires'; access_log logs/links.log links;
    server {
        listen 127.0.0.1:@PORT@; root html; http2 on;
        location /s/ {
            secure_link $arg_md5,$arg_expires;
            secure_link_md5 "$secure_link_expires$uri word";
            if ($secure_link = "") { return 403; }
            if ($secure_link = "0") { return 410; }
        }
        location /word/ { secure_link_secret word; if ($secure_link = "") { return 403; } rewrite ^ /files/$secure_link; }
        location /files/ { internal; alias html/s/; }
        location /page { ssi on; ssi_types *; }
        error_page 403 /denied; error_page 410 /denied;
        location /denied { return 200 "no: $secure_link.\\n"; }
        %s
    }"""
FILES = {"html/s/a.txt": "the file", "html/page": "<!--#include virtual=\"%s\" -->" % sign("/s/a.txt", FAR)}


@pytest.fixture
def site(serve):
    return serve(CONF % "", files=FILES)


def test_good_expired_and_wrong(site):
    assert site.get(sign("/s/a.txt", FAR)).text == "the file"
    assert site.get(sign("/s/a.txt", PAST)).status == 410
    assert site.get(sign("/s/a.txt", FAR, "guess")).status == 403
    assert site.get("/s/a.txt").status == 403


def test_link_is_good_for_its_path_alone(site):
    signed = sign("/s/a.txt", FAR)
    assert site.get(signed.replace("a.txt", "b.txt")).status == 403
    assert site.get(signed.replace(str(FAR), str(FAR + 1))).status == 403


def test_moment_is_there_before_the_link_is_asked_for(site):
    """The signed text names $secure_link_expires, as many recipes would have it."""
    assert site.get(sign("/s/a.txt", FAR)).status == 200


def test_variables_in_the_log(site):
    site.get(sign("/s/a.txt", FAR))
    site.get("/files/a.txt")
    assert site.wait_lines("logs/links.log", 2) == ["/s/a.txt 1 %d" % FAR, "/files/a.txt - -"]


def test_ranges_and_head_and_keepalive(site):
    with site.client() as client:
        part = client.request(sign("/s/a.txt", FAR), "Range: bytes=0-2")
        assert (part.status, part.text) == (206, "the")
        assert client.request(sign("/s/a.txt", FAR), method="HEAD").header("Content-Length") == "8"
        assert client.request(sign("/s/a.txt", PAST)).status == 410
        assert client.request(sign("/s/a.txt", FAR)).text == "the file"


def test_secret_form_serves_the_file(site):
    digest = hashlib.md5(b"a.txtword").hexdigest()
    assert site.get("/word/%s/a.txt" % digest).text == "the file"
    assert site.get("/word/%s/b.txt" % digest).status == 403
    assert site.get("/files/a.txt").status == 404


def test_link_does_not_lead_out_of_the_directory(site):
    for link in ("../page", "..%2fpage", "%2e%2e/page"):
        digest = hashlib.md5((link + "word").encode()).hexdigest()
        assert site.get("/word/%s/%s" % (digest, link)).status in (400, 403, 404)


def test_part_of_a_page(site):
    assert site.get("/page").text == "the file"


def test_http2(site):
    with H2(site.port) as client:
        assert client.get(sign("/s/a.txt", FAR)).body == b"the file"
        assert client.get("/word/%s/a.txt" % hashlib.md5(b"a.txtword").hexdigest()).body == b"the file"
        assert client.get(sign("/s/a.txt", PAST)).status == 410


def test_error_page_of_another_location_knows_no_link(serve):
    server = serve(CONF % "location /own { error_page 403 = /denied; return 403; }", files=FILES)
    assert server.get("/own").text == "no: .\n"


def test_long_and_odd_values(site):
    for value in ("A" * 6000, "%00" * 20, ",", ",,", "=" * 22, "AAAA,", "-" * 22, "\xff" * 4):
        assert site.get("/s/a.txt?md5=%s&expires=%s" % (value, FAR)).status == 403
        assert site.get("/s/a.txt?md5=%s&expires=%s" % ("A" * 22, value)).status == 403
    for value in ("A" * 6000, "/" * 40, "0" * 32, "?" * 40):
        assert site.get("/word/%s/a.txt" % value).status in (403, 404)


def test_reload_changes_the_secret(site):
    old = site.children()
    assert site.get(sign("/s/a.txt", FAR)).status == 200
    site.configure((CONF % "").replace("$uri word", "$uri other"))
    site.reload()
    wait_workers(site, 1, without=old)
    assert site.get(sign("/s/a.txt", FAR)).status == 403
    assert site.get(sign("/s/a.txt", FAR, "other")).status == 200
