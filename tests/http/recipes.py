"""Servers with one of docs/recipes alone: its places and backends changed to those of a test."""

import os
import re

import certificates

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "../.."))


def read(name):
    with open(os.path.join(ROOT, name), encoding="utf-8") as source:
        return source.read()


def start(serve, name, backends, files=None, root="@DIR@/www"):
    """Port @PORT@ stands for 80, @PORT1@ for 443, root for /var/www. backends: "fastcgi" (an address), "uwsgi", "http",
    "names" (ports); those that the recipe has not need not be there. files: below www."""
    pair = certificates.own("localhost")
    port = {kind: str(backends.get(kind, 1)) for kind in ("uwsgi", "http", "names")}
    text = read("docs/recipes/%s.conf" % name)
    for pattern, put in ((r"listen 80;", "listen 127.0.0.1:@PORT@;"),
                         (r"listen 127\.0\.0\.1:8081;", "listen 127.0.0.1:@PORT@;"),
                         (r"listen 443 ssl;", "listen 127.0.0.1:@PORT1@ ssl;"),
                         (r"/etc/ssl/example\.crt", pair.crt), (r"/etc/ssl/example\.key", pair.key),
                         (r"unix:/run/[\w/.-]+", backends.get("fastcgi", "127.0.0.1:1")),
                         (r"uwsgi_pass 127\.0\.0\.1:\d+", "uwsgi_pass 127.0.0.1:" + port["uwsgi"]),
                         (r"(server|proxy_pass http://|grpc://)( ?)127\.0\.0\.1:\d+", r"\g<1>\g<2>127.0.0.1:" + port["http"]),
                         (r"resolver 127\.0\.0\.11", "resolver 127.0.0.1:" + port["names"]),
                         (r"8686", port["http"]), (r"/etc/nginx/git\.htpasswd", "@DIR@/www/git.htpasswd"),
                         (r"/srv/git", root + "/git") if root != "@DIR@/www" else (r"$^", ""),
                         (r"/var/www", root)):
        text = re.sub(pattern, put, text)
    tree = {"www": None, "fastcgi_params": read("conf/fastcgi_params"), "uwsgi_params": read("conf/uwsgi_params")}
    tree.update({"www/" + path: content for path, content in (files or {}).items()})
    return serve(text, files=tree)
