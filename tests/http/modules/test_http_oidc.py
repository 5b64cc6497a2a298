"""auth_oidc: logins with an OpenID provider, sessions, and what attackers try."""

import json
import os
import re
import signal
import threading
import urllib.parse

import pytest

from harness import binaries, h3
from harness.daemon import follow_upgrade, upgrade
from harness.h2 import H2
from harness.server import run_binary
from harness.wait import until
from harness.workers import wait_workers

import certificates
import openid
from openid import CLIENT, SECRET
from tokens import by_hand, in_seconds, key, sign

pytestmark = pytest.mark.skipif("http_oidc_module" not in binaries.version_text(binaries.under_test()), reason="without oidc")

CONF = """
    %s
    oidc_provider one { issuer %s; client_id "%s"; client_secret "%s"; %s }
    server {
        listen 127.0.0.1:@PORT@; auth_oidc one; %s
        location / { add_header X-User "$oidc_claim_sub|$oidc_claim_email"; add_header X-Access $oidc_access_token; empty_gif; }
        location /open { auth_oidc off; empty_gif; }
        location = /bye { auth_oidc off; empty_gif; }
        %s
    }"""


@pytest.fixture
def provider():
    made = openid.Provider()
    yield made
    made.close()


@pytest.fixture
def site(serve, provider):
    def start(block="", http="", server="", more="", issuer=None, workers=1):
        return serve(CONF % (http, issuer or provider.url, CLIENT, SECRET, block, server, more), main="worker_processes %d;" % workers)
    return start


class Browser:
    """Cookies, and redirects that are followed one by one."""

    def __init__(self, server):
        self.server = server
        self.port = server.port     # which the browser sees, also where another node answers
        self.cookies = {}

    def get(self, target, method="GET"):
        field = ["Cookie: " + "; ".join("%s=%s" % pair for pair in self.cookies.items())] if self.cookies else []
        with self.server.client() as client:
            response = client.request(target, *field, method=method, host="127.0.0.1:%d" % self.port)
        for line in response.all("Set-Cookie"):
            name, _, value = line.split(";")[0].partition("=")
            assert "; HttpOnly; SameSite=Lax" in line
            self.cookies[name] = value
            if "Max-Age=0" in line:
                del self.cookies[name]
        return response

    def back(self, provider, response):
        """The provider lets the user in: what the browser asks for when it is sent back."""
        assert response.status == 302, (response, self.server.error_log)
        there = urllib.parse.urlsplit(provider.login(response.header("Location")))
        assert there.netloc == "127.0.0.1:%d" % self.port
        return there.path + "?" + there.query

    def login(self, provider, target="/page?a=b"):
        response = self.get(self.back(provider, self.get(target)))
        assert response.status == 302, (response, self.server.error_log)
        return urllib.parse.urlsplit(response.header("Location"))


def user(response):
    return response.status, response.header("X-User")


def test_login(site, provider):
    server = site()
    browser = Browser(server)
    assert server.get("/open").status == 200
    where = browser.login(provider)
    assert (where.path, where.query) == ("/page", "a=b")
    assert user(browser.get("/page?a=b")) == (200, "ann|")
    assert re.match("access-", browser.get("/").header("X-Access"))
    assert Browser(server).get("/").status == 302
    assert provider.count("/keys") == 1 and provider.count("/token") == 1
    form = next(one[2] for one in provider.requests if one[1] == "/token")
    assert set(form) == {"grant_type", "code", "redirect_uri", "code_verifier"}


def test_what_the_server_does_to_responses_is_not_done_to_those_of_the_provider(site, provider):
    """Filters and handlers of the blocks around hold for the client's requests, not for our own to the provider."""
    server = site(http="""sub_filter_types *; sub_filter_once off; sub_filter '"' "'"; ssi on; ssi_types *; gzip on; gzip_types *;
                       limit_req_zone $server_port zone=one:64k rate=1r/m; limit_req zone=one burst=50 nodelay;
                       header_filter_by_lua_block { ngx.header["X-Seen"] = ngx.var.uri } body_filter_by_lua_block { if ngx.var.uri == "@oidc/one" then ngx.arg[1] = "" end }
                       access_log seen.log; log_subrequest on; rewrite_by_lua_block { if ngx.is_subrequest then ngx.exit(500) end }""",
                  more="location /quoted { auth_oidc off; return 200 '\"'; }")
    browser = Browser(server)
    browser.login(provider)
    assert user(browser.get("/")) == (200, "ann|") and browser.get("/").header("X-Seen") == "/"
    assert browser.get("/quoted").text == "'"


