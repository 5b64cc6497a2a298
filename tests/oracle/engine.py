"""Runs one configuration with its rows on a server and brings the answers into comparable form."""

import email.utils
import errno
import glob
import os
import re
import shutil
import socket
import zlib

from harness import Client, Closed, ProtocolError, Server, Timeout

from .rows import parse_table

FRAME = """
    log_format oracle '$remote_port $connection $status body=$body_bytes_sent '
                      'length=$request_length "$request" "$uri" "$args" "$host" "$server_name"';
    access_log logs/oracle.access oracle;
"""

# After so many exchanges without an answer the rest of a configuration is given up.
PATIENCE = 3

# Seconds that one answer may take.
LIMIT = 30.0
UNSEEN_LIMIT = 2.0    # … where the answer is of no account

PROBE = b"GET /oracle-probe HTTP/1.1\r\nHost: probe\r\nConnection: close\r\n\r\n"


class Config:
    """One configuration and its rows.

    name; http: text inside http { } (see FRAME for what precedes it); requests: the table;
    files: the tree as Server takes it; prepare: function(server) that does what files cannot;
    main: text at the main level; plain: True leaves FRAME out; errors: False leaves the error log
    uncompared; changes_files: True where requests change the tree, which the second server finds as the first has.
    """

    def __init__(self, name, http, requests, files=None, prepare=None, main="", plain=False,
                 errors=True, changes_files=False):
        self.name = name
        self.http = http
        self.rows = parse_table(requests)
        self.files = files or {}
        self.prepare = prepare
        self.main = main
        self.plain = plain
        self.errors = errors
        self.changes_files = changes_files


class Exchange:
    """What one row gave: responses, ending ("closed", "kept", "timeout", "broken ..."), probe
    response if one was sent, client port, log lines by file name, methods, signature (length)."""

    def __init__(self):
        self.methods = []
        self.signature = 0
        self.responses = []
        self.probe = None
        self.ending = "not run"
        self.port = None
        self.logs = {}

    def render(self):
        """Comparable text."""
        out = []
        for method, response in zip(self.methods, self.responses):
            for interim in response.interim:
                out += render_response(interim)
            out += render_response(response, self.signature if method == "HEAD" else None)
        out.append("connection: " + self.ending)
        for name, lines in sorted(self.logs.items()):
            out += ["%s: %s" % (name, line) for line in lines]
        return out

    def render_decoded(self):
        """The same with the contents of bodies coded by gzip, without what depends on their length: one compressor's bytes are not
        another's. None: no body was coded so."""
        lines, is_coded = self.render(), False
        for response in self.responses:
            if response.header("Content-Encoding") == "gzip" and response.text.startswith("\x1f\x8b"):
                is_coded = True
                coded = "body %s %r" % (response.framing, response.text)
                content = zlib.decompress(response.text.encode("latin-1"), wbits=31)
                lines = ["body decoded %r" % content if line == coded else line for line in lines]
        if not is_coded:
            return None
        lines = [re.sub(r"\bbody=\d+", "body=CODED", line) for line in lines]
        lines = [re.sub(r"^(ratio\.access: )[\d.]+$", r"\1CODED", line) for line in lines]
        return [re.sub(r"^(Content-Length: )\d+$", r"\1CODED", line) for line in lines]


class Result:
    """What a configuration gave: exchanges in row order, error_lines, failure (a text when the
    server did not start or misbehaved at its end)."""

    def __init__(self):
        self.exchanges = []
        self.error_lines = []
        self.failure = None


# making answers comparable

_product = re.compile(r"^(?:nginx|[Pp]ortunus)(/[0-9A-Za-z.+-]+)?")
_signature = re.compile(r"(<center>)(?:nginx|[Pp]ortunus)(/[0-9A-Za-z.+-]+)?(</center>)")


def _signature_plain(found):
    return found.group(1) + ("PRODUCT/VERSION" if found.group(2) else "PRODUCT") + found.group(3)


def _date(text):
    try:
        return int(email.utils.parsedate_to_datetime(text).timestamp())
    except (TypeError, ValueError):
        return None


def plain_body(response):
    """The body without version and boundary, and by how much that changed its length."""
    text = response.text
    boundary = re.match(r"multipart/byteranges; boundary=(\S+)",
                        response.header("Content-Type") or "")
    plain = _signature.sub(_signature_plain, text)
    if boundary:
        plain = plain.replace(boundary.group(1), "BOUNDARY")
    return plain, len(text) - len(plain)


