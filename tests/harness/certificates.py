"""Certificates for tests, made by the openssl program; and backends that speak TLS."""

import os
import ssl
import subprocess

from .backend import Backend


def openssl(*words, directory, text=None):
    done = subprocess.run(["openssl", *words], cwd=directory, input=text, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, check=False, encoding="latin-1", timeout=60)
    assert done.returncode == 0, "openssl %s:\n%s" % (" ".join(words), done.stdout)
    return done.stdout


class Authority:
    """Issues certificates into a directory: NAME.crt and NAME.key, P-256. Its own is root.crt, or that of the
    name given; self-signed unless another one issues it."""

    def __init__(self, directory, name="root", issuer=None):
        self.directory = str(directory)
        self.name = name
        self.serial = 1
        self.revoked = []
        self._make(name, "CA:TRUE", [], issuer)

    def path(self, name):
        return os.path.join(self.directory, name)

    def read(self, name):
        with open(self.path(name), encoding="ascii") as source:
            return source.read()

    def _make(self, name, constraint, alt, issuer, subject=None, password=None):
        key = ["-aes256", "-pass", "pass:" + password] if password else []
        openssl("genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", *key,
                "-out", name + ".key", directory=self.directory)
        passin = ["-passin", "pass:" + password] if password else []
        words = ["req", "-new", "-key", name + ".key", "-subj", "/CN=" + (subject or name),
                 "-config", "/dev/null", "-addext", "basicConstraints=critical," + constraint,
                 *passin]
        if alt:
            words += ["-addext", "subjectAltName=" + ",".join(alt)]
        if issuer is None:
            openssl(*words, "-x509", "-days", "30", "-out", name + ".crt",
                    directory=self.directory)
            return
        openssl(*words, "-out", name + ".csr", directory=self.directory)
        issuer.serial += 1
        openssl("x509", "-req", "-in", name + ".csr", "-CA", issuer.name + ".crt", "-CAkey",
                issuer.name + ".key", "-set_serial", str(issuer.serial), "-days", "30",
                "-copy_extensions", "copyall", "-out", name + ".crt", directory=self.directory)

    def issue(self, name, *alt, subject=None, password=None):
        """alt: "DNS:a.example", "IP:127.0.0.1". password: of the key. Gives the name."""
        self._make(name, "CA:FALSE", alt, self, subject, password)
        return name

    def chain(self, *names):
        """One file of several certificates; gives its name."""
        joined = "-".join(names) + ".crt"
        with open(self.path(joined), "w", encoding="ascii") as out:
            out.write("".join(self.read(name + ".crt") for name in names))
        return joined

    def revocation_list(self, *names):
        """A list of these as revoked; gives its file name."""
        end = "20350101000000Z"
        lines = []
        for name in names:
            text = openssl("x509", "-in", name + ".crt", "-noout", "-serial",
                           directory=self.directory)
            serial = text.strip().split("=")[1]
            lines.append("R\t%s\t260101000000Z\t%s\tunknown\t/CN=%s\n" % (end, serial, name))
        with open(self.path("index.txt"), "w", encoding="ascii") as out:
            out.write("".join(lines))
        with open(self.path("ca.conf"), "w", encoding="ascii") as out:
            out.write("[ca]\ndefault_ca = a\n[a]\ndatabase = index.txt\ndefault_md = sha256\n"
                      "default_crl_days = 30\n")
        openssl("ca", "-gencrl", "-config", "ca.conf", "-cert", self.name + ".crt", "-keyfile",
                self.name + ".key", "-out", self.name + ".crl", directory=self.directory)
        return self.name + ".crl"

    def server_context(self, name, chain=None, **members):
        """What Python's servers speak TLS by. members: of ssl.SSLContext."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.path(chain or name + ".crt"), self.path(name + ".key"))
        for member, value in members.items():
            setattr(context, member, value)
        return context


class SecureBackend(Backend):
    """A backend by script behind TLS. `shaken` holds what each handshake came to: a dictionary."""

    def __init__(self, context, *connections, **how):
        self.context = context
        self.shaken = []
        context.sni_callback = self._note_name
        super().__init__(*connections, **how)

    @staticmethod
    def _note_name(connection, name, _context):
        connection.asked_name = name

    def _talk(self, conn, script):
        try:
            secure = self.context.wrap_socket(conn, server_side=True)
        except (ssl.SSLError, OSError) as error:
            self.problems.append(error)
            conn.close()
            return
        certificate = secure.getpeercert() or {}
        subject = {key: value for row in certificate.get("subject", ()) for key, value in row}
        with self.changed:
            self.shaken.append({"name": getattr(secure, "asked_name", None),
                                "version": secure.version(), "cipher": secure.cipher()[0],
                                "is_resumed": secure.session_reused,
                                "client": subject.get("commonName")})
            self.changed.notify_all()
        super()._talk(secure, script)
