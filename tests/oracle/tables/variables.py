"""Every variable of the core that needs no TLS and whose value repeats."""

from ..engine import Config

NAMES = """args binary_remote_addr body_bytes_sent connection_requests content_length content_type
    document_root document_uri host hostname http_host http_user_agent http_x_forwarded_for http_via
    http_referer http_cookie https is_args limit_rate pipe proxy_protocol_addr proxy_protocol_port
    proxy_protocol_server_addr proxy_protocol_server_port query_string realpath_root remote_addr
    remote_user request request_completion request_filename request_length request_method
    request_uri scheme sent_http_content_type sent_http_x server_addr server_name server_port
    server_protocol status uri bytes_sent request_body request_body_file cookie_c arg_a arg_dash_ed
    http_dash_ed connections_active""".split()

# The shape of those whose value cannot repeat: the answer is 1 when the shape is right.
SHAPES = {
    "connection": r"^\d+$", "connection_time": r"^\d+\.\d{3}$", "msec": r"^\d{10}\.\d{3}$",
    "pid": r"^\d+$", "remote_port": r"^\d+$", "request_id": r"^[0-9a-f]{32}$",
    "request_time": r"^\d+\.\d{3}$", "tcpinfo_rtt": r"^\d+$", "tcpinfo_rttvar": r"^\d+$",
    "tcpinfo_snd_cwnd": r"^\d+$", "tcpinfo_rcv_space": r"^\d+$",
    "nginx_version": r"^\d+\.\d+\.\d+",
    "time_iso8601": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d\d:\d\d$",
    "time_local": r"^\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d [+-]\d{4}$",
}

LOCATIONS = "".join('location = /%s { return 200 "[$%s]"; }\n' % (name, name) for name in NAMES)
MAPS = "".join('map $%s $shape_%s { "~%s" 1; default "wrong: $%s"; }\n' % (
    name, name, shape.replace("\\", "\\\\"), name) for name, shape in SHAPES.items())
SHAPED = "".join('location = /shape/%s { return 200 "$shape_%s"; }\n' % (name, name)
                 for name in SHAPES)
FIELDS = ("?a=1&dash-ed=2&dash_ed=3 | Cookie: c=cookie | X-Forwarded-For: f | Via: v | Referer: r"
          " | User-Agent: u | Dash-Ed: d | Content-Type: t | Authorization: Basic dTpw")

CONFIGS = [
    Config("variables", MAPS + """
        server {
            listen 127.0.0.1:@PORT@;
            server_name localhost other;
            root html;
            add_header X x;
            %s
            %s
            location /file/ { alias html/deep/; return 200 "$document_root $request_filename $realpath_root"; }
            location /link/ { root html/link; return 200 "$document_root $realpath_root"; }
            location /args/ { return 200 "$arg_a|$arg_A|$arg_b|$arg_|$arg_a_b|$args"; }
            location /caps { rewrite ^/(c)(a)?(x)?(p) /x; return 200 "$1$2$3$4|$5"; }
            location /brace { return 200 "${uri}x${args}y"; }
            location /header { alias html/; add_header X-All "$sent_http_content_type $sent_http_content_length $sent_http_last_modified $sent_http_etag $status"; }
            location /limit { set $limit_rate 100k; return 200 "$limit_rate"; }
            location /body { client_body_in_single_buffer on; return 200 "$request_body|$content_length"; }
            location /internal { rewrite ^ /after?new=1 last; }
            location /after { return 200 "$uri $document_uri $request_uri $args $request_filename"; }
        }
        """ % (LOCATIONS, SHAPED), "\n".join(
            ["GET /%s%s" % (name, FIELDS) for name in NAMES]
            + ["GET /shape/" + name for name in SHAPES]) + r"""
        GET /file/in.txt
        GET /link/x
        GET /args/?a=1&A=2
        GET /args/?b
        GET /args/?b=
        GET /args/?a=1&a=2
        GET /args/?xa=9&a=1
        GET /args/?A=up
        GET /args/?a=%20+%zz
        GET /args/?a_b=1&a-b=2
        GET /args/?=x
        GET /args/?a=1;b=2
        GET /args/?a=b=c
        GET /args/?&&a=1&&
        GET /caps
        GET /brace?q
        GET /header/a.txt
        GET /limit
        POST /body << the body
        GET /internal?old=1
        GET /host | Host: OTHER:80
        GET /host | Host: unknown.
        GET /host HTTP/1.0 | -Host
        GET http://Abs.Example:81/host
        GET /http_host | Host: OTHER:80
        GET http://abs.example/http_host | Host: other
        GET /server_name | Host: other
        GET /server_protocol HTTP/1.0
        GET /request_method && HEAD /request_method && POST /request_method
        POST /content_length << 12345
        POST /content_length | Transfer-Encoding: chunked << 0\r\n\r\n
            => 200 -- the length of a chunked body is known once it was read, and return does not read it
        GET /pipe && GET /pipe && GET /pipe
        GET /connection_requests && GET /connection_requests
        GET /request_length | X-Pad: 0123456789
        GET /request?x=%41 HTTP/1.0
        HEAD /uri
        GET /remote_user | Authorization: Basic OnBhc3M=
        GET /remote_user | Authorization: basic dXNlcjpwYXNz
        GET /remote_user | Authorization: Basic    dXNlcjpwYXNz
        """, files={"html/a.txt": "a\n", "html/real/x": ""},
           prepare=lambda server: __import__("os").symlink("real", server.path("html/link"))),
]
