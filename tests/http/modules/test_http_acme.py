"""acme_issuer, acme_certificate: certificates from a CA that speaks ACME."""

import datetime
import fcntl
import json
import os
import re
import shutil
import signal
import socket
import ssl
import stat
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

cryptography = pytest.importorskip("cryptography")

from cryptography import x509  # noqa: E402
from cryptography.x509.oid import NameOID  # noqa: E402

from harness import binaries, proc, skew  # noqa: E402
from harness.daemon import follow_upgrade, upgrade  # noqa: E402
from harness.server import run_binary  # noqa: E402
from harness.wait import until  # noqa: E402
from harness.workers import wait_workers  # noqa: E402

import authority  # noqa: E402
import certificates  # noqa: E402
from authority import Refused  # noqa: E402

pytestmark = pytest.mark.skipif("http_acme_module" not in binaries.version_text(binaries.under_test()), reason="without acme")

CONF = """
    %(http)s
    acme_issuer ca { uri %(uri)s; ssl_trusted_certificate %(trusted)s; accept_terms_of_service; %(block)s }
    server {
        listen 127.0.0.1:@PORT@;
        listen 127.0.0.1:@PORT1@ ssl;
        server_name a.test;
        acme_certificate ca %(names)s;
        ssl_certificate $acme_certificate;
        ssl_certificate_key $acme_certificate_key;
        %(server)s
        location / { return 200 "here\\n"; }
    }"""


@pytest.fixture
def ca():
    made = authority.Authority(certificates.signed("acme-server", "acme-root", "subjectAltName=IP:127.0.0.1"))
    yield made
    made.close()


@pytest.fixture
def site(serve, ca):
    """Starts a server whose ports the CA knows."""
    def start(block="", http="", server="", names="", main="worker_processes 2;", conf=CONF, tls="PORT1", **how):
        text = conf % {"http": http, "uri": ca.url, "trusted": certificates.own("acme-root").crt, "block": block, "server": server,
                       "names": names}
        made = serve(text, main=main, **how)
        ca.http_port, ca.tls_port = made.port, made.port_of(tls)
        ca.ready.set()
        return made
    return start


def peer(server, name="a.test", port="PORT1"):
    """The certificate that a client gets."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with socket.create_connection(("127.0.0.1", server.port_of(port)), timeout=10) as plain, \
            context.wrap_socket(plain, server_hostname=name) as secure:
        return x509.load_der_x509_certificate(secure.getpeercert(True))


def issuer_of(certificate):
    return certificate.issuer.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value


def names_of(certificate):
    return sorted(str(one.value) for one in certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value)


def issued(server, name="a.test"):
    until(lambda: issuer_of(peer(server, name)) == "Test Root", lambda: "a certificate of the CA\n" + server.error_log)
    return peer(server, name)


def has_lua():
    return "http_lua_module" in binaries.version_text(binaries.under_test())


def saved(server, folder="acme_ca"):
    return sorted(name for name in os.listdir(server.path(folder)) if name.endswith(".pem"))


def test_first_certificate(site, ca):
    """At first a self-signed one; then the CA's in all workers, without a reload; the files are for the master's user alone."""
    ca.meta["termsOfService"] = "https://ca.test/terms"
    server = site("contact admin@a.test;")
    assert issuer_of(peer(server)) in ("certificate that is being ordered", "Test Root")
    leaf = issued(server)
    assert names_of(leaf) == ["a.test"]
    assert {issuer_of(peer(server)) for _ in range(20)} == {"Test Root"}
    assert ca.seen == [("http-01", "a.test", "valid")]
    assert [one["contact"] for one in ca.accounts.values()] == [["mailto:admin@a.test"]]
    until(lambda: saved(server), "the file")
    folder = server.path("acme_ca")
    for name in os.listdir(folder):
        assert stat.S_IMODE(os.stat(os.path.join(folder, name)).st_mode) == 0o600, name
    assert stat.S_IMODE(os.stat(folder).st_mode) == 0o700
    assert "a self-signed one is served" in server.error_log and "was issued" in server.error_log


def test_after_a_restart_and_a_reload(site, ca):
    """What is in the files, or in the zone, is not ordered again."""
    server = site()
    serial = issued(server).serial_number
    server.reload()
    assert peer(server).serial_number == serial
    server.quit()
    server.wait_end()
    server.start()
    assert peer(server).serial_number == serial
    assert (ca.count("new-order"), ca.count("new-account")) == (1, 1)


def test_files_are_not_parsed_by_the_master(site, ca):
    """What has written them is a process that speaks to a CA. One that cannot be used is replaced."""
    server = site()
    issued(server)
    until(lambda: saved(server), "the file")
    server.quit()
    server.wait_end()
    server.write("acme_ca/" + saved(server)[0], "-----BEGIN PRIVATE KEY-----\nMAAA\n-----END PRIVATE KEY-----\n")
    before = len(server.lines("error.log"))
    server.start()
    master = server.pid
    until(lambda: issuer_of(peer(server)) == "Test Root", "another certificate")
    line, = {re.sub(r".*\] (\d+)#\d+: ", r"\1 ", line) for line in server.lines("error.log")[before:] if ".pem" in line and "is not used" in line
             and int(re.search(r"\] (\d+)#", line).group(1)) not in orderers_of(server)}
    assert int(line.split()[0]) not in [master] + server.children() and line.endswith("is not used: it has no key")


def test_files_that_are_no_files(site, ca):
    """A reload waits for none that writes into a FIFO, and no order waits for one that reads from it."""
    server = site()
    serial = issued(server).serial_number
    until(lambda: saved(server), "the file")
    name = saved(server)[0]
    os.unlink(server.path("acme_ca/" + name))
    os.mkfifo(server.path("acme_ca/" + name))
    os.mkfifo(server.path("acme_ca/%s.new" % name))
    before = server.children()
    server.reload()
    server.wait_log(r'acme_issuer "ca": cannot read "%s" \(22: Invalid argument\)' % re.escape(name))
    until(lambda: not set(before) & set(server.children()), "the former workers to end")
    assert peer(server).serial_number == serial


def test_another_directory(site, ca):
    """What a CA's staging directory has issued is not served when the issuer names another one."""
    server = site(conf=CONF.replace("%(uri)s", "%(uri)s/"))  # as another one
    serial = issued(server).serial_number
    conf = server.path("nginx.conf")
    with open(conf, encoding="ascii") as file:
        text = file.read()
    with open(conf, "w", encoding="ascii") as file:
        file.write(text.replace("directory/;", "directory;"))
    server.reload()
    until(lambda: server.error_log.count("was issued") == 2, "a new certificate")
    assert issued(server).serial_number != serial
    assert (ca.count("new-order"), len(saved(server))) == (2, 2)


