"""Pages for people, as a browser makes them: autoindex, fancyindex and metrics in headless Chromium, by the document that it has in the end."""

import html.parser
import os
import shutil
import subprocess

import pytest

from harness import Server
from harness.programs import short_home

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")

CONFIG = """server { listen 127.0.0.1:@PORT@; server_name a.test; root html; location /auto/ { autoindex on; alias html/d/; } location /fancy/ { fancyindex on; alias html/d/; }
    location = /metrics { metrics; } location /z { status_zone zone; return 404; } }"""


class Reader(html.parser.HTMLParser):
    """What of a document matters here: links {href: text}, rows of tables, texts by id."""

    def __init__(self, text):
        super().__init__()
        self.links, self.rows, self.texts, self.open, self.href, self.heads = {}, [], {}, [], None, []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.open.append((tag, attrs.get("id")))
        if tag == "a":
            self.href = attrs.get("href")
        if tag == "tr":
            self.rows.append("")

    def handle_endtag(self, tag):
        while self.open and self.open.pop()[0] != tag:
            pass

    def handle_data(self, data):
        tags = [tag for tag, _ in self.open]
        if "script" in tags or "style" in tags:
            return
        if "a" in tags:
            self.links[self.href] = self.links.get(self.href, "") + data
        if "tr" in tags:
            self.rows[-1] += data + " "
        for _, name in self.open:
            if name:
                self.texts[name] = self.texts.get(name, "") + data


@pytest.fixture(scope="module")
def site():
    with Server(CONFIG, files={"html/d/a b&c.txt": "x" * 1500, "html/d/<i>.txt": "", "html/d/in/x": ""}) as server:
        yield server


def see(server, path, *options):
    """The document when the page is at rest."""
    with short_home() as home:
        done = subprocess.run([CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-background-networking",
                               "--no-proxy-server", "--user-data-dir=" + home, *options, "--dump-dom", "http://127.0.0.1:%d%s" % (server.port, path)],
                              capture_output=True, text=True, timeout=120, env=dict(os.environ, HOME=home, TMPDIR=home))
    assert done.returncode == 0, done.stderr
    return Reader(done.stdout)


@pytest.mark.parametrize("path", ["/auto/", "/fancy/"])
def test_listings(site, path):
    page = see(site, path)
    names = {href: text for href, text in page.links.items() if not href.startswith("?") and "://" not in href}
    assert {"a%20b%26c.txt", "in/"} <= set(names) and names["a%20b%26c.txt"] == "a b&c.txt"
    assert any(text == "<i>.txt" for text in names.values())  # a name, no markup
    if path == "/fancy/":
        assert any("a b&c.txt" in row and ("1500" in row or "1.5 KiB" in row) for row in page.rows), page.rows


def test_metrics(site):
    """The script of the page has read the numbers and drawn them."""
    for _ in range(3):
        site.get("/z")
    page = see(site, "/metrics", "--virtual-time-budget=3000")
    assert page.texts["tiles"].strip() and page.texts["state"] != "…"
    assert any("a.test" in row for row in page.rows) and any(row.split()[:1] == ["zone"] for row in page.rows), page.rows