def test_request_for_a_login(site, provider):
    server = site("scope openid email; extra_auth_args prompt=login; redirect_uri /back;")
    response = Browser(server).get("/", method="POST")
    asked = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(response.header("Location")).query))
    assert asked["scope"] == "openid email" and asked["prompt"] == "login" and asked["redirect_uri"].endswith("/back")
    assert asked["code_challenge_method"] == "S256" and len(asked["nonce"]) == 43
    assert response.header("Cache-Control") == "no-store"


@pytest.mark.parametrize("uri", ["/back?tenant=1", "http://127.0.0.1:@PORT@/back?tenant=1"])
def test_a_redirect_uri_with_arguments(site, provider, uri):
    browser = Browser(site("redirect_uri %s;" % uri))
    browser.login(provider)
    assert user(browser.get("/")) == (200, "ann|")


def test_pkce_off_and_a_secret_in_the_form(site, provider):
    provider.metadata = {"token_endpoint_auth_methods_supported": ["client_secret_post"]}
    provider.is_client = lambda headers: "Authorization" not in headers
    server = site("pkce off;")
    Browser(server).login(provider)
    form = next(one[2] for one in provider.requests if one[1] == "/token")
    assert (form["client_id"], form["client_secret"]) == (CLIENT, SECRET) and "code_verifier" not in form


def test_userinfo(site, provider):
    server = site("userinfo on;", more="location /info { add_header X-Info $oidc_userinfo; empty_gif; }")
    browser = Browser(server)
    browser.login(provider)
    assert user(browser.get("/")) == (200, "ann|ann@example.com")
    assert json.loads(browser.get("/info").header("X-Info")) == {"sub": "ann", "email": "ann@example.com"}
    provider.change["/userinfo"] = lambda answer: dict(answer, sub="eve")
    refused = Browser(server)
    assert refused.get(refused.back(provider, refused.get("/"))).status == 502


def test_tokens_without_an_access_token(site, provider):
    provider.change["/token"] = lambda answer: {"id_token": answer["id_token"]}
    browser = Browser(site())
    browser.login(provider)
    assert user(browser.get("/")) == (200, "ann|")
    other = Browser(site("userinfo on;"))
    assert other.get(other.back(provider, other.get("/"))).status == 502


def test_claims_are_checked_by_auth_jwt(site, provider):
    """The ID token of the session is a token as any other, and may be required to have more."""
    provider.claims = {"groups": ["admins"]}
    server = site(more="""location = /keys { auth_oidc off; internal; proxy_pass %s/keys; }
        location /admin { auth_jwt x token=$oidc_id_token; auth_jwt_key_request /keys; auth_jwt_require $jwt_claim_groups error=403; empty_gif; }
        location /never { auth_jwt x token=$oidc_id_token; auth_jwt_key_request /keys; auth_jwt_require $jwt_claim_none error=403; empty_gif; }
        """ % provider.url)
    browser = Browser(server)
    assert browser.get("/admin").status == 302
    browser.login(provider)
    assert [browser.get(target).status for target in ("/admin", "/never")] == [200, 403]


def test_secure_cookies(site, provider):
    server = site("redirect_uri https://wiki.example.com/oidc_callback;")
    assert "; Secure" in server.get("/").header("Set-Cookie")
    with server.client() as client:
        assert client.request("/", version="1.0", host=None).status == 302
    with site().client() as client:
        assert client.request("/", version="1.0", host=None).status == 400


def test_http2(site, provider):
    server = site(server="http2 on;")
    with H2(server.port) as h2:
        answer = h2.get("/")
        assert answer.status == 302 and answer.headers["location"].startswith(provider.url)


@pytest.mark.skipif(not h3.HAS_AIOQUIC, reason="without aioquic: see auto/aioquic")
def test_http3(site, provider):
    made = certificates.own("localhost")
    server = site(server="listen 127.0.0.1:@PORT@ quic; ssl_certificate %s; ssl_certificate_key %s;" % (made.crt, made.key))
    with h3.H3(server.port) as client:
        first = client.get("/page")
        cookie = first.headers["set-cookie"]
        assert first.status == 302 and "; Secure" in cookie
        there = urllib.parse.urlsplit(provider.login(first.headers["location"]))
        second = client.get(there.path + "?" + there.query, headers=[("cookie", cookie.split(";")[0])])
        assert second.status == 302 and urllib.parse.urlsplit(second.headers["location"]).path == "/page"
        third = client.get("/page", headers=[("cookie", second.headers["set-cookie"].split(";")[0])])
        assert (third.status, third.headers["x-user"]) == (200, "ann|")


