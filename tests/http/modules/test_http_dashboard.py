"""dashboard: plots from points in shared memory, the page in Chromium, and who may press its buttons."""

import base64
import hashlib
import html.parser
import json
import os
import re
import signal

import pytest

import images
from harness import Server, run_binary, until
from harness.browser import CHROMIUM, Browser
from harness.workers import wait_workers

NAME = '<b id=\\"x\\">&amp;'        # of a zone, as it is written in the configuration
SHOWN = '<b id="x">&amp;'
SITE = r"""
    dashboard_history 1m;
    proxy_cache_path cache keys_zone=stored:1m;
    limit_req_zone $uri zone=req:64k rate=1000r/s;
    upstream app { zone app 64k; server 127.0.0.1:@PORT1@; server 127.0.0.1:@PORT2@ weight=2; }
    upstream fixed { server 127.0.0.1:@PORT1@; }
    upstream "<i>odd" { zone odd 64k; server 127.0.0.1:@PORT1@; }
    server {
        listen 127.0.0.1:@PORT@; server_name site.test;
        location = /dashboard { dashboard api=/api; }
        location = /look { dashboard api=/readonly; }
        location = /alone { dashboard; }
        location = /metrics { metrics; }
        location /api { api write=on; }
        location /readonly { api; }
        location = /zone { status_zone "%s"; return 404; }
        location = /fixed { proxy_pass http://fixed; }
        location = /odd { proxy_pass http://<i>odd; }
        location / { limit_req zone=req burst=10000 nodelay; proxy_pass http://app; proxy_cache stored; }
    }
    server { listen 127.0.0.1:@PORT1@; listen 127.0.0.1:@PORT2@; server_name back.test; location = /bad { return 503; } location / { return 200 x; } }
    server { listen 127.0.0.1:@PORT3@; root html; }
""" % NAME


@pytest.fixture(name="site", scope="module")
def _site():
    with Server(SITE, files={"html/foreign.html": "<title>foreign</title>"}) as server:
        yield server


def history(server, after=0, path="/dashboard"):
    answer = server.get("%s?history=%s" % (path, after))
    assert answer.status == 200 and answer.header("Content-Type") == "application/json" and answer.header("Cache-Control") == "no-store"
    return json.loads(answer.text)


def row(shown, kind, name):
    return next((one for one in shown["rows"] if (one["kind"], one["name"]) == (kind, name)), {"count": [], "errors_4xx": [], "errors_5xx": []})


# ---- points ----

def test_points_count_each_request_once(serve):
    server = serve(SITE, files={"html/x": ""})
    history(server)
    for path in ["/a"] * 5 + ["/zone"] * 3 + ["/bad"] * 2:
        server.get(path)
    until(lambda: sum(row(history(server), "zone", SHOWN)["errors_4xx"]) == 3, "the points of the zone")
    until(lambda: sum(row(history(server), "upstream", "app")["count"]) == 7, "the points of the upstream")
    shown = history(server)
    assert shown["api"] == "/api" and shown["step_ms"] == 500 and shown["lost"] == 0
    assert sum(row(shown, "upstream", "app")["errors_5xx"]) == 2 and sum(row(shown, "zone", SHOWN)["count"]) == 3
    assert sum(row(shown, "all", "")["errors_5xx"]) == 4 and sum(row(shown, "server", "back.test")["errors_5xx"]) == 2
    count = len(shown["end_ms"])
    assert shown["count"] == shown["first"] + count == count and all(len(one[column]) == count for one in shown["rows"] for column in ("count", "errors_4xx", "p50_ms", "p99_ms"))
    assert all(earlier < later for earlier, later in zip(shown["end_ms"], shown["end_ms"][1:])) and min(shown["length_ms"]) >= 500
    assert {one["kind"]: one["count"] for one in shown["errors"]} == {"status 404": 3, "status 503": 4, "upstream responses 5xx": 2}
    later = history(server, shown["count"])
    assert later["first"] == shown["count"] and len(later["end_ms"]) == later["count"] - later["first"]


