"""gRPC through grpc_pass, between the client and the server of Python's grpcio: calls of all four kinds, metadata,
status, deadlines, cancellation, large messages. No generated code: messages are bytes."""

import concurrent.futures
import hashlib
import os
import queue
import threading

import pytest

os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
import grpc

import certificates
import tls_client
from harness import Server
from harness.workers import wait_workers

LIMIT = 30      # seconds after which a call that should have ended fails
OPTIONS = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1),
           ("grpc.enable_http_proxy", 0), ("grpc.use_local_subchannel_pool", 1)]


class Service(grpc.GenericRpcHandler):
    """What is called, by the last part of its name."""

    def __init__(self):
        self.cancelled = queue.Queue()      # one entry for each call of `hang` whose client has gone
        self.hanging = queue.Queue()        # one for each that has begun
        self.seen = {}                      # the metadata of the last call of `unary`

    def service(self, details):
        name = details.method.rpartition("/")[2]
        kinds = {"unary": grpc.unary_unary_rpc_method_handler, "fail": grpc.unary_unary_rpc_method_handler,
                 "remaining": grpc.unary_unary_rpc_method_handler, "hang": grpc.unary_unary_rpc_method_handler,
                 "down": grpc.unary_stream_rpc_method_handler, "up": grpc.stream_unary_rpc_method_handler,
                 "both": grpc.stream_stream_rpc_method_handler, "halfway": grpc.unary_stream_rpc_method_handler}
        return kinds[name](getattr(self, name)) if name in kinds else None

    def unary(self, request, context):
        self.seen = dict(context.invocation_metadata())
        context.send_initial_metadata([("x-first", self.seen.get("x-mine", "none")), ("x-raw-bin", b"\0\1\xff")])
        context.set_trailing_metadata([("x-last", "end"), ("x-last-bin", bytes(range(256)))])
        return request[::-1]

    def fail(self, request, context):
        code, _, words = request.decode().partition(" ")
        context.set_trailing_metadata([("x-why", "because")])
        context.abort(getattr(grpc.StatusCode, code), words)

    def remaining(self, _request, context):
        left = context.time_remaining()
        return b"none" if left is None or left > 10 ** 6 else b"%.3f" % left

    def hang(self, _request, context):
        gone = threading.Event()
        context.add_callback(gone.set)
        self.hanging.put(True)
        if gone.wait(LIMIT):
            self.cancelled.put(True)
        return b""

    def down(self, request, context):
        count, size = map(int, request.split())
        context.set_trailing_metadata([("x-count", str(count))])
        for number in range(count):
            yield b"%d:" % number + b"x" * size

    def halfway(self, _request, context):
        yield b"one"
        yield b"two"
        context.abort(grpc.StatusCode.DATA_LOSS, "no three")

    def up(self, requests, _context):
        count, digest = 0, hashlib.md5()
        for request in requests:
            count += 1
            digest.update(request)
        return b"%d %s" % (count, digest.hexdigest().encode())

    def both(self, requests, _context):
        for request in requests:
            yield request.upper()


class Path:
    """A client's channel, through Portunus, to a server of its own."""

    def __init__(self, front, behind):
        made = certificates.own("localhost")
        self.service = Service()
        self.pool = concurrent.futures.ThreadPoolExecutor(40)
        self.backend = grpc.server(self.pool, handlers=[self.service], options=OPTIONS)
        if behind == "tls":
            pair = [(made.key_pem.encode(), made.pem.encode())]
            port = self.backend.add_secure_port("127.0.0.1:0", grpc.ssl_server_credentials(pair))
        else:
            port = self.backend.add_insecure_port("127.0.0.1:0")
        self.backend.start()
        self.server = Server("""
            log_format calls '$request_uri $status $sent_http_content_type'; access_log logs/access.log calls;
            client_max_body_size 0; http2 on; grpc_read_timeout 60s;
            server {
                listen 127.0.0.1:@PORT@; listen 127.0.0.1:@PORT1@ ssl; %s
                location / {
                    grpc_pass %s://127.0.0.1:%d; grpc_ssl_verify on; grpc_ssl_trusted_certificate %s;
                    grpc_ssl_name localhost; grpc_ssl_server_name on;
                }
                location /gone/ { grpc_pass grpc://127.0.0.1:@PORT2@; }
                location /no/ { return 403; }
            }""" % (tls_client.pair(made), "grpcs" if behind == "tls" else "grpc", port, made.crt)).start()
        self.front = front
        self.channel = self.connect()

    def connect(self):
        if self.front == "h2c":
            return grpc.insecure_channel("ipv4:127.0.0.1:%d" % self.server.port, options=OPTIONS)
        credentials = grpc.ssl_channel_credentials(certificates.own("localhost").pem.encode())
        return grpc.secure_channel("ipv4:127.0.0.1:%d" % self.server.port_of("PORT1"), credentials,
                                   options=OPTIONS + [("grpc.ssl_target_name_override", "localhost")])

    def close(self):
        self.channel.close()
        self.backend.stop(None).wait()
        self.pool.shutdown()
        self.server.close()


