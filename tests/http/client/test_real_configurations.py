"""Configurations as well-known tools write them, by the directives that they use: certbot, Nginx Proxy Manager, reverse proxies with a login before them."""

import http.server
import threading
import urllib.parse

import pytest

APP_MARK = "app"


class Quiet(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, body, **fields):
        self.send_response(status)
        for name, value in fields.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class App(Quiet):
    """Says what it was asked, and by whom."""

    def do_GET(self):
        names = ("Host", "X-Real-IP", "X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded-Host", "X-Forwarded-Uri", "X-Forwarded-Ssl", "Remote-User", "Remote-Groups",
                 "X-Original-URL", "Connection", "Upgrade", "X-Forwarded-Scheme")
        seen = {name: self.headers.get(name, "") for name in names}
        self.rfile.read(int(self.headers.get("Content-Length", 0)))     # else the end of the connection would be a reset
        self.answer(200, (APP_MARK + " " + self.path + "\n" + "\n".join("%s=%s" % item for item in seen.items())).encode())

    do_POST = do_GET


class Authelia(Quiet):
    """Answers as a login portal does: who has the cookie may pass, the admin's place is for admins, others are sent to log in."""

    def do_GET(self):
        original = self.headers.get("X-Original-URL", "")
        if "session=admin" in self.headers.get("Cookie", ""):
            return self.answer(200, b"", Remote_User="admin", Remote_Groups="admins,users", Remote_Email="a@example.test", Set_Cookie="session=admin; Path=/")
        if "session=user" in self.headers.get("Cookie", ""):
            return self.answer(403 if "/admin" in original else 200, b"", Remote_User="user", Remote_Groups="users")
        return self.answer(401, b"log in", Location="https://auth.example.test/?rd=" + urllib.parse.quote(original, safe=""))

    do_HEAD = do_POST = do_GET


@pytest.fixture
def listen():
    servers = []

    def start(handler):
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        servers.append(server)
        return server.server_address[1]

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def said(answer):
    """{field: value} that the app saw."""
    assert answer.text.startswith(APP_MARK), answer
    return dict(line.partition("=")[::2] for line in answer.text.splitlines()[1:])


def test_certbot_redirects(serve):
    server = serve("""
        server { if ($host = www.example.test) { return 301 https://$host$request_uri; } if ($host = example.test) { return 301 https://$host$request_uri; }
            listen 127.0.0.1:@PORT@ default_server; server_name example.test www.example.test; return 404; }""")
    with server.client() as client:
        for host in ("example.test", "www.example.test"):
            answer = client.request("/a?b=c", host=host)
            assert (answer.status, answer.header("Location")) == (301, "https://%s/a?b=c" % host)
        assert client.request("/", host="other.test").status == 404


def test_certbot_challenge(serve):
    """The challenge is answered before the redirect of all else, as its installer writes it: `rewrite` first, a location behind it."""
    server = serve("""server { rewrite ^(/.well-known/acme-challenge/.*) $1 break; listen 127.0.0.1:@PORT@; server_name example.test;
        location = /.well-known/acme-challenge/token { default_type text/plain; return 200 token.thumbprint; } location / { return 301 https://$host$request_uri; } }""")
    assert server.get("/.well-known/acme-challenge/token").text == "token.thumbprint"
    assert server.get("/x").status == 301