def test_names_that_change(site, ca):
    """A reload brings another name: until the CA has issued a certificate for both, that of the former name is served, not a self-signed one."""
    server = site(names="a.test")
    serial = issued(server).serial_number
    goes_on = threading.Event()

    def stall(made, status, fields, body):
        assert goes_on.wait(20)
        return status, fields, body

    ca.change["new-order"] = stall
    with open(server.path("nginx.conf"), encoding="ascii") as file:
        text = file.read()
    with open(server.path("nginx.conf"), "w", encoding="ascii") as file:
        file.write(text.replace("acme_certificate ca a.test;", "acme_certificate ca a.test b.test;"))
    server.reload()
    server.wait_log("until it is issued, a former one is served, for 1 of its 2 names")
    until(lambda: ca.count("new-order") == 2, "the order")
    assert peer(server).serial_number == serial
    goes_on.set()
    until(lambda: names_of(peer(server)) == ["a.test", "b.test"], "the new one")


def test_unauthorized_is_ordered_again(site, ca):
    """The CA says when; until then nothing is asked."""
    failures = [1]

    def refuse(made, status, fields, body):
        if failures:
            failures.pop()
            raise Refused("rateLimited", "too many", 429, {"Retry-After": "1"})
        return status, fields, body

    ca.change["new-order"] = refuse
    server = site()
    issued(server)
    assert ca.count("new-order") == 2 and "429 rateLimited: too many" in server.error_log
    assert "is ordered again in 1s" in server.error_log


def figures(server):
    found = (line.rpartition(" ") for line in server.get("/metrics").text.splitlines() if line.startswith("portunus_acme_"))
    return {name: int(value) for name, _, value in found}


@pytest.mark.filterwarnings("ignore:Properties that return")  # newer ones have other names
def test_metrics(site, ca):
    """Orders that began, were good and failed, and when the next is due: at two thirds of the life, or when one that failed is tried again."""
    failures = [Refused("rateLimited", "too many", 429, {"Retry-After": "1"}), Refused("unauthorized", "no", 401, {"Retry-After": "1"})]

    def refuse(made, status, fields, body):
        if failures:
            raise failures.pop()
        return status, fields, body

    ca.change["new-order"] = refuse
    server = site(server="location = /metrics { metrics; }")
    leaf = issued(server)
    issuer, failed = '{issuer="ca"}', 'portunus_acme_orders_failed_total{issuer="ca",kind="%s"}'
    begins, ends = (int(moment.replace(tzinfo=datetime.timezone.utc).timestamp()) for moment in (leaf.not_valid_before, leaf.not_valid_after))
    due = "portunus_acme_next_order_timestamp_seconds" + issuer
    until(lambda: figures(server)[due] > begins + (ends - begins) * 0.6, lambda: figures(server))
    assert figures(server)[due] <= begins + (ends - begins) * 2 / 3
    wanted = {"portunus_acme_orders_total" + issuer: 3, "portunus_acme_orders_issued_total" + issuer: 1,
              failed % "limited": 1, failed % "refused": 1, failed % "other": 0}
    assert {name: value for name, value in figures(server).items() if name != due} == wanted
    server.reload()
    assert figures(server)["portunus_acme_orders_total" + issuer] == 3


def test_bad_nonces(site, ca):
    """A nonce that is refused is replaced by that of the answer."""
    refused = []

    def refuse(made, status, fields, body):
        if len(refused) < 3:
            refused.append(1)
            raise Refused("badNonce")
        return status, fields, body

    ca.change["new-order"] = refuse
    issued(site())
    assert ca.count("new-order") == 4


def test_nonces_that_are_never_good(site, ca):
    def refuse(made, status, fields, body):
        raise Refused("badNonce")

    ca.change["new-account"] = refuse
    server = site()
    server.wait_log("is ordered again in")
    assert ca.count("new-account") == 8