@pytest.fixture(name="path", scope="module", params=["h2c to h2c", "tls to h2c", "tls to tls"])
def _path(request):
    front, _, behind = request.param.partition(" to ")
    made = Path(front, behind)
    yield made
    made.close()


def refused(call, code):
    """The error of a call that has to end with this code."""
    with pytest.raises(grpc.RpcError) as caught:
        result = call()
        if hasattr(result, "__next__"):
            list(result)
    assert caught.value.code() == code, caught.value
    return caught.value


# the four kinds

def test_unary(path):
    call = path.channel.unary_unary("/t.Echo/unary")
    assert call(b"hello", timeout=LIMIT) == b"olleh"
    assert call(b"", timeout=LIMIT) == b""
    assert call(b"packed" * 1000, timeout=LIMIT, compression=grpc.Compression.Gzip) == b"dekcap" * 1000
    assert path.server.wait_lines("logs/access.log")[0] == "/t.Echo/unary 200 application/grpc"


def test_messages_of_4_mb(path):
    body = os.urandom(4 * 1024 * 1024)
    assert path.channel.unary_unary("/t.Echo/unary")(body, timeout=LIMIT) == body[::-1]


def test_messages_down(path):
    stream = path.channel.unary_stream("/t.Echo/down")(b"300 5000", timeout=LIMIT)
    assert [message.partition(b":")[0] for message in stream] == [b"%d" % number for number in range(300)]
    assert dict(stream.trailing_metadata())["x-count"] == "300"
    assert list(path.channel.unary_stream("/t.Echo/down")(b"0 0", timeout=LIMIT)) == []


def test_messages_up(path):
    parts = [os.urandom(5000) for _ in range(300)]
    call = path.channel.stream_unary("/t.Echo/up")
    assert call(iter(parts), timeout=LIMIT) == b"300 %s" % hashlib.md5(b"".join(parts)).hexdigest().encode()
    assert call(iter([]), timeout=LIMIT).startswith(b"0 ")


def test_messages_both_ways_by_turns(path):
    """Each answer comes before the next message is sent: nothing waits for the end of the request."""
    turns = queue.Queue()
    answers = path.channel.stream_stream("/t.Echo/both")(iter(turns.get, None), timeout=LIMIT)
    for number in range(50):
        turns.put(b"turn %d" % number)
        assert next(answers) == b"TURN %d" % number
    turns.put(None)
    assert list(answers) == [] and answers.code() == grpc.StatusCode.OK


# what goes along

def test_metadata_both_ways(path):
    answer, call = path.channel.unary_unary("/t.Echo/unary").with_call(
        b"x", timeout=LIMIT, metadata=[("x-mine", "a b, c"), ("x-mine-bin", bytes(range(256)))])
    assert answer == b"x"
    assert path.service.seen["x-mine"] == "a b, c" and path.service.seen["x-mine-bin"] == bytes(range(256))
    first, last = dict(call.initial_metadata()), dict(call.trailing_metadata())
    assert first["x-first"] == "a b, c" and first["x-raw-bin"] == b"\0\1\xff"
    assert last["x-last"] == "end" and last["x-last-bin"] == bytes(range(256))


