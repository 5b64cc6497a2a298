"""TLS clients for tests: contexts, connections, one request, what the server shows."""

import re
import socket
import ssl
import subprocess


def context(certificate=None, version=None, alpn=None, **options):
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    made.check_hostname = False
    made.verify_mode = ssl.CERT_NONE
    if certificate is not None:
        made.load_cert_chain(certificate.crt, certificate.key)
    if version is not None:
        made.minimum_version = made.maximum_version = version
    if alpn is not None:
        made.set_alpn_protocols(alpn)
    return made


def connect(port, name=None, made=None, session=None, **options):
    raw = socket.create_connection(("127.0.0.1", port), timeout=10)
    try:
        return (made or context(**options)).wrap_socket(raw, server_hostname=name, session=session)
    except BaseException:
        raw.close()
        raise


def exchange(secure, target="/", host="x"):
    """One request; gives status and body."""
    secure.sendall(("GET %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n"
                    % (target, host)).encode())
    answer = b""
    while True:
        try:
            part = secure.recv(65536)
        except ssl.SSLEOFError:
            break
        if not part:
            break
        answer += part
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split(b" ")[1]), body.decode("latin-1"), head.decode("latin-1")


def ask(port, target="/", name=None, host="x", **options):
    with connect(port, name, **options) as secure:
        return exchange(secure, target, host)


def common_name(port, name=None, **options):
    """CN of the certificate that the server shows."""
    with connect(port, name, **options) as secure:
        der = secure.getpeercert(binary_form=True)
    text = subprocess.run(["openssl", "x509", "-inform", "DER", "-noout", "-subject", "-nameopt",
                           "multiline"], input=der, stdout=subprocess.PIPE, check=True).stdout
    return re.search(rb"commonName\s*= (.*)", text).group(1).decode()


def pair(made):
    return "ssl_certificate %s; ssl_certificate_key %s;" % (made.crt, made.key)


def staple_of(port, *more):
    """What s_client prints of a connection that asked for a staple."""
    return subprocess.run(["openssl", "s_client", "-connect", "127.0.0.1:%d" % port, "-status", *more],
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          timeout=20, check=True).stdout
