"""internal_redirect: another URI answers once limits and access have been checked."""


def test_targets(serve):
    server = serve("""
        limit_req_zone $binary_remote_addr zone=z:1m rate=1r/m;
        server {
            listen 127.0.0.1:@PORT@;
            location /to { internal_redirect /there; }
            location /args { internal_redirect /there?x=own; }
            location /named { internal_redirect @named; }
            location /where { internal_redirect $arg_to; root html; }
            location /denied { deny all; internal_redirect /there; }
            location /limited { limit_req zone=z; internal_redirect /there; }
            location /nested { internal_redirect /there; location /nested/in { root html; } }
            location /loop { internal_redirect /loop; }
            location /there { internal; return 200 "$uri|$args"; }
            location @named { return 200 "named $uri"; }
        }
    """, files={"html/where": "file", "html/nested/in": "in"})
    for path, text in (("/to?a=1", "/there|a=1"), ("/args?a=1", "/there|x=own"), ("/named/x", "named /named/x"),
                       ("/where?to=/there", "/there|to=/there"), ("/where?to=@named", "named /where"), ("/where", "file"),
                       ("/nested/in", "in")):
        assert server.get(path).text == text
    for path, status in (("/where?to=x", 500), ("/where?to=@none", 500), ("/where?to=/../x", 500), ("/denied", 403),
                         ("/limited", 200), ("/limited", 503), ("/loop", 500)):
        assert server.get(path).status == status
    with server.client() as client:
        assert client.request("/to", method="HEAD").status == 200
    server.wait_log('rewrite or internal redirection cycle')