def signature_length(port):
    """How many bytes the product and its version take in this server's error pages."""
    try:
        with Client(port, limit=LIMIT) as client:
            client.send(b"GET /\x01 HTTP/1.1\r\n\r\n")
            found = _signature.search(client.response().text)
            return len(found.group(0)) if found else 0
    except (AssertionError, OSError):
        return 0


def render_response(response, head_signature=None):
    """Comparable lines. head_signature: for the answer to a HEAD, length of the signature that an
    error page would hold, because the length is announced and the page is not there to look at."""
    body, delta = plain_body(response)
    now = None
    lines = []
    for name, value in response.headers:
        if name == "Date":
            now = _date(value)
            value = "DATE" if now is not None else "bad date " + value
        elif name == "Server":
            value = _product.sub(lambda found: "PRODUCT/VERSION" if found.group(1) else "PRODUCT",
                                 value)
        elif name == "Content-Length" and delta:
            value = str(int(value) - delta)
        elif name == "Content-Length" and head_signature and response.status >= 300:
            value += " by HEAD, signature %d" % head_signature
        elif name == "Content-Type":
            value = re.sub(r"(?<=boundary=)\S+", "BOUNDARY", value)
        lines.append("%s: %s" % (name, value))
    relative = response.header("Expires") if len(response.all("Expires")) == 1 else None
    if relative and now is not None and _date(relative) is not None:
        distance = _date(relative) - now
        # An old or far date is absolute, anything near now is an offset.
        if -400 * 86400 < distance < 4000 * 86400:
            lines = [line for line in lines if not line.startswith("Expires:")]
            lines.append("Expires: now %+d" % distance)
    out = ["HTTP/%s %d %s" % (response.version, response.status, response.reason)]
    # The order of different fields says nothing; that of equal names does, and sort is stable.
    out += sorted(lines, key=lambda line: line.split(":", 1)[0])
    if response.trailers:
        out += ["trailer %s: %s" % pair for pair in response.trailers]
    out.append("body %s %r" % (response.framing, body))
    return out


_head_length = re.compile(r"Content-Length: (\d+) by HEAD, signature (\d+)$")
_moving = re.compile(r"(Expires: now |Cache-Control: max-age=)([+-]?\d+)$")


def same_line(left, right):
    """True when two rendered lines say the same: offsets from now may be 3 seconds apart."""
    if left == right:
        return True
    first, second = _head_length.match(left), _head_length.match(right)
    if first and second:
        return (first.group(1) == second.group(1)
                or int(first.group(1)) - int(first.group(2))
                == int(second.group(1)) - int(second.group(2)))
    first, second = _moving.match(left), _moving.match(right)
    return bool(first and second and first.group(1) == second.group(1)
                and abs(int(first.group(2)) - int(second.group(2))) <= 3)


def same_lines(left, right):
    return len(left) == len(right) and all(map(same_line, left, right))


def same_exchange(reference, ours):
    """True when two exchanges say the same; a body that is coded by gzip may be made of other bytes."""
    if same_lines(reference.render(), ours.render()):
        return True
    left, right = reference.render_decoded(), ours.render_decoded()
    return left is not None and right is not None and same_lines(left, right)


# the exchange

def connect(port, used, limit):
    """A connection from a local port that none of this run had: log lines are told apart by it."""
    while True:
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as trial:
            trial.bind(("127.0.0.1", 0))
            source = trial.getsockname()
        if source[1] in used:
            continue
        used.add(source[1])
        try:
            return Client(port, limit=limit, source=source)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise


def exchange(row, port, used, limit=LIMIT):
    """Sends one row and reads what it expects. used: the local ports that were taken before; limit: of waiting, in
    seconds."""
    got = Exchange()
    got.methods = row.methods
    try:
        with connect(port, used, limit) as client:
            got.port = client.port
            _converse(client, row, got)
    except Timeout:
        got.ending = "timeout"
    except ProtocolError as error:
        got.ending = "broken: %s" % error
    except ConnectionRefusedError:
        got.ending = "broken: connection refused"
    return got


def _converse(client, row, got):
    client.send(row.data)
    if row.bare:
        got.ending = "closed after bytes %r" % _signature.sub(
            _signature_plain, client.rest_or_reset().decode("latin-1"))
        return
    for method in row.methods:
        try:
            got.responses.append(client.response(method))
        except Closed as closed:
            if closed.rest.strip():
                got.ending = "broken: %r" % closed.rest
            else:
                got.ending = "closed"
            return
        if got.responses[-1].closes:
            break
    if got.responses[-1].closes:
        try:
            rest = client.rest()
            got.ending = "closed" if not rest else "broken: closed after %r" % rest
        except Closed:
            got.ending = "closed"
        return
    client.send(PROBE)
    try:
        got.probe = client.response()
        got.ending = "kept"
        client.rest_or_reset()
    except Closed as closed:
        got.ending = "closed" if not closed.rest else "broken: %r" % closed.rest