@pytest.mark.parametrize("kind", ["ecdsa:384", "ecdsa:521", "rsa:2048"])
def test_keys(site, ca, kind):
    server = site("account_key %s;" % kind, names="key=%s" % kind)
    assert "key_size" in dir(issued(server).public_key())
    assert issued(server).public_key().key_size == int(kind.split(":")[1])


def test_account_key_of_a_file(site, ca):
    made = certificates.own("account")
    issued(site("account_key %s;" % made.key))
    assert len(ca.accounts) == 1


@pytest.mark.parametrize("names", ["", "a.test b.test A.test", "192.0.2.1 a.test"])
def test_tls_alpn_01(site, ca, names):
    """Also for addresses, for which the CA asks by their reverse names."""
    server = site("challenge tls-alpn-01;", names=names)
    assert names_of(issued(server)) == sorted(set((names or "a.test").lower().split()))
    assert {one[0] for one in ca.seen} == {"tls-alpn-01"}
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["acme-tls/1"])
    with socket.create_connection(("127.0.0.1", server.port_of("PORT1")), timeout=10) as plain:
        with pytest.raises(ssl.SSLError, match="no application protocol"):  # no challenge is open
            context.wrap_socket(plain, server_hostname="a.test")


def test_tls_alpn_01_at_a_server_that_refuses(site, ca):
    """The challenge is answered whatever the server would do: with http2, certificates of clients, or a refusal."""
    server = site("challenge tls-alpn-01;", server="http2 on; ssl_verify_client on; ssl_client_certificate %s;" %
                  certificates.own("acme-root").crt,
                  http="server { listen 127.0.0.1:@PORT1@ ssl default_server; ssl_reject_handshake on; }")
    server.wait_log("was issued")


@pytest.mark.parametrize("block", ["stream { %s server { listen 127.0.0.1:@PORT2@ ssl; ssl_alpn other; return x; } }",
                                   "stream { %s server { listen 127.0.0.1:@PORT2@ ssl; server_name b.test; ssl_sni_force on; return x; } }",
                                   "mail { %s auth_http 127.0.0.1:1; server { listen 127.0.0.1:@PORT2@ ssl; protocol imap; } }"])
def test_tls_alpn_01_at_a_port_of_stream_or_mail(site, ca, block):
    """The port of the challenge may be that of another protocol, whatever it wants of its clients."""
    own = certificates.own("acme-other")
    pair = "ssl_certificate %s; ssl_certificate_key %s;" % (own.crt, own.key)
    server = site("challenge tls-alpn-01;", main="worker_processes 2; " + block % pair, tls="PORT2")
    issued(server)
    assert {one[0] for one in ca.seen} == {"tls-alpn-01"}


def test_other_requests_below_the_path(site, ca):
    """What is no challenge of ours is for others, such as certbot."""
    server = site()
    issued(server)
    assert server.get("/.well-known/acme-challenge/other").text == "here\n"


def test_external_account(site, ca):
    ca.meta["externalAccountRequired"] = True
    ca.external["key-1"] = b"0123456789abcdef0123456789abcdef"
    server = site("external_account_key key-1 data:%s;" % authority.encode(ca.external["key-1"]))
    issued(server)


def test_external_account_is_missing(site, ca):
    ca.meta["externalAccountRequired"] = True
    site().wait_log('add "external_account_key"')
    assert ca.count("new-account") == 0


def test_terms_are_not_accepted(site, ca):
    ca.meta["termsOfService"] = "https://ca.test/terms"
    server = site(conf=CONF.replace("accept_terms_of_service;", ""))
    server.wait_log('https://ca.test/terms: read them and add "accept_terms_of_service"')


def test_profiles(site, ca):
    ca.meta["profiles"] = {"short": "six days"}
    issued(site("profile short;"))
    assert [one["payload"]["profile"] for one in ca.orders.values()] == ["short"]


def test_profile_that_the_ca_lacks(site, ca):
    server = site("profile short;")
    issued(server)
    assert 'the CA has no profile "short"' in server.error_log


def test_profile_that_is_required(site, ca):
    server = site("profile short require;")
    server.wait_log('the CA has no profile "short"')
    assert ca.count("new-order") == 0


def test_preferred_chain(site, ca):
    server = site('preferred_chain "Other Root";')
    until(lambda: issuer_of(peer(server)) == "Other Root", "the other chain")


def test_common_name(site, ca):
    issued(site("common_name_in_csr on;"))
    assert [one["subject"] for one in ca.orders.values()] == ["CN=a.test"]


HOOK = """#!/bin/sh
echo "$@" >> %s
"""


def test_dns_01_with_a_program(site, ca, tmp_path):
    """A wildcard and its domain have the same record's name, one after the other."""
    calls = tmp_path / "calls"
    hook = tmp_path / "hook"
    hook.write_text(HOOK % calls)
    hook.chmod(0o755)
    ca.check_dns_01 = lambda value, token, answer: ca.records.setdefault(
        value, calls.read_text().count("add _acme-challenge.%s %s\n" % (value, authority.thumbprint_of(answer))))
    server = site("challenge dns-01; dns_hook %s; dns_wait 0s;" % hook, names="*.a.test a.test")
    assert names_of(issued(server, "x.a.test")) == ["*.a.test", "a.test"]
    until(lambda: calls.read_text().count("remove") == 2, "records to be removed")
    assert [line.split()[0] for line in calls.read_text().splitlines()] == ["add", "remove"] * 2