def test_points_outlive_reloads_and_workers(serve):
    server = serve(SITE, files={"html/x": ""}, allow=["exited on signal 9"])
    history(server)
    for _ in range(5):
        server.get("/zone")
    until(lambda: sum(row(history(server), "zone", SHOWN)["count"]) == 5, "points")
    before = server.children()
    server.reload()
    wait_workers(server, 1, without=before)
    assert sum(row(history(server), "zone", SHOWN)["count"]) == 5
    before = server.children()
    os.kill(before[0], signal.SIGKILL)
    wait_workers(server, 1, without=before)
    server.get("/zone")
    count = history(server)["count"]
    until(lambda: history(server)["count"] > count + 1 and sum(row(history(server), "zone", SHOWN)["count"]) == 6, "points of the next worker")


def test_points_are_taken_while_nobody_looks(serve):
    server = serve("""dashboard_history 1m; limit_req_zone a zone=slow:64k rate=2r/s;
                      server { listen 127.0.0.1:@PORT@; location /d { dashboard; } location / { limit_req zone=slow burst=10; root html; } }""", files={"html/x": ""})
    for _ in range(4):  # each answer comes a step after the one before
        assert server.get("/x").status == 200
    assert history(server, path="/d")["count"] >= 2  # one look alone makes one at most


def mappings(server):
    """Zones of shared memory that the process has."""
    with open("/proc/%d/maps" % server.pid, encoding="ascii") as lines:
        return sum("/dev/zero" in line for line in lines)


def test_without_a_master_a_dashboard_goes(serve):
    """The timer of the former configuration fired, and its zone was gone."""
    conf = "dashboard_history 1m; server { listen 127.0.0.1:@PORT@; location /d { %s; } location / { echo_sleep 0.8; echo x; } }"
    server = serve(conf % "dashboard", main="master_process off;")
    history(server, path="/d")
    before = mappings(server)
    server.configure(conf % "return 204", main="master_process off;")
    server.signal("reload")
    until(lambda: server.get("/d").status == 204, server.evidence)
    until(lambda: mappings(server) < before, "the former configuration is freed")
    assert server.get("/").text == "x\n"


def test_without_a_dashboard_no_points_are_kept(serve):
    server = serve("server { listen 127.0.0.1:@PORT@; location / { metrics; } }")
    assert history(server, path="/") == {"api": "", "step_ms": 0} and 'zone="dashboard"' not in server.get("/").text


def test_requests_that_are_refused(site):
    for after in ("x", "-1", "99999999999999999999999", "1%3C"):
        assert site.get("/dashboard?history=" + after).status == 400
    assert json.loads(site.get("/dashboard?history=").text)["first"] == 0 and history(site, 2 ** 63)["count"] < 2 ** 63
    assert site.get("/dashboard", method="POST").status == 405 and site.get("/dashboard?history=0", method="DELETE").status == 405
    head = site.get("/dashboard?history=0", method="HEAD")
    assert head.status == 200 and head.body == b"" and int(head.header("Content-Length")) > 10


@pytest.mark.parametrize("words, message", [("api=api", 'invalid parameter "api=api"'), ("uri=/api", 'invalid parameter "uri=/api"'), ("api=", 'invalid parameter "api="'),
                                            ("api=/a api=/b", 'invalid number of arguments in "dashboard" directive')])
def test_configurations_that_are_refused(tmp_path, words, message):
    (tmp_path / "nginx.conf").write_text("events { } http { server { location / { dashboard %s; } } }" % words)
    done = run_binary("-t", "-p", str(tmp_path), "-c", str(tmp_path / "nginx.conf"))
    assert done.returncode == 1 and message in done.stderr


# ---- the page ----

class Tags(html.parser.HTMLParser):
    """Tags with their attributes."""

    def __init__(self, text):
        super().__init__()
        self.tags = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))


