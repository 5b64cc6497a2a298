"""auth_ldap: an OpenLDAP server of the test's own is asked."""

import base64
import os
import shutil
import socket
import ssl
import subprocess
import threading

import pytest

import certificates
from harness import binaries, ports, run_binary, until
from harness.h2 import H2

MODULE = os.path.join(os.path.dirname(binaries.under_test()), "ngx_http_auth_ldap_module.so")
SLAPD = shutil.which("slapd", path="/usr/sbin:/usr/lib/openldap:/usr/libexec:" + os.environ.get("PATH", ""))

pytestmark = [pytest.mark.skipif("Portunus" not in binaries.version_text(binaries.under_test()), reason="not Portunus"),
              pytest.mark.skipif(not os.path.exists(MODULE), reason="built without libldap"),
              pytest.mark.skipif(SLAPD is None, reason="no slapd")]

CONF = """
include /etc/ldap/schema/core.schema
include /etc/ldap/schema/cosine.schema
include /etc/ldap/schema/inetorgperson.schema
modulepath /usr/lib/ldap
moduleload back_mdb
pidfile %(dir)s/slapd.pid
%(more)s
database mdb
maxsize 10485760
suffix "dc=test"
rootdn "cn=root,dc=test"
rootpw rootpw
directory %(dir)s/db
access to attrs=userPassword by anonymous auth by * none
access to dn.subtree="ou=hidden,dc=test" by dn.exact="cn=reader,dc=test" read by anonymous auth by * none
access to * by * read
"""

LDIF = """
dn: dc=test
objectClass: dcObject
objectClass: organization
o: test
dc: test

dn: cn=reader,dc=test
objectClass: person
cn: reader
sn: reader
userPassword: readpw

dn: ou=people,dc=test
objectClass: organizationalUnit
ou: people

dn: uid=ann,ou=people,dc=test
objectClass: inetOrgPerson
uid: ann
cn: Ann
sn: A
mail: ann@example.com
userPassword: secret

dn: uid=bob,ou=people,dc=test
objectClass: inetOrgPerson
uid: bob
cn: Bob
sn: B
userPassword: secret2

dn: uid=o*(dd)\\5c,ou=people,dc=test
objectClass: inetOrgPerson
uid: o*(dd)\\
cn: Odd
sn: O
userPassword: secret3

dn: cn=twin1,ou=people,dc=test
objectClass: inetOrgPerson
uid: twin
cn: twin1
sn: T
userPassword: secret

dn: cn=twin2,ou=people,dc=test
objectClass: inetOrgPerson
uid: twin
cn: twin2
sn: T
userPassword: secret

dn: ou=hidden,dc=test
objectClass: organizationalUnit
ou: hidden

dn: uid=cleo,ou=hidden,dc=test
objectClass: inetOrgPerson
uid: cleo
cn: Cleo
sn: C
userPassword: secret4

dn: cn=staff,dc=test
objectClass: groupOfNames
cn: staff
member: uid=ann,ou=people,dc=test
member: uid=cleo,ou=hidden,dc=test
"""