def orderers_of(server):
    return [pid for pid in server.children() if proc.title(pid) == "nginx: background process"]


LUA_AGENT = "init_by_lua_block { require('ngx.process').enable_privileged_agent(10) }"


@pytest.mark.parametrize("http", ["", LUA_AGENT])
def test_rights_of_the_process_that_orders(site, ca, tmp_path, http):
    """It speaks to the CA as the workers' user, whatever Lua has; a monitor that does nothing else has the master's rights, and runs the hook."""
    def look(made, *answer):
        ca.ready.wait(20)
        sockets = set(proc.connected_to(made.server.server_port))
        speakers.update(pid for pid in server.children() if sockets & set(proc.sockets(pid)))
        users.update((proc.status(pid, "Uid"), proc.status(pid, "CapEff")) for pid in speakers)
        return answer

    if http and not has_lua():
        pytest.skip("without Lua")
    speakers, users = set(), set()
    ca.change["new-order"] = look
    hook = tmp_path / "hook"
    hook.write_text("#!/bin/sh\nid -u >> %s\n" % (tmp_path / "users"))
    hook.chmod(0o755)
    ca.check_dns_01 = lambda value, token, answer: None
    server = site("challenge dns-01; dns_hook %s; dns_wait 0s;" % hook, main="worker_processes 1;", http=http)
    issued(server)
    orderer, = orderers_of(server)
    monitor, = proc.children(orderer)
    assert proc.title(monitor) == "nginx: acme monitor process"
    worker, = (pid for pid in server.children() if proc.title(pid) == "nginx: worker process")
    agents = [pid for pid in server.children() if proc.title(pid) == "nginx: privileged agent process"]
    assert speakers == {orderer} and users == {(proc.status(worker, "Uid"), proc.status(worker, "CapEff"))}
    assert [proc.user(pid) for pid in agents + [monitor]] == [os.geteuid()] * (2 if http else 1)
    until(lambda: (tmp_path / "users").read_text().split() == [str(os.geteuid())] * 2, "the hook for add and remove")
    with open(server.path("acme_ca/account.key"), "rb") as file:
        assert file.read().startswith(b"-----BEGIN")
    assert len(os.listdir("/proc/%d/fd" % monitor)) <= 5  # three, its socket, the lock


def test_monitor_that_dies(site, ca):
    """The process that orders ends with it, and the master starts both again."""
    def kill(made, *answer):
        if not died:
            died.extend(orderers_of(server))
            os.kill(proc.children(died[0])[0], signal.SIGKILL)
        return answer

    died = []
    ca.change["new-order"] = kill
    server = site(allow=["its monitor process has exited"])
    server.wait_log('acme_issuer "ca": its monitor process has exited, and this process exits')
    until(lambda: any(pid not in died and proc.children(pid) for pid in orderers_of(server)), "another one, with its monitor")


@pytest.mark.parametrize("main", ["worker_processes 2;", "master_process off;"])
@pytest.mark.parametrize("hook, said", [("/bin/false", "failed with status 1"), ("/nonexistent/hook", "cannot be run")])
def test_dns_hook_that_fails(site, ca, hook, said, main):
    """Also where the process that orders looks after other programs, too."""
    server = site("challenge dns-01; dns_hook %s; dns_wait 0s;" % hook, main=main)
    server.wait_log(said)
    server.wait_log("is ordered again in")
    assert ca.count("challenge") == 0


LONG_HOOK = """#!/bin/sh
trap 'echo "$1 was ended" >> %(calls)s; exit 1' TERM
echo $1 >> %(calls)s
[ $1 = %(slow)s ] || exit 0
while :; do sleep 0.02; done
"""


@pytest.mark.parametrize("slow, main, lines", [("add", "", ["add", "add was ended"]), ("add", "master_process off;", ["add", "add was ended"]),
                                               ("none", "", ["add", "remove"]), ("remove", "", ["add", "remove", "remove was ended"])])
def test_stop_while_the_hook_runs(site, ca, tmp_path, slow, main, lines):
    """A program gets SIGTERM, and what was added is removed; nobody has to be killed."""
    def programs():
        parents = [monitor for pid in orderers_of(server) for monitor in proc.children(pid)] or [server.pid]
        return [pid for parent in parents for pid in proc.children(parent)]

    calls, hook = tmp_path / "calls", tmp_path / "hook"
    calls.write_text("")
    hook.write_text(LONG_HOOK % {"calls": calls, "slow": slow})
    hook.chmod(0o755)
    server = site("challenge dns-01; dns_hook %s; dns_wait 1h;" % hook, main=main)
    until(lambda: calls.read_text().split() == ["add"] and bool(programs()) == (slow == "add"), "the hook")
    server.stop()
    assert calls.read_text().splitlines() == lines, server.error_log
    assert ("was terminated because the server stops" in server.error_log) == ("was ended" in lines[-1])