def test_upgrade_in_the_middle_of_a_login(site, provider):
    """The next binary ends it: what it is about is in the browser, and the key follows from the client's secret."""
    server = site(http="keepalive_timeout 0;")
    browser = Browser(server)
    way = browser.back(provider, browser.get("/page"))
    former = server.pid
    upgrade(server, 1)
    os.kill(former, signal.SIGQUIT)
    follow_upgrade(server)
    assert browser.get(way).status == 302 and browser.get("/page").status == 200


def test_many_tabs(site, provider):
    browser = Browser(site())
    first, second = browser.get("/first"), browser.get("/second")
    ways = [browser.back(provider, response) for response in (first, second)]
    ends = [urllib.parse.urlsplit(browser.get(way).header("Location")).path for way in reversed(ways)]
    assert ends == ["/second", "/first"]
    assert user(browser.get("/")) == (200, "ann|")


def test_tabs_that_begin_without_a_cookie(site, provider):
    """Both ask before either has an answer: the cookie of one does not take the place of the other's."""
    browser = Browser(site())
    tabs = [Browser(browser.server) for _ in range(2)]
    answers = [tab.get("/%d" % number) for number, tab in enumerate(tabs)]
    for tab in tabs:
        browser.cookies.update(tab.cookies)
    ways = [browser.back(provider, answer) for answer in answers]
    ends = [urllib.parse.urlsplit(browser.get(way).header("Location")).path for way in ways]
    assert ends == ["/0", "/1"]
    later = dict(browser.cookies)
    del browser.cookies["NGX_OIDC_SESSION"]
    browser.get("/third")   # has a cookie of a login already
    assert {name for name in browser.cookies} == {name for name in later if "LOGIN" in name} and len(browser.cookies) == 2


def test_cookies_of_logins_are_bounded(site, provider):
    """The oldest go: of those that a browser sends, at most seven stay, beside the one that is used."""
    browser = Browser(site())
    others = {"NGX_OIDC_SESSION_LOGIN_" + "z" * length: "A" * 43 for length in range(10, 20)}  # do not count
    browser.cookies = {"NGX_OIDC_SESSION_LOGIN_%016d" % number: "A" * 43 for number in range(30)} | others
    answer = browser.get("/")
    assert sorted(set(browser.cookies) - set(others)) == ["NGX_OIDC_SESSION_LOGIN_%016d" % number for number in range(22, 30)]
    assert browser.get(browser.back(provider, answer)).status == 302
    browser.cookies = {"NGX_OIDC_SESSION_LOGIN_%016d" % number: "A" * 43 for number in range(60)}
    assert len(browser.get("/").all("Set-Cookie")) == 33  # one response drops no more than 32


@pytest.mark.parametrize("name, value", [("", "A" * 43), ("0" * 15, "A" * 43), ("0" * 17, "A" * 43), ("0" * 16, "A" * 42), ("0" * 16, "!" * 43),
                                         ("0" * 15 + "#", "A" * 43), ("0" * 15 + "&", "A" * 43), ("0" * 15 + "%", "A" * 43), ("0" * 15 + "G", "A" * 43)])
def test_cookies_that_are_none_of_a_login(site, provider, name, value):
    browser = Browser(site())
    browser.cookies = {"NGX_OIDC_SESSION_LOGIN_" + name: value}
    browser.login(provider)
    assert len(browser.cookies) == 3


def test_parts_of_a_page_do_not_log_in(site, provider):
    """fetch() gets 401, by which a script sees that the session is over. A browser asks for an icon beside its first page: whichever answer
    comes last, the page's login holds."""
    server = site(server="error_page 401 /over;", more="location = /over { auth_oidc off; return 401 over; }")
    with server.client() as client:
        for mode in ("no-cors", "cors", "same-origin", "websocket"):
            response = client.request("/favicon.ico", "Sec-Fetch-Mode: " + mode)
            assert (response.status, response.text, response.all("Set-Cookie")) == (401, "over", []), mode
            assert response.header("WWW-Authenticate") == 'Cookie realm="one", cookie-name=NGX_OIDC_SESSION'
        assert provider.requests == []
        assert client.request("/", "Sec-Fetch-Mode: navigate").status == 302


# ---- attacks

def test_state_is_bound_to_the_browser(site, provider):
    server = site()
    attacker, victim = Browser(server), Browser(server)
    way = attacker.back(provider, attacker.get("/"))
    assert victim.get(way).status == 403
    victim.get("/")
    assert victim.get(way).status == 403
    assert provider.count("/token") == 0
    assert attacker.get(way).status == 302


