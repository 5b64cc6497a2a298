"""Engines of discovery: Consul and the API server of Kubernetes, scripted after their documented APIs, and a real etcd."""

import base64
import http.server
import json
import os
import ssl
import threading
import urllib.parse

import pytest

from harness import ports
from harness.client import Client
from harness.programs import Program, connects, find, home

ETCD = find("etcd")
needs_etcd = pytest.mark.skipif(ETCD is None, reason="etcd is not installed")


class Engine:
    """An HTTP server on 127.0.0.1; subclasses have `answer(handler)`. `asked`: targets so far; `fault`: a function that answers in its place."""

    def __init__(self, tls=None, port=0):
        self.changed = threading.Condition()
        self.asked, self.tokens = [], []
        self.fault = None
        self.is_over = False
        engine = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_any(self):
                size = int(self.headers.get("Content-Length") or 0)
                self.body = self.rfile.read(size)
                with engine.changed:
                    engine.asked.append(self.path)
                    engine.tokens.append(self.headers.get("X-Consul-Token") or self.headers.get("Authorization"))
                    engine.changed.notify_all()
                try:
                    (engine.fault or engine.answer)(self)
                except (BrokenPipeError, ConnectionResetError, ssl.SSLError):
                    self.close_connection = True

            do_GET = do_POST = handle_any

            def reply(self, status, value, *fields):
                body = value if isinstance(value, bytes) else json.dumps(value).encode()
                self.send_response(status)
                for name, text in fields:
                    self.send_header(name, text)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def chunk(self, data):
                self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
                self.wfile.flush()

            def stream(self):
                self.send_response(200)
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.server.daemon_threads = True
        self.server.handle_error = lambda *_: None
        self.port = self.server.server_address[1]
        if tls is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*tls)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.url = "http%s://127.0.0.1:%d" % ("" if tls is None else "s", self.port)
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True)
        self.thread.start()

    def change(self, act):
        with self.changed:
            act()
            self.changed.notify_all()

    def wait_asked(self, count):
        """Until so many requests came."""
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.asked) >= count, 15), self.asked

    def wait(self, ready, seconds):
        """In an answer: until that holds, or the time is over; under the lock."""
        self.changed.wait_for(lambda: self.is_over or ready(), seconds)

    def close(self):
        self.change(lambda: setattr(self, "is_over", True))
        self.server.shutdown()
        self.server.server_close()


class Consul(Engine):
    """Services of Consul: `put("web", ("127.0.0.1", 80), …)`; instances may be dicts as Consul has them."""

    def __init__(self, **how):
        super().__init__(**how)
        self.index, self.services = 10, {}

    def put(self, name, *instances):
        def act():
            self.index += 1
            self.services[name] = [self._entry(one) for one in instances]

        self.change(act)

    @staticmethod
    def _entry(one):
        if isinstance(one, dict):
            return one
        address, port = one[:2]
        weight = one[2] if len(one) > 2 else 1
        return {"Node": {"Node": "n1", "Address": "10.255.0.1", "Meta": None},
                "Service": {"ID": "%s:%d" % (address, port), "Address": address, "Port": port, "Weights": {"Passing": weight, "Warning": 1}},
                "Checks": [{"Status": "passing", "Output": "\u00e9 \"ok\"\n"}]}

    def answer(self, handler):
        url = urllib.parse.urlsplit(handler.path)
        query = dict(urllib.parse.parse_qsl(url.query))
        name = urllib.parse.unquote(url.path.rsplit("/", 1)[1])
        with self.changed:
            wanted = int(query["index"])
            if wanted != 0:
                self.wait(lambda: self.index != wanted, int(query["wait"][:-2]) / 1000)
            entries, index = self.services.get(name, []), self.index
        handler.reply(200, entries, ("X-Consul-Index", str(index)))


