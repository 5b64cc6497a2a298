"""Headless Chromium loads a page over HTTP/2 and TLS: script, stylesheet, images, fetches, an upload, a WebSocket."""

import asyncio
import base64
import hashlib
import os
import re
import resource
import shutil
import signal
import struct
import subprocess
import threading
import zlib

import pytest

import certificates
import tls_client
from h2_site import _echo  # noqa: F401
from harness import until
from harness.programs import short_home

CHROMIUM = shutil.which("chromium")
LIMIT = 120             # seconds for one page, of which it needs two
FILE_MOST = 1 << 30     # bytes of one file of its profile

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium: auto/deps --tests installs it")

CONF = """
    log_format how '$server_protocol $ssl_protocol $status $request_uri'; access_log logs/access.log how;
    map $http_upgrade $connection_upgrade { default upgrade; "" ""; }
    server {
        listen 127.0.0.1:@PORT@ ssl; http2 on; server_name site.example; %s
        types { text/html html; text/css css; text/javascript js; image/png png; }
        gzip on; gzip_types *; gzip_min_length 1;
        location / { root html; }
        location /upload { proxy_pass http://127.0.0.1:%d; }
        location /report { proxy_pass http://127.0.0.1:%d; }
        location /ws {
            proxy_pass http://127.0.0.1:%d; proxy_http_version 1.1;
            proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection $connection_upgrade;
        }
    }
"""
IMAGES = 12
PAGE = """<!DOCTYPE html>
<html><head><title>t</title><link rel="stylesheet" href="/style.css"><script src="/script.js" defer></script></head>
<body><p id="p">text</p>%s<ul id="out"></ul></body></html>
""" % "".join('<img src="/%d.png">' % number for number in range(IMAGES))
STYLE = "#p { color: rgb(1, 2, 3); }\n" + "/* filler */\n" * 5000
SCRIPT = """
const out = (name, value) => { const li = document.createElement("li"); li.id = name;
  li.textContent = String(value); document.getElementById("out").append(li); };
const websocket = () => new Promise((done, failed) => {
  const ws = new WebSocket("wss://" + location.host + "/ws"); const got = [];
  ws.onopen = () => { ws.send("first"); ws.send("x".repeat(70000)); };
  ws.onmessage = event => { got.push(event.data.length > 99 ? event.data.length : event.data);
    if (got.length == 2) { ws.close(1000); } };
  ws.onclose = event => done(got.join() + " " + event.code); ws.onerror = () => failed("websocket"); });
const main = async () => {
  if (document.readyState != "complete") { await new Promise(done => addEventListener("load", done)); }
  out("protocol", performance.getEntriesByType("navigation")[0].nextHopProtocol);
  out("style", getComputedStyle(document.getElementById("p")).color);
  out("images", [...document.images].filter(image => image.naturalWidth == 3).length);
  const texts = await Promise.all([...Array(30).keys()].map(n => fetch("/data.html?" + n).then(r => r.text())));
  out("fetched", texts.filter(text => text == "data").length);
  const body = new Uint8Array(300000); body.fill(7);
  out("uploaded", await (await fetch("/upload", {method: "POST", body})).text());
  out("aborted", await (async () => { const control = new AbortController();
    const answer = fetch("/large.png", {signal: control.signal}); control.abort();
    return answer.then(() => "no", error => error.name); })());
  out("missing", (await fetch("/missing")).status);
  out("websocket", await websocket());
};
main().then(() => out("end", "good"), error => out("end", error))
  .then(() => fetch("/report", {method: "POST", body: document.documentElement.outerHTML}));
"""


def png(width, height):
    def chunk(kind, data):
        return struct.pack("!I", len(data)) + kind + data + struct.pack("!I", zlib.crc32(kind + data))
    rows = b"".join(b"\0" + os.urandom(3 * width) for _ in range(height))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack("!2I5B", width, height, 8, 2, 0, 0, 0))
            + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