# logs

# How much of a refused request had been read, and parsed, is nobody's business.
_refusal = re.compile(r"^(400 body=\d+) length=.*")


def _read_logs(server, result):
    """Gives each exchange its access log lines, and each connection number its exchange."""
    by_port = {str(got.port): got for got in result.exchanges}
    by_connection = {}
    for path in sorted(glob.glob(server.path("logs/*.access"))):
        name = os.path.basename(path)
        with open(path, encoding="latin-1", newline="\n") as source:
            for line in source.read().split("\n")[:-1]:
                port, _, rest = line.partition(" ")
                got = by_port.get(port)
                if got is None:
                    continue
                if name == "oracle.access":
                    connection, _, rest = rest.partition(" ")
                    by_connection[connection] = got
                    rest = _refusal.sub(r"\1 as refused", rest)
                got.logs.setdefault(name, []).append(rest)
    for got in result.exchanges:
        _plain_lengths(got)
    return by_connection


def _plain_lengths(got):
    """Takes the length of the version out of body=N in the oracle's own log lines."""
    lines = got.logs.get("oracle.access", [])
    for index, response in enumerate(got.responses + ([got.probe] if got.probe else [])):
        if index < len(lines):
            delta = plain_body(response)[1]
            lines[index] = re.sub(r"body=(\d+)", lambda found, delta=delta:
                                  "body=%d" % (int(found.group(1)) - delta), lines[index], count=1)


_error_line = re.compile(
    r"\d{4}/\d\d/\d\d \d\d:\d\d:\d\d \[(warn|error|crit|alert|emerg)\] \d+#\d+: (?:\*(\d+) )?(.*)")


def _read_errors(server, result, by_connection):
    """Collects warnings and worse as (row number or None, level, message)."""
    for line in server.error_log.split("\n"):
        found = _error_line.match(line)
        if found and "/oracle-probe HTTP" not in line:
            got = by_connection.get(found.group(2))
            index = result.exchanges.index(got) if got else None
            result.error_lines.append((index, found.group(1), found.group(3)))


def run(config, server, is_reference=False):
    """Runs the rows of a configuration on the server that `server` describes. What the reference says to a row of which
    we expect something else is looked at by nobody: it may be nothing, and is not waited for as long."""
    result = Result()
    try:
        server.start()
        silent, used = 0, set()
        for row in config.rows:
            if silent < PATIENCE:
                is_unseen = is_reference and row.expect is not None
                got = exchange(row, server.port_of(row.port), used, UNSEEN_LIMIT if is_unseen else LIMIT)
                silent += got.ending == "timeout"
            else:
                got = Exchange()
            result.exchanges.append(got)
        signature = signature_length(server.port)
        for got in result.exchanges:
            got.signature = signature
        code = server.quit()
        if code != 0:
            result.failure = "exit code %d\n%s" % (code, server.evidence())
    except (AssertionError, OSError) as failure:
        result.failure = str(failure)
        result.exchanges += [Exchange()] * (len(config.rows) - len(result.exchanges))
        if server.is_running():
            server.process.kill()
            server.process.wait()
    by_connection = _read_logs(server, result)
    _read_errors(server, result, by_connection)
    return result


def run_both(config, first, second):
    """Runs a configuration on two binaries, one after the other, in the same directory and on the
    same ports. Gives their Results and the problems that the second one's logs show."""
    http = config.http if config.plain else FRAME + config.http
    server = Server(http, main=config.main, files=config.files, binary=first)
    try:
        if config.prepare:
            config.prepare(server)
        results = [run(config, server, is_reference=True)]
        for path in glob.glob(server.path("logs/*")) + [server.path("error.log"),
                                                        server.path("stderr.txt")]:
            if os.path.exists(path):
                os.unlink(path)
        if config.changes_files:
            for top in {name.split("/")[0] for name in config.files}:
                shutil.rmtree(server.path(top))
            server.write_tree(config.files)
            config.prepare(server)
        server.binary = second
        results.append(run(config, server))
        return results[0], results[1], server.problems()
    finally:
        server.close(check=False)