PROXY_MANAGER = """
    proxy_cache_path public levels=1:2 keys_zone=public-cache:1m max_size=10m; proxy_cache_path private levels=1:2 keys_zone=private-cache:1m max_size=10m;
    map $host $forward_scheme { default http; } map $http_upgrade $connection_upgrade { default upgrade; '' close; }
    map $scheme $hsts_header { https "max-age=63072000; preload"; }
    real_ip_header X-Real-IP; real_ip_recursive on; set_real_ip_from 127.0.0.0/8; server_tokens off; client_max_body_size 2000m; proxy_ignore_client_abort off;
    proxy_set_header X-Forwarded-Scheme $scheme; proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for; proxy_set_header Accept-Encoding "";
    log_format proxy '[$time_local] $upstream_cache_status $upstream_status $status - $request_method $scheme $host "$request_uri" [Client $remote_addr] [Sent-to $server]';
    server {
        set $forward_scheme http; set $server "127.0.0.1"; set $port %(app)d; listen 127.0.0.1:@PORT@; server_name app.example.test; access_log logs/proxy.log proxy;
        location ~* ^.*\\.(css|js|jpe?g|gif|png|ico)$ { if_modified_since off; set $test "${test}1"; proxy_cache public-cache; proxy_cache_key $host$request_uri; proxy_ignore_headers Set-Cookie Cache-Control Expires;
            proxy_cache_valid any 30m; proxy_cache_valid 404 1m; proxy_set_header Host $host; proxy_pass $forward_scheme://$server:$port; add_header X-Proxy-Cache $upstream_cache_status; }
        location ~ (/wp-login|\\.env$) { deny all; }
        location /custom/ { proxy_set_header Host $host; proxy_set_header X-Real-IP $remote_addr; rewrite ^/custom/(.*)$ /inner/$1 break; proxy_pass http://127.0.0.1:%(app)d; }
        location / { auth_basic "Authorization required"; auth_basic_user_file access; allow 127.0.0.0/8; deny all; satisfy any; proxy_set_header Authorization "";
            add_header X-Served-By $host; proxy_set_header Host $host; proxy_set_header X-Forwarded-Proto $scheme; proxy_set_header X-Real-IP $remote_addr;
            proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection $connection_upgrade; proxy_http_version 1.1; proxy_pass $forward_scheme://$server:$port$request_uri; }
    }
    server { listen 127.0.0.1:@PORT@ default_server; server_name _; location / { return 444; } }"""


def test_proxy_manager(serve, listen):
    server = serve(PROXY_MANAGER % {"app": listen(App)}, files={"access": "user:{PLAIN}secret\n"})
    with server.client() as client:
        answer = client.request("/page?q=1", "X-Real-IP: 10.1.2.3", "Authorization: Basic dXNlcjpzZWNyZXQ=", host="app.example.test")
        seen = said(answer)
        assert answer.header("X-Served-By") == "app.example.test" and answer.text.split("\n")[0] == "app /page?q=1"
        assert (seen["Host"], seen["X-Real-IP"], seen["X-Forwarded-Proto"], seen["X-Forwarded-Scheme"], seen["Connection"]) == ("app.example.test", "10.1.2.3", "http", "", "close")
        assert client.request("/page", "X-Real-IP: 10.1.2.3", host="app.example.test").status == 401
        assert client.request("/page", host="app.example.test").status == 200
        assert [client.request("/style.css?v=1", host="app.example.test").header("X-Proxy-Cache") for _ in range(2)] == ["MISS", "HIT"]
        assert client.request("/wp-login.php", host="app.example.test").status == 403
        assert client.request("/custom/a", host="app.example.test").text.startswith("app /inner/a\n")
    with server.client() as client:
        client.send("GET / HTTP/1.1\r\nHost: other.test\r\n\r\n")
        client.expect_closed()
    assert any("HIT - 200" in line and "Sent-to 127.0.0.1" in line for line in server.lines("logs/proxy.log"))


LOGIN = """
    upstream app { server 127.0.0.1:%(app)d; }
    server { listen 127.0.0.1:@PORT@; server_name app.*; include authelia-server.conf;
        location / { include authelia-location.conf; include proxy.conf; set $upstream_app 127.0.0.1; set $upstream_port %(app)d; set $upstream_proto http;
            proxy_pass $upstream_proto://$upstream_app:$upstream_port; }
        location ~ (/app)?/api { include proxy.conf; proxy_pass http://app; } }"""
