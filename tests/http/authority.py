"""A small ACME server (RFC 8555) for tests. It validates challenges over the network, and does what it is told to do wrong."""

import base64
import datetime
import hashlib
import hmac
import http.client
import ipaddress
import json
import secrets
import socket
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.x509.oid import NameOID

PROBLEM = "urn:ietf:params:acme:error:"
UTC = datetime.timezone.utc


def encode(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def decode(text):
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def thumbprint(jwk):
    return encode(hashlib.sha256(json.dumps(jwk, sort_keys=True, separators=(",", ":")).encode()).digest())


def verify(jwk, alg, text, signature):
    """Raises where the signature is not that of the key."""
    if jwk["kty"] == "EC":
        curve, digest = {"ES256": (ec.SECP256R1(), hashes.SHA256()), "ES384": (ec.SECP384R1(), hashes.SHA384()),
                         "ES512": (ec.SECP521R1(), hashes.SHA512())}[alg]
        x, y = (int.from_bytes(decode(jwk[name]), "big") for name in "xy")
        half = len(signature) // 2
        r, s = int.from_bytes(signature[:half], "big"), int.from_bytes(signature[half:], "big")
        ec.EllipticCurvePublicNumbers(x, y, curve).public_key().verify(encode_dss_signature(r, s), text, ec.ECDSA(digest))
        return
    assert alg == "RS256"
    e, n = (int.from_bytes(decode(jwk[name]), "big") for name in "en")
    rsa.RSAPublicNumbers(e, n).public_key().verify(signature, text, padding.PKCS1v15(), hashes.SHA256())


class Refused(Exception):
    def __init__(self, kind, detail="", status=400, fields=()):
        super().__init__(kind)
        self.kind, self.detail, self.status, self.fields = kind, detail, status, dict(fields)


class Authority:
    """change: by path's first part ("new-order"), a function of (authority, status, fields, body) that gives other ones, or raises
    Refused. Ports are those at which challenges are looked for."""

    def __init__(self, certificate):
        self.http_port = self.tls_port = 0
        self.ready = threading.Event()  # the ports are known
        self.meta, self.change = {}, {}
        self.types = ["http-01", "tls-alpn-01", "dns-01", "dns-persist-01"]
        self.requests = []              # (method, first part of the path, payload)
        self.accounts, self.orders, self.authorizations = {}, {}, {}
        self.external = {}              # kid: key
        self.records = {}               # name: values of TXT records
        self.seen = []                  # challenges that were validated: (type, name)
        self.lasts = datetime.timedelta(days=90)
        self.age = datetime.timedelta(hours=1)  # of a certificate when it is issued
        self.window = None              # of renewals: (start, end)
        self.stalls = None              # an event that an answer waits for
        self.nonces = set()
        self.lock = threading.RLock()
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.root = self.sign(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Test Root")]), self.key.public_key(), None)
        self.other_key = ec.generate_private_key(ec.SECP256R1())
        authority = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *args):
                pass

            def do_HEAD(self):
                self.answer(b"")

            def do_GET(self):
                self.answer(b"")

            def do_POST(self):
                self.answer(self.rfile.read(int(self.headers["Content-Length"])))

            def answer(self, body):
                status, fields, answer = authority.answer(self.command, self.path, body)
                if authority.stalls is not None:
                    authority.stalls.wait(20)
                self.send_response(status)
                for name, value in fields:
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(answer)

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate.crt, certificate.key)
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True, do_handshake_on_connect=False)
        self.base = "https://127.0.0.1:%d/" % self.server.server_port
        self.url = self.base + "directory"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        if self.stalls is not None:
            self.stalls.set()
        self.server.shutdown()
        self.server.server_close()

    def count(self, part):
        with self.lock:
            return sum(one[1] == part for one in self.requests)

    # certificates

    def sign(self, subject, public, names, key=None, issuer="Test Root"):
        now = datetime.datetime.now(UTC)
        builder = (x509.CertificateBuilder().subject_name(subject).public_key(public)
                   .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer)]))
                   .serial_number(x509.random_serial_number()).not_valid_before(now - self.age).not_valid_after(now - self.age + self.lasts)
                   .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key()), False)
                   .add_extension(x509.BasicConstraints(names is None, None), True))
        if names is not None:
            builder = builder.add_extension(names, False)
        return builder.sign(key or self.key, hashes.SHA256())

    def pem(self, *certificates):
        return b"".join(one.public_bytes(serialization.Encoding.PEM) for one in certificates)

    # requests

    def link(self, *parts):
        return self.base + "/".join(parts)

    def answer(self, method, path, body):
        parts = path.strip("/").split("/")
        with self.lock:
            nonce = secrets.token_urlsafe(16)
            self.nonces.add(nonce)
        try:
            account, payload = self.open(path, body) if method == "POST" else (None, None)
            with self.lock:
                self.requests.append((method, parts[0], payload))
            status, fields, answer = getattr(self, "do_" + parts[0].replace("-", "_"))(account, payload, *parts[1:])
            answer = json.dumps(answer).encode() if isinstance(answer, (dict, list)) else answer
            if parts[0] in self.change:
                status, fields, answer = self.change[parts[0]](self, status, fields, answer)
        except Refused as refused:
            status, fields = refused.status, [("Content-Type", "application/problem+json"), *refused.fields.items()]
            answer = json.dumps({"type": PROBLEM + refused.kind, "detail": refused.detail}).encode()
        return status, [("Replay-Nonce", nonce), *fields], answer

    def open(self, path, body):
        """The account (its URL, or its key before there is one) and the payload of a signed request."""
        outer = json.loads(body)
        header = json.loads(decode(outer["protected"]))
        with self.lock:
            if header["nonce"] not in self.nonces:
                raise Refused("badNonce")
            self.nonces.discard(header["nonce"])
        assert header["url"] == self.base + path.lstrip("/")
        assert ("jwk" in header) != ("kid" in header)
        if "kid" in header and header["kid"] not in self.accounts:
            raise Refused("accountDoesNotExist", "no such account")
        jwk = header["jwk"] if "jwk" in header else self.accounts[header["kid"]]["jwk"]
        verify(jwk, header["alg"], (outer["protected"] + "." + outer["payload"]).encode(), decode(outer["signature"]))
        if "kid" in header and self.accounts[header["kid"]]["status"] != "valid":
            raise Refused("unauthorized", "account is deactivated", 403)
        return header.get("kid", jwk), json.loads(decode(outer["payload"])) if outer["payload"] else None

    def do_directory(self, account, payload):
        found = {"newNonce": self.link("new-nonce"), "newAccount": self.link("new-account"), "newOrder": self.link("new-order"),
                 "meta": self.meta}
        if self.window is not None:
            found["renewalInfo"] = self.link("renewal-info")
        return 200, [], found

    def do_new_nonce(self, account, payload):
        return 200, [], b""

    def do_new_account(self, jwk, payload):
        assert isinstance(jwk, dict)
        if self.meta.get("termsOfService") and not payload.get("termsOfServiceAgreed"):
            raise Refused("userActionRequired")
        if self.meta.get("externalAccountRequired"):
            self.check_binding(jwk, payload["externalAccountBinding"])
        for url, known in self.accounts.items():
            if known["jwk"] == jwk:
                return 200, [("Location", url)], {"status": known["status"]}
        url = self.link("account", secrets.token_hex(4))
        self.accounts[url] = {"jwk": jwk, "status": "valid", "contact": payload.get("contact")}
        return 201, [("Location", url)], {"status": "valid"}

    def check_binding(self, jwk, binding):
        header = json.loads(decode(binding["protected"]))
        assert header["alg"] == "HS256" and header["url"] == self.link("new-account") and json.loads(decode(binding["payload"])) == jwk
        mac = hmac.new(self.external[header["kid"]], (binding["protected"] + "." + binding["payload"]).encode(), hashlib.sha256)
        if mac.digest() != decode(binding["signature"]):
            raise Refused("unauthorized", "the binding is wrong", 403)

    def do_new_order(self, account, payload):
        name = secrets.token_hex(4)
        urls = []
        for identifier in payload["identifiers"]:
            urls.append(self.authorize(identifier))
        self.orders[name] = {"identifiers": payload["identifiers"], "authorizations": urls, "account": account, "status": "pending",
                             "payload": payload}
        return 201, [("Location", self.link("order", name))], self.show(name)

    def authorize(self, identifier):
        name, value = secrets.token_hex(4), identifier["value"]
        made = {"status": "pending", "identifier": {"type": identifier["type"], "value": value.removeprefix("*.")}, "challenges": []}
        if value.startswith("*."):
            made["wildcard"] = True
        for kind in self.types:
            if value.startswith("*.") and not kind.startswith("dns"):
                continue
            challenge = {"type": kind, "url": self.link("challenge", name, kind), "status": "pending"}
            if kind == "dns-persist-01":
                challenge["issuer-domain-names"] = ["ca.test"]
            else:
                challenge["token"] = secrets.token_urlsafe(16)
            made["challenges"].append(challenge)
        self.authorizations[name] = made
        return self.link("authorization", name)

    def show(self, name):
        order = self.orders[name]
        if order["status"] == "pending":
            states = [self.authorizations[url.rsplit("/", 1)[1]]["status"] for url in order["authorizations"]]
            order["status"] = "invalid" if "invalid" in states else "ready" if set(states) == {"valid"} else "pending"
        shown = {key: order[key] for key in ("status", "identifiers", "authorizations")}
        shown["finalize"] = self.link("finalize", name)
        if order["status"] == "valid":
            shown["certificate"] = self.link("certificate", name)
        return shown

    def do_order(self, account, payload, name):
        return 200, [], self.show(name)

    def do_authorization(self, account, payload, name):
        return 200, [], self.authorizations[name]

    def do_challenge(self, account, payload, name, kind):
        assert payload == {} and self.ready.wait(20)
        authorization = self.authorizations[name]
        challenge = next(one for one in authorization["challenges"] if one["type"] == kind)
        answer = challenge.get("token", "") + "." + thumbprint(self.accounts[account]["jwk"])
        value = authorization["identifier"]["value"]
        try:
            getattr(self, "check_" + kind.replace("-", "_"))(value, challenge.get("token"), answer)
            authorization["status"] = challenge["status"] = "valid"
        except (OSError, AssertionError, http.client.HTTPException) as error:
            authorization["status"] = challenge["status"] = "invalid"
            challenge["error"] = {"type": PROBLEM + "incorrectResponse", "detail": "%s: %r" % (value, error)}
        with self.lock:
            self.seen.append((kind, value, authorization["status"]))
        return 200, [], challenge

    def check_http_01(self, value, token, answer):
        connection = http.client.HTTPConnection("127.0.0.1", self.http_port, timeout=10)
        connection.request("GET", "/.well-known/acme-challenge/" + token, headers={"Host": value})
        response = connection.getresponse()
        body = response.read().decode()
        assert (response.status, body) == (200, answer), (response.status, body)

    def check_tls_alpn_01(self, value, token, answer):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.set_alpn_protocols(["acme-tls/1"])
        try:
            address = ipaddress.ip_address(value)
            asked, names = address.reverse_pointer, [address]
        except ValueError:
            asked, names = value, [value]
        with socket.create_connection(("127.0.0.1", self.tls_port), timeout=10) as plain, \
                context.wrap_socket(plain, server_hostname=asked) as secure:
            assert secure.selected_alpn_protocol() == "acme-tls/1"
            leaf = x509.load_der_x509_certificate(secure.getpeercert(True))
            assert secure.recv(1) == b""
        found = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        assert [one.value for one in found] == names
        extension = leaf.extensions.get_extension_for_oid(x509.ObjectIdentifier("1.3.6.1.5.5.7.1.31"))
        assert extension.critical and extension.value.value == b"\x04\x20" + hashlib.sha256(answer.encode()).digest()

    def check_dns_01(self, value, token, answer):
        wanted = thumbprint_of(answer)
        assert wanted in self.records.get("_acme-challenge." + value, []), self.records

    def check_dns_persist_01(self, value, token, answer):
        assert "_validation-persist." + value in self.records, self.records

    def do_finalize(self, account, payload, name):
        order = self.orders[name]
        assert self.show(name)["status"] == "ready", order
        request = x509.load_der_x509_csr(decode(payload["csr"]))
        assert request.is_signature_valid
        names = request.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        found = sorted(str(one.value) for one in names)
        assert found == sorted(one["value"] for one in order["identifiers"]), found
        order["subject"] = request.subject.rfc4514_string()
        order["leaf"] = self.sign(request.subject, request.public_key(), names)
        order["other"] = self.sign(request.subject, request.public_key(), names, self.other_key, "Other Root")
        order["status"] = "valid"
        return 200, [("Location", self.link("order", name))], self.show(name)

    def do_certificate(self, account, payload, name):
        fields = [("Content-Type", "application/pem-certificate-chain"), ("Link", '<%s>;rel="alternate"' % self.link("alternate", name))]
        return 200, fields, self.pem(self.orders[name]["leaf"], self.root)

    def do_alternate(self, account, payload, name):
        return 200, [("Content-Type", "application/pem-certificate-chain")], self.pem(self.orders[name]["other"])

    def do_renewal_info(self, account, payload, name):
        start, end = self.window
        return 200, [("Retry-After", "21600")], {"suggestedWindow": {"start": start, "end": end}}


def thumbprint_of(answer):
    """The value of a TXT record of dns-01."""
    return encode(hashlib.sha256(answer.encode()).digest())
