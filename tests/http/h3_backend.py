"""A backend that speaks HTTP/3: aioquic on a UDP socket, in a thread of its own. What is raw goes past aioquic's HTTP/3, to send
what no server should."""

import queue
import select
import socket
import threading
import time

import certificates
from harness import h3

if h3.HAS_AIOQUIC:
    from harness.h3 import H3Connection, QuicConfiguration, QuicConnection, h3_events, quic_events
    from aioquic.buffer import Buffer
    from aioquic.quic.packet import (QuicPacketType, encode_quic_retry, encode_quic_version_negotiation,
                                     pull_quic_header)
    from aioquic.quic.retry import QuicRetryTokenHandler

frame = h3.frame


def section(*fields):
    """A field section with literals only."""
    return h3.H3.section(h3.H3, fields)


class Request:
    def __init__(self, conn, stream, fields):
        self.conn, self.stream = conn, stream
        self.fields = [(name.decode(), value.decode()) for name, value in fields]
        self.body, self.ended, self.reset, self.stopped = b"", False, None, None

    def __getitem__(self, name):
        values = [value for key, value in self.fields if key == name]
        assert len(values) < 2, values
        return values[0] if values else None


class Connection:
    """One connection of the proxy's."""

    def __init__(self, backend, quic, address, number):
        self.backend, self.quic, self.address, self.number = backend, quic, address, number
        self.http, self.requests, self.closed = None, {}, None
        self.resumed = self.has_begun = self.ends = False

    # requests

    def head(self, request, fields=(), status="200", end=False):
        fields = [(b":status", status.encode())] + [(name.encode(), value.encode()) for name, value in fields]
        self.http.send_headers(request.stream, fields, end_stream=end)

    def data(self, request, body, end=False):
        self.http.send_data(request.stream, body, end_stream=end)

    def answer(self, request, body=b"", fields=(), status="200", trailers=None):
        self.head(request, fields, status, end=not body and trailers is None)
        if body or trailers:
            self.data(request, body, end=trailers is None)
        if trailers is not None:
            self.http.send_headers(request.stream, [(name.encode(), value.encode()) for name, value in trailers],
                                   end_stream=True)

    # what no server should send

    def raw(self, stream, data, end=False):
        self.quic.send_stream_data(stream, data, end)

    def control(self, data):
        """On the control stream, after the settings."""
        self.raw(self.http._local_control_stream_id, data)

    def one_way(self, data, end=False):
        stream = self.quic.get_next_available_stream_id(is_unidirectional=True)
        self.raw(stream, data, end)
        return stream

    # events

    def take_events(self):
        event = self.quic.next_event()
        while event is not None:
            self.take_event(event)
            event = self.quic.next_event()

    def take_event(self, event):
        backend = self.backend
        if isinstance(event, quic_events.ProtocolNegotiated):
            self.alpn = event.alpn_protocol
        elif isinstance(event, quic_events.HandshakeCompleted):
            self.resumed = event.session_resumed
        elif isinstance(event, quic_events.ConnectionTerminated):
            self.closed = (event.error_code, event.reason_phrase)
        elif isinstance(event, quic_events.StreamReset) and event.stream_id in self.requests:
            self.requests[event.stream_id].reset = event.error_code
        elif isinstance(event, quic_events.StopSendingReceived) and event.stream_id in self.requests:
            self.requests[event.stream_id].stopped = event.error_code
        if not self.has_begun and self.quic.tls.alpn_negotiated == "h3":
            self.has_begun = True
            if backend.control is not None:
                self.one_way(b"\0" + backend.control)
                return
            self.http = H3Connection(self.quic)
            if backend.begin:
                backend.begin(self)
        if backend.event:
            backend.event(self, event)
        if self.http is not None:
            for told in self.http.handle_event(event):
                self.take_told(told)
        elif isinstance(event, quic_events.StreamDataReceived) and backend.line:
            backend.line(self, event)

    def take_told(self, event):
        if isinstance(event, h3_events.HeadersReceived):
            request = self.requests[event.stream_id] = Request(self, event.stream_id, event.headers)
            self.backend.requests.put(request)
            self.backend.seen.append(request)
            if self.backend.head:
                self.backend.head(self, request)
        elif isinstance(event, h3_events.DataReceived):
            request = self.requests[event.stream_id]
            request.body += event.data
            if self.backend.body:
                self.backend.body(self, request, event.data)
        else:
            return
        if event.stream_ended:
            request.ended = True
            if self.backend.answer:
                self.backend.answer(self, request)


