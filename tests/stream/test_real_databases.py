"""PostgreSQL, MariaDB and Redis behind us, asked by their own clients."""

import hashlib
import os
import re
import signal
import socket
import ssl
import subprocess
import threading

import pytest

from harness import Server, ports, until
from harness.certificates import Authority
from harness.programs import Program, connects, find, home, own, run

psycopg2 = pytest.importorskip("psycopg2", reason="no psycopg2")
pymysql = pytest.importorskip("pymysql", reason="no pymysql")

POSTGRES = find("postgres", "/usr/lib/postgresql/15/bin", "/usr/lib/postgresql/16/bin", "/usr/lib/postgresql/17/bin")
MARIADB = find("mariadbd")
REDIS = find("redis-server")

needs_postgres = pytest.mark.skipif(POSTGRES is None, reason="no postgres")
needs_mariadb = pytest.mark.skipif(MARIADB is None, reason="no mariadbd")
needs_redis = pytest.mark.skipif(REDIS is None, reason="no redis-server")

CONF = """
pid nginx.pid; error_log error.log info; worker_processes 1; daemon off; events { }
stream {
    log_format line '$status $upstream_addr $bytes_sent $bytes_received';
    access_log access.log line;
    proxy_connect_timeout 10s;
    server { listen 127.0.0.1:@PORT1@; proxy_pass 127.0.0.1:%(postgres)d; }
    server { listen 127.0.0.1:@PORT2@; proxy_pass unix:%(dir)s/postgres/.s.PGSQL.%(postgres)d; }
    server { listen 127.0.0.1:@PORT3@; proxy_pass 127.0.0.1:%(mariadb)d; }
    server { listen 127.0.0.1:@PORT4@; proxy_pass unix:%(dir)s/mariadb/socket; }
    server { listen 127.0.0.1:@PORT5@; proxy_pass 127.0.0.1:%(redis)d; }
    server { listen 127.0.0.1:@PORT6@; proxy_pass unix:%(dir)s/redis/socket; }
    server { listen 127.0.0.1:@PORT7@ ssl; ssl_certificate localhost.crt; ssl_certificate_key localhost.key;
             proxy_pass 127.0.0.1:%(redis_tls)d; proxy_ssl on; proxy_ssl_verify on; proxy_ssl_name localhost;
             proxy_ssl_trusted_certificate root.crt; }
    server { listen 127.0.0.1:@PORT8@; ssl_preread on; proxy_pass 127.0.0.1:%(redis_tls)d; }
}
"""


