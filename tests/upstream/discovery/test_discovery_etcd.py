"""`server etcd:PREFIX` with a real etcd: its gateway for JSON, /v3/kv/range and /v3/watch."""

from engines import needs_etcd
from harness import until

pytestmark = needs_etcd

HTTP = """upstream u { server etcd:/services/web/; }
    server { listen 127.0.0.1:@PORT@; location = /metrics { metrics; } location / { proxy_pass http://u; } }
    server { listen 0.0.0.0:@PORT1@; return 200 "$server_addr"; }"""


def answers(server, count=12):
    return {server.get("/").text for _ in range(count)}


def wait_hosts(server, *hosts):
    until(lambda: answers(server) == {"127.0.0.%d" % host for host in hosts}, "the hosts %s" % (hosts,))


def test_keys_come_and_go(serve, etcd):
    server = serve(HTTP, main="worker_processes 1; discovery main { type etcd; server %s; }" % etcd.url)
    port = server.port_of("PORT1")
    etcd.put("/services/web/a", "127.0.0.2:%d" % port)
    wait_hosts(server, 2)
    etcd.put("/services/web/b", '{"Op":0,"Addr":"127.0.0.3:%d","Metadata":null,"weight":3}' % port)
    wait_hosts(server, 2, 3)
    assert [server.get("/").text for _ in range(16)].count("127.0.0.3") == 12
    etcd.put("/services/webs/c", "127.0.0.4:%d" % port)        # not below the prefix
    etcd.put("/services/web/d", "db.example:%d" % port)        # a name is none
    etcd.put("/services/web/a", "127.0.0.5:%d" % port)
    wait_hosts(server, 3, 5)
    etcd.drop("/services/web/b")
    wait_hosts(server, 5)
    until(lambda: 'portunus_discovery_skipped_total{discovery="main"} 1' in server.get("/metrics").text, "the name is counted")


def test_etcd_gone_and_back(serve, etcd):
    """The addresses stay; what changed meanwhile is there when it is back, also where the revisions were compacted."""
    server = serve(HTTP, main="worker_processes 1; discovery main { type etcd; server %s; }" % etcd.url)
    port = server.port_of("PORT1")
    etcd.put("/services/web/a", "127.0.0.2:%d" % port)
    wait_hosts(server, 2)
    etcd.stop()
    server.wait_log("the addresses of etcd:/services/web/ stay as they are")
    wait_hosts(server, 2)
    etcd.start()
    etcd.put("/services/web/a", "127.0.0.3:%d" % port)
    etcd.compact()
    wait_hosts(server, 3)
    server.wait_log("etcd:/services/web/ is watched again")


def test_login(serve, etcd):
    """With a user, every round begins with a token for it."""
    etcd.ask("/v3/auth/user/add", name="root", password="secret")
    etcd.ask("/v3/auth/role/add", name="root")
    etcd.ask("/v3/auth/user/grant", user="root", role="root")
    server = serve(HTTP, main="worker_processes 1; discovery main { type etcd; server %s; user root; password_file password; }" % etcd.url,
                   files={"password": "secret\n"})
    etcd.put("/services/web/a", "127.0.0.2:%d" % server.port_of("PORT1"))
    etcd.ask("/v3/auth/enable")
    wait_hosts(server, 2)
    server.write("password", "wrong\n")
    old = server.error_log.count("answered with status")
    server.reload()
    until(lambda: server.error_log.count("answered with status") > old, "the wrong password is refused")
    wait_hosts(server, 2)