def test_the_page_is_one_file_and_says_so(site):
    answer = site.get("/dashboard", "Accept: text/html,*/*;q=0.8")
    policy = dict(part.strip().split(" ", 1) for part in answer.header("Content-Security-Policy").split(";"))
    for name in ("script", "style"):
        digest = hashlib.sha256(re.search("<%s>(.*)</%s>" % (name, name), answer.body.decode(), re.S)[1].encode()).digest()
        assert policy[name + "-src"] == "'sha256-%s'" % base64.b64encode(digest).decode()
    assert policy["default-src"] == policy["frame-ancestors"] == policy["base-uri"] == policy["form-action"] == "'none'" and policy["connect-src"] == "'self'"
    assert answer.header("X-Frame-Options") == "DENY" and answer.header("Referrer-Policy") == "no-referrer" and answer.header("X-Content-Type-Options") == "nosniff"
    for tag, attributes in Tags(answer.text).tags:
        assert tag not in ("link", "img", "iframe", "object", "base") and not {"src", "href", "style"} & set(attributes) and not any(name.startswith("on") for name in attributes)
    assert site.get("/metrics", "Accept: text/html").text == answer.text and "portunus_requests_total" in site.get("/dashboard", "Accept: text/plain").text


needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")
READY = "document.querySelectorAll('#tables tr').length > 9"
CONTRASTS = """(() => {
    const parts = text => { const n = text.match(/[\\d.]+/g).map(Number); return n.length > 3 ? n : [...n, 1]; };
    const light = c => { const [r, g, b] = c.map(v => { v /= 255; return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; }); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
    const behind = element => { for (; element; element = element.parentElement) { const c = parts(getComputedStyle(element).backgroundColor); if (c[3] > 0) return c; } return [255, 255, 255, 1]; };
    const ratio = (a, b) => { const [x, y] = [light(a), light(b)].sort((p, q) => q - p); return (x + 0.05) / (y + 0.05); };
    const found = [];
    for (const element of document.body.querySelectorAll("*")) {
        if (["SCRIPT", "DIALOG", "OPTION"].includes(element.tagName) || element.closest("dialog") || !element.getClientRects().length) continue;
        const style = getComputedStyle(element), name = element.tagName + "." + element.getAttribute("class") + " " + element.textContent.slice(0, 20);
        if ([...element.childNodes].some(child => child.nodeType === Node.TEXT_NODE && child.data.trim())) found.push([name, ratio(parts(style.color), behind(element)), 4.5]);
        if (element.tagName === "path" && !element.classList.contains("cursor")) found.push([name, ratio(parts(style.stroke), behind(element.closest("div"))), 3]);
        if (["BUTTON", "SELECT"].includes(element.tagName)) found.push([name, ratio(parts(style.borderTopColor), behind(element.parentElement)), 3]);
    }
    return found;
})()"""


@pytest.fixture(name="browser", scope="module")
def _browser():
    with Browser() as browser:
        yield browser


def address(server, path="/dashboard", port="PORT"):
    return "http://127.0.0.1:%d%s" % (server.port_of(port), path)


def states(server, name="app"):
    shown = json.loads(server.get("/api/9/http/upstreams/" + name).text)
    return [peer["state"] for peer in shown["peers"]]


@needs_chromium
def test_the_page_shows_names_as_text(site, browser):
    for path in ("/zone", "/odd", "/a", "/a", "/nope", "/bad"):
        site.get(path)
    page = browser.open(address(site))
    page.until(READY)
    page.until("[...document.querySelectorAll('#row option')].some(option => option.textContent.startsWith('zone '))")
    headings = page.eval("[...document.querySelectorAll('h2')].map(one => one.textContent)")
    assert {"Now", "Traffic", "Errors", "Servers", "Zones", "Upstreams", "Limits", "Caches", "Workers", "Shared memory"} <= set(headings)
    firsts = page.eval("[...document.querySelectorAll('tbody th')].map(one => one.textContent)")
    assert {SHOWN, "<i>odd", "site.test", "stored", "req", "app"} <= set(firsts)
    assert "zone " + SHOWN in page.eval("[...document.querySelectorAll('#row option')].map(one => one.textContent)")
    assert page.eval("document.querySelectorAll('#x, i').length") == 0
    assert page.eval("document.querySelectorAll('#plots path').length") == 5 and page.eval("document.querySelectorAll('.spark path').length") >= 3
    # each column of a table has a head; plots and tables have names
    assert page.eval("[...document.querySelectorAll('table')].every(one => [...one.rows].every(row => row.cells.length === one.rows[0].cells.length))")
    assert page.eval("[...document.querySelectorAll('svg')].every(one => one.getAttribute('aria-label'))")
    assert page.problems() == []