def test_dns_01_with_a_request(site, ca):
    """The hook is a URL: it gets JSON."""
    got = []

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *args):
            pass

        def do_POST(self):
            got.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            if got[-1]["action"] == "add":
                ca.records[got[-1]["name"]] = [got[-1]["value"]]
            self.send_response(204)
            self.end_headers()

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as hook:
        threading.Thread(target=hook.serve_forever, daemon=True).start()
        issued(site("challenge dns-01; dns_hook http://127.0.0.1:%d/dns; dns_wait 0s;" % hook.server_port))
        until(lambda: len(got) == 2, "the record to be removed")
        hook.shutdown()
    assert [(one["action"], one["name"], one["type"]) for one in got] == [
        ("add", "_acme-challenge.a.test", "TXT"), ("remove", "_acme-challenge.a.test", "TXT")]


def test_dns_persist_01(site, ca):
    """The log says which record lasts."""
    ca.records["_validation-persist.a.test"] = ["x"]
    server = site("challenge dns-persist-01;", names="*.a.test")
    issued(server, "x.a.test")
    account = next(iter(ca.accounts))
    assert '_validation-persist.a.test. IN TXT "ca.test; accounturi=%s; policy=wildcard"' % account in server.error_log


def test_renewal(site, ca):
    """Past two thirds of its life a certificate is ordered again, with the same account."""
    ca.age = datetime.timedelta(days=70)
    server = site()
    first = issued(server)
    server.quit()
    server.wait_end()
    ca.age = datetime.timedelta(hours=1)
    server.start()
    until(lambda: peer(server).serial_number != first.serial_number, "a new certificate")
    assert (ca.count("new-order"), ca.count("new-account")) == (2, 1)


@pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")
def test_clock_that_jumps(site, ca, tmp_path):
    """A certificate of six days. Forward past two thirds: renewed. Past the end: what the CA issues has expired, the present one stays, and nothing is
    ordered in a loop. Back: that failure does not put off what is due."""
    day = 86400
    clock = skew.Skew(str(tmp_path))
    ca.lasts = datetime.timedelta(days=6)
    server = site("ssl_verify off;", env=clock.environment)  # the certificate of the CA itself expires
    first = issued(server)
    clock.set(5 * day)
    server.reload()  # else it is seen within a minute
    until(lambda: peer(server).serial_number != first.serial_number, "the renewal")
    second = peer(server)
    clock.set(50 * day)
    server.reload()
    server.wait_log("has expired already, by the clock of this machine")
    server.wait_log("is ordered again in")
    assert (peer(server).serial_number, ca.count("new-order")) == (second.serial_number, 3)
    clock.set(5 * day)
    server.reload()
    until(lambda: peer(server).serial_number != second.serial_number, "the next renewal")
    assert ca.count("new-order") == 4


def test_renewal_that_the_ca_suggests(site, ca):
    """RFC 9773: a window that has passed means now; the order names the one that it replaces."""
    ca.window = ("2020-01-01T00:00:00Z", "2020-01-02T00:00:00Z")
    server = site()
    first = issued(server)
    until(lambda: ca.count("renewal-info") == 1, "the question")
    server.quit()
    server.wait_end()
    server.start()
    until(lambda: peer(server).serial_number != first.serial_number, "a new certificate")
    newest = list(ca.orders.values())[-1]["payload"]
    key, serial = (authority.decode(part) for part in newest["replaces"].split("."))
    assert int.from_bytes(serial, "big") == first.serial_number
    assert key == first.extensions.get_extension_for_class(x509.AuthorityKeyIdentifier).value.key_identifier


def test_renewal_replaced_already(site, ca):
    ca.window = ("2020-01-01T00:00:00Z", "2020-01-02T00:00:00Z")

    def refuse(made, status, fields, body):
        if list(made.orders.values())[-1]["payload"].get("replaces"):
            raise Refused("alreadyReplaced", status=409)
        return status, fields, body

    ca.change["new-order"] = refuse
    server = site()
    first = issued(server)
    until(lambda: ca.count("renewal-info") == 1, "the question")
    server.quit()
    server.wait_end()
    server.start()
    until(lambda: peer(server).serial_number != first.serial_number, "a new certificate")


def test_two_nodes(site, ca, tmp_path):
    """They share a folder: one orders, the other waits and takes what is there."""
    ca.stalls = threading.Event()
    folder = "state_path %s;" % (tmp_path / "state")
    one = site(folder)
    until(lambda: ca.requests, "the first to begin")
    two = site(folder)
    two.wait_log("another process has the lock")
    ca.http_port = one.port
    ca.stalls.set()
    assert issued(one).serial_number == issued(two).serial_number
    until(lambda: ca.count("directory") == 3, "both to ask when to renew")  # as one account
    assert (ca.count("new-order"), ca.count("new-account")) == (1, 1)


def test_a_lock_that_cannot_be_opened(site, ca, tmp_path):
    """The log says why, once: it is tried again each second, until it can be."""
    lock = tmp_path / "state" / "lock"
    lock.mkdir(parents=True)
    server = site("state_path %s;" % lock.parent)
    server.wait_log('acme_issuer ".*": cannot lock ".*/state/lock" .*Is a directory')
    assert "another process" not in server.error_log
    lock.rmdir()
    ca.http_port = server.port
    issued(server)
    assert server.error_log.count("cannot lock") == 1


