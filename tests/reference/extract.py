"""Writes directives.tsv, the facts that test_directives.c holds our rows against.

    /usr/bin/python3 tests/reference/extract.py PATH/reference/directives.tsv

The catalogue that it reads is kept outside of the repository. It takes the modules that auto/modules
says are built, leaves out the entries of free-form blocks and what only the commercial nginx has
(but for COMMERCIAL), and where nginx and Tengine differ about one directive it takes what nginx says.
"""

import csv
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "../..")
HEAD = """\
# Facts about the directives of the modules that are built; made by extract.py, not by hand.
# module\tname\tcontexts\tblock\targuments\tdefault
"""

# Where the catalogue's module is another than ours.
SAME = {"ngx_thread_pool_module": "ngx_core_module", "ngx_http_append_header_module": "ngx_http_headers_filter_module",
        "ngx_http_status_module": "ngx_http_metrics_module", "ngx_quic_bpf_module": "ngx_http_v3_module"}

# What only the commercial nginx has, and we have as well.
COMMERCIAL = {"health_check", "health_check_timeout", "match", "ntlm", "queue", "proxy_cache_purge", "fastcgi_cache_purge",
              "scgi_cache_purge", "uwsgi_cache_purge", "ssl_key_log", "proxy_ssl_key_log",
              "grpc_ssl_key_log", "uwsgi_ssl_key_log", "status", "status_format", "proxy_session_drop", "keyval", "keyval_zone", "api",
              "proxy_allow_upstream", "fastcgi_allow_upstream", "uwsgi_allow_upstream", "scgi_allow_upstream", "grpc_allow_upstream",
              "memcached_allow_upstream", "tunnel_allow_upstream", "num_map",
              "proxy_set_header_inherit", "grpc_set_header_inherit", "fastcgi_param_inherit", "scgi_param_inherit",
              "uwsgi_param_inherit", "proxy_bind_dynamic", "fastcgi_bind_dynamic", "uwsgi_bind_dynamic", "scgi_bind_dynamic",
              "grpc_bind_dynamic", "memcached_bind_dynamic", "tunnel_bind_dynamic", "proxy_request_dynamic",
              "fastcgi_request_dynamic", "uwsgi_request_dynamic", "scgi_request_dynamic", "grpc_request_dynamic", "auth_require",
              "internal_redirect", "mp4_limit_rate", "mp4_limit_rate_after", "error_log_tag", "state", "mqtt", "mqtt_buffers", "mqtt_rewrite_buffer_size", "mqtt_set_connect", "mqtt_preread"}

# … and modules of which we have all.
COMMERCIAL_MODULES = {"ngx_http_auth_jwt_module", "ngx_http_oidc_module", "ngx_http_session_log_module"}


def built_modules():
    with open(os.path.join(ROOT, "auto/modules"), encoding="utf-8") as rows:
        words = [row.split() for row in rows if row.strip() and not row.startswith("#")]
    return {row[0] for row in words if row[2] not in ("later", "missing")} | set(SAME)


def facts(path):
    modules = built_modules()
    chosen = {}
    with open(path, encoding="utf-8", newline="") as table:
        for row in csv.DictReader(table, delimiter="\t", quoting=csv.QUOTE_NONE):
            contexts = row["contexts"].split(",")
            origin = row["origin"]
            is_ours = origin in ("nginx-oss", "tengine", "brotli", "lua", "slowfs") or \
                origin == "nginx-commercial" and (row["directive"] in COMMERCIAL or row["module"] in COMMERCIAL_MODULES)
            if row["module"] not in modules or not is_ours:
                continue
            if row["directive"].startswith("(") or contexts[0].endswith("-block"):
                continue
            key = SAME.get(row["module"], row["module"]), row["directive"]
            if key in chosen and origin == "tengine":
                continue
            chosen[key] = (",".join(contexts), "block" if row["takes_block"] == "yes" else "line",
                           row["arity"], row["default"])
    return chosen


def main():
    chosen = facts(sys.argv[1])
    with open(os.path.join(HERE, "directives.tsv"), "w", encoding="utf-8") as out:
        out.write(HEAD)
        for key in sorted(chosen):
            out.write("\t".join(key + chosen[key]) + "\n")
    print("%d directives" % len(chosen))


if __name__ == "__main__":
    main()
