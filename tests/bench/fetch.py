"""One request by curl, for the rows that speak TLS or HTTP/2, or have a content coding: is the answer
right, and by the protocol and the coding that the row is about?"""

import subprocess

from rows import GRPC_HEADERS

SECONDS = 60            # valgrind is slow


class FetchError(Exception):
    """No answer, or one by another protocol."""


def command(row, uri, port):
    """The command line. The head, and the trailers, go to standard error."""
    scheme = "https" if row.tls or row.tls_behind else "http"
    words = ["curl", "-s", "-k", "--max-time", str(SECONDS), "-D", "/dev/stderr"]
    if row.tls or row.tls_behind:
        words.append("--tlsv1.3")
    if row.streams:
        words.append("--http2" if row.tls else "--http2-prior-knowledge")
    if row.message:
        words += ["--data-binary", "@-"]
        for header in GRPC_HEADERS:
            words += ["-H", ": ".join(header)]
    if row.coding:
        words.append("--compressed")
    for line in row.headers:
        words += ["-H", line]
    return [*words, "-w", "%{stderr}\nsize: %{size_download}", "-H", f"Host: {row.host}", f"{scheme}://127.0.0.1:{port}{uri}"]


def by_curl(row, uri, port):
    """Status, body in clear text, and the bytes that it took on its way."""
    try:
        done = subprocess.run(command(row, uri, port), input=row.message, check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    except FileNotFoundError:
        raise FetchError("curl is not there") from None
    lines = done.stderr.decode("latin-1").splitlines() or [""]
    version, _, rest = lines[0].partition(" ")
    if done.returncode != 0 or version != ("HTTP/2" if row.streams else "HTTP/1.1"):
        raise FetchError(f"{uri}: curl ends with {done.returncode}, and has {lines[0]!r}")
    if row.message and "grpc-status: 0" not in lines:
        raise FetchError(f"{uri}: no grpc-status: 0 among {lines}")
    if row.coding and f"content-encoding: {row.coding}" not in map(str.lower, lines):
        raise FetchError(f"{uri}: no Content-Encoding: {row.coding} among {lines}")
    return int(rest[:3]), done.stdout, int(lines[-1].partition(": ")[2])