LOGIN_FILES = {
    "authelia-server.conf": """location = /authelia/api/authz/auth-request { internal; include proxy.conf; proxy_pass http://127.0.0.1:%(auth)d; proxy_set_header Content-Length "";
        proxy_pass_request_body off; proxy_set_header X-Original-Method $request_method; proxy_set_header X-Original-URL $scheme://$http_host$request_uri; }
        location @login { internal; add_header Set-Cookie $set_cookie; return 302 $signin_url; }""",
    "authelia-location.conf": """auth_request /authelia/api/authz/auth-request; error_page 401 = @login; auth_request_set $email $upstream_http_remote_email; auth_request_set $groups $upstream_http_remote_groups;
        auth_request_set $user $upstream_http_remote_user; auth_request_set $signin_url $upstream_http_location; auth_request_set $set_cookie $upstream_http_set_cookie;
        proxy_set_header Remote-Email $email; proxy_set_header Remote-Groups $groups; proxy_set_header Remote-User $user; add_header Set-Cookie $set_cookie;""",
    "proxy.conf": """client_body_buffer_size 128k; client_max_body_size 0; send_timeout 5m; proxy_read_timeout 240; proxy_send_timeout 240; proxy_connect_timeout 240; proxy_ssl_server_name on;
        proxy_next_upstream error timeout invalid_header http_500 http_502 http_503; proxy_cookie_path / /; proxy_buffers 32 4k; proxy_headers_hash_bucket_size 128; proxy_headers_hash_max_size 1024;
        proxy_cache_bypass $cookie_session; proxy_no_cache $cookie_session; proxy_redirect http:// $scheme://; proxy_http_version 1.1; proxy_set_header Connection $connection_upgrade;
        proxy_set_header Early-Data $ssl_early_data; proxy_set_header Host $host; proxy_set_header Upgrade $http_upgrade; proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
        proxy_set_header X-Forwarded-Host $host; proxy_set_header X-Forwarded-Method $request_method; proxy_set_header X-Forwarded-Proto $scheme; proxy_set_header X-Forwarded-Server $host;
        proxy_set_header X-Forwarded-Ssl on; proxy_set_header X-Forwarded-Uri $request_uri; proxy_set_header X-Real-IP $remote_addr;""",
}


def test_login_before_an_application(serve, listen):
    auth = listen(Authelia)
    files = dict(LOGIN_FILES)
    files["authelia-server.conf"] = files["authelia-server.conf"] % {"auth": auth}
    server = serve("map $http_upgrade $connection_upgrade { default upgrade; '' ''; }" + LOGIN % {"app": listen(App)}, files=files)
    with server.client() as client:
        def ask(path, cookie=None, **more):
            return client.request(path, *(["Cookie: session=" + cookie] if cookie else []), host="app.example.test", **more)

        stranger = ask("/a?b=c")
        assert (stranger.status, stranger.header("Location")) == (302, "https://auth.example.test/?rd=" + urllib.parse.quote("http://app.example.test/a?b=c", safe=""))
        user = ask("/a", "user")
        assert (said(user)["Remote-User"], said(user)["Remote-Groups"], said(user)["X-Forwarded-Uri"], said(user)["X-Forwarded-Host"]) == ("user", "users", "/a", "app.example.test")
        assert user.header("Set-Cookie") is None and ask("/admin", "user").status == 403
        admin = ask("/admin", "admin")
        assert said(admin)["Remote-User"] == "admin" and admin.header("Set-Cookie") == "session=admin; Path=/"
        assert said(ask("/api/x"))["Remote-User"] == ""  # a place of its own asks nobody
        spoofed = client.request("/a", "Cookie: session=user", "Remote-User: admin", host="app.example.test")
        assert said(spoofed)["Remote-User"] == "user"
        assert said(ask("/a", "user", method="POST", body=b"x" * 300000))["Remote-User"] == "user"
