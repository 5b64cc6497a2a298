"""A small OpenID provider for tests. It knows one client, is strict about it, and does what it is told to do wrong."""

import base64
import hashlib
import json
import secrets
import ssl
import threading
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tokens import in_seconds, key, public, sign

CLIENT, SECRET = "client one", "s3cret:+/"


class Provider:
    """change: by path, a function of (provider, answer) that gives another answer, or (status, bytes)."""

    def __init__(self, certificate=None, address="127.0.0.1"):
        self.key = key("p256", kid="one")
        self.alg, self.kid = "ES256", "one"
        self.codes = {}         # code: arguments of the login
        self.refresh = set()    # refresh tokens that are good
        self.metadata = {}      # more of it
        self.claims = {}        # more of the ID token
        self.lifetime = 3600    # of access tokens, seconds
        self.change = {}
        self.requests = []      # (method, path, arguments)
        self.lock = threading.Lock()
        provider = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *args):
                pass

            def do_GET(self):
                self.answer({})

            def do_POST(self):
                length = int(self.headers["Content-Length"])
                self.answer(dict(urllib.parse.parse_qsl(self.rfile.read(length).decode())))

            def answer(self, form):
                path = urllib.parse.urlsplit(self.path).path
                with provider.lock:
                    provider.requests.append((self.command, path, form))
                    status, body = provider.answer(path, form, self.headers)
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        self.server = ThreadingHTTPServer((address, 0), Handler)
        self.server.daemon_threads = True
        self.url = "http%s://%s:%d" % ("s" if certificate else "", address, self.server.server_port)
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate.crt, certificate.key)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    def count(self, path):
        with self.lock:
            return sum(one[1] == path for one in self.requests)

    def answer(self, path, form, headers):
        found = {"/.well-known/openid-configuration": self.describe, "/keys": lambda form, headers: (200, json.loads(public(self.key))),
                 "/token": self.token, "/userinfo": self.userinfo}.get(path)
        if found is None:
            return 404, b"{}"
        status, answer = found(form, headers)
        if path in self.change:
            answer = self.change[path](answer)
            if isinstance(answer, tuple):
                return answer
        return status, json.dumps(answer).encode()

    def describe(self, form, headers):
        return 200, dict({
            "issuer": self.url, "authorization_endpoint": self.url + "/authorize", "token_endpoint": self.url + "/token",
            "jwks_uri": self.url + "/keys", "userinfo_endpoint": self.url + "/userinfo",
            "end_session_endpoint": self.url + "/end", "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": ["client_secret_basic"],
            "authorization_response_iss_parameter_supported": True}, **self.metadata)

    def login(self, location):
        """What a browser gets that follows this redirect: the URI that it is sent back to."""
        assert location.startswith(self.url + "/authorize?"), location
        asked = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(location).query, strict_parsing=True))
        assert asked["client_id"] == CLIENT and asked["response_type"] == "code" and "openid" in asked["scope"].split()
        code = secrets.token_urlsafe(16)
        self.codes[code] = asked
        back = urllib.parse.urlencode({"code": code, "state": asked["state"], "iss": self.url})
        return asked["redirect_uri"] + ("&" if "?" in asked["redirect_uri"] else "?") + back

    def is_client(self, headers):
        expected = ":".join(urllib.parse.quote(text, safe="") for text in (CLIENT, SECRET))
        return headers["Authorization"] == "Basic " + base64.b64encode(expected.encode()).decode()

    def token(self, form, headers):
        if not self.is_client(headers):
            return 401, {"error": "invalid_client"}
        nonce = {}
        if form["grant_type"] == "refresh_token":
            if form["refresh_token"] not in self.refresh:
                return 400, {"error": "invalid_grant"}
            self.refresh.discard(form["refresh_token"])
        else:
            asked = self.codes.pop(form["code"], None)
            verified = base64.urlsafe_b64encode(hashlib.sha256(form.get("code_verifier", "").encode()).digest()).rstrip(b"=").decode()
            if asked is None or asked["redirect_uri"] != form["redirect_uri"] or asked.get("code_challenge", verified) != verified:
                return 400, {"error": "invalid_grant"}
            nonce = {"nonce": asked["nonce"]}
        refresh = secrets.token_urlsafe(16)
        self.refresh.add(refresh)
        claims = dict({"iss": self.url, "aud": CLIENT, "sub": "ann", "exp": in_seconds(3600), "iat": in_seconds(0), "sid": "sid-1"},
                      **dict(nonce, **self.claims))
        return 200, {"access_token": "access-" + secrets.token_urlsafe(8), "token_type": "Bearer", "expires_in": self.lifetime,
                     "refresh_token": refresh, "id_token": sign(self.key, self.alg, claims, kid=self.kid)}

    def userinfo(self, form, headers):
        if not headers.get("Authorization", "").startswith("Bearer access-"):
            return 401, {"error": "invalid_token"}
        return 200, {"sub": "ann", "email": "ann@example.com"}