class H3Backend:
    """
    answer(connection, request) is called when a request is whole; head and body as they come; begin when a connection has sent its
    settings; event for each event of QUIC; line for data of a connection without HTTP/3. All in the backend's thread; `do` runs a
    function there. control: bytes of the control stream in place of aioquic's HTTP/3. lose: every so many-th datagram is lost, each way.
    """

    def __init__(self, answer=None, head=None, body=None, begin=None, event=None, line=None, retry=False, lose=0,
                 control=None, names=("localhost",), port=0, pair=None, versions=None, **settings):
        self.control = control
        self.answer, self.head, self.body, self.begin, self.event, self.line = answer, head, body, begin, event, line
        self.settings = QuicConfiguration(is_client=False, alpn_protocols=["h3", "hq-interop"], **settings)
        pair = pair or certificates.own(*names)
        self.settings.load_cert_chain(pair.crt, pair.key)
        self.only = versions
        self.retry = QuicRetryTokenHandler() if retry else None
        self.retries, self.negotiations = 0, 0
        self.lose, self.passed = lose, 0
        self.tickets = {}
        self.connections, self.by_address = [], {}
        self.requests, self.seen, self.problems = queue.Queue(), [], []
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", port))
        self.socket.setblocking(False)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
        self.port = self.socket.getsockname()[1]
        self.todo, (self.wake, self.waker) = queue.Queue(), socket.socketpair()
        self.is_deaf = self.is_over = False
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def do(self, what):
        """Runs it in the backend's thread; gives what it gives."""
        done = queue.Queue()
        self.todo.put((what, done))
        self.waker.send(b"x")
        return done.get(timeout=20)

    def request(self):
        """The next request, when its head has come."""
        return self.requests.get(timeout=20)

    def wait(self, condition):
        end = time.time() + h3.PATIENCE
        while not condition():
            assert time.time() < end, "nothing came in time"
            time.sleep(0.005)

    def close(self):
        if not self.is_over:
            self.is_over = True
            self.waker.send(b"x")
            self.thread.join(20)
            self.socket.close()
        assert not self.problems, self.problems

    # packets

    def _is_lost(self):
        self.passed += 1
        return self.lose and self.passed % self.lose == 0

    def _serve(self):
        while not self.is_over:
            timers = [conn.quic.get_timer() for conn in self.connections]
            timers = [timer for timer in timers if timer is not None]
            wait = max(0.0, min(timers) - time.time()) if timers else None
            ready = select.select([self.socket, self.wake], [], [], wait)[0]
            if self.wake in ready:
                self.wake.recv(1)
                self._work()
            if self.socket in ready:
                self._receive()
            for conn in self.connections:
                timer = conn.quic.get_timer()
                if timer is not None and timer <= time.time():
                    conn.quic.handle_timer(now=time.time())
                self._turn(conn)

    def _work(self):
        while not self.todo.empty():
            what, done = self.todo.get()
            try:
                done.put(what())
            except Exception as problem:  # noqa: B902 the test hears of it
                self.problems.append(problem)
                done.put(None)

    def _turn(self, conn):
        try:
            conn.take_events()
        except Exception as problem:  # noqa: B902
            self.problems.append(problem)
        if not self.is_deaf:
            for data, address in conn.quic.datagrams_to_send(now=time.time()):
                if not self._is_lost():
                    self.socket.sendto(data, address)
            if conn.ends and conn.closed is None:
                conn.quic.close(error_code=h3.NO_ERROR)
                for data, address in conn.quic.datagrams_to_send(now=time.time()):
                    self.socket.sendto(data, address)
                conn.ends = False

    def _receive(self):
        while True:
            try:
                data, address = self.socket.recvfrom(65536)
            except (BlockingIOError, ConnectionRefusedError):
                return
            if self.is_deaf or self._is_lost():
                continue
            conn = self.by_address.get(address) or self._accept(data, address)
            if conn is not None:
                conn.quic.receive_datagram(data, address, now=time.time())
                self._turn(conn)

    def _accept(self, data, address):
        header = pull_quic_header(Buffer(data=data), host_cid_length=8)
        if self.only and header.version not in self.only:
            self.negotiations += 1
            self.socket.sendto(encode_quic_version_negotiation(
                source_cid=header.destination_cid, destination_cid=header.source_cid,
                supported_versions=self.only), address)
            return None
        if header.packet_type != QuicPacketType.INITIAL:
            return None
        original, source = header.destination_cid, None
        if self.retry is not None:
            if not header.token:
                self.retries += 1
                source = b"retried!"
                token = self.retry.create_token(address=address, original_destination_connection_id=header.destination_cid,
                                                retry_source_connection_id=source, now=time.time())
                self.socket.sendto(encode_quic_retry(
                    version=header.version, source_cid=source, destination_cid=header.source_cid,
                    original_destination_cid=header.destination_cid, retry_token=token), address)
                return None
            original = self.retry.validate_token(address=address, destination_cid=header.destination_cid, token=header.token,
                                                 now=time.time())
            source = header.destination_cid
        quic = QuicConnection(configuration=self.settings, original_destination_connection_id=original,
                              retry_source_connection_id=source, session_ticket_fetcher=self._ticket,
                              session_ticket_handler=lambda ticket: self.tickets.update({ticket.ticket: ticket}))
        conn = Connection(self, quic, address, len(self.connections) + 1)
        self.connections.append(conn)
        self.by_address[address] = conn
        return conn

    def _ticket(self, label):
        return self.tickets.pop(label, None)
