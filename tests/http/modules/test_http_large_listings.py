"""Listings of directories with very many names: made in pieces, and counted."""

import json
import os
import re
import xml.etree.ElementTree

import pytest

from harness import Server, binaries, proc
from harness.h2 import H2

CONFIG = """
server { listen 127.0.0.1:@PORT@; http2 on; root html; autoindex on;
    location /html/ { alias html/; } location /json/ { alias html/; autoindex_format json; }
    location /jsonp/ { alias html/; autoindex_format jsonp; } location /xml/ { alias html/; autoindex_format xml; }
    location /fancy/ { alias html/; fancyindex on; } location /few/ { alias html/; autoindex_format json; request_memory_limit 200k; }
    location /fewfancy/ { alias html/; fancyindex on; request_memory_limit 200k; }
    location /dav/ { alias html/; dav_ext_methods PROPFIND; } location /fewdav/ { alias html/; dav_ext_methods PROPFIND; request_memory_limit 200k; }
}
"""
COUNT = 5000
NAMES = ["f%d&" % number for number in range(COUNT)]


@pytest.fixture(scope="module", name="site")
def make_site():
    server = Server(CONFIG, main="worker_processes 1;", files={"html/sub/x": ""})
    os.mkdir(server.path("html/sub/few"))
    for name in NAMES:
        with open(server.path("html/" + name), "w", encoding="ascii"):
            pass
    yield server.start()
    server.close()


def expected():
    return ["sub"] + sorted(NAMES)


def test_all_names_in_order(site):
    text = site.get("/html/").text
    assert [name.rstrip("/").replace("%26", "&") for name in re.findall('<a href="([^"]*)"', text)] == ["..", *expected()]
    assert text.startswith("<html>\r\n<head><title>Index of /html/") and text.endswith("</pre><hr></body>\r\n</html>\r\n")
    assert [entry["name"] for entry in json.loads(site.get("/json/").body)] == expected()
    jsonp = site.get("/jsonp/?callback=f").text
    assert jsonp.startswith("/* callback */\r\nf([\r\n{") and jsonp.endswith(" }\r\n]);")
    assert [entry["name"] for entry in json.loads(jsonp[len("/* callback */\r\nf("):-2])] == expected()
    assert [entry.text for entry in xml.etree.ElementTree.fromstring(site.get("/xml/").body)] == expected()
    fancy = site.get("/fancy/?C=N&O=D").text
    assert [name.rstrip("/").replace("&amp;", "&") for name in re.findall('title="([^"]*)"', fancy)] == ["sub", *sorted(NAMES, reverse=True)]
    assert fancy.endswith("</tbody></table></body></html>\n")


@pytest.mark.parametrize("path", ["/html/", "/json/", "/xml/", "/fancy/"])
def test_head_and_http_1_0(site, path):
    assert site.get(path, method="HEAD").body == b""
    assert site.get(path, version="1.0").body == site.get(path).body


@pytest.mark.parametrize("path", ["/few/", "/fewfancy/"])
def test_a_listing_counts_towards_the_limit(site, path):
    assert site.get(path).status == 500
    site.wait_log("request takes more memory than request_memory_limit allows.*GET " + path)


@pytest.mark.parametrize("path", ["/html/", "/fancy/"])
def test_clients_that_read_nothing_hold_a_piece_each(site, path):
    """Each had the whole page, and twice that where a buffer had grown."""
    site.get(path)
    worker = site.children()[0]
    before = proc.resident_kb(worker)
    with H2(site.port, settings={4: 0}) as h2:
        streams = [h2.request(path) for _ in range(50)]
        h2.until(lambda _: all(stream in h2.answers and h2.answers[stream].heads for stream in streams))
        assert proc.resident_kb(worker) - before < binaries.resident_limit(50 * 700)


def propfind(site, path, version="1.1"):
    with site.client() as client:
        response = client.request(path, "Depth: 1", method="PROPFIND", version=version)
        return response, [entry.text for entry in xml.etree.ElementTree.fromstring(response.body).iter("{DAV:}href")]


@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_properties_in_pieces(site, version):
    """A short answer has a length, a long one has none."""
    response, names = propfind(site, "/dav/", version)
    assert (response.status, response.header("Content-Length")) == (207, None)
    assert sorted(names) == sorted(["/dav/", "/dav/sub/"] + ["/dav/" + name.replace("&", "%26") for name in NAMES]) or \
        sorted(names) == sorted(["/dav/", "/dav/sub/"] + ["/dav/" + name for name in NAMES])
    response, names = propfind(site, "/dav/sub/", version)
    assert response.status == 207 and int(response.header("Content-Length")) == len(response.body)
    assert sorted(names) == ["/dav/sub/", "/dav/sub/few/", "/dav/sub/x"]


def test_clients_that_read_no_properties_hold_a_piece_each(site):
    """Each had the whole answer, 3 MB."""
    propfind(site, "/dav/")
    worker = site.children()[0]
    before = proc.resident_kb(worker)
    with H2(site.port, settings={4: 0}) as h2:
        streams = [h2.request("/dav/", "PROPFIND", [("depth", "1")]) for _ in range(20)]
        h2.until(lambda _: all(stream in h2.answers and h2.answers[stream].heads for stream in streams))
        assert proc.resident_kb(worker) - before < binaries.resident_limit(20 * 2000)


def test_members_count_towards_the_limit(site):
    with site.client() as client:
        assert client.request("/fewdav/", "Depth: 1", method="PROPFIND").status == 507
        assert client.request("/fewdav/sub/", "Depth: 1", method="PROPFIND").status == 207
    site.wait_log('the listing of "[^"]*" failed .*File too large')
