"""Certificates for tests: made by openssl when first asked for, kept for the whole run."""

import atexit
import functools
import itertools
import os
import shutil
import subprocess
import tempfile

_directory = None
_numbers = itertools.count()


def directory():
    global _directory
    if _directory is None:
        _directory = tempfile.mkdtemp(prefix="portunus-certificates-")
        os.chmod(_directory, 0o755)
        atexit.register(shutil.rmtree, _directory, ignore_errors=True)
    return _directory


def openssl(*args, **kwargs):
    """Runs openssl in the directory; gives its output."""
    return subprocess.run(["openssl", *args], cwd=directory(), check=True, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, **kwargs).stdout


class Pair:
    """A certificate and its key: file names in crt and key, text in pem and key_pem."""

    def __init__(self, name):
        self.name = name
        self.crt = os.path.join(directory(), name + ".crt")
        self.key = os.path.join(directory(), name + ".key")

    @property
    def pem(self):
        with open(self.crt, encoding="ascii") as source:
            return source.read()

    @property
    def key_pem(self):
        with open(self.key, encoding="ascii") as source:
            return source.read()


def _make_key(pair, kind):
    if kind == "ec":
        openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", pair.key)
    else:
        openssl("genrsa", "-out", pair.key, "2048")
    os.chmod(pair.key, 0o644)


@functools.lru_cache(maxsize=None)
def own(name, kind="ec"):
    """A certificate that signs itself, for CN=name and the DNS name."""
    pair = Pair("%s-%s" % (name, kind))
    _make_key(pair, kind)
    openssl("req", "-x509", "-new", "-key", pair.key, "-out", pair.crt, "-days", "3",
            "-subj", "/CN=" + name, "-addext", "subjectAltName=DNS:" + name)
    return pair


@functools.lru_cache(maxsize=None)
def signed(name, by, *extensions):
    """A certificate signed by own(by), or by a Pair that may sign."""
    authority = by if isinstance(by, Pair) else own(by)
    pair = Pair("%s-by-%s-%d" % (name, authority.name, next(_numbers)))
    _make_key(pair, "ec")
    config = os.path.join(directory(), pair.name + ".ext")
    if not any(word.startswith("basicConstraints=") for word in extensions):
        extensions = ("basicConstraints=CA:FALSE",) + extensions
    with open(config, "w", encoding="ascii") as out:
        out.write("\n".join(extensions) + "\n")
    openssl("req", "-new", "-key", pair.key, "-out", pair.name + ".csr", "-subj", "/CN=" + name)
    openssl("x509", "-req", "-in", pair.name + ".csr", "-CA", authority.crt, "-CAkey",
            authority.key, "-CAcreateserial", "-out", pair.crt, "-days", "3", "-extfile", config)
    return pair


def staple(authority, certificate, *more):
    """The authority's word on a certificate, DER."""
    name = certificate.name + ".ocsp"
    index = os.path.join(directory(), certificate.name + ".index")
    serial = openssl("x509", "-in", certificate.crt, "-noout", "-serial")
    with open(index, "w", encoding="ascii") as out:
        out.write("V\t300101000000Z\t\t%s\tunknown\t/CN=%s\n"
                  % (serial.decode().strip().split("=")[1], certificate.name))
    openssl("ocsp", "-issuer", authority.crt, "-cert", certificate.crt, "-reqout", name + ".req")
    openssl("ocsp", "-index", index, "-CA", authority.crt, "-rsigner", authority.crt, "-rkey",
            authority.key, "-reqin", name + ".req", "-respout", name, "-ndays", "1", *more)
    with open(os.path.join(directory(), name), "rb") as source:
        return source.read()