def test_code_counts_once(site, provider):
    browser = Browser(site())
    way = browser.back(provider, browser.get("/"))
    assert [browser.get(way).status for _ in range(2)] == [302, 403]


@pytest.mark.parametrize("change", [
    lambda way: way.replace("state=", "state=A"), lambda way: re.sub("state=[^&]*", "", way), lambda way: re.sub("state=[^&]*", "state=AAAA", way),
    lambda way: re.sub("code=[^&]*", "code=", way), lambda way: way + "&error=access_denied", lambda way: re.sub("iss=[^&]*", "iss=http://evil", way),
    lambda way: re.sub("iss=[^&]*", "", way), lambda way: re.sub("code=[^&]*", "code=x", way), lambda way: re.sub("state=[^&]*", "state=" + "A" * 6000, way)])
def test_changed_ways_back(site, provider, change):
    browser = Browser(site())
    way = browser.back(provider, browser.get("/"))
    assert browser.get(change(way)).status == 403
    assert browser.get("/").status == 302


@pytest.mark.parametrize("claims", [
    {"iss": "http://evil"}, {"aud": "other"}, {"aud": [CLIENT, "other"]}, {"aud": [CLIENT], "azp": "other"}, {"aud": []}, {"nonce": "x"},
    {"exp": in_seconds(-60)}, {"exp": "x"}, {"exp": None}, {"sub": ""}, {"sub": 5}, {"nbf": in_seconds(86400)}])
def test_id_tokens_that_are_refused(site, provider, claims):
    provider.claims = {name: value for name, value in claims.items() if name not in ("iss", "aud", "sub", "exp", "nonce")}
    original = provider.token

    def token(form, headers):
        status, answer = original(form, headers)
        body = json.loads(openid.base64.urlsafe_b64decode(answer["id_token"].split(".")[1] + "=="))
        return status, dict(answer, id_token=sign(provider.key, "ES256", dict(body, **claims), kid="one"))

    provider.token = token
    browser = Browser(site())
    way = browser.back(provider, browser.get("/"))
    assert browser.get(way).status == 502
    assert browser.get("/").status == 302
    browser.server.wait_log('the tokens of the OpenID provider "one" were refused: ')


@pytest.mark.parametrize("token", [
    None, "", "a.b.c", 5, by_hand({"alg": "none"}, {"sub": "ann"}), by_hand({"alg": "HS256"}, {"sub": "ann"}, SECRET.encode())])
def test_id_tokens_that_are_not_signed(site, provider, token):
    provider.change["/token"] = lambda answer: dict(answer, id_token=token)
    browser = Browser(site())
    assert browser.get(browser.back(provider, browser.get("/"))).status == 502


@pytest.mark.parametrize("target", ["//evil.example/x", "/\\\\evil.example", "///evil", "http://evil.example/"])
def test_redirect_stays_here(site, provider, target):
    server = site("redirect_uri http://127.0.0.1:@PORT@/oidc_callback;", server="merge_slashes off;")
    browser = Browser(server)
    where = browser.login(provider, target)
    assert where.netloc in ("", "127.0.0.1:%d" % server.port) and where.path == "/"


@pytest.mark.parametrize("cookie", ["", "x", "A" * 43, "%00" * 20, "A" * 5000])
def test_cookies_of_no_session(site, provider, cookie):
    browser = Browser(site())
    browser.cookies["NGX_OIDC_SESSION"] = cookie
    assert browser.get("/").status == 302


def test_sessions_of_two_providers_are_two(serve, provider):
    other = openid.Provider()
    server = serve("""
        keyval_zone zone=shared:1m;
        oidc_provider one { issuer %s; client_id "%s"; client_secret "%s"; session_store shared; }
        oidc_provider two { issuer %s; client_id "%s"; client_secret "%s"; session_store shared; redirect_uri /back; }
        server { listen 127.0.0.1:@PORT@; auth_oidc one; location / { empty_gif; } location /two { auth_oidc two; empty_gif; }
                 location = /back { auth_oidc two; } }""" % (provider.url, CLIENT, SECRET, other.url, CLIENT, SECRET))
    browser = Browser(server)
    browser.login(provider)
    assert browser.get("/").status == 200
    response = browser.get("/two")
    assert response.header("Location").startswith(other.url)
    assert browser.get(browser.back(other, response)).status == 302
    assert browser.get("/two").status == 200
    other.close()


# ---- the provider

