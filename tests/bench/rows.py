"""The rows of the benchmark: what is served, what is asked for, and what is to be reached."""

import os
import subprocess

import lua_rows
import module_rows
from row import CLOCKED, MODES, Row

CONF = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../conf"))

OBJECTS = "/usr/lib/nginx/modules"      # where Debian has them

EMPTY_GIF = "location = /empty.gif { empty_gif; }"
LOG = "access_log logs/access.log;"
FILE_CACHE = "open_file_cache max=2000 inactive=60s; open_file_cache_valid 60s;"

SERVERS = 500
LATE_SERVER = 489
REGEX_LOCATIONS = 200
LATE_REGEX = 188


def file_name(size_kib, number=0):
    """The name of a file that `make_files` makes."""
    return f"/{size_kib}k/{number:03d}.txt"


def make_files(root):
    """Makes every file that a row serves."""
    module_rows.make_files(root)
    line = b"The quick brown fox jumps over the lazy dog, and back again: 0123.\n"
    for size_kib, count in ((1, 1), (4, 1000), (16, 1), (1024, 1), (10240, 1)):
        os.makedirs(f"{root}/{size_kib}k")
        content = (line * (size_kib * 1024 // len(line) + 1))[:size_kib * 1024]
        for number in range(count):
            with open(root + file_name(size_kib, number), "wb") as file:
                file.write(content)


def make_certificates(directory):
    """Makes a certificate and a key of each kind that a row names."""
    os.makedirs(directory)
    for kind, words in (("ecdsa", "ec -pkeyopt ec_paramgen_curve:P-256"), ("rsa", "rsa:2048")):
        subprocess.run(["openssl", "req", "-x509", "-nodes", "-days", "30", "-subj",
                        "/CN=localhost", "-newkey", *words.split(),
                        "-keyout", f"{directory}/{kind}.key", "-out", f"{directory}/{kind}.crt"],
                       check=True, stderr=subprocess.DEVNULL)


def regex_location(number):
    """One of four usual kinds of pattern: anchored, alternatives, unanchored, suffix."""
    pattern = (rf"~ ^/app{number}/v[0-9]+/items/[0-9]+\.json$",
               rf"~* ^/media{number}/(.+)\.(jpe?g|png|gif)$",
               rf"~ /section{number}/page-[a-z]+\.html$",
               rf"~ \.type{number}$")[number % 4]
    return f'location {pattern} {{ return 200 "{number}\\n"; }}'


def routing_servers(port):
    """All server blocks of the routing row but the first one, which the template has."""
    blocks = []
    for number in range(1, SERVERS):
        body = 'return 404;'
        if number == LATE_SERVER:
            body = "\n        ".join(regex_location(i) for i in range(REGEX_LOCATIONS))
        blocks.append(f"    server {{\n        listen 127.0.0.1:{port};\n"
                      f"        server_name host{number}.example.com;\n        {body}\n    }}")
    return "\n".join(blocks)


ROUTING_URIS = tuple(f"/app{LATE_REGEX}/v2/items/{number}.json" for number in range(1000, 2000))
FILES_4K = tuple(file_name(4, number) for number in range(1000))
STATIC = "root {root};"

# {backend} is the address of the backend, and {backend_port} its port.
PROXY = 'location / { proxy_pass http://app; proxy_http_version 1.1; ' \
    'proxy_set_header Connection ""; }'
FASTCGI = "location / { fastcgi_pass app; %s include {conf}/fastcgi_params; " \
    "fastcgi_param SCRIPT_FILENAME {root}$fastcgi_script_name; }"
ONE_PEER = "access_log off; upstream app { server {backend}; }"
KEPT_PEER = "access_log off; upstream app { server {backend}; keepalive 32; }"
CACHE = "access_log off; upstream app { server {backend}; } " \
    "proxy_cache_path cache levels=1:2 keys_zone=cache:10m inactive=1h use_temp_path=off;"
CACHED = "location / { proxy_pass http://app; proxy_cache cache; proxy_cache_valid 200 1h; }"
KEEPALIVE = {"cpu": 0.9, "syscalls": 2}
GRPC = "location / { grpc_pass grpc://app; }"
GRPC_HEADERS = (("content-type", "application/grpc"), ("te", "trailers"))
HEAVY = "location /heavy/ { root {root}; gzip on; gzip_comp_level 9; gzip_types text/plain; }"
SHARED = {"http": LOG, "keepalive_timeout": 0, "body_size": 43, "measures": MODES}
CARRIED = {"http": "access_log off; upstream app { server {backend}; }", "is_stream": True,
           "modules": ("ngx_stream_module",), "needs": ("ngx_stream_proxy_module",)}
MESSAGE = b"\0\0\0\0\x0dHello, world\n"     # not compressed, 13 bytes

ROWS = (
    Row("short", "short connections, log", EMPTY_GIF, http=LOG, keepalive_timeout=0,
        options=("-s",), body_size=43,
        targets={"cpu": 0.9, "syscalls": 5, "instructions": 5000}),
    Row("keepalive", "keep-alive empty_gif", EMPTY_GIF, body_size=43,
        targets={**KEEPALIVE, "instructions": 3000}),
    Row("keepalive-log", "keep-alive empty_gif, log", EMPTY_GIF, http=LOG, body_size=43,
        targets=KEEPALIVE),
    Row("status", "stub_status", "location = /status { stub_status; }", uris=("/status",),
        targets=KEEPALIVE),
    Row("return", "return 200", 'location = /hello { return 200 "hello\\n"; }', uris=("/hello",),
        body_size=6, targets={**KEEPALIVE, "instructions": 3000}),
    Row("static-1k", "file of 1 KB", STATIC, uris=(file_name(1),), body_size=1024,
        targets={"cpu": 0.6, "syscalls": 5, "instructions": 4500}),
    Row("static-1k-cache", "file of 1 KB, open_file_cache", STATIC, uris=(file_name(1),),
        http=f"access_log off; {FILE_CACHE}", body_size=1024, targets={"syscalls": 2},
        measures=frozenset({"syscalls"})),
    Row("files-4k", "1,000 files of 4 KB", STATIC, uris=FILES_4K, body_size=4096,
        targets={"cpu": 0.6, "syscalls": 5}),
    Row("files-4k-cache", "1,000 files of 4 KB, open_file_cache", STATIC, uris=FILES_4K,
        http=f"access_log off; {FILE_CACHE}", body_size=4096, targets={"syscalls": 2},
        measures=frozenset({"syscalls"}), counted=(2000, 4000)),
    Row("static-16k", "file of 16 KB", STATIC, uris=(file_name(16),), body_size=16384,
        targets={"cpu": 0.7}),
    Row("static-1m", "file of 1 MB", STATIC, uris=(file_name(1024),), body_size=1048576,
        targets={"cpu": 0.6}, counted=(64, 320)),
    Row("pipelined", "pipelined (16), empty_gif", EMPTY_GIF, options=("-P", "16"), body_size=43,
        targets={"cpu": 0.25, "instructions": 1500}, counted=(1024, 5120)),
    Row("routing", "500 servers, 200 regex locations", "server_name host0.example.com; return 404;",
        uris=ROUTING_URIS, http="access_log off; server_names_hash_max_size 4096;",
        host=f"host{LATE_SERVER}.example.com", body_size=len(str(LATE_REGEX)) + 1,
        targets={"cpu": 0.35, "instructions": 10000}),
    Row("idle", "20,000 idle connections held", EMPTY_GIF, body_size=43, idle=20000,
        targets={"cpu": 0.9, "bytes": 512}, measures=frozenset({"load"})),
    Row("worker-memory", "idle worker, worker_connections 1048576", EMPTY_GIF,
        targets={"bytes": 16 * 1024 * 1024}, measures=frozenset({"memory"})),
    Row("proxy-kept", "proxy, kept connections", PROXY, uris=("/hello",), http=KEPT_PEER,
        body_size=13, backend=("http",), targets={"cpu": 0.8, "instructions": 9000}),
    Row("proxy-short", "proxy, the backend closes", PROXY, uris=("/hello",), http=ONE_PEER,
        body_size=13, backend=("http", "-c"), targets={"cpu": 0.85}),
    Row("fastcgi-kept", "FastCGI, kept connections", FASTCGI % "fastcgi_keep_conn on;",
        uris=("/hello",), http=KEPT_PEER, body_size=13, backend=("responder", "-l", "-m", "0"),
        targets={"cpu": 0.75, "instructions": 10000}),
    Row("fastcgi-kept-unix", "FastCGI, kept, unix socket", FASTCGI % "fastcgi_keep_conn on;",
        uris=("/hello",), http=KEPT_PEER, body_size=13,
        backend=("responder", "unix", "-l", "-m", "0"),
        targets={"cpu": 0.75}, measures=CLOCKED),
    Row("fastcgi-mux", "FastCGI, multiplexed (reference: kept)",
        FASTCGI % "{only}", uris=("/hello",), http=KEPT_PEER, body_size=13,
        only=("", "fastcgi_keep_conn on;"), backend=("responder", "-l", "-m", "1"),
        targets={"cpu": 0.65}),
    Row("fastcgi-mux-unix", "FastCGI, multiplexed (reference: kept), unix socket",
        FASTCGI % "{only}", uris=("/hello",), http=KEPT_PEER, body_size=13,
        only=("", "fastcgi_keep_conn on;"), backend=("responder", "unix", "-l", "-m", "1"),
        targets={"cpu": 0.65}, measures=CLOCKED),
    Row("fastcgi-short", "FastCGI, short connections", FASTCGI % "fastcgi_keep_conn off;",
        uris=("/hello",), http=ONE_PEER, body_size=13, backend=("responder", "-l", "-m", "0"),
        targets={"cpu": 0.85}),
    Row("fastcgi-short-unix", "FastCGI, short connections, unix socket",
        FASTCGI % "fastcgi_keep_conn off;", uris=("/hello",), http=ONE_PEER, body_size=13,
        backend=("responder", "unix", "-l", "-m", "0"), targets={"cpu": 0.85},
        measures=CLOCKED),
    Row("libfcgi", "FastCGI, 4 processes of libfcgi", FASTCGI % "", uris=("/hello",),
        http=ONE_PEER, body_size=13, backend=("libfcgi",), targets={"cpu": 0.85}),
    Row("php-fpm", "php-fpm, 4 processes, hello", FASTCGI % "", uris=("/hello.php",),
        http=ONE_PEER, body_size=13, backend=("php",), targets={"cpu": 0.85}),
    Row("cache-1k", "cache hit of 1 KB", CACHED, uris=("/1k",), http=CACHE, body_size=1024,
        backend=("http", "-b", "1024"), most_passed=64, targets={"cpu": 0.6}),
    Row("cache-100k", "cache hit of 100 KB", CACHED, uris=("/100k",), http=CACHE,
        body_size=102400, backend=("http", "-b", "102400"), most_passed=64, measures=CLOCKED),
    Row("proxy-waiting", "", PROXY, http=KEPT_PEER, backend=("http", "-w"), waiting=2000,
        measures=frozenset({"memory"})),
    Row("tls-keepalive", "TLS 1.3, keep-alive empty_gif", EMPTY_GIF, body_size=43, tls="ecdsa",
        options=("-T",), targets={"cpu": 0.85}),
    Row("tls-ecdsa", "TLS 1.3, full handshakes, ECDSA P-256", EMPTY_GIF, keepalive_timeout=0,
        body_size=43, tls="ecdsa", options=("-T", "-s"), counted=(128, 512),
        targets={"cpu": 0.8}),
    Row("tls-rsa", "TLS 1.3, full handshakes, RSA 2048", EMPTY_GIF, keepalive_timeout=0,
        body_size=43, tls="rsa", options=("-T", "-s"), counted=(128, 512),
        targets={"cpu": 0.8}),
    Row("tls-resumed", "TLS 1.3, resumed handshakes", EMPTY_GIF, keepalive_timeout=0,
        body_size=43, tls="ecdsa", options=("-T", "-s", "-R"), counted=(128, 512)),
    Row("tls-1m", "TLS 1.3, file of 1 MB", STATIC, uris=(file_name(1024),), body_size=1048576,
        tls="ecdsa", options=("-T",), targets={"cpu": 0.95}, counted=(32, 128)),
    Row("tls-idle", "2,000 idle TLS connections held", EMPTY_GIF, body_size=43, idle=2000,
        tls="ecdsa", options=("-T",), targets={"bytes_ratio": 1.0},
        measures=frozenset({"load"})),
    Row("h2", "HTTP/2, 32 streams, empty_gif", EMPTY_GIF, body_size=43, streams=32,
        targets={"cpu": 0.3, "instructions": 6000}, counted=(2048, 10240)),
    Row("h2-10m", "HTTP/2, download of 10 MB", STATIC, uris=(file_name(10240),),
        body_size=10485760, streams=1, connections=4, counted=(8, 40)),
    Row("grpc", "gRPC echo, 32 streams", GRPC, uris=("/echo.Echo/Say",), http=KEPT_PEER,
        body_size=len(MESSAGE), message=MESSAGE, streams=32, connections=1, backend=("grpc",)),
    Row("timewait", "100,000 FastCGI requests, FCGI_MAX_CONNS=64", FASTCGI % "", uris=("/hello",),
        http=ONE_PEER, body_size=13, backend=("responder", "-l", "-c", "64"),
        targets={"timewait": 0}, measures=frozenset({"timewait"})),
    Row("timewait-mux", "100,000 FastCGI requests, FCGI_MPXS_CONNS=1", FASTCGI % "",
        uris=("/hello",), http=ONE_PEER, body_size=13, backend=("responder", "-l", "-m", "1"),
        targets={"timewait": 0}, measures=frozenset({"timewait"})),
    Row("stream-short", "TCP proxy, short sessions", "proxy_pass app;", uris=("/hello",), body_size=13,
        options=("-s",), backend=("http",), targets={"cpu": 0.9}, **CARRIED),
    Row("stream-kept", "TCP proxy, ping-pong over 64 sessions", "proxy_pass app;", uris=("/hello",),
        body_size=13, options=("-c", "64"), backend=("http",),
        targets={"cpu": 0.95, "syscalls": 4}, **CARRIED),
    Row("stream-large", "TCP proxy, one session, pieces of 16 MB", "proxy_pass app;", uris=("/16m",),
        body_size=16777216, options=("-c", "1"), backend=("http", "-b", "16777216"),
        counted=(4, 20), targets={"cpu": 0.7}, **CARRIED),
    Row("stream-tls", "TCP proxy, TLS 1.3 ended, full handshakes", "proxy_pass app;", uris=("/hello",),
        body_size=13, options=("-T", "-s"), backend=("http",), tls="ecdsa", counted=(128, 512),
        targets={"cpu": 0.9}, **{**CARRIED, "needs": ("ngx_stream_ssl_module",)}),
    Row("stream-tls-large", "TCP proxy, TLS 1.3 ended, one session, pieces of 16 MB", "proxy_pass app;",
        uris=("/16m",), body_size=16777216, options=("-T", "-c", "1"), tls="ecdsa",
        backend=("http", "-b", "16777216"), counted=(4, 20), targets={"cpu": 0.95},
        **{**CARRIED, "needs": ("ngx_stream_ssl_module",)}),
    Row("stream-preread", "TLS passed on by ssl_preread, short sessions", "ssl_preread on; proxy_pass app;",
        uris=("/hello",), body_size=13, options=("-T", "-s"), backend=("tls",), tls_behind="ecdsa",
        counted=(128, 512), targets={"cpu": 0.8},
        **{**CARRIED, "needs": ("ngx_stream_ssl_preread_module",)}),
    Row("stream-idle", "TCP proxy, 20,000 idle sessions held", "proxy_pass app;", uris=("/hello",),
        body_size=13, idle=20000, backend=("http",), targets={"bytes": 2048},
        measures=frozenset({"load"}), **CARRIED),
    Row("udp-echo", "UDP, 1,000 flows, 64 bytes there and back", "proxy_timeout 10m;", targets={"cpu": 0.4},
        is_datagram=True, measures=CLOCKED, **CARRIED),
    Row("udp-dns", "UDP, a session for each question of 64 bytes", "proxy_responses 1;",
        targets={"cpu": 0.5}, is_datagram=True, measures=CLOCKED, **CARRIED),
    Row("heavy", "beside 12 heavy requests/s; 4 workers, 2 CPUs", f"{EMPTY_GIF} {HEAVY}",
        options=("-s", "-c", "16"), **SHARED),
    Row("crowd", "ab -c 1000; 2 workers", EMPTY_GIF, **SHARED),
    Row("calm", "short connections; 2 workers", EMPTY_GIF, options=("-s",), **SHARED),
    Row("stopped", "one of 4 workers stopped", EMPTY_GIF, options=("-s", "-c", "16"), **SHARED),
    Row("wakeups", "wake-ups, of accepts; 4 workers", EMPTY_GIF, options=("-s", "-c", "16"),
        **SHARED),
) + module_rows.ROWS + lua_rows.ROWS

TEMPLATE = """\
{user}daemon off;
master_process {master};
worker_processes {workers};
{main}
error_log logs/error.log;
pid logs/nginx.pid;
events {{
    worker_connections {worker_connections};
    {events}
}}
"""

HTTP = """\
http {{
    {paths}default_type text/plain;
    sendfile on;
    tcp_nopush on;
    keepalive_timeout {keepalive_timeout};
    keepalive_requests 1000000000;
    {http}
    server {{
        listen 127.0.0.1:{port}{listen};
        {protocol}{server}
    }}
{more}
}}
"""


STREAM = """\
stream {{
    {http}
    server {{
        listen 127.0.0.1:{port}{listen};
        {protocol}{server}
    }}
}}
"""


def protocol_lines(row, is_reference, tls_directory):
    """Further parameters of the listen line, and lines that go with them. Before nginx 1.25, HTTP/2
    was such a parameter; before 1.23.4, TLS 1.3 had to be asked for."""
    listen, lines = "", []
    if row.tls:
        name = f"{tls_directory}/{row.tls}"
        listen += " ssl"
        lines += ["ssl_protocols TLSv1.2 TLSv1.3;", f"ssl_certificate {name}.crt;",
                  f"ssl_certificate_key {name}.key;"]
    if row.streams and is_reference:
        listen += " http2"
    elif row.streams:
        lines.append("http2 on;")
    return listen, "".join(line + "\n        " for line in lines)


def configuration(row, root, port, is_reference, is_single=False, workers=1, listen="",
                  worker_connections=32768, backend="", tls_directory="", main="", events=""):
    """The text of nginx.conf for one row: the same for both servers, but for the port, the address
    of the backend, Row.only, and the way HTTP/2 is asked for; and, where root does not run them,
    with places of temporary files other than those that Debian compiled in."""
    user, paths = "user root;\n", ""
    if row.is_bound:
        main += "worker_cpu_affinity auto;\n"
    if is_reference and not row.is_against_itself:
        main += "".join(f"load_module {OBJECTS}/{name}.so;\n" for name in row.modules)
    if os.geteuid() != 0:
        user = ""
        paths = "client_body_temp_path temp/body;\n    " + "".join(
            f"{name}_temp_path temp/{name};\n    "
            for name in ("proxy", "fastcgi", "uwsgi", "scgi"))
    places = {"{only}": row.only[is_reference], "{root}": root, "{conf}": CONF,
              "{backend}": backend, "{backend_port}": backend.rpartition(":")[2]}

    def fill(text):
        for place, value in places.items():
            text = text.replace(place, value)
        return text

    main += fill(row.main)
    parameters, protocol = protocol_lines(row, is_reference, tls_directory)
    if row.is_stream:
        worker_connections *= 2         # a session has two
    return (TEMPLATE + (STREAM if row.is_stream else HTTP)).format(
        user=user, paths=paths, master="off" if is_single else "on", workers=workers, port=port,
        listen=parameters + listen, protocol=protocol, http=fill(row.http), main=main,
        events=events, worker_connections=worker_connections,
        keepalive_timeout=row.keepalive_timeout,
        server=fill(row.server), more=routing_servers(port) if row.name == "routing" else "")