@needs_chromium
def test_buttons_change_servers_by_keyboard(site, browser):
    page = browser.open(address(site))
    page.until(READY)
    press = "[...document.querySelectorAll('button')].find(one => one.getAttribute('aria-label') === '%s')"
    first = "127.0.0.1:%d of app" % site.port_of("PORT1")
    for button, before, after in (("Drain", "up", "draining"), ("Stop draining", "draining", "up"), ("Take down", "up", "down"), ("Bring up", "down", "up")):
        page.until(press % (button + " " + first) + " !== undefined")
        page.eval(press % (button + " " + first) + ".focus()")
        page.key("Enter")
        page.until("document.getElementById('ask').open")
        assert page.eval("document.getElementById('question').textContent") == "%s: %s?" % (button, first) and states(site)[0] == before
        page.key("Enter")
        until(lambda state=after: states(site)[0] == state, "the change")
        assert states(site)[1] == "up"
    page.until(press % ("Drain " + first) + " !== undefined")
    page.eval(press % ("Drain " + first) + ".focus()")
    page.key("Enter")
    page.until("document.getElementById('ask').open")
    page.key("Escape")
    page.until("!document.getElementById('ask').open")
    # what has the focus keeps it while the page is drawn again
    page.eval("former = null")
    page.until("former !== null")
    assert page.eval("document.activeElement.textContent") == "Drain" and states(site)[0] == "up" and page.problems() == []


@needs_chromium
def test_upstreams_without_a_zone_are_shown(site, browser):
    site.get("/fixed")
    page = browser.open(address(site))
    page.until(READY)
    row = "[...[...document.querySelectorAll('section')].find(one => one.textContent.startsWith('Upstreams')).querySelectorAll('tr')].find(one => one.textContent.startsWith('fixed'))"
    page.until(row + ".cells[5].textContent === '1'")
    assert page.eval("[...%s.cells].slice(2, 7).map(one => one.textContent)" % row) == ["up", "–", "0", "1", "0"]
    assert page.eval(row + ".querySelectorAll('button').length") == 0


@needs_chromium
def test_a_change_that_is_refused_is_shown(site, browser):
    page = browser.open(address(site))
    page.until(READY + " && document.querySelector('button[data-path]')")
    page.eval("document.querySelector('button[data-path]').dataset.path = '/9/http/upstreams/app/servers/77'; document.querySelector('button[data-path]').click(); byId('yes').click()")
    page.until("byId('message').textContent.startsWith('The change was refused: ')")


@needs_chromium
@pytest.mark.parametrize("path", ["/look", "/alone", "/metrics"])
def test_no_buttons_where_nobody_may_write(site, browser, path):
    page = browser.open(address(site, path))
    page.until(READY)
    assert page.eval("document.querySelectorAll('#tables button').length") == 0
    assert "app" in page.eval("[...document.querySelectorAll('section')].find(one => one.textContent.startsWith('Upstreams')).textContent")