class Databases:
    """The three, with a folder and ports each; all are behind `server`."""

    def __init__(self):
        self.dir = home("databases")
        self.ports = {name: ports.take() for name in ("postgres", "mariadb", "redis", "redis_tls")}
        self.numbers = {name: port.number for name, port in self.ports.items()}
        self.authority = Authority(self.dir)
        self.authority.issue("localhost", "DNS:localhost", "IP:127.0.0.1")
        self.programs = {}
        for name in ("postgres", "mariadb", "redis"):
            os.mkdir(self.path(name))
        own(self.dir)
        os.chmod(self.path("localhost.key"), 0o600)
        self.server = Server(conf=CONF % {"dir": self.dir, **self.numbers},
                             files={name: self.authority.read(name) for name in ("localhost.crt", "localhost.key", "root.crt")})

    def path(self, *names):
        return os.path.join(self.dir, *names)

    def start(self):
        beginners = [threading.Thread(target=begin) for program, begin in
                     ((POSTGRES, self._postgres), (MARIADB, self._mariadb), (REDIS, self._redis)) if program]
        for beginner in beginners:
            beginner.start()
        for beginner in beginners:
            beginner.join()
        self.server.start()

    def _begin(self, name, words, **how):
        program = Program(words, self.path(name), **how)
        self.programs[name] = program
        program.start()

    def _postgres(self):
        bin_dir = os.path.dirname(os.path.realpath(POSTGRES))
        data = self.path("postgres", "data")
        own_word = self.path("postgres", "password")
        with open(own_word, "w", encoding="ascii") as out:
            out.write("secret\n")
        os.chmod(own_word, 0o644)
        run([bin_dir + "/initdb", "-N", "-D", data, "-U", "tom", "-A", "scram-sha-256", "--pwfile", own_word, "--no-locale",
             "-E", "UTF8"], self.dir)
        settings = {"port": self.numbers["postgres"], "listen_addresses": "127.0.0.1", "unix_socket_directories": self.path("postgres"),
                    "fsync": "off", "ssl": "on", "ssl_cert_file": self.path("localhost.crt"),
                    "ssl_key_file": self.path("localhost.key"), "shared_buffers": "16MB"}
        words = [word for name, value in settings.items() for word in ("-c", "%s=%s" % (name, value))]
        self._begin("postgres", [POSTGRES, "-D", data, *words], ends_by=signal.SIGINT,
                    ready=lambda: "ready to accept connections" in self.programs["postgres"].log())

    def _mariadb(self):
        data = self.path("mariadb", "data")
        install = find("mariadb-install-db")
        run([install, "--no-defaults", "--datadir=" + data, "--auth-root-authentication-method=normal", "--skip-test-db",
             "--skip-name-resolve", "--innodb-log-file-size=4M", "--innodb-flush-log-at-trx-commit=0"], self.dir)
        self._begin("mariadb", [MARIADB, "--no-defaults", "--datadir=" + data, "--bind-address=127.0.0.1",
                                "--port=%d" % self.numbers["mariadb"], "--socket=" + self.path("mariadb", "socket"),
                                "--ssl-cert=" + self.path("localhost.crt"), "--ssl-key=" + self.path("localhost.key"),
                                "--skip-name-resolve", "--innodb-log-file-size=4M", "--innodb-buffer-pool-size=16M",
                                "--max-allowed-packet=32M", "--pid-file=" + self.path("mariadb", "pid"),
                                "--innodb-flush-log-at-trx-commit=0"],
                    ready=lambda: connects(self.path("mariadb", "socket")))

    def _redis(self):
        self._begin("redis", [REDIS, "--port", str(self.numbers["redis"]), "--bind", "127.0.0.1", "--save", "", "--dir",
                              self.path("redis"), "--unixsocket", self.path("redis", "socket"), "--unixsocketperm", "777",
                              "--tls-port", str(self.numbers["redis_tls"]), "--tls-cert-file", self.path("localhost.crt"),
                              "--tls-key-file", self.path("localhost.key"), "--tls-ca-cert-file", self.path("root.crt"),
                              "--tls-auth-clients", "no"],
                    ready=lambda: connects(self.numbers["redis"]))

    def close(self):
        for program in self.programs.values():
            program.stop()
        for port in self.ports.values():
            port.close()
        self.server.close()

    def port(self, number):
        return self.server.port_of("PORT%d" % number)

    def postgres(self, number, **more):
        """A connection of psycopg2 through the server of that number."""
        how = {"host": "localhost", "hostaddr": "127.0.0.1", "user": "tom", "password": "secret", "dbname": "postgres",
               "connect_timeout": 10, "sslmode": "disable"}
        connection = psycopg2.connect(port=self.port(number), **{**how, **more})
        connection.autocommit = True
        return connection

    def mariadb(self, number, **more):
        return pymysql.connect(host="127.0.0.1", port=self.port(number), user="root", database="mysql", connect_timeout=10,
                               read_timeout=30, autocommit=True, **more)

    def redis(self, number):
        return Redis(self.port(number))


class Redis:
    """A client that sends many commands and then reads the answers."""

    def __init__(self, port, context=None):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=20)
        if context:
            self.socket = context.wrap_socket(self.socket, server_hostname="localhost")
        self.source = self.socket.makefile("rb")

    def send(self, *commands):
        data = b""
        for command in commands:
            words = [word if isinstance(word, bytes) else str(word).encode() for word in command]
            data += b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)
        self.socket.sendall(data)

    def read(self):
        line = self.source.readline()
        assert line.endswith(b"\r\n"), line
        kind, rest = line[:1], line[1:-2]
        if kind == b"$":
            return self.source.read(int(rest) + 2)[:-2] if rest != b"-1" else None
        if kind == b"*":
            return [self.read() for _ in range(int(rest))]
        return int(rest) if kind == b":" else rest

    def ask(self, *words):
        self.send(words)
        return self.read()

    def close(self):
        self.source.close()
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


@pytest.fixture(scope="module", name="databases")
def make_databases():
    made = Databases()
    try:
        made.start()
        yield made
    finally:
        made.close()