def test_certificate_of_the_provider(serve):
    """It is verified, by default with the system's authorities; a provider with TLS has no endpoint without."""
    authority = certificates.own("authority")
    made = openid.Provider(certificates.signed("provider", authority, "subjectAltName=IP:127.0.0.1"))
    for block, status in (("ssl_trusted_certificate %s;" % authority.crt, 302), ("", 502),
                          ("ssl_trusted_certificate %s;" % certificates.own("other").crt, 502)):
        server = serve(CONF % ("", made.url, CLIENT, SECRET, block, "", ""))
        browser = Browser(server)
        response = browser.get("/")
        assert response.status == status, server.error_log
        if status == 302:
            browser.login(made)
            assert user(browser.get("/")) == (200, "ann|")
    made.metadata = {"token_endpoint": made.url.replace("https", "http") + "/token"}
    assert Browser(serve(CONF % ("", made.url, CLIENT, SECRET, "ssl_trusted_certificate %s;" % authority.crt, "", ""))).get("/").status == 502
    made.close()


@pytest.mark.parametrize("change", [
    lambda answer: dict(answer, issuer="http://evil"), lambda answer: {}, lambda answer: (500, b"{}"), lambda answer: (200, b""),
    lambda answer: (200, b"[" * 100000), lambda answer: (200, b'{"issuer": "' + b"x" * 400000), lambda answer: dict(answer, token_endpoint="ftp://x"),
    lambda answer: dict(answer, authorization_endpoint="http://x\r\nX-Evil: 1"), lambda answer: dict(answer, jwks_uri=5)])
def test_metadata_that_are_refused(site, provider, change):
    provider.change["/.well-known/openid-configuration"] = change
    browser = Browser(site())
    for _ in range(3):
        assert browser.get("/").status == 502
    assert provider.count("/.well-known/openid-configuration") <= 2
    assert browser.get("/open").status == 200


def test_provider_that_is_down(site, provider):
    provider.close()
    assert Browser(site()).get("/").status == 502


def test_metadata_are_asked_for_once(site, provider):
    server = site()
    clients = [server.client() for _ in range(8)]
    for client in clients:
        client.send("GET / HTTP/1.1\r\nHost: x\r\nAuthorization: Basic eA==\r\nAccept-Encoding: gzip\r\n\r\n")
    assert [client.response("GET").status for client in clients] == [302] * 8
    assert provider.count("/.well-known/openid-configuration") == 1 and provider.count("/keys") == 1


# ---- sessions

def stalled(provider, path):
    """Answers of this path are held back: (asked, go)."""
    begun, go = threading.Event(), threading.Event()

    def late(answer):
        begun.set()
        go.wait(8)
        return answer

    provider.change[path] = late
    return begun, go


def test_tokens_are_renewed(site, provider):
    provider.lifetime = 1
    browser = Browser(site("userinfo on;"))
    browser.login(provider)
    first = browser.get("/").header("X-Access")
    tokens = provider.count("/token")  # more than one where the page above came late
    provider.lifetime = 3600
    until(lambda: browser.get("/").header("X-Access") != first, "another access token")
    assert user(browser.get("/")) == (200, "ann|ann@example.com")
    assert provider.count("/token") == tokens + 1


def test_client_leaves_while_tokens_are_renewed(site, provider):
    """The refresh token counts once: what came for it is kept."""
    provider.lifetime = 1
    browser = Browser(site())
    browser.login(provider)
    first = browser.get("/").header("X-Access")
    begun, go = stalled(provider, "/token")
    tokens = provider.count("/token")  # more than one where the page above came late
    provider.lifetime = 3600
    text = "GET / HTTP/1.1\r\nHost: x\r\nCookie: NGX_OIDC_SESSION=%s\r\n\r\n" % browser.cookies["NGX_OIDC_SESSION"]

    def renewal_begins():
        with browser.server.client() as client:
            client.send(text)
            return begun.wait(0.2) or client.response("GET").status != 200

    until(renewal_begins, "a renewal")
    go.set()
    until(lambda: browser.get("/").header("X-Access") != first, "the tokens of the renewal")
    assert user(browser.get("/")) == (200, "ann|")
    assert provider.count("/token") == tokens + 1


def test_session_ends_where_renewal_is_refused(site, provider):
    provider.lifetime = 1
    browser = Browser(site())
    browser.login(provider)
    provider.refresh.clear()
    until(lambda: browser.get("/").status == 302, "the end of the session")
    assert user(browser.get("/open"))[0] == 200
    browser.login(provider)
    assert browser.get("/").status == 200