class Kubernetes(Engine):
    """EndpointSlices of an API server: `put("ns", "web-1", "web", [("127.0.0.1", True)], [("http", 80)])`, `drop("ns", "web-1")`."""

    def __init__(self, **how):
        super().__init__(**how)
        self.version, self.slices, self.events = 100, {}, []
        self.oldest = 0      # a watch from before that is answered with 410
        self.page = None     # slices of a page
        self.in_stream = False  # 410 comes as an event

    def put(self, namespace, name, service, endpoints, ports_):
        def act():
            self.version += 1
            made = {
                "metadata": {"name": name, "namespace": namespace, "resourceVersion": str(self.version),
                             "labels": {"kubernetes.io/service-name": service}},
                "addressType": "IPv4",
                "endpoints": [{"addresses": [address], "conditions": {"ready": ready}} for address, ready in endpoints],
                "ports": [{"name": port, "port": number, "protocol": "TCP"} for port, number in ports_]}
            kind = "MODIFIED" if (namespace, name) in self.slices else "ADDED"
            self.slices[namespace, name] = made
            self.events.append((self.version, kind, made))

        self.change(act)

    def drop(self, namespace, name):
        def act():
            self.version += 1
            gone = self.slices.pop((namespace, name))
            gone["metadata"]["resourceVersion"] = str(self.version)
            self.events.append((self.version, "DELETED", gone))

        self.change(act)

    def bookmark(self):
        """When it was sent, no watch may begin before its version any more."""
        def act():
            self.version += 1
            self.events.append((self.version, "BOOKMARK", {"kind": "EndpointSlice", "metadata": {"resourceVersion": str(self.version)}}))

        self.change(act)

    def answer(self, handler):
        url = urllib.parse.urlsplit(handler.path)
        query = dict(urllib.parse.parse_qsl(url.query))
        namespace = url.path.split("/")[5]
        service = query["labelSelector"].split("=")[1]

        def is_meant(made):
            labels = made["metadata"].get("labels")
            return labels is None or (made["metadata"]["namespace"], labels["kubernetes.io/service-name"]) == (namespace, service)

        if "watch" in query:
            self._watch(handler, is_meant, int(query["resourceVersion"]), int(query["timeoutSeconds"]))
            return
        with self.changed:
            items = [made for made in self.slices.values() if is_meant(made)]
            version = self.version
        start = int(query.get("continue", "0"))
        end = len(items) if self.page is None else start + self.page
        more = str(end) if end < len(items) else ""
        handler.reply(200, {"kind": "EndpointSliceList", "metadata": {"resourceVersion": str(version), "continue": more}, "items": items[start:end]})

    def _watch(self, handler, is_meant, since, seconds):
        expired = {"kind": "Status", "code": 410, "reason": "Expired"}
        if since < self.oldest and not self.in_stream:
            handler.reply(410, expired)
            return
        handler.stream()
        if since < self.oldest:
            handler.chunk(json.dumps({"type": "ERROR", "object": expired}).encode() + b"\n")
            handler.chunk(b"")
            return
        while True:
            with self.changed:
                self.wait(lambda: self.version > since, seconds)
                news = [event for event in self.events if event[0] > since]
                if not news:
                    break
                since = news[-1][0]
            for _, kind, made in news:
                if is_meant(made):
                    handler.chunk(json.dumps({"type": kind, "object": made}).encode() + b"\n")
                    self.oldest = int(made["metadata"]["resourceVersion"]) if kind == "BOOKMARK" else self.oldest
        handler.chunk(b"")


class Etcd(Program):
    """A real etcd; `put(key, value)`, `drop(key)`, `compact()`."""

    def __init__(self):
        self.port, self.peer = ports.take().number, ports.take().number
        folder = home("etcd")
        url, peer = "http://127.0.0.1:%d" % self.port, "http://127.0.0.1:%d" % self.peer
        super().__init__([ETCD, "--data-dir", os.path.join(folder, "data"), "--listen-client-urls", url, "--advertise-client-urls", url,
                          "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "default=" + peer,
                          "--unsafe-no-fsync"], folder, ready=self._serves)
        self.url = url

    def _serves(self):
        return connects(self.port) and self.ask("/v3/kv/range", key=b"x").get("header") is not None

    def ask(self, target, **words):
        coded = {name: base64.b64encode(word).decode() if isinstance(word, bytes) else word for name, word in words.items()}
        with Client(self.port) as client:
            answer = client.request(target, method="POST", body=json.dumps(coded).encode())
            return json.loads(answer.body)

    def put(self, key, value):
        return self.ask("/v3/kv/put", key=key.encode(), value=value.encode())

    def drop(self, key):
        return self.ask("/v3/kv/deleterange", key=key.encode())

    def compact(self):
        revision = self.put("compacted", "")["header"]["revision"]
        self.ask("/v3/kv/compaction", revision=revision)
