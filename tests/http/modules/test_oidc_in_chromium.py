"""auth_oidc with a certified provider that is not ours (auto/oidc-provider) and a browser: logins, renewal, logout, and what goes wrong."""

import json
import os
import re
import shutil
import signal
import subprocess

import pytest

from harness import binaries, ports
from harness.browser import CHROMIUM, Browser
from harness.wait import until

HERE = os.path.dirname(os.path.abspath(__file__))
FOLDER = os.path.join(HERE, "../../../objs-tools/oidc-provider")

pytestmark = [
    pytest.mark.skipif("http_oidc_module" not in binaries.version_text(binaries.under_test()), reason="without oidc"),
    pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed"),
    pytest.mark.skipif(shutil.which("node") is None or not os.path.isdir(FOLDER), reason="objs-tools/oidc-provider is not there: auto/oidc-provider brings it")]

CONF = """
    oidc_provider one { issuer http://127.0.0.2:%(port)d; client_id one; client_secret a-secret-of-this-test; logout_uri /logout; post_logout_uri /bye; %(block)s }
    oidc_provider wrong { issuer http://127.0.0.2:%(port)d/other; config_url http://127.0.0.2:%(port)d/.well-known/openid-configuration;
                          client_id one; client_secret a-secret-of-this-test; cookie_name WRONG; }
    access_log access.log; server { listen 127.0.0.1:@PORT@; auth_oidc one; default_type text/html;
        location / { echo "<p id=user>$oidc_claim_sub</p><p id=token>$oidc_access_token</p>"; }
        location = /status { auth_oidc off; stub_status; }
        location = /bye { auth_oidc off; echo "<p id=bye>bye</p>"; }
        location /wrong { auth_oidc wrong; echo "<p id=user>$oidc_claim_sub</p>"; } }"""