@needs_chromium
def test_plots_are_read_by_keys(site, browser):
    page = browser.open(address(site))
    page.until("past && past.ends.length > 2 && document.querySelector('.plot')")
    page.eval("document.querySelector('.plot').focus()")
    seen = set()
    for key in ("End", "ArrowLeft", "Home"):
        page.key(key)
        text = page.eval("document.getElementById('readout').textContent")
        assert re.search(r": \S+ /s, median .*, p99 .*, 5xx .* /s, 4xx .* /s$", text), text
        seen.add(page.eval("cursor"))
    assert len(seen) >= 2 and page.eval("document.activeElement.className") == "plot" and page.eval("document.querySelectorAll('path.cursor').length") == 3
    page.key("Escape")
    assert page.eval("document.getElementById('readout').textContent") == ""


@needs_chromium
def test_contrast_and_width(site, browser):
    site.get("/zone")
    page = browser.open(address(site))
    page.until(READY + " && document.querySelectorAll('#plots path').length === 5")
    for width, dark in ((360, False), (1280, False), (1280, True), (360, True)):
        page.look(width=width, dark=dark)
        ratios = page.eval(CONTRASTS)
        assert len(ratios) > 60 and {name.split(".")[0] for name, _, _ in ratios} >= {"TH", "TD", "BUTTON", "path", "SPAN", "B"}
        assert [one for one in ratios if one[1] < one[2]] == []
        assert page.eval("document.documentElement.scrollWidth") <= width
        assert page.eval("Math.min(...[...document.querySelectorAll('button')].filter(one => one.getClientRects().length).map(one => one.getBoundingClientRect().height))") >= 24  # WCAG 2.2, 2.5.8
        shot = images.pixels(page.screenshot(".plot"))
        assert all((sum(row[5][:3]) < 150) == dark for row in shot[5:20])
        line = (127, 178, 255) if dark else (22, 89, 184)
        assert any(max(abs(pixel[i] - line[i]) for i in range(3)) < 40 for row in shot for pixel in row)  # the line can be seen


@needs_chromium
def test_pages_of_other_origins_change_nothing(site, browser):
    """What a browser can be made to send from elsewhere: simple requests, forms, requests with a preflight, frames."""
    page = browser.open(address(site, "/foreign.html", "PORT3"))
    target = "http://127.0.0.1:%d/api/9/http/upstreams/app/servers" % site.port
    body = json.dumps({"server": "127.0.0.1:9"})
    results = page.eval("""(async () => {
        const send = (url, options) => fetch(url, options).then(answer => answer.type, () => "failed"), results = [];
        results.push(await send(%(url)r, {method: "POST", mode: "no-cors", credentials: "include", body: %(body)r}));
        results.push(await send(%(url)r, {method: "POST", mode: "no-cors", headers: {"Content-Type": "text/plain"}, body: %(body)r}));
        results.push(await send(%(url)r + "/0", {method: "PATCH", body: '{"down":true}'}));
        results.push(await send(%(url)r + "/0", {method: "DELETE"}));
        results.push(await send(%(url)r + "/0"));
        return results; })()""" % {"url": target, "body": body})
    assert results == ["opaque", "opaque", "failed", "failed", "failed"]
    page.eval("""(() => { const form = document.createElement("form"), field = document.createElement("input"); form.method = "POST"; form.enctype = "text/plain"; form.action = %r;
        field.name = '{"server":"127.0.0.1:9","route":"'; field.value = '"}'; form.append(field); document.body.append(form); form.submit(); })()""" % target)
    page.until("location.href.includes('/api/') && document.readyState === 'complete' && document.body")
    assert "CrossOrigin" in page.eval("document.body.textContent")
    assert states(site) == ["up", "up"]
    until(lambda: len(re.findall(r"api: a page of another origin may not change anything", site.read("error.log"))) == 3, "what was refused")
    frames = browser.open(address(site, "/foreign.html", "PORT3"))
    frames.eval("(() => { const frame = document.createElement('iframe'); frame.src = %r; document.body.append(frame); return new Promise(done => frame.onload = done); })()" % address(site))
    assert frames.eval("(() => { try { return document.querySelector('iframe').contentWindow.document.body.textContent; } catch (error) { return 'apart'; } })()") == "apart"
    assert any("frame" in json.dumps(problem) for problem in frames.problems())