def test_account_that_is_gone(site, ca):
    """A new one is made with the same key."""
    ca.age = datetime.timedelta(days=70)
    server = site()
    first = issued(server)
    server.quit()
    server.wait_end()
    ca.accounts.clear()
    server.start()
    server.wait_log("400 accountDoesNotExist")
    server.quit()
    server.wait_end()
    server.start()
    until(lambda: peer(server).serial_number != first.serial_number, "a new certificate")
    assert len(ca.accounts) == 1


def test_account_that_was_deactivated(site, ca):
    ca.age = datetime.timedelta(days=70)
    server = site()
    first = issued(server)
    server.quit()
    server.wait_end()
    next(iter(ca.accounts.values()))["status"] = "deactivated"
    server.start()
    server.wait_log("403 unauthorized: account is deactivated")
    server.wait_log('remove account.key and account.url from "%s" and restart for a new one' % server.path("acme_ca"))
    server.quit()
    server.wait_end()
    for name in ("account.key", "account.url"):
        os.remove(os.path.join(server.path("acme_ca"), name))
    server.start()
    until(lambda: peer(server).serial_number != first.serial_number, "a new certificate")
    assert [one["status"] for one in ca.accounts.values()] == ["deactivated", "valid"]


def test_an_account_key_that_is_none(site, ca):
    """... does not keep the service from starting; another account is made."""
    ca.age = datetime.timedelta(days=70)
    server = site()
    first = issued(server)
    server.quit()
    server.wait_end()
    server.write("acme_ca/account.key", "junk\n")
    server.start()
    server.wait_log('account.key" is no key of P-256, P-384, P-521 or RSA with 2048 bits; it was renamed to account.key.unusable')
    until(lambda: peer(server).serial_number != first.serial_number, "a new certificate")
    assert server.read("acme_ca/account.key.unusable") == "junk\n" and len(ca.accounts) == 2
    assert server.read("acme_ca/account.key").startswith("-----BEGIN")


def bad_chain(made, status, fields, body):
    return status, fields, made.pem(made.root)


def no_chain(made, status, fields, body):
    return status, fields, b"nothing"


def long_chain(made, status, fields, body):
    return status, fields, body + made.pem(made.root) * 20


def for_names(*names):
    """The CA signs the right key, for names of its own choice."""
    def change(made, status, fields, body):
        leaf = list(made.orders.values())[-1]["leaf"]
        other = x509.SubjectAlternativeName([x509.DNSName(name) for name in names])
        return status, fields, made.pem(made.sign(leaf.subject, leaf.public_key(), other), made.root)
    return change


@pytest.mark.parametrize("change, said", [
    (for_names("b.test"), "its first certificate is not for the names"),
    (for_names("a.test.evil.test"), "its first certificate is not for the names"),
    (for_names("*.test"), "its first certificate is not for the names"),
    (bad_chain, "its first certificate is not for the key"),
    (no_chain, "it has no certificate"),
    (long_chain, "it is too long"),
    (lambda made, status, fields, body: (status, fields, body[:-100]), "malformed"),
    (lambda made, status, fields, body: (status, fields, b"x" * 300000), "too large an answer|no proper answer"),
])
def test_hostile_chains(site, ca, change, said):
    ca.change["certificate"] = change
    server = site()
    server.wait_log(said)
    server.wait_log("is ordered again in")
    assert not saved(server)
    assert issuer_of(peer(server)) == "certificate that is being ordered"


@pytest.mark.parametrize("part, body, said", [
    ("directory", b"[]", "gave no object of JSON"),
    ("directory", b"{}", "is not the directory"),
    ("directory", b"{" + b'"a":{' * 1000, "gave no object of JSON"),
    ("directory", b'{"newNonce":"http://127.0.0.1/","newAccount":"file:///etc/passwd","newOrder":"https://a\\"b/"}', "is not the directory"),
    ("new-order", b"{}", "malformed order"),
    ("new-order", b'{"authorizations":[1],"finalize":"https://127.0.0.1/x"}', "malformed order"),
    ("new-order", b'{"authorizations":["gopher://a/"],"finalize":"https://127.0.0.1/x"}', "malformed order"),
    ("authorization", b"[]", "no object of JSON"),
    ("authorization", b'{"status":"pending"}', "another name"),
    ("authorization", b'{"status":"pending","identifier":{"type":"dns","value":"a.test"},"challenges":[]}', "no challenge of this type"),
    ("authorization", b'{"status":"pending","identifier":{"type":"dns","value":"a.test"},"challenges":[{"type":"http-01",'
                      b'"url":"https://127.0.0.1/","token":"../../x"}]}', "malformed challenge"),
    ("order", b'{"status":"valid","certificate":"x"}', "names no certificate"),
    ("order", b'{"status":"invalid"}', "did not issue"),
])
def test_hostile_json(site, ca, part, body, said):
    ca.change[part] = lambda made, status, fields, answer: (status, fields, body)
    server = site()
    server.wait_log(said)
    server.wait_log("is ordered again in")
    assert issuer_of(peer(server)) == "certificate that is being ordered"


def test_order_that_takes_time(site, ca):
    """The CA is at work, and says when to ask again."""
    answers = []

    def later(made, status, fields, body):
        answers.append(json.loads(body)["status"])
        if len(answers) == 1:
            return status, [("Retry-After", "1")], json.dumps(dict(json.loads(body), status="processing")).encode()
        return status, fields, body

    ca.change["order"] = later
    issued(site())
    assert answers == ["valid", "valid"]