class Provider:
    def __init__(self):
        self.taken = ports.take()
        self.port = self.taken.number
        self.process = None

    def start(self, site, life=600):
        facts = {"host": "127.0.0.2", "port": self.port, "tokenLife": life,
                 "client": {"client_id": "one", "client_secret": "a-secret-of-this-test", "redirect_uris": ["http://127.0.0.1:%d/oidc_callback" % site.port],
                            "post_logout_redirect_uris": ["http://127.0.0.1:%d/bye" % site.port]}}
        self.process = subprocess.Popen(["node", os.path.join(HERE, "../oidc_provider.mjs"), os.path.abspath(FOLDER), json.dumps(facts)],
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert any(line.strip() == "listening" for line in self.process.stdout)

    def stop(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process.stdout.close()
            self.process = None


@pytest.fixture(scope="module")
def browser():
    with Browser() as made:
        yield made


@pytest.fixture
def provider():
    made = Provider()
    yield made
    made.stop()
    made.taken.close()


@pytest.fixture
def site(serve, provider):
    def start(life=600, allow=(), block=""):
        server = serve(CONF % {"port": provider.port, "block": block}, main="worker_processes 1;", allow=allow)
        provider.start(server, life)
        return server
    return start


# Forms of the provider are filled in and sent once each.
STEP = """(() => { const form = document.querySelector("form"); if (document.readyState != "complete" || window.isSent) return location.href;
    const name = document.querySelector("input[name=login]"); if (name) { name.value = "anna"; document.querySelector("input[name=password]").value = "x"; }
    if (form) { window.isSent = true; (document.querySelector("button[value=yes]") || form.querySelector("button,input[type=submit]") || { click: () => form.submit() }).click(); }
    return location.href; })()"""


def walk(page, server, path):
    """Opens a page of the site, and does what the provider asks for until the browser is back."""
    base = "http://127.0.0.1:%d" % server.port
    page.go(base + path)
    return come_back(page, server)


def come_back(page, server):
    base = "http://127.0.0.1:%d" % server.port
    until(lambda: (page.value(STEP) or "").startswith(base), lambda: "the site: %s\n%s" % (page.value("location.href + document.body.innerHTML"), server.error_log))
    page.settle()
    return page.value("location.pathname")


def text(page, name):
    return page.value("(document.getElementById('%s') || {}).innerText" % name)


def test_login_logout_and_a_provider_that_is_down(site, provider, browser):
    server = site(allow=["oidc"])
    page = browser.open("about:blank", apart=True)
    assert walk(page, server, "/a/page?x=1") == "/a/page" and text(page, "user") == "anna"
    token = text(page, "token")
    assert token and walk(page, server, "/again") == "/again" and text(page, "token") == token
    other = browser.open("about:blank", apart=True)
    other.go("http://127.0.0.1:%d/" % server.port)
    assert other.value("location.hostname") == "127.0.0.2"  # a browser that is not logged in is asked
    assert walk(page, server, "/logout") == "/bye" and text(page, "bye") == "bye"
    page.go("http://127.0.0.1:%d/" % server.port)
    assert page.value("!!document.querySelector('input[name=login]')") is True, page.value("location.href + document.body.innerHTML")  # at both ends
    provider.stop()
    assert walk(page, server, "/wrong") == "/wrong" and "502" in page.value("document.title")


def test_an_expired_token_is_renewed(site, browser):
    server = site(life=1)
    page = browser.open("about:blank", apart=True)
    walk(page, server, "/")
    token = text(page, "token")

    def is_renewed():
        walk(page, server, "/")
        return text(page, "token") != token and text(page, "user") == "anna"
    until(is_renewed, "another access token")


def test_a_session_that_expires(site, browser):
    """The provider still knows the user: the browser comes back with another session, and sees no form."""
    server = site(block="session_timeout 1s;")
    page = browser.open("about:blank", apart=True)
    walk(page, server, "/")
    token = text(page, "token")

    def is_another():
        walk(page, server, "/later")
        return text(page, "token") != token and text(page, "user") == "anna"
    until(is_another, "another session")


def test_two_tabs_that_begin_at_the_same_time(site, provider, browser):
    """Neither has a cookie yet, and both logins end where they began."""
    server = site()
    tabs = [browser.open("about:blank", apart=True)]
    tabs.append(browser.open("about:blank", beside=tabs[0]))
    provider.process.send_signal(signal.SIGSTOP)    # both requests wait for the provider's metadata
    for number, tab in enumerate(tabs):
        tab.eval("setTimeout(() => { location = 'http://127.0.0.1:%d/tab%d'; })" % (server.port, number))
    until(lambda: "Writing: 3" in server.get("/status").text, lambda: "both requests\n" + server.get("/status").text)
    provider.process.send_signal(signal.SIGCONT)
    for number, tab in enumerate(tabs):
        assert come_back(tab, server) == "/tab%d" % number and text(tab, "user") == "anna"


def test_wrong_issuer_replayed_code_and_swapped_state(site, browser):
    server = site(allow=["oidc", "OIDC"])
    page, other = (browser.open("about:blank", apart=True) for _ in range(2))
    assert walk(page, server, "/wrong") == "/wrong" and "502" in page.value("document.title")
    assert walk(page, server, "/") == "/", page.value("document.body.innerHTML") + server.error_log
    # The way back of a login, as one sees it who reads a log: it counts once, and in the browser that began it.
    way_back = re.findall(r'GET (/oidc_callback\?\S+)', server.read("access.log"))[0]
    for one in (page, other):
        one.go("http://127.0.0.1:%d%s" % (server.port, way_back))
        assert text(one, "user") is None and re.match("40|50", one.value("document.title")), one.value("document.body.innerHTML")
    # A state of another browser with a code of its own.
    other.go("http://127.0.0.1:%d%s" % (server.port, re.sub("code=[^&]+", "code=other", way_back)))
    assert text(other, "user") is None
    assert walk(page, server, "/") == "/" and text(page, "user") == "anna"
