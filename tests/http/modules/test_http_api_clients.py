"""api: what people ask nginx Plus with, as Debian has it: the exporter for Prometheus, and the client library for Go."""

import os
import re
import shutil
import subprocess

import pytest

from harness import ports, until

HERE = os.path.dirname(os.path.abspath(__file__))
EXPORTER = shutil.which("prometheus-nginx-exporter")
GO = "/usr/bin/go"  # Debian's: its own library is compiled already
LIBRARY = "/usr/share/gocode/src/github.com/nginxinc/nginx-plus-go-client"

HTTP = """
    keyval_zone zone=pairs:64k;
    keyval $arg_key $pair zone=pairs;
    limit_req_zone $uri zone=req:64k rate=1000r/s;
    proxy_cache_path cache keys_zone=stored:64k max_size=100m;
    limit_conn_zone $uri zone=conn:64k;
    upstream dyn { zone dyn 128k; server 127.0.0.1:@PORT1@; }
    upstream empty { zone empty 64k; }
    upstream draining { zone draining 64k; server 127.0.0.1:1 drain; }
    server {
        listen 127.0.0.1:@PORT@;
        status_zone site;
        location /api { api write=on; }
        location / { proxy_pass http://dyn; status_zone place; limit_req zone=req burst=1000 nodelay; limit_conn conn 100; proxy_cache stored; }
    }
    server { listen 127.0.0.1:@PORT1@; return 204; }
"""
STREAM = """
stream {
    keyval_zone zone=flows:64k;
    keyval $remote_addr $flow zone=flows;
    limit_conn_zone $remote_addr zone=sessions:64k;
    upstream flow { zone flow 64k; server 127.0.0.1:@PORT1@; }
    upstream empty { zone no_flow 64k; }
    server { listen 127.0.0.1:@PORT2@; status_zone flow; limit_conn sessions 100; proxy_pass flow; }
}
"""


@pytest.mark.skipif(EXPORTER is None, reason="there is no prometheus-nginx-exporter")
def test_the_exporter_reads_all_it_knows(serve):
    server = serve(HTTP, main=STREAM)
    for _ in range(3):
        assert server.get("/").status == 204
    port = ports.take()
    exporter = subprocess.Popen([EXPORTER, "-nginx.plus", "-nginx.scrape-uri", "http://127.0.0.1:%d/api" % server.port,
                                 "-web.listen-address", "127.0.0.1:%d" % port.number], stderr=subprocess.PIPE)
    try:
        text = until(lambda: scrape(port.number, exporter), "the exporter's page")
    finally:
        exporter.kill()
        log = exporter.communicate()[1].decode()
        port.close()
    figures = dict(re.findall(r"^(nginxplus_\S+) (\S+)$", text, re.M))
    assert figures["nginxplus_up"] == "1", log
    assert figures['nginxplus_location_zone_responses{code="2xx",location_zone="place"}'] == "3"
    assert figures['nginxplus_limit_request_passed{zone="req"}'] == "3"
    assert [name for name in figures if name.startswith("nginxplus_upstream_server_state{")]
    assert [name for name in figures if name.startswith("nginxplus_stream_upstream_server_state{")]
    assert "error" not in log.lower()


def scrape(port, exporter):
    assert exporter.poll() is None
    done = subprocess.run(["curl", "-s", "http://127.0.0.1:%d/metrics" % port], stdout=subprocess.PIPE, encoding="ascii", check=False)
    return done.stdout


@pytest.mark.skipif(not os.access(GO, os.X_OK) or not os.path.isdir(LIBRARY), reason="there is no Go, or no client library for it")
def test_the_go_client_reads_and_changes(serve, tmp_path):
    server = serve(HTTP, main=STREAM)
    assert server.get("/").status == 204
    with server.client(port=server.port_of("PORT2")) as client:
        assert client.request("/", close=True).status == 204
    program = str(tmp_path / "client")
    env = dict(os.environ, GO111MODULE="off", GOPATH="/usr/share/gocode", GOCACHE=str(tmp_path / "cache"), GOFLAGS="", GOTOOLCHAIN="local")
    subprocess.run([GO, "build", "-o", program, os.path.join(HERE, "plus_go_client/main.go")], env=env, check=True)
    done = subprocess.run([program, "http://127.0.0.1:%d/api" % server.port], stdout=subprocess.PIPE, encoding="utf-8", check=False)
    assert (done.returncode, done.stdout) == (0, "")
    now = server.get("/api/9/http/upstreams/dyn/servers").text
    assert '"127.0.0.4:1"' in now and '"down":true' not in now
