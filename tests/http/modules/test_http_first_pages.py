"""The examples with which docs/acme.md, docs/oidc.md and docs/jwt.md begin, as a new user copies them: only names, ports and files are others."""

import os
import re
import ssl
import subprocess
import sys
import urllib.parse

import pytest

pytest.importorskip("cryptography")

from harness import binaries  # noqa: E402
from harness.client import Client  # noqa: E402
from harness.wait import until  # noqa: E402

import authority  # noqa: E402
import certificates  # noqa: E402
import openid  # noqa: E402

DOCS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../docs")

pytestmark = [pytest.mark.skipif(name not in binaries.version_text(binaries.under_test()), reason="without " + name)
              for name in ("http_acme_module", "http_oidc_module", "http_auth_jwt_module")]


def examples(page):
    """Its indented blocks."""
    with open(os.path.join(DOCS, page), encoding="utf-8") as file:
        found = re.findall(r"(?:^(?:    .*)?\n)+", file.read(), re.M)
    return [re.sub(r"^    ", "", block, flags=re.M).strip("\n") for block in found if block.strip()]


def changed(text, **changes):
    """Each of these is in the example, once at least."""
    for old, new in changes["by"]:
        assert old in text, (old, text)
        text = text.replace(old, new)
    return text


def inner(text):
    """What is inside of its `http`."""
    return re.search(r"^http \{\n(.*)^\}", text + "\n", re.M | re.S).group(1)


def secure_get(server, name, target="/", cookies="", trusted=None):
    """By TLS, with the host's name; the certificate is verified where `trusted` says by whom."""
    context = ssl.create_default_context(cadata=trusted) if trusted else ssl.create_default_context()
    if not trusted:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with Client(("127.0.0.1", server.port_of("PORT1"))) as client:
        client.socket = context.wrap_socket(client.socket, server_hostname=name)
        return client.request(target, *(["Cookie: " + cookies] if cookies else []), host=name)


def test_from_zero_to_https(serve):
    made = authority.Authority(certificates.signed("acme-server", "acme-root", "subjectAltName=IP:127.0.0.1"))
    try:
        text = changed(inner(examples("acme.md")[0]), by=[
            ("https://acme-v02.api.letsencrypt.org/directory;", "%s; ssl_trusted_certificate %s;" % (made.url, certificates.own("acme-root").crt)),
            ("listen 80;", "listen 127.0.0.1:@PORT@;"), ("listen 443 ssl;", "listen 127.0.0.1:@PORT1@ ssl;"), ("/srv/www", "@DIR@/html")])
        server = serve(text, files={"html/index.html": "it works"})
        made.http_port = server.port
        made.ready.set()
        server.wait_log('acme_issuer "letsencrypt": certificate "www.example.com-[0-9a-f]+" was issued')
        root = made.pem(made.root).decode()
        response = until(lambda: secure_get(server, "www.example.com", trusted=root), "the page")
        assert (response.status, response.text) == (200, "it works")
    finally:
        made.close()


def test_behind_a_login(serve, backend):
    provider = openid.Provider()
    try:
        back = backend(*[[lambda conn, request: conn.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + request)]] * 2)
        text = changed(inner(examples("oidc.md")[0]), by=[
            ("https://login.example.com/realms/main;", provider.url + ";"), ("wiki;\n        client_secret 9f0c…;", "\"%s\"; client_secret \"%s\";" % (
                openid.CLIENT, openid.SECRET)),
            ("listen 443 ssl;", "listen 127.0.0.1:@PORT1@ ssl; listen 127.0.0.1:@PORT@;"), ("http://127.0.0.1:8000", "http://127.0.0.1:%d" % back.port),
            ("/srv/wiki", "@DIR@/html")])
        pair = certificates.own("wiki")
        files = {name: open(path, "rb").read() for name, path in (("wiki.pem", pair.crt), ("wiki.key", pair.key))}
        server = serve(text, files={**files, "html/public/index.html": "for all"})
        name = "wiki.example.com"
        assert secure_get(server, name, "/public/").text == "for all"
        first = secure_get(server, name, "/a")
        assert first.status == 302 and first.header("Location").startswith(provider.url + "/authorize?")
        cookie = first.header("Set-Cookie")
        assert "; Secure" in cookie
        there = urllib.parse.urlsplit(provider.login(first.header("Location")))
        assert (there.scheme, there.hostname) == ("https", name)
        second = secure_get(server, name, there.path + "?" + there.query, cookie.split(";")[0])
        assert (second.status, urllib.parse.urlsplit(second.header("Location")).path) == (302, "/a"), server.error_log
        session = second.header("Set-Cookie").split(";")[0]
        assert "X-User: ann" in secure_get(server, name, "/a", session).text
        assert secure_get(server, name, "/logout", session).status == 302
        assert secure_get(server, name, "/a", session).status == 302
    finally:
        provider.close()


def test_api_with_tokens(serve, backend, tmp_path):
    """The script makes key and token, and curl's line gets the answer of the backend."""
    pytest.importorskip("jwcrypto")
    page = examples("jwt.md")
    script = next(block for block in page if "jwcrypto" in block).split("\n\n")[0]  # a line of curl follows
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True)
    back = backend([lambda conn, request: conn.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + request)])
    text = changed(page[0], by=[("http://127.0.0.1:8000", "http://127.0.0.1:%d" % back.port)])
    server = serve("server { listen 127.0.0.1:@PORT@; %s }" % text, files={"keys.json": (tmp_path / "keys.json").read_text()})
    assert server.get("/api/").status == 401
    assert "X-User: ann" in server.get("/api/", "Authorization: Bearer " + done.stdout.strip()).text