@pytest.mark.parametrize("code", ["INVALID_ARGUMENT", "NOT_FOUND", "PERMISSION_DENIED", "UNAUTHENTICATED", "INTERNAL",
                                  "UNIMPLEMENTED", "UNKNOWN"])
def test_status(path, code):
    error = refused(lambda: path.channel.unary_unary("/t.Echo/fail")(
        ("%s w\u00f6rds, and 100%% of them" % code).encode(), timeout=LIMIT), getattr(grpc.StatusCode, code))
    assert error.details() == "w\u00f6rds, and 100% of them"
    assert dict(error.trailing_metadata())["x-why"] == "because"


def test_status_after_messages(path):
    stream = path.channel.unary_stream("/t.Echo/halfway")(b"", timeout=LIMIT)
    assert next(stream) == b"one" and next(stream) == b"two"
    assert refused(lambda: stream, grpc.StatusCode.DATA_LOSS).details() == "no three"


def test_no_such_method(path):
    refused(lambda: path.channel.unary_unary("/t.Echo/none")(b"", timeout=LIMIT), grpc.StatusCode.UNIMPLEMENTED)


def test_answers_of_the_server_itself(path):
    """They are HTTP, which gRPC maps to its own codes."""
    for name, code in (("/gone/x", grpc.StatusCode.UNAVAILABLE), ("/no/x", grpc.StatusCode.PERMISSION_DENIED)):
        refused(lambda name=name: path.channel.unary_unary(name)(b"", timeout=LIMIT), code)


# the end before the end

def test_deadline_is_passed_on(path):
    call = path.channel.unary_unary("/t.Echo/remaining")
    assert 0 < float(call(b"", timeout=LIMIT)) < 2 * LIMIT    # grpcio rounds it up
    assert call(b"") == b"none"


def test_deadline(path):
    refused(lambda: path.channel.unary_unary("/t.Echo/hang")(b"", timeout=0.3), grpc.StatusCode.DEADLINE_EXCEEDED)
    assert path.service.hanging.get(timeout=LIMIT) and path.service.cancelled.get(timeout=LIMIT)


def test_cancelled_call(path):
    """The backend is told, and other calls go on."""
    future = path.channel.unary_unary("/t.Echo/hang").future(b"", timeout=LIMIT)
    assert path.service.hanging.get(timeout=LIMIT)
    future.cancel()
    assert path.service.cancelled.get(timeout=LIMIT)
    assert path.channel.unary_unary("/t.Echo/unary")(b"ab", timeout=LIMIT) == b"ba"


def test_cancelled_streams(path):
    for _ in range(5):
        stream = path.channel.unary_stream("/t.Echo/down")(b"100000 1000", timeout=LIMIT)
        assert next(stream).startswith(b"0:")
        stream.cancel()
    turns = queue.Queue()
    answers = path.channel.stream_stream("/t.Echo/both")(iter(turns.get, None), timeout=LIMIT)
    turns.put(b"a")
    assert next(answers) == b"A"
    answers.cancel()
    turns.put(None)
    assert path.channel.unary_unary("/t.Echo/unary")(b"ab", timeout=LIMIT) == b"ba"


def test_many_calls_at_once(path):
    call = path.channel.unary_unary("/t.Echo/unary")
    messages = [b"%d" % number * (1 + number * 37) for number in range(300)]
    futures = [call.future(message, timeout=LIMIT) for message in messages]
    assert [future.result() for future in futures] == [message[::-1] for message in messages]


def test_reload_while_messages_go_to_and_fro(path):
    turns = queue.Queue()
    answers = path.channel.stream_stream("/t.Echo/both")(iter(turns.get, None), timeout=LIMIT)
    turns.put(b"before")
    assert next(answers) == b"BEFORE"
    before = path.server.children()
    path.server.reload()
    assert path.channel.unary_unary("/t.Echo/unary")(b"new", timeout=LIMIT, wait_for_ready=True) == b"wen"
    turns.put(b"after")
    assert next(answers) == b"AFTER"
    turns.put(None)
    assert list(answers) == [] and answers.code() == grpc.StatusCode.OK
    wait_workers(path.server, len(before), without=before)