@pytest.mark.skipif("sanitize" in binaries.version_text(binaries.under_test()), reason="freed memory is kept by the sanitizer")
def test_large_answers_are_not_kept(site, ca):
    """Each has its bound, and so have all of them together: a CA may send as many as it likes."""
    memory = []

    def measure(server_children):
        orderer, = (pid for pid in server_children if "background" in proc.title(pid))
        memory.append(proc.resident_kb(orderer))

    def pad(made, status, fields, body):
        for one in made.authorizations.values():
            one["status"] = "valid"
        ca.ready.wait(20)
        measure(server.children())
        return status, fields, json.dumps({"status": "valid", "pad": "x" * 250000}).encode()

    ca.change["authorization"] = pad
    server = site(names=" ".join("n%d.test" % i for i in range(80)))
    server.wait_log("was issued")
    assert len(memory) == 80 and memory[-1] - memory[0] < 8000, memory


def test_certificate_that_has_expired(site, ca):
    """By a clock that jumped, or the CA's fault: it is not used, and not ordered in a loop."""
    ca.lasts = datetime.timedelta(minutes=10)
    server = site()
    server.wait_log("has expired already, by the clock of this machine")
    server.wait_log("is ordered again in")


def test_ca_that_is_not_trusted(site, ca):
    server = site(conf=CONF.replace("%(trusted)s", certificates.own("stranger").crt))
    server.wait_log("certificate verify failed|SSL certificate verify error")
    server.wait_log("is ordered again in")
    assert not ca.requests


def test_ca_that_is_slow(site, ca):
    """It does not keep the server from ending."""
    ca.stalls = threading.Event()
    server = site()
    until(lambda: ca.requests, "the question")
    server.quit()
    server.wait_end()


@pytest.mark.parametrize("block, orders", [("", 1), ("state_path off;", 2)])
def test_reload_while_an_order_is_under_way(site, ca, block, orders):
    """The process that began it ends it, and the next one waits; without a folder there is no lock, and the next one orders anew."""
    goes_on = threading.Event()

    def stall(made, status, fields, body):
        assert goes_on.wait(20)
        return status, fields, body

    ca.change["new-order"] = stall
    server = site(block)
    until(lambda: ca.count("new-order") == 1, "the order")
    server.reload()
    if orders == 1:
        server.wait_log("another process has the lock")
        until(lambda: any("background process is shutting down" in proc.title(pid) for pid in server.children()), "the old process to know")
    else:
        until(lambda: ca.count("new-order") == 2, "the next order")
    goes_on.set()
    issued(server)
    until(lambda: ca.count("directory") == 2, "the next process")
    assert (ca.count("new-order"), ca.count("new-account")) == (orders, 1)


@pytest.mark.parametrize("challenge", ["http-01", "tls-alpn-01"])
def test_upgrade_while_a_challenge_is_open(site, ca, challenge):
    """The CA comes to workers of the next binary: they have the answer; the former process ends its order, and the next one takes what it left."""
    def later(value, token, answer):
        upgrade(server)
        until(lambda: server.error_log.count("start background process") == 2, "the next process")
        os.kill(old, signal.SIGQUIT)
        until(lambda: all("worker" not in proc.title(pid) for pid in proc.children(old)), "the former workers to end")
        check(value, token, answer)

    name = "check_" + challenge.replace("-", "_")
    check = getattr(ca, name)
    setattr(ca, name, later)
    server = site("challenge %s;" % challenge, http="keepalive_timeout 0;")
    old = server.pid
    follow_upgrade(server)
    issued(server)
    assert ca.seen == [(challenge, "a.test", "valid")] and ca.count("new-order") == 1
    assert os.stat(server.path("acme_ca/challenge")).st_size == 0


def test_challenges_of_the_process_that_has_the_lock(site, ca):
    """The one that it has open is answered, those before are not kept: each takes memory of the zone."""
    def opens(token):
        with open(os.path.join(folder, "challenge.new"), "w", encoding="ascii") as file:
            file.write("0 %s 9999999999 0\n%s.x" % (token, token))
        os.rename(file.name, os.path.join(folder, "challenge"))

    def answer(token):
        return server.get("/.well-known/acme-challenge/" + token).text

    with tempfile.TemporaryDirectory() as folder, open(os.path.join(folder, "lock"), "w", encoding="ascii") as lock:
        fcntl.lockf(lock, fcntl.LOCK_EX)
        opens("first")
        server = site("state_path %s;" % folder)
        assert answer("first") == "first.x"
        opens("second")
        until(lambda: answer("second") == "second.x", "the second one")
        assert answer("first") != "first.x"
        assert not ca.count("new-order")
        server.quit()
        server.wait_end()


def test_state_path_off(site, ca):
    """What was issued lasts over reloads, and nothing is written."""
    server = site("state_path off;")
    serial = issued(server).serial_number
    server.reload()
    assert peer(server).serial_number == serial
    assert not [name for name in os.listdir(server.dir) if name.startswith("acme")]