def test_session_timeout(site, provider):
    browser = Browser(site("session_timeout 1s;"))
    browser.login(provider)
    until(lambda: browser.get("/").status == 302, "the end of the session")


def test_session_outlives_a_reload_and_is_known_to_all_workers(site, provider):
    server = site(workers=4)
    browser = Browser(server)
    way = browser.back(provider, browser.get("/"))
    server.reload()
    assert browser.get(way).status == 302
    server.reload()
    assert [browser.get("/").status for _ in range(10)] == [200] * 10


def test_store_has_no_cookies(site, provider):
    server = site(more="location /api { auth_oidc off; api; }")
    browser = Browser(server)
    browser.login(provider)
    pairs = server.get("/api/9/http/keyvals/oidc_default_store_one").text
    assert "ann" in pairs and browser.cookies["NGX_OIDC_SESSION"] not in pairs


def test_session_larger_than_the_store(site, provider):
    provider.claims = {"big": "x" * 11000}
    server = site("session_store small;", http="keyval_zone zone=small:32k;")
    browser = Browser(server)
    assert browser.get(browser.back(provider, browser.get("/"))).status == 500
    server.wait_log("no room for a session of")


def test_full_store(site, provider):
    """The oldest sessions make room. No login fails, also one that was under way when others filled the store; others' pairs stay."""
    provider.claims = {"big": "x" * 1000}
    server = site("session_store small; frontchannel_logout_uri /front;", more="location /api { auth_oidc off; api write=on; }",
                  http="keyval_zone zone=small:128k; keyval $arg_k $other zone=small;")
    with server.client() as client:
        assert client.request("/api/9/http/keyvals/small", "Content-Type: application/json", body='{"other": "pair"}', method="POST").status == 201
    early = Browser(server)
    way = early.back(provider, early.get("/"))
    browsers = [Browser(server) for _ in range(48)]
    for browser in browsers:
        browser.login(provider)
    assert early.get(way).status == 302 and early.get("/").status == 200
    lasts = [browser.get("/").status == 200 for browser in browsers]
    assert lasts[-1] and 4 < sum(lasts) < 48
    assert lasts == sorted(lasts)  # the oldest are those that have ended
    assert json.loads(server.get("/api/9/http/keyvals/small?key=other").text) == {"other": "pair"}
    server.wait_log(r"the store of the OpenID provider \"one\" is full: its \d+ oldest sessions were removed")
    assert server.error_log.count("is full") == 1 and "no room" not in server.error_log


# ---- logout

def test_logout(site, provider):
    browser = Browser(site("logout_uri /logout; post_logout_uri /bye; logout_token_hint on;"))
    browser.login(provider)
    stolen = dict(browser.cookies)
    response = browser.get("/logout")
    there = urllib.parse.urlsplit(response.header("Location"))
    asked = dict(urllib.parse.parse_qsl(there.query))
    assert there.path == "/end" and asked["client_id"] == CLIENT and asked["post_logout_redirect_uri"].endswith("/bye")
    assert asked["id_token_hint"].count(".") == 2 and "NGX_OIDC_SESSION" not in browser.cookies
    browser.cookies = stolen
    assert browser.get("/").status == 302
    again = browser.get("/logout")
    assert again.status == 302 and urllib.parse.urlsplit(again.header("Location")).path == "/bye"


def test_frontchannel_logout(site, provider):
    server = site("frontchannel_logout_uri /out;")
    browser = Browser(server)
    browser.login(provider)
    other = Browser(server)
    for query in ("?iss=http://evil&sid=sid-1", "?iss=%s&sid=other" % provider.url, "?sid=sid-1", ""):
        assert other.get("/out" + query).status == 200
        assert browser.get("/").status == 200
    assert other.get("/out?iss=%s&sid=sid-1" % urllib.parse.quote(provider.url, safe="")).status == 200
    assert browser.get("/").status == 302


def test_logout_during_a_renewal(site, provider):
    """The renewal does not bring the session back."""
    provider.lifetime = 1
    browser = Browser(site("logout_uri /logout;"))
    browser.login(provider)
    stolen = dict(browser.cookies)
    provider.lifetime = 3600
    begun, go = stalled(provider, "/token")
    text = "GET / HTTP/1.1\r\nHost: x\r\nCookie: NGX_OIDC_SESSION=%s\r\n\r\n" % browser.cookies["NGX_OIDC_SESSION"]
    clients = []

    def renewal_begins():
        clients.append(browser.server.client())
        clients[-1].send(text)
        return begun.wait(0.2) or clients[-1].response("GET").status != 200

    until(renewal_begins, "a renewal")
    assert browser.get("/logout").status == 302
    go.set()
    assert clients[-1].response("GET").status == 302
    browser.cookies = stolen
    assert browser.get("/").status == 302


