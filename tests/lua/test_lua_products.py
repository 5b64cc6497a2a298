"""Products that stand on OpenResty, as they are: ingress-nginx's Lua and APISIX in standalone mode. TEST_INGRESS_NGINX names a checkout of the
first, TEST_LUA_LIBRARIES a folder with checkouts of the libraries that it needs (lua-resty-balancer, -cookie, -dns, -http, -lock, -string);
TEST_APISIX one of the second, after `make deps` there. Without these the tests are skipped."""

import json
import os
import shutil
import socket
import ssl
import subprocess
import threading

import pytest

from harness import Client, ports, until
from harness.boxes import needs_root, serve_boxed  # noqa: F401
from harness.certificates import Authority
from harness.workers import wait_workers
from test_lua_libraries import path_of

# ---- ingress-nginx: its files lie where they do in its image, /etc/nginx/lua, in a mount namespace

INGRESS = os.environ.get("TEST_INGRESS_NGINX", "")
SCRIPTS = os.path.join(INGRESS, "rootfs/etc/nginx/lua")
LUA = "/etc/nginx/lua/"

# Hashing by consistent rings is a C library; balancing by it is not what is tested here.
CHASH = """
local ring = {}
function ring:new(nodes) return setmetatable({nodes = nodes}, {__index = ring}) end
function ring:reinit(nodes) self.nodes = nodes end
function ring:find() return next(self.nodes) end
return ring
"""

SETTINGS = {"enable_metrics": False, "use_forwarded_headers": False, "use_proxy_protocol": False, "is_ssl_passthrough_enabled": False,
            "http_redirect_code": 308, "hsts": True, "hsts_max_age": 31536000, "hsts_include_subdomains": True, "hsts_preload": False,
            "enable_ocsp": False, "listen_ports": {"ssl_proxy": "442", "https": "443", "status_port": "10246"}}

INGRESS_HTTP = """
    log_format shop '$status $upstream_addr $proxy_upstream_name'; access_log logs/access.log shop;
    lua_package_path '/etc/nginx/lua/?.lua;@DIR@/own/?.lua;%(path)s;;';
    lua_shared_dict configuration_data 20m;  lua_shared_dict certificate_data 20m;
    lua_shared_dict certificate_servers 5m;  lua_shared_dict ocsp_response_cache 10m;
    lua_shared_dict balancer_ewma 10m;       lua_shared_dict balancer_ewma_last_touched_at 10m;
    lua_shared_dict balancer_ewma_locks 1m;  lua_shared_dict luaconfig 5m;
    init_by_lua_file /etc/nginx/lua/ngx_conf_init.lua;
    init_worker_by_lua_file /etc/nginx/lua/ngx_conf_init_worker.lua;
    client_header_buffer_size 1k; client_max_body_size 1m;

    upstream upstream_balancer {
        server 0.0.0.1; # placeholder
        balancer_by_lua_file /etc/nginx/lua/nginx/ngx_conf_balancer.lua;
        keepalive 320; keepalive_timeout 60s; keepalive_requests 10000;
    }
    server {
        listen 127.0.0.1:@PORT@; listen 127.0.0.1:@PORT1@ ssl; http2 on;
        ssl_certificate %(crt)s; ssl_certificate_key %(key)s;
        ssl_certificate_by_lua_file /etc/nginx/lua/nginx/ngx_conf_certificate.lua;
        set $proxy_upstream_name "-";
        location / {
            set $namespace "shop"; set $ingress_name "shop"; set $service_name "shop"; set $service_port "80"; set $location_path "/";
            set $force_ssl_redirect "false"; set $ssl_redirect "false"; set $force_no_ssl_redirect "false";
            set $preserve_trailing_slash "false"; set $use_port_in_redirects "false";
            set $balancer_ewma_score -1; set $proxy_upstream_name "shop-80"; set $proxy_host $proxy_upstream_name;
            set $pass_access_scheme $scheme; set $pass_server_port $server_port; set $best_http_host $http_host; set $pass_port $pass_server_port;
            set $proxy_alternative_upstream_name "";
            rewrite_by_lua_file /etc/nginx/lua/nginx/ngx_rewrite.lua;
            header_filter_by_lua_file /etc/nginx/lua/nginx/ngx_conf_srv_hdr_filter.lua;
            log_by_lua_file /etc/nginx/lua/nginx/ngx_conf_log_block.lua;
            proxy_http_version 1.1; proxy_set_header Connection ""; proxy_set_header Host $best_http_host;
            proxy_next_upstream error timeout; proxy_next_upstream_tries 3;
            proxy_pass http://upstream_balancer;
        }
    }
    server {
        listen 127.0.0.1:@PORT2@;
        set $proxy_upstream_name "internal";
        keepalive_timeout 0; access_log off;
        location /is-dynamic-lb-initialized { content_by_lua_file /etc/nginx/lua/nginx/ngx_conf_is_dynamic_lb_initialized.lua; }
        location /configuration { client_max_body_size 21m; client_body_buffer_size 21m; proxy_buffering off;
                                  content_by_lua_file /etc/nginx/lua/nginx/ngx_conf_configuration.lua; }
        location / { return 404; }
    }
    server { listen 127.0.0.1:@PORT3@; keepalive_requests 1000000; access_log off; location / { return 200 "pod 3 $scheme $http_host"; } }
    server { listen 127.0.0.1:@PORT4@; keepalive_requests 1000000; access_log off; location / { return 200 "pod 4 $scheme $http_host"; } }
"""


