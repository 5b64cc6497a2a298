"""A server that answers by script, for tests of what makes load."""

import socket
import threading


class ScriptedServer:
    """Hands each connection to a function, in a thread of its own."""

    def __init__(self, serve, context=None):
        self.serve, self.context = serve, context
        self.heads = []
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        """Until the listener is closed."""
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.handle, args=(connection,), daemon=True).start()

    def handle(self, connection):
        """Errors of a client that leaves are no matter."""
        try:
            if self.context is not None:
                connection = self.context.wrap_socket(connection, server_side=True)
            with connection:
                self.serve(self, connection)
        except OSError:
            connection.close()

    def read_heads(self, connection):
        """Yields each request head of a connection."""
        data = b""
        while True:
            while b"\r\n\r\n" in data:
                head, _, data = data.partition(b"\r\n\r\n")
                self.heads.append(head)
                yield head
            more = connection.recv(65536)
            if not more:
                return
            data += more