def test_session_continues_where_metadata_cannot_be_had(site, provider):
    provider.lifetime = 1
    server = site()
    browser = Browser(server)
    browser.login(provider)
    provider.change["/.well-known/openid-configuration"] = lambda answer: (500, b"{}")
    server.reload()
    found = set()

    def is_asked_for():
        found.add(browser.get("/").status)
        return provider.count("/.well-known/openid-configuration") > 1

    until(is_asked_for, "a renewal")
    assert found == {200} and provider.count("/token") == 1


def test_renewed_session_is_known_by_its_sid(site, provider):
    """Where the provider has the user log out its sid has to lead to the session as long as that lasts."""
    provider.lifetime = 1
    server = site("frontchannel_logout_uri /out;")
    browser = Browser(server)
    browser.login(provider)
    first = browser.get("/").header("X-Access")
    provider.lifetime = 3600
    provider.claims = {"sid": "sid-2"}
    until(lambda: browser.get("/").header("X-Access") != first, "another access token")
    Browser(server).get("/out?iss=%s&sid=sid-2" % urllib.parse.quote(provider.url, safe=""))
    assert browser.get("/").status == 302


def test_sid_of_another_provider(serve, provider):
    """Two providers that have one store: a sid of one says nothing of the sessions of the other."""
    other = openid.Provider()
    server = serve("""
        keyval_zone zone=shared:1m;
        oidc_provider one { issuer %s; client_id "%s"; client_secret "%s"; session_store shared; frontchannel_logout_uri /out; }
        oidc_provider two { issuer %s; client_id "%s"; client_secret "%s"; session_store shared; frontchannel_logout_uri /out2; }
        server { listen 127.0.0.1:@PORT@; auth_oidc one; location / { empty_gif; } location /out2 { auth_oidc two; } }"""
        % (provider.url, CLIENT, SECRET, other.url, CLIENT, SECRET))
    browser = Browser(server)
    browser.login(provider)
    Browser(server).get("/out2?iss=%s&sid=sid-1" % urllib.parse.quote(other.url, safe=""))
    assert browser.get("/").status == 200
    other.close()


def test_session_of_a_former_issuer(site, provider):
    """The block of this name has another issuer now: who that one let in is not let in."""
    other = openid.Provider()
    server = site()
    browser = Browser(server)
    browser.login(provider)
    server.configure(CONF % ("", other.url, CLIENT, SECRET, "", "", ""), main="worker_processes 1;")
    old = server.children()
    server.reload()
    wait_workers(server, 1, without=old)
    response = browser.get("/")
    assert response.status == 302 and response.header("Location").startswith(other.url), (response, server.error_log)
    other.close()


def test_lines_around_do_not_hold_for_questions(site, provider):
    server = site(server="proxy_set_body x; proxy_method PUT; proxy_store on; root store; proxy_hide_header X; proxy_pass_request_headers off; "
                         "proxy_pass_request_body off; proxy_http_version 1.0; proxy_intercept_errors on; error_page 400 401 404 500 /open;")
    browser = Browser(server)
    browser.login(provider)
    assert user(browser.get("/")) == (200, "ann|")
    assert {one[0] for one in provider.requests} == {"GET", "POST"}
    assert not os.path.exists(server.path("store"))


def test_provider_has_another_key(site, provider):
    """The login that learns of it is not refused, and no other is."""
    server = site()
    Browser(server).login(provider)
    provider.key, provider.alg, provider.kid = key("p384", kid="two"), "ES384", "two"
    for _ in range(2):
        browser = Browser(server)
        browser.login(provider)
        assert user(browser.get("/")) == (200, "ann|")
    assert provider.count("/keys") == 2


def test_cookies_in_several_fields(site, provider):
    server = site(server="http2 on;")
    browser = Browser(server)
    browser.login(provider)
    with H2(server.port) as h2:
        answer = h2.get("/", headers=[("cookie", "a=b"), ("cookie", "NGX_OIDC_SESSION=" + browser.cookies["NGX_OIDC_SESSION"]), ("cookie", "c=d")])
        assert answer.status == 200


