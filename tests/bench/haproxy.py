"""haproxy as a second server to be compared with, in the rows of stream that it can play."""

import os
import shutil
import subprocess

from servers import Server

HAPROXY = "/usr/sbin/haproxy"
NAME = "haproxy"

TEMPLATE = """\
global
    nbthread 1
    maxconn {connections}
defaults
    mode tcp
    timeout connect 60s
    timeout client 600s
    timeout server 600s
frontend bench
    bind 127.0.0.1:{port}{tls}
    {lines}
    default_backend app
backend app
    server one {backend}
"""

PASSED = "tcp-request inspect-delay 30s\n    tcp-request content accept if { req.ssl_hello_type 1 }"


def can_play(row):
    """Has haproxy the row, and this machine haproxy?"""
    return row.is_stream and not row.is_datagram and shutil.which(HAPROXY) is not None


def certificate(row, tls_directory):
    """Certificate and key in one file, as haproxy has them."""
    name = f"{tls_directory}/{row.tls}"
    with open(f"{name}.pem", "wb") as out:
        for part in ("crt", "key"):
            with open(f"{name}.{part}", "rb") as file:
                out.write(file.read())
    return f"{name}.pem"


def configuration(row, port, backend, tls_directory, connections):
    """What haproxy reads: as nginx's configuration of the row, and nothing else."""
    tls = f" ssl crt {certificate(row, tls_directory)}" if row.tls else ""
    return TEMPLATE.format(port=port, tls=tls, connections=connections, backend=backend,
                           lines=PASSED if row.tls_behind else "")


class Haproxy(Server):
    """haproxy, as one process with one thread."""

    def command(self):
        return [self.binary, "-db", "-f", f"{self.prefix}/nginx.conf"]


def version():
    """As the heading of the tables has it."""
    text = subprocess.run([HAPROXY, "-v"], stdout=subprocess.PIPE, text=True, check=False).stdout
    return " ".join(text.split()[:3]) if os.path.exists(HAPROXY) else ""
