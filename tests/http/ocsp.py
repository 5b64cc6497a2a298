"""An OCSP responder for tests: an HTTP server whose answers are made by openssl."""

import base64
import os
import threading
import urllib.parse

import certificates
from harness.backend import Backend


class Responder:
    """Answers for the certificates of an authority (a certificates.Pair).

    status  {"name of a Pair": "good", "revoked"}; others are unknown
    signer  who signs: a Pair, the authority by default
    lie     bytes to be sent in place of an answer
    gate    a threading.Event that answers wait for; or None
    asked   how many questions came
    """

    def __init__(self, authority, signer=None):
        self.authority = authority
        self.signer = signer or authority
        self.status = {}
        self.lie = None
        self.gate = None
        self.asked = 0
        self._backend = Backend([self._talk])
        self.port = self._backend.port

    url = property(lambda self: "http://127.0.0.1:%d/ocsp" % self.port)

    def _index(self):
        lines = []
        for pair, status in self.status.items():
            serial = certificates.openssl("x509", "-in", pair.crt, "-noout", "-serial")
            serial = serial.decode().strip().split("=")[1]
            when = "260101000000Z" if status == "revoked" else ""
            lines.append("%s\t350101000000Z\t%s\t%s\tunknown\t/CN=%s\n"
                         % ("R" if when else "V", when, serial, pair.name))
        name = os.path.join(certificates.directory(), "index-%d" % self.port)
        with open(name, "w", encoding="ascii") as out:
            out.write("".join(lines))
        return name

    def answer(self, request):
        """The answer to a request (DER)."""
        name = os.path.join(certificates.directory(), "question-%d" % self.port)
        with open(name, "wb") as out:
            out.write(request)
        certificates.openssl("ocsp", "-index", self._index(), "-CA", self.authority.crt,
                             "-rsigner", self.signer.crt, "-rkey", self.signer.key, "-reqin", name,
                             "-respout", name + ".der", "-ndays", "1")
        with open(name + ".der", "rb") as source:
            return source.read()

    def _talk(self, conn, request):
        self.asked += 1
        if self.gate is not None:
            self.gate.wait(10)
        if self.lie is not None:
            conn.sendall(self.lie)
            return
        target = request.split(b" ")[1].decode()
        body = self.answer(base64.b64decode(urllib.parse.unquote(target.rsplit("/ocsp/", 1)[1])))
        conn.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/ocsp-response\r\n"
                     b"Content-Length: %d\r\n\r\n" % len(body) + body)

    def close(self):
        self._backend.close()