def value(connection, query, words=()):
    """The first value of the answer."""
    with connection.cursor() as cursor:
        cursor.execute(query, words)
        return cursor.fetchone()[0]


# ---- PostgreSQL

BLOB = bytes(range(256)) * 16384  # 4 MB


@needs_postgres
@pytest.mark.parametrize("number", [1, 2])
def test_postgres_large_values_both_ways(databases, number):
    connection = databases.postgres(number)
    assert value(connection, "select md5(%s)", (psycopg2.Binary(BLOB),)) == hashlib.md5(BLOB).hexdigest()
    rows = value(connection, "select string_agg(i::text, ',') from generate_series(1, 200000) i")
    assert rows == ",".join(map(str, range(1, 200001)))
    connection.close()


@needs_postgres
def test_postgres_tls_is_passed_through(databases):
    """Its channel binding holds only where nobody ends TLS between the two."""
    connection = databases.postgres(1, sslmode="verify-full", sslrootcert=databases.authority.path("root.crt"),
                                    channel_binding="require")
    assert value(connection, "select ssl from pg_stat_ssl where pid = pg_backend_pid()") is True
    assert value(connection, "select length(%s)", (psycopg2.Binary(BLOB),)) == len(BLOB)
    connection.close()


@needs_postgres
def test_postgres_copies_in_and_out(databases):
    connection = databases.postgres(2)
    reader, writer = os.pipe()
    lines = "".join("%d\tline %d\n" % (i, i) for i in range(50000))

    def write():
        with open(writer, "w", encoding="ascii") as out:
            out.write(lines)

    thread = threading.Thread(target=write)
    with connection.cursor() as cursor, open(reader, encoding="ascii") as source:
        cursor.execute("create temporary table copied (i int, line text)")
        thread.start()
        cursor.copy_expert("copy copied from stdin", source)
        thread.join()
        back = databases.path("back")
        with open(back, "w", encoding="ascii") as out:
            cursor.copy_expert("copy (select * from copied order by i) to stdout", out)
    with open(back, encoding="ascii") as source:
        assert source.read() == lines
    connection.close()


@needs_postgres
def test_postgres_notifies_who_only_listens(databases):
    listener, speaker = databases.postgres(1), databases.postgres(2)
    with listener.cursor() as cursor:
        cursor.execute("listen news")
    with speaker.cursor() as cursor:
        cursor.execute("notify news, 'it rains'")
    until(lambda: listener.poll() or listener.notifies, "a notification")
    assert listener.notifies[0].payload == "it rains"
    listener.close()
    speaker.close()


@needs_postgres
def test_postgres_cancels_by_a_second_connection(databases):
    connection, other = databases.postgres(1), databases.postgres(2)
    failures = []

    def wait():
        try:
            value(connection, "select pg_sleep(60)")
        except psycopg2.Error as error:
            failures.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    until(lambda: value(other, "select count(*) from pg_stat_activity where wait_event = 'PgSleep'"), "the query")
    connection.cancel()
    thread.join(30)
    assert isinstance(failures[0], psycopg2.errors.QueryCanceled)
    connection.close()
    other.close()


@needs_postgres
def test_postgres_says_why_before_it_ends_a_session(databases):
    done = subprocess.run(["psql", "-h", "127.0.0.1", "-p", str(databases.port(1)), "-U", "tom", "-c",
                           "select pg_terminate_backend(pg_backend_pid())", "postgres"], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=30, check=False, encoding="latin-1",
                          env={**os.environ, "PGPASSWORD": "secret"})
    assert "terminating connection due to administrator command" in done.stderr


# ---- MariaDB

@needs_mariadb
@pytest.mark.parametrize("number", [3, 4])
def test_mariadb_large_values_both_ways(databases, number):
    connection = databases.mariadb(number)
    assert value(connection, "select md5(%s)", (BLOB,)) == hashlib.md5(BLOB).hexdigest()
    assert value(connection, "select repeat('abcdefgh', 1000000)") == "abcdefgh" * 1000000
    connection.close()