def test_login_of_a_public_client_outlives_a_reload(serve, provider):
    provider.is_client = lambda headers: True
    server = serve(CONF.replace('client_secret "%s";', "") % ("", provider.url, CLIENT, "", "", ""), main="worker_processes 1;")
    browser = Browser(server)
    way = browser.back(provider, browser.get("/"))
    old = server.children()
    server.reload()
    wait_workers(server, 1, without=old)
    assert browser.get(way).status == 302


@pytest.mark.parametrize("lines, message", [
    ("auth_oidc none;", 'there is no oidc_provider "none"'), ("oidc_provider a { }", 'oidc_provider "a" has no "issuer"'),
    ("oidc_provider a { issuer http://x; }", 'oidc_provider "a" has no "client_id"'),
    ("oidc_provider a { issuer http://x; client_id x; session_store z; }", 'there is no "keyval_zone" "z"'),
    ("oidc_provider a { issuer http://x; client_id x; } oidc_provider a { issuer http://x; client_id x; }", 'duplicate oidc_provider "a"'),
    ('oidc_provider "a b" { issuer http://x; client_id x; }', 'invalid name of oidc_provider "a b"'),
    ("oidc_provider a { issuer http://x; client_id x; pkce maybe; }", 'invalid value "maybe" in "pkce"')])
def test_configuration(lines, message, tmp_path):
    (tmp_path / "nginx.conf").write_text("events {} http { %s server { listen unix:x; } }" % lines)
    result = run_binary("-t", "-p", str(tmp_path), "-c", "nginx.conf", "-e", "stderr")
    assert result.returncode == 1 and message in result.stderr, result.stderr


# ---- several nodes ----

@pytest.fixture
def two(serve, provider, redis):
    """Two nodes that share sessions, whose zone has changes of other nodes at once, or nearly never."""
    store = "redis_store main { server 127.0.0.1:%d; timeout 5s; }" % redis().port

    def start(interval="20ms", server=""):
        return [serve(CONF % ("keyval_zone zone=shared:1m sync sync_interval=%s;" % interval, provider.url, CLIENT, SECRET,
                              "session_store shared; logout_uri /logout; frontchannel_logout_uri /out;", server, ""), main=store)
                for _ in range(2)]
    return start


def test_a_login_counts_on_all_nodes(two, provider):
    """Begun on one node, ended on another, used on both at once: also before the other has read of it."""
    first, second = two("60s")
    browser = Browser(first)
    target = browser.back(provider, browser.get("/"))
    browser.server = second
    assert browser.get(target).status == 302
    browser.server = first
    assert user(browser.get("/")) == (200, "ann|")
    browser.server = second
    assert user(browser.get("/")) == (200, "ann|")
    assert provider.count("/token") == 1


def test_a_logout_counts_on_all_nodes(two, provider):
    first, second = two()
    for target in ("/logout", "/out?iss=%s&sid=sid-1" % urllib.parse.quote(provider.url, safe="")):
        browser = Browser(first)
        browser.login(provider)
        stolen = dict(browser.cookies)
        browser.server = second
        assert user(browser.get("/")) == (200, "ann|")
        browser.get(target)
        browser.server, browser.cookies = first, stolen
        until(lambda: browser.get("/").status == 302, "the end of the session")


def test_a_logout_while_another_node_renews(two, provider):
    """The session is over, also at the node that has not read of it."""
    first, second = two("60s")
    provider.lifetime = 1
    browser = Browser(first)
    browser.login(provider)
    stolen, clients = dict(browser.cookies), []
    begun, go = stalled(provider, "/token")

    def renewal_begins():
        client = first.client()
        client.send("GET / HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nCookie: NGX_OIDC_SESSION=%s\r\n\r\n" % (browser.port, stolen["NGX_OIDC_SESSION"]))
        clients.append(client)
        return begun.wait(0.2) or client.response("GET").status != 200

    until(renewal_begins, "a renewal")
    browser.server = second
    browser.get("/logout")
    go.set()
    assert clients[-1].response("GET").status == 302
    for browser.server in first, second:
        browser.cookies = dict(stolen)
        assert browser.get("/").status == 302
    for client in clients:
        client.close()


def test_one_node_renews(two, provider):
    """The refresh token counts once, and a node that comes later has what came for it."""
    first, second = two("60s")
    provider.lifetime = 1
    browser = Browser(first)
    browser.login(provider)
    browser.server = second
    access = browser.get("/").header("X-Access")
    provider.lifetime = 3600
    until(lambda: browser.get("/").header("X-Access") != access, "another access token")
    access, asked = browser.get("/").header("X-Access"), provider.count("/token")
    browser.server = first
    assert browser.get("/").header("X-Access") == access and provider.count("/token") == asked