class Visitor(threading.Thread):
    """Asks again and again on a kept connection, and counts what was not 200."""

    def __init__(self, port):
        super().__init__(daemon=True)
        self.port, self.count, self.failures, self.ends = port, 0, [], False

    def run(self):
        client = Client(self.port)
        while not self.ends:
            try:
                answer = client.request("/", host="shop.example.com")
            except Exception as failure:    # noqa: BLE001: whatever it is, it is one
                self.failures.append(repr(failure))
                client = Client(self.port)
                continue
            self.count += 1
            if answer.status != 200 or not answer.text.startswith("pod "):
                self.failures.append("%d %s" % (answer.status, answer.text[:100]))
            if (answer.header("Connection") or "").lower() == "close":
                client = Client(self.port)


@pytest.fixture(name="ingress")
def _ingress(serve_boxed, open_path):  # noqa: F811
    if not os.path.exists(SCRIPTS):
        pytest.skip("TEST_INGRESS_NGINX names no checkout")
    path = path_of("resty.dns.resolver", "resty.lock", "resty.http", "resty.string", "resty.cookie", "resty.roundrobin", "resty.lrucache", "cjson.util")
    authority = Authority(open_path)
    authority.issue("fake", "DNS:fake.example.com")
    shutil.copytree(SCRIPTS, open_path / "lua")
    (open_path / "lua/cfg.json").write_text(json.dumps(SETTINGS))
    server = serve_boxed(
        INGRESS_HTTP % {"path": path, "crt": authority.path("fake.crt"), "key": authority.path("fake.key")}, main="worker_processes 2; error_log error.log info;",
        files={"own/resty/chash.lua": CHASH}, box=["-m"],
        setup="mkdir @DIR@/scripts; cp -R %s/. @DIR@/scripts; mount -t tmpfs none /etc/nginx; mkdir /etc/nginx/lua; mount --bind @DIR@/scripts /etc/nginx/lua" % (open_path / "lua"))
    return server


def tell(server, what, data):
    with Client(server.port_of("PORT2")) as client:
        answer = client.request("/configuration/" + what, "Content-Type: application/json", method="POST", body=json.dumps(data))
    assert answer.status == 201, answer.text


def backends(server, *pods, **more):
    return [{"name": "shop-80", "service": {"metadata": {}, "spec": {}}, "port": 80, "sslPassthrough": False, "trafficShapingPolicy": {}, **more,
             "endpoints": [{"address": "127.0.0.1", "port": str(server.port_of("PORT%d" % pod))} for pod in pods]}]


def served_by(server, *pods):
    """Waits until the workers have taken up these pods, and no others."""
    def seen():
        found = set()
        for _ in range(20):
            with Client(server.port) as client:
                found.add(client.request("/", host="shop.example.com").text.split(" http")[0])
        return found == {"pod %d" % pod for pod in pods}
    until(seen, lambda: "pods %s: %s" % (pods, server.read("error.log")[-2000:]))


@needs_root
def test_ingress_nginx(ingress):
    """Endpoints and certificates change while it serves and reloads; no request fails."""
    server = ingress
    with Client(server.port_of("PORT2")) as client:
        assert client.request("/is-dynamic-lb-initialized").status == 500
    with Client(server.port) as client:
        assert client.request("/", host="shop.example.com").status == 503
    tell(server, "backends", backends(server, 3))
    served_by(server, 3)
    with Client(server.port_of("PORT2")) as client:
        assert client.request("/is-dynamic-lb-initialized").text == "OK\n"

    visitors = [Visitor(server.port) for _ in range(4)]
    for visitor in visitors:
        visitor.start()
    for change in range(4):
        pods = [(4,), (3, 4), (3,), (3, 4)][change]
        tell(server, "backends", backends(server, *pods, **({"load-balance": "ewma"} if change % 2 else {})))
        served_by(server, *pods)
        before = server.children()
        server.reload()
        wait_workers(server, 2, without=before)
    for visitor in visitors:
        visitor.ends = True
        visitor.join(60)
    assert not any(visitor.failures for visitor in visitors), [visitor.failures[:3] for visitor in visitors]
    assert all(visitor.count > 100 for visitor in visitors)


