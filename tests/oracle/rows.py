"""The table language of the oracle: one row is one exchange on a connection of its own.

    GET /a.txt                               Host: localhost is added
    GET /a.txt HTTP/1.0 | -Host              without it
    GET / | Host: other | Accept: x          more header fields
    POST /p << body                          with Content-Length, unless a field frames the body
    GET /a && GET /b                         pipelined, sent in one piece
    RAW GET / HTTP/1.1\\nHost: x\\n\\n       exactly these bytes
    RAW[2] ...                               ... and so many responses are expected
    BARE GET /\\r\\n                           exactly these bytes, the answer is bare bytes
    GET / | @PORT1                           to another port

Escapes: \\r \\n \\t \\\\ and \\xNN. Lines that start with # are comments. A row may be followed by

    => 400 closed | Name: value | -Name | body~text -- why the reference is not followed

which says what the server under test must answer instead: status, then `closed` or `kept`, then
header fields it has, header fields it has not (-Name), text in the body. `silent` instead of a
status: the connection ends without an answer.
"""

import re


class Row:
    """One exchange: text (as written), data to send, methods of the expected responses, port name,
    bare (the answer has no head), expectation (None, or what stands after =>), its reason."""

    def __init__(self, text, data, methods, port):
        self.text = text
        self.data = data
        self.methods = methods
        self.port = port
        self.bare = False
        self.expect = None
        self.reason = None


class Expectation:
    """What stands after => in a table."""

    def __init__(self, text):
        parts = [part.strip() for part in text.split(" | ")]
        words = parts[0].split()
        self.silent = words[0] == "silent"
        self.status = None if self.silent else int(words[0])
        self.ending = words[1] if len(words) > 1 else None
        assert self.ending in (None, "closed", "kept"), text
        self.present, self.absent, self.body = [], [], []
        for part in parts[1:]:
            if part.startswith("-"):
                self.absent.append(part[1:])
            elif part.startswith("body~"):
                self.body.append(unescape(part[5:]).decode("latin-1"))
            else:
                name, value = part.split(":", 1)
                self.present.append((name, value.strip()))

    def mismatch(self, responses, ending):
        """A text that says how the responses differ, None when they do not."""
        if self.silent:
            return None if not responses and ending == "closed" else "expected silence"
        if not responses:
            return "no response, expected %d" % self.status
        last = responses[-1]
        if last.status != self.status:
            return "status %d, expected %d" % (last.status, self.status)
        if self.ending and ending != self.ending:
            return "connection %s, expected %s" % (ending, self.ending)
        for name, value in self.present:
            if value not in last.all(name):
                return "%s is %r, expected %r" % (name, last.all(name), value)
        for name in self.absent:
            if last.all(name):
                return "%s is %r, expected none" % (name, last.all(name))
        for text in self.body:
            if text not in last.text:
                return "body %r lacks %r" % (last.text[:300], text)
        return None


def unescape(text):
    """Decodes the escapes of a table to bytes."""
    def one(found):
        word = found.group(1)
        plain = {"r": b"\r", "n": b"\n", "t": b"\t", "\\": b"\\"}
        byte = plain[word] if word in plain else bytes([int(word[1:], 16)])
        return byte.decode("latin-1")
    return re.sub(r"\\(r|n|t|\\|x[0-9A-Fa-f]{2})", one, text).encode("latin-1")


def _request(text):
    """The bytes and the method of one request of a row, and the port's name."""
    text, _, body = text.partition(" << ") if " << " in text else (text, None, None)
    fields = [field.strip() for field in text.split(" | ")]
    line = fields.pop(0)
    words = line.split(" ")
    if not words[-1].startswith("HTTP/"):
        line += " HTTP/1.1"
    port, host, headers = "PORT", "Host: localhost", []
    for field in fields:
        if field == "-Host":
            host = None
        elif field.startswith("@"):
            port = field[1:]
        else:
            if field.lower().startswith("host:"):
                host = None
            headers.append(unescape(field))
    head = [unescape(line)] + ([host.encode()] if host else []) + headers
    data = unescape(body) if body is not None else b""
    if body is not None and not any(field.lower().startswith((b"content-length:",
                                                              b"transfer-encoding:"))
                                    for field in headers):
        head.append(b"Content-Length: %d" % len(data))
    return b"\r\n".join(head) + b"\r\n\r\n" + data, words[0], port


def parse_row(text):
    raw = re.match(r"(?:RAW|BARE)(?:\[(\d+)\])? (.*)", text, re.DOTALL)
    if raw:
        data, _, port = raw.group(2).partition(" | @")
        data = unescape(data)
        method = data.split(b" ", 1)[0].decode("latin-1")
        row = Row(text, data, [method] * int(raw.group(1) or 1), port or "PORT")
        row.bare = text.startswith("BARE")
        return row
    requests = [_request(part.strip()) for part in text.split(" && ")]
    return Row(text, b"".join(data for data, _, _ in requests),
               [method for _, method, _ in requests], requests[0][2])


def parse_table(text):
    rows = []
    for line in text.split("\n"):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        if line.startswith("=> "):
            expect, _, reason = line[3:].partition(" -- ")
            assert reason, "an expectation needs a reason: " + line
            rows[-1].expect = Expectation(expect.strip())
            rows[-1].reason = reason
        else:
            rows.append(parse_row(line))
    return rows