def test_several_servers_and_a_single_process(site, ca):
    """Servers that name the same have one certificate; without a master the only process orders."""
    more = """server { listen 127.0.0.1:@PORT1@ ssl; server_name b.test; acme_certificate ca a.test;
              ssl_certificate $acme_certificate; ssl_certificate_key $acme_certificate_key; }"""
    server = site(http=more, main="master_process off;")
    assert issued(server, "b.test").serial_number == issued(server).serial_number
    assert ca.count("new-order") == 1


def test_two_issuers(site, ca):
    """Each has its account, its challenge and its monitor, and servers of one address have certificates of either."""
    other = authority.Authority(certificates.signed("acme-server", "acme-root", "subjectAltName=IP:127.0.0.1"))
    try:
        more = """acme_issuer two { uri %s; ssl_trusted_certificate %s; challenge tls-alpn-01; }
                  server { listen 127.0.0.1:@PORT1@ ssl; server_name b.test; acme_certificate two key=ecdsa:384; ssl_certificate auto; }""" % (
                      other.url, certificates.own("acme-root").crt)
        server = site(http=more)
        other.tls_port = server.port_of("PORT1")
        other.ready.set()
        assert names_of(issued(server)) == ["a.test"]
        assert issued(server, "b.test").public_key().curve.name == "secp384r1"
        assert (ca.seen, other.seen) == ([("http-01", "a.test", "valid")], [("tls-alpn-01", "b.test", "valid")])
        orderer, = orderers_of(server)
        assert len(proc.children(orderer)) == 2
    finally:
        other.close()


AUTO = """
    acme_issuer ca { uri %(uri)s; ssl_trusted_certificate %(trusted)s; %(block)s }
    %(http)s
    server { listen 127.0.0.1:@PORT@; listen 127.0.0.1:@PORT1@ ssl; server_name a.test; %(server)s }"""


@pytest.mark.parametrize("http, server", [("", "ssl_certificate auto;"), ("ssl_certificate auto;", "")])
def test_auto(site, ca, http, server):
    made = site(conf=AUTO, http=http, server=server)
    assert names_of(issued(made)) == ["a.test"]


def test_scripts_do_not_run_in_the_process_that_orders(site, ca):
    if not has_lua():
        pytest.skip("without Lua")
    server = site(http="init_worker_by_lua_block { ngx.log(ngx.NOTICE, 'begins ' .. ngx.worker.pid()) }")
    issued(server)
    assert len(set(line.split("begins ")[1].split()[0] for line in server.lines("error.log") if "begins " in line)) == 2


@pytest.mark.parametrize("text, said", [
    ("acme_issuer x { }", 'has no "uri"'),
    ("acme_issuer x { uri http://a/; }", "is no URL with https"),
    ("acme_issuer x { uri https://a/; challenge dns-01; }", 'needs a "dns_hook"'),
    ("acme_issuer x { uri https://a/; challenge smoke; }", "unknown challenge"),
    ("acme_issuer x { uri https://a/; account_key rsa:512; }", "is no key"),
    ("acme_issuer ../x { uri https://a/; }", "invalid name"),
    ("acme_issuer x { uri https://a/; } acme_issuer x { uri https://a/; }", "duplicate acme_issuer"),
    ("server { acme_certificate y a.test; }", 'there is no acme_issuer "y"'),
    ("acme_issuer x { uri https://a/; } server { acme_certificate x *.a.test; }", "cannot be validated with the challenge http-01"),
    ("acme_issuer x { uri https://a/; } server { acme_certificate x; }", "has no server_name that a certificate can be for"),
    ("acme_issuer x { uri https://a/; } server { server_name ~a; acme_certificate x; }", "no certificate can be for the server name"),
    ("acme_issuer x { uri https://a/; } server { acme_certificate x a,b; }", "is no name that a certificate can be for"),
    ("server { listen 1 ssl; server_name a.test; ssl_certificate auto; }", "needs an \"acme_issuer\""),
    ("acme_issuer x { uri https://a/; } server { server_name b\u00fccher.test; acme_certificate x; }", 'write it as DNS has it, with "xn--"'),
    ("acme_issuer x { uri https://a/; } server { server_name _; acme_certificate x; }", "has no server_name that a certificate can be for"),
    ("acme_issuer x { uri https://a/; } server { listen 1 ssl; server_name a.test; ssl_certificate auto; ssl_certificate_key k; }",
     'remove "ssl_certificate_key"'),
    ("acme_shared_zone zone=a;", "invalid zone size"),
])
def test_errors_of_the_configuration(tmp_path, text, said):
    path = tmp_path / "nginx.conf"
    path.write_text("events {} http { %s }" % text)
    done = run_binary("-t", "-c", str(path), "-p", str(tmp_path))
    assert done.returncode == 1 and said in done.stderr, done.stderr


@pytest.mark.parametrize("block", ["stream { server { listen 1 ssl; %s return x; } }", "mail { %s auth_http a; server { listen 1 ssl; protocol imap; } }"])
def test_auto_elsewhere(tmp_path, block):
    path = tmp_path / "nginx.conf"
    path.write_text("events {} http { acme_issuer x { uri https://a/; } } " + block % "ssl_certificate auto;")
    done = run_binary("-t", "-c", str(path), "-p", str(tmp_path))
    assert done.returncode == 1 and '"ssl_certificate auto" is for servers of http' in done.stderr