@needs_root
def test_ingress_nginx_certificates(ingress, open_path):
    """A certificate that is posted is the one of the next handshake, and turns on HSTS."""
    server = ingress
    tell(server, "backends", backends(server, 3))
    served_by(server, 3)
    authority = Authority(open_path, "other")
    authority.issue("shop", "DNS:shop.example.com")
    context = ssl.create_default_context(cafile=authority.path("other.crt"))

    def answer():
        with context.wrap_socket(socket.create_connection(("127.0.0.1", server.port_of("PORT1")), 10), server_hostname="shop.example.com") as sock:
            sock.sendall(b"GET / HTTP/1.1\r\nHost: shop.example.com\r\nConnection: close\r\n\r\n")
            return b"".join(iter(lambda: sock.recv(65536), b"")).decode("latin-1")
    with pytest.raises(ssl.SSLCertVerificationError):
        answer()
    tell(server, "servers", {"servers": {"shop.example.com": "u1"}, "certificates": {"u1": authority.read("shop.crt") + authority.read("shop.key")}})
    text = answer()
    assert text.startswith("HTTP/1.1 200 ") and "Strict-Transport-Security: max-age=31536000; includeSubDomains" in text
    assert "pod 3 http shop.example.com" in text


# ---- APISIX, from files alone: what its own command writes is what is run

APISIX = os.environ.get("TEST_APISIX", "")

APISIX_CONFIG = """
deployment:
  role: data_plane
  role_data_plane:
    config_provider: yaml
apisix:
  node_listen: [%(port)d]
  ssl: {enable: false}
nginx_config:
  user: %(user)s
  worker_processes: 2
  enable_cpu_affinity: false
plugins: [proxy-rewrite, response-rewrite, limit-count]
"""

APISIX_ROUTES = """
routes:
  - uri: /hello
    upstream: {type: roundrobin, nodes: {"127.0.0.1:%(backend)d": 1}}
  - uri: /again/*
    plugins: {proxy-rewrite: {regex_uri: ["^/again(.*)", "/hello$1"]}}
    upstream: {type: roundrobin, nodes: {"127.0.0.1:%(backend)d": 1}}
  - uri: /few
    plugins: {limit-count: {count: 2, time_window: 600, rejected_code: 429, policy: local}}
    upstream: {type: roundrobin, nodes: {"127.0.0.1:%(backend)d": 1}}
#END
"""


@pytest.fixture(name="apisix")
def _apisix(serve, open_path):
    """A started server, and the backend of its routes. TEST_APISIX has to have its libraries in deps, as `make deps` there puts them."""
    if not os.path.exists(os.path.join(APISIX, "apisix/cli/apisix.lua")) or not os.path.exists(os.path.join(APISIX, "deps/share/lua/5.1")):
        pytest.skip("TEST_APISIX names no checkout with its libraries")
    if shutil.which("luajit") is None:
        pytest.skip("APISIX's command needs luajit")
    for name in ("apisix", "deps"):
        os.symlink(os.path.join(os.path.abspath(APISIX), name), open_path / name)
    shutil.copytree(os.path.join(APISIX, "conf"), open_path / "conf")
    # It asks `openresty -V` for a version.
    (open_path / "openresty").write_text("#!/bin/sh\necho nginx version: openresty/1.27.1.2 >&2\n")
    (open_path / "openresty").chmod(0o755)
    backend = serve("server { listen 127.0.0.1:@PORT@; location / { return 200 '$uri for $http_host'; } }")
    port = ports.take()
    values = {"port": port.number, "backend": backend.port, "user": "root" if os.getuid() == 0 else "nobody"}
    (open_path / "conf/config.yaml").write_text(APISIX_CONFIG % values)
    (open_path / "conf/apisix.yaml").write_text(APISIX_ROUTES % values)
    done = subprocess.run(["luajit", "./apisix/cli/apisix.lua", "init"], cwd=open_path, capture_output=True, text=True, check=False,
                          env={**os.environ, "PATH": "%s:%s" % (open_path, os.environ["PATH"])})
    assert done.returncode == 0, done.stdout + done.stderr
    conf = (open_path / "conf/nginx.conf").read_text().replace("pid logs/nginx.pid", "pid nginx.pid")
    yield serve(conf=conf, directory=str(open_path)), port.number
    port.close()


def test_apisix(apisix):
    """Routes of a file are served, by plugins that rewrite and that count; a reload keeps them."""
    server, port = apisix

    def ask(target):
        with Client(port) as client:
            return client.request(target, host="shop.example.com")
    until(lambda: ask("/hello").status == 200, server.evidence)
    assert ask("/hello").text == "/hello for shop.example.com"
    assert ask("/again/there").text == "/hello/there for shop.example.com"
    assert [ask("/few").status for _ in range(3)][-1] == 429
    assert ask("/nothing").status == 404
    before = server.children()
    server.reload()
    until(lambda: not set(before) & set(server.children()), server.evidence)
    until(lambda: ask("/hello").status == 200, server.evidence)
