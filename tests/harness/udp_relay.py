"""A bad path between QUIC clients and a server: datagrams are lost, changed, repeated, turned around."""

import random
import select
import socket
import threading


class UdpRelay:
    """`port` is for clients; each has a socket of its own towards the server. loss, corrupt, duplicate and reorder are shares of
    all datagrams, the same ones in each run; lose: numbers of datagrams that are lost, in each direction; is_dead: all are."""

    def __init__(self, port, loss=0, corrupt=0, duplicate=0, reorder=0, lose=()):
        self.shares = (loss, corrupt, duplicate, reorder)
        self.lose = lose
        self.is_dead = False
        self.dropped = 0
        self.server = ("127.0.0.1", port)
        self.random = random.Random(1)
        self.front = self._socket()
        self.front.bind(("127.0.0.1", 0))
        self.port = self.front.getsockname()[1]
        self.backs = {}    # by the client's address
        self.clients = {}  # by such a socket
        self.counts = {}   # datagrams of a direction
        self.held = {}     # the one that comes after the next, by direction
        self.wake, self.end = socket.socketpair()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end.close()
        self.thread.join()
        for one in [self.front, self.wake, *self.clients]:
            one.close()

    @staticmethod
    def _socket():
        made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 21)
        made.setblocking(False)
        return made

    def _back(self, client):
        if client not in self.backs:
            back = self.backs[client] = self._socket()
            back.connect(self.server)
            self.clients[back] = client
        return self.backs[client]

    def _is_lost(self, way, loss):
        number = self.counts.get(way, 0)
        self.counts[way] = number + 1
        return self.is_dead or number in self.lose or self.random.random() < loss

    def _pass(self, way, data, send):
        loss, corrupt, duplicate, reorder = self.shares
        if self._is_lost(way, loss):
            self.dropped += 1
            return
        if self.random.random() < corrupt:
            at = self.random.randrange(len(data))
            data = data[:at] + bytes([data[at] ^ 0x55]) + data[at + 1:]
        if self.random.random() < reorder and way not in self.held:
            self.held[way] = data
            return
        for _ in range(2 if self.random.random() < duplicate else 1):
            send(data)
        if way in self.held:
            send(self.held.pop(way))

    def _take(self, source):
        try:
            data, peer = source.recvfrom(65536)
            if source is self.front:
                back = self._back(peer)
                self._pass(peer, data, back.send)
            else:
                client = self.clients[source]
                self._pass(source, data, lambda bytes_: self.front.sendto(bytes_, client))
        except (BlockingIOError, ConnectionRefusedError):
            pass  # one end is gone, or has no room

    def _run(self):
        while True:
            ready = select.select([self.wake, self.front, *self.clients], [], [])[0]
            if self.wake in ready:
                return
            for source in ready:
                self._take(source)