@needs_mariadb
@pytest.mark.parametrize("number", [3, 4])
def test_mariadb_tls_is_passed_through(databases, number):
    connection = databases.mariadb(number, ssl={"ca": databases.authority.path("root.crt"), "check_hostname": False})
    with connection.cursor() as cursor:
        cursor.execute("show session status like 'Ssl_cipher'")
        assert cursor.fetchone()[1]
        cursor.execute("select length(%s)", (BLOB,))
        assert cursor.fetchone()[0] == len(BLOB)
    connection.close()


@needs_mariadb
def test_mariadb_many_clients_at_once(databases):
    connections = [databases.mariadb(3 + i % 2) for i in range(40)]
    identities = {value(connection, "select connection_id()") for connection in connections}
    assert len(identities) == 40
    for connection in connections:
        connection.close()


@needs_mariadb
def test_mariadb_kills_a_session(databases):
    connection, other = databases.mariadb(3), databases.mariadb(4)
    with other.cursor() as cursor:
        cursor.execute("kill %d" % connection.thread_id())
    with pytest.raises(pymysql.err.OperationalError):
        value(connection, "select 1")
    other.close()


# ---- Redis

@needs_redis
@pytest.mark.parametrize("number", [5, 6])
def test_redis_pipelines(databases, number):
    """A writer that does not read until all is sent."""
    with databases.redis(number) as client:
        keys = range(20000)
        client.send(*[("SET", "k%d" % i, "v%d" % i) for i in keys])
        assert all(client.read() == b"OK" for _ in keys)
        client.send(*[("GET", "k%d" % i) for i in keys])
        assert [client.read() for _ in keys] == [b"v%d" % i for i in keys]
        assert client.ask("FLUSHALL") == b"OK"


@needs_redis
def test_redis_publishes_to_who_only_listens(databases):
    with databases.redis(5) as listener, databases.redis(6) as speaker:
        assert listener.ask("SUBSCRIBE", "news") == [b"subscribe", b"news", 1]
        for i in range(100):
            assert speaker.ask("PUBLISH", "news", i) == 1
        assert [listener.read()[2] for _ in range(100)] == [b"%d" % i for i in range(100)]


@needs_redis
def test_redis_blocks_until_another_pushes(databases):
    with databases.redis(5) as waiter, databases.redis(6) as giver:
        waiter.send(("BLPOP", "queue", 0))
        until(lambda: b"cmd=blpop" in giver.ask("CLIENT", "LIST"), "the waiting client")
        assert giver.ask("RPUSH", "queue", BLOB) == 1
        assert waiter.read() == [b"queue", BLOB]


@needs_redis
@pytest.mark.parametrize("number", [7, 8])
def test_redis_by_tls_ended_here_or_there(databases, number):
    context = ssl.create_default_context(cafile=databases.authority.path("root.crt"))
    with Redis(databases.port(number), context) as client:
        assert client.ask("SET", "large", BLOB) == b"OK"
        client.send(*[("GETRANGE", "large", i * 1000, i * 1000 + 999) for i in range(4000)])
        assert b"".join(client.read() for _ in range(4000)) == BLOB[:4000000]


@needs_redis
def test_redis_refuses_a_client_it_kills(databases):
    with databases.redis(5) as client, databases.redis(6) as other:
        number = client.ask("CLIENT", "ID")
        assert other.ask("CLIENT", "KILL", "ID", number) == 1
        assert client.socket.recv(1) == b""


@needs_redis
def test_redis_killed_and_started_again(databases):
    """A client of a backend that dies is told; one that comes while it is away as well; the next is served."""
    redis = databases.programs["redis"]
    with databases.redis(5) as client:
        assert client.ask("PING") == b"PONG"
        redis.signal(signal.SIGKILL)
        redis.process.wait()
        assert client.source.read() == b""
    with socket.create_connection(("127.0.0.1", databases.port(5)), timeout=10) as late:
        assert late.recv(1) == b""
    databases.server.wait_log(r"(?m)^502 127\.0\.0\.1:%d 0 0$" % databases.numbers["redis"], "access.log")
    redis.start()
    with databases.redis(5) as client:
        assert client.ask("PING") == b"PONG"


def test_every_session_is_logged_with_its_bytes(databases):
    until(lambda: re.search(r"(?m)^200 \S+ [1-9]\d* [1-9]\d*$", databases.server.read("access.log")), "a session with bytes")
    assert "500 " not in databases.server.read("access.log")