class Directory:
    """A slapd in a directory of its own."""

    def __init__(self, path, more="", certificate=None):
        (path / "db").mkdir(parents=True)
        (path / "slapd.conf").write_text(CONF % {"dir": path, "more": more})
        (path / "data.ldif").write_text(LDIF)
        subprocess.run([SLAPD.replace("slapd", "slapadd") if os.path.exists(SLAPD.replace("slapd", "slapadd")) else "slapadd", "-f",
                        str(path / "slapd.conf"), "-l", str(path / "data.ldif")], check=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.reserved = ports.take()
        self.port = self.reserved.number
        self.socket = path / "ldapi"
        self.urls = "ldap://127.0.0.1:%d ldapi://%s" % (self.port, str(self.socket).replace("/", "%2F"))
        self.process = subprocess.Popen([SLAPD, "-f", str(path / "slapd.conf"), "-h", self.urls, "-d", "0"],
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until(self.listens, "slapd listens")

    def listens(self):
        assert self.process.poll() is None, "slapd has ended"
        try:
            socket.create_connection(("127.0.0.1", self.port), 1).close()
            return True
        except OSError:
            return False

    def close(self):
        self.process.terminate()
        self.process.wait(20)


@pytest.fixture(scope="module", name="directory")
def fixture_directory(tmp_path_factory):
    path = tmp_path_factory.mktemp("ldap")
    directory = Directory(path)
    yield directory
    directory.close()


def basic(user, password):
    return "Authorization: Basic " + base64.b64encode(("%s:%s" % (user, password)).encode()).decode()


def block(directory, *lines, name="one", base="ou=people,dc=test", rest="?uid?sub?(objectClass=person)"):
    return 'ldap_server %s { url "ldap://127.0.0.1:%d/%s%s"; %s }' % (name, directory.port, base, rest, " ".join(lines))


def serving(serve, *blocks, locations="", servers="one", server="", main="", **more):
    return serve("""%s auth_ldap_servers %s; server { listen 127.0.0.1:@PORT@; root html; %s
        location / { auth_ldap "The realm"; try_files /none @shown; }
        location @shown { auth_ldap off; return 200 "hello $remote_user"; }
        location /open { auth_ldap off; return 200 open; }
        %s }""" % ("\n".join(blocks), servers, server, locations), main="load_module %s; %s" % (MODULE, main), **more)


def test_right_and_wrong_passwords(serve, directory):
    server = serving(serve, block(directory))
    response = server.get("/", basic("ann", "secret"))
    assert response.status == 200 and response.text == "hello ann"
    for header in ([], [basic("ann", "wrong")], [basic("bob", "secret")], [basic("nobody", "secret")], ["Authorization: Bearer x"]):
        response = server.get("/", *header)
        assert response.status == 401 and response.header("WWW-Authenticate") == 'Basic realm="The realm"'
    server.wait_log('user "ann": password mismatch on LDAP server "one"')
    server.wait_log('user "nobody" was not found on LDAP server "one"')
    assert server.get("/open/x").status == 200


def test_an_empty_password_is_none(serve, directory):
    server = serving(serve, block(directory))
    assert server.get("/", basic("ann", "")).status == 401
    server.wait_log('user "ann" gave an empty password')


def test_names_mean_nothing_in_a_filter(serve, directory):
    server = serving(serve, block(directory))
    assert server.get("/", basic("o*(dd)\\", "secret3")).status == 200
    for user in ("*", "a*", "ann)(cn=*", "ann))(|(uid=*", "an\\6e", "twin", "ann\0", "a" * 4000, "(", "ann\n"):
        assert server.get("/", basic(user, "secret")).status == 401, user
    assert server.get("/", basic("ann", "secret")).status == 200


def test_base_attribute_scope_and_filter(serve, directory):
    server = serving(serve, block(directory, rest="?mail?one"), block(directory, name="two", base="dc=test", rest="?uid?one"),
                     block(directory, name="three", rest="?uid?sub?(&(objectClass=person)(sn=B))"),
                     block(directory, name="four", rest=""),
                     locations=" ".join("location /%s { auth_ldap x; auth_ldap_servers %s; try_files /none @shown; }" % (name, name)
                                        for name in ("two", "three", "four")))
    assert server.get("/", basic("ann@example.com", "secret")).status == 200
    assert server.get("/", basic("ann", "secret")).status == 401
    assert server.get("/two", basic("ann", "secret")).status == 401
    assert server.get("/three", basic("bob", "secret2")).status == 200
    assert server.get("/three", basic("ann", "secret")).status == 401
    assert server.get("/four", basic("ann", "secret")).status == 200


def test_binddn(serve, directory):
    reader = "binddn cn=reader,dc=test; binddn_passwd %s;"
    server = serving(serve, block(directory, base="ou=hidden,dc=test"),
                     block(directory, reader % "readpw", name="two", base="ou=hidden,dc=test"),
                     block(directory, reader % "wrong", name="three", base="ou=hidden,dc=test"),
                     locations=" ".join("location /%s { auth_ldap x; auth_ldap_servers %s; try_files /none @shown; }" % (name, name)
                                        for name in ("two", "three")))
    assert server.get("/", basic("cleo", "secret4")).status == 500
    server.wait_log('LDAP server "one": search: Insufficient access')
    assert server.get("/two", basic("cleo", "secret4")).status == 200
    assert server.get("/two", basic("cleo", "secret")).status == 401
    assert server.get("/three", basic("cleo", "secret4")).status == 500
    server.wait_log('LDAP server "three": bind of binddn: Invalid credentials')


@pytest.mark.parametrize("lines, ann, bob", [
    ("require valid_user;", 200, 200),
    ("require group cn=staff,dc=test;", 200, 401),
    ("require group cn=none,dc=test;", 401, 401),
    ("require group 'no dn';", 401, 401),
    ("require user 'UID=ann, OU=people,dc=test';", 200, 401),
    ("require user bob;", 401, 200),
    ("require user bob; require group cn=staff,dc=test;", 401, 401),
    ("satisfy any; require user bob; require group cn=staff,dc=test;", 200, 200),
    ("satisfy all; require valid_user; require group cn=$arg_g,dc=test;", 200, 401),
    ("group_attribute uniqueMember; require group cn=staff,dc=test;", 401, 401),
    ("group_attribute_is_dn off; require group cn=staff,dc=test;", 401, 401),
])
def test_require(serve, directory, lines, ann, bob):
    server = serving(serve, block(directory, lines))
    assert server.get("/?g=staff", basic("ann", "secret")).status == ann
    assert server.get("/?g=staff", basic("bob", "secret2")).status == bob
    assert server.get("/?g=staff", basic("ann", "wrong")).status in (401, 500)


def test_several_servers(serve, directory):
    server = serving(serve, block(directory, base="cn=staff,dc=test"), block(directory, name="two"), servers="one two")
    assert server.get("/", basic("ann", "secret")).status == 200
    assert server.get("/", basic("ann", "wrong")).status == 401


def test_a_server_that_is_not_there(serve, directory):
    unused = ports.take()
    dead = 'ldap_server dead { url "ldap://127.0.0.1:%d/dc=test"; connect_timeout 2s; }' % unused.number
    server = serving(serve, dead, block(directory), servers="dead one", locations="location /dead { auth_ldap x; auth_ldap_servers dead; }")
    assert server.get("/", basic("ann", "secret")).status == 200
    assert server.get("/", basic("ann", "wrong")).status == 500
    assert server.get("/dead", basic("ann", "secret")).status == 500
    server.wait_log("LDAP server \"dead\": search: Can't contact LDAP server")


def test_a_server_that_does_not_answer(serve):
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen(16)
        mute = ('ldap_server one { url "ldap://127.0.0.1:%d/dc=test"; request_timeout 300ms; bind_timeout 300ms; }' % silent.getsockname()[1])
        server = serving(serve, mute, main="thread_pool auth_ldap threads=1 max_queue=2;")
        waiting = [server.client() for _ in range(6)]
        for client in waiting:
            client.send(("GET / HTTP/1.1\r\nHost: x\r\n%s\r\n\r\n" % basic("ann", "secret")).encode())
        assert server.get("/open/x").status == 200
        waiting[0].reset()
        statuses = [client.response().status for client in waiting[1:]]
        assert set(statuses) <= {500, 503} and 503 in statuses
        for client in waiting:
            client.close()
    server.wait_log("too many requests wait for LDAP")
    server.wait_log('LDAP server "one": search: Timed out')


def test_a_server_that_stalls_holds_no_thread_of_others(serve, directory):
    """All servers shared the threads: one that did not answer kept the logins at the others waiting."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen(64)
        server = serving(serve, block(directory), 'ldap_server stalled { url "ldap://127.0.0.1:%d/dc=test"; }' % silent.getsockname()[1],
                         locations="location /stalled { auth_ldap x; auth_ldap_servers stalled; }",
                         server="set_real_ip_from 127.0.0.1; real_ip_header X-Real-IP;",
                         main="worker_processes 1; thread_pool auth_ldap threads=2 max_queue=50;")
        waiting = [server.client() for _ in range(10)]
        for number, client in enumerate(waiting):
            client.send(("GET /stalled HTTP/1.1\r\nHost: x\r\nX-Real-IP: 2001:db8:0:%d::%d\r\n%s\r\n\r\n"
                         % (number, number, basic("ann", "secret"))).encode())
        held = [silent.accept() for _ in range(2)]
        assert server.get("/", basic("ann", "secret")).status == 200 and held
        for client in waiting:
            client.reset()


def test_clients_of_one_ipv6_network_share(serve):
    """A client has 2^64 addresses: of a /64 half of the threads are at work."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen(64)
        server = serving(serve, 'ldap_server one { url "ldap://127.0.0.1:%d/dc=test"; }' % silent.getsockname()[1],
                         server="set_real_ip_from 127.0.0.1; real_ip_header X-Real-IP;",
                         main="worker_processes 1; thread_pool auth_ldap threads=4 max_queue=3;")
        waiting = [server.client() for _ in range(6)]
        for number, client in enumerate(waiting):
            client.send(("GET / HTTP/1.1\r\nHost: x\r\nX-Real-IP: 2001:db8:1:1:%d::1\r\n%s\r\n\r\n" % (number, basic("ann", "secret"))).encode())
        assert waiting[5].response().status == 503
        other = server.client()
        other.send(("GET / HTTP/1.1\r\nHost: x\r\nX-Real-IP: 2001:db8:1:2::1\r\n%s\r\n\r\n" % basic("bob", "secret")).encode())
        silent.settimeout(20)
        held = [silent.accept() for _ in range(3)]
        assert held
        for client in (*waiting, other):
            client.reset()


def relay(source, sink):
    """What comes from one goes to the other, until one has ended."""
    try:
        while data := source.recv(65536):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass


def test_ldaps(serve, directory):
    pair = certificates.own("ldaps")
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.load_cert_chain(pair.crt, pair.key)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(16)

        def answer():
            while True:
                try:
                    conn = made.wrap_socket(listener.accept()[0], server_side=True)
                except ssl.SSLError:
                    continue
                except OSError:
                    return
                to = socket.create_connection(("127.0.0.1", directory.port))
                for ends in ((conn, to), (to, conn)):
                    threading.Thread(target=relay, args=ends, daemon=True).start()
        threading.Thread(target=answer, daemon=True).start()
        url = 'url "ldaps://127.0.0.1:%d/ou=people,dc=test?uid?sub";' % listener.getsockname()[1]
        server = serving(serve, "ldap_server one { %s ssl_check_cert off; } ldap_server two { %s }" % (url, url),
                         locations="location /two { auth_ldap x; auth_ldap_servers two; }")
        assert server.get("/", basic("ann", "secret")).status == 200
        assert server.get("/", basic("ann", "wrong")).status == 401
        assert server.get("/two", basic("ann", "secret")).status == 500
        listener.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize("given", [b"", b"\x16\x03\x03\x40\x00\x02"])
@pytest.mark.parametrize("more", ["", "binddn cn=reader,dc=test; binddn_passwd readpw;"])
def test_a_tls_handshake_that_stalls_keeps_no_thread(serve, given, more):
    with socket.socket() as peer:
        peer.bind(("127.0.0.1", 0))
        peer.listen(16)
        server = serving(serve, 'ldap_server one { url "ldaps://127.0.0.1:%d/dc=test"; connect_timeout 300ms; request_timeout 300ms; bind_timeout 300ms; %s }'
                         % (peer.getsockname()[1], more), main="thread_pool auth_ldap threads=1 max_queue=2;")
        for _ in range(2):
            with server.client() as client:
                client.send(("GET / HTTP/1.1\r\nHost: x\r\n%s\r\n\r\n" % basic("ann", "secret")).encode())
                conn = peer.accept()[0]
                conn.sendall(given)
                assert client.response().status == 500
                conn.close()
    server.wait_log('LDAP server "one": .*')


@pytest.mark.parametrize("answer", [b"", b"\x00", b"\x30\x84\xff\xff\xff\xff", b"HTTP/1.1 400 Bad\r\n\r\n", b"\x30\x0c\x02\x01\x01\x61\x07\x0a\x01\x00" * 1000,
                                    b"\x30\x80" * 5000])
def test_answers_that_are_none(serve, answer):
    with socket.socket() as peer:
        peer.bind(("127.0.0.1", 0))
        peer.listen(1)
        server = serving(serve, 'ldap_server one { url "ldap://127.0.0.1:%d/dc=test"; request_timeout 500ms; bind_timeout 500ms; }'
                         % peer.getsockname()[1])
        with server.client() as client:
            client.send(("GET / HTTP/1.1\r\nHost: x\r\n%s\r\n\r\n" % basic("ann", "secret")).encode())
            conn = peer.accept()[0]
            conn.recv(1000)
            conn.sendall(answer)
            conn.close()
            assert client.response().status in (401, 500)
    assert server.get("/open/x").status == 200


def test_unix_sockets(serve, directory):
    url = "ldapi://%s/ou=people,dc=test?uid" % str(directory.socket).replace("/", "%2F")
    server = serving(serve, 'ldap_server one { url "%s"; }' % url)
    status = server.get("/", basic("ann", "secret")).status
    assert status == 200 or (os.getuid() == 0 and status == 500)  # the worker's user may not be let into the directory


def test_satisfy_inheritance_and_http2(serve, directory):
    server = serving(serve, block(directory), server="http2 on;",
                     locations="location /any { satisfy any; allow 127.0.0.1; deny all; auth_ldap x; try_files /none @shown; }"
                               "location /out { auth_ldap a; location /out/in { try_files /none @shown; } }")
    assert server.get("/any").status == 200
    assert server.get("/out/in").header("WWW-Authenticate") == 'Basic realm="a"'
    name, value = basic("ann", "secret").split(": ")
    with H2(server.port) as h2:
        assert h2.get("/").status == 401
        assert h2.get("/", headers=[(name.lower(), value)]).status == 200


BAD = [
    ("ldap_server a { }", "", 'ldap_server "a" has no "url"'),
    ("ldap_server a { url nonsense; }", "", 'invalid value "nonsense" of "url"'),
    ("ldap_server a { url 'ldap://h/dc=x?(a)'; }", "", 'of "url"'),
    ("ldap_server a { url ldap://h/; } ldap_server a { url ldap://h/; }", "", 'duplicate ldap_server "a"'),
    ("ldap_server a { url ldap://h/; nothing x; }", "", 'unknown line "nothing" in "ldap_server"'),
    ("ldap_server a { url ldap://h/; require all; }", "", 'invalid value "all" of "require"'),
    ("ldap_server a { url ldap://h/; satisfy some; }", "", 'invalid value "some" of "satisfy"'),
    ("ldap_server a { url ldap://h/; connect_timeout x; }", "", 'invalid value "x" of "connect_timeout"'),
    ("ldap_server a { url ldap://h/; group_attribute 'a)'; }", "", 'of "group_attribute"'),
    ("ldap_server a { url ldap://h/ x; }", "", 'invalid number of arguments in "url"'),
    ("", "auth_ldap x;", '"auth_ldap" without "auth_ldap_servers"'),
    ("", "auth_ldap x; auth_ldap_servers none;", 'ldap_server "none" is not there'),
]


@pytest.mark.parametrize("http, line, message", BAD, ids=[http + line for http, line, _ in BAD])
def test_bad_lines(tmp_path, http, line, message):
    (tmp_path / "logs").mkdir()
    path = tmp_path / "nginx.conf"
    path.write_text("load_module %s; events {} http { %s server { listen 127.0.0.1:8080; location / { %s } } }" % (MODULE, http, line))
    done = run_binary("-t", "-p", str(tmp_path), "-c", str(path))
    assert done.returncode == 1 and message in done.stderr