@pytest.fixture(name="echoing")
def _echoing():
    """The port of a WebSocket server that sends back what it gets."""
    websockets = pytest.importorskip("websockets")
    ready, loop = threading.Event(), asyncio.new_event_loop()
    ports = []

    async def echo(peer, *_):
        async for message in peer:
            await peer.send(message)

    async def listen():
        server = await websockets.serve(echo, "127.0.0.1", 0)
        ports.append(server.sockets[0].getsockname()[1])
        ready.set()
        return server

    def work():
        asyncio.set_event_loop(loop)
        server = loop.run_until_complete(listen())
        loop.run_forever()
        server.close()
        loop.run_until_complete(server.wait_closed())
        loop.close()

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    assert ready.wait(10)
    yield ports[0]
    loop.call_soon_threadsafe(loop.stop)
    thread.join(10)


def key_hash(made):
    """What --ignore-certificate-errors-spki-list names a certificate by."""
    public = certificates.openssl("x509", "-in", made.crt, "-noout", "-pubkey").decode()
    der = base64.b64decode("".join(line for line in public.split("\n") if "-----" not in line))
    return base64.b64encode(hashlib.sha256(der).digest()).decode()


def load(url, made, port, report):
    """Opens the page until report() gives something. The browser and all that it starts is one process group."""
    with short_home() as directory:
        return load_in(directory, url, made, port, report)


def load_in(directory, url, made, port, report):
    errors_path = os.path.join(directory, "stderr")
    words = [CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
             "--disable-extensions", "--disable-background-networking", "--disable-component-update", "--disable-sync",
             "--no-proxy-server", "--disable-crash-reporter", "--js-flags=--max-old-space-size=256",
             "--user-data-dir=%s/profile" % directory,
             "--ignore-certificate-errors-spki-list=" + key_hash(made),
             "--host-resolver-rules=MAP site.example:443 127.0.0.1:%d, MAP * ~NOTFOUND" % port, url]
    home = {"HOME": directory, "XDG_CONFIG_HOME": directory, "XDG_CACHE_HOME": directory,
            "TMPDIR": directory, "PATH": os.environ["PATH"], "LANG": "C.UTF-8"}
    with open(errors_path, "wb") as errors:
        browser = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=errors, stderr=errors, env=home, cwd=directory,
            start_new_session=True,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_MOST, FILE_MOST)))
    def evidence():
        with open(errors_path, encoding="utf-8", errors="replace") as errors:
            return errors.read()[-3000:]

    try:
        return until(lambda: report() or browser.poll() is not None, evidence, LIMIT)
    finally:
        try:
            os.killpg(browser.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        browser.wait()


def test_a_page_with_all_that_belongs_to_it(serve, echo, echoing, backend):
    """The page reports its elements, once its scripts have done, to the backend."""
    made = certificates.own("site.example")
    files = {"html/index.html": PAGE, "html/style.css": STYLE, "html/script.js": SCRIPT, "html/data.html": "data",
             "html/large.png": png(600, 600), "html/favicon.ico": ""}
    files.update({"html/%d.png" % number: png(3, 2) for number in range(IMAGES)})
    reports = backend([b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"])
    server = serve(CONF % (tls_client.pair(made), echo, reports.port, echoing), files=files)
    load("https://site.example/index.html", made, server.port, lambda: reports.requests)
    shown = b"".join(reports.requests).decode("utf-8", "replace")
    values = dict(re.findall(r'<li id="(\w+)">([^<]*)</li>', shown))
    assert values == {
        "protocol": "h2", "style": "rgb(1, 2, 3)", "images": str(IMAGES), "fetched": "30",
        "uploaded": "300000 " + hashlib.md5(b"\7" * 300000).hexdigest(), "aborted": "AbortError", "missing": "404",
        "websocket": "first,70000 1000", "end": "good"}, (shown, server.read("logs/access.log"))
    lines = server.wait_lines("logs/access.log", IMAGES + 36)
    wanted = ["/index.html", "/style.css", "/script.js", "/upload"] + ["/%d.png" % number for number in range(IMAGES)]
    for place in wanted + ["/data.html?%d" % number for number in range(30)]:
        assert "HTTP/2.0 TLSv1.3 200 " + place in lines, lines
    assert "HTTP/2.0 TLSv1.3 404 /missing" in lines
    assert any(re.match(r"HTTP/2\.0 TLSv1\.3 (200|101) /ws$", line) for line in lines), lines
    assert all(line.startswith("HTTP/2.0 TLSv1.3 ") for line in lines), lines
