"""random_index where there is one file at most, so that both servers choose the same."""

import os

from ..engine import Config


def links(server):
    os.symlink("../dir/a", server.path("html/links/l"))
    os.symlink("nowhere", server.path("html/links/dangling"))
    os.symlink("../dir", server.path("html/onlydir/d"))


CONFIGS = [
    Config("random_index", r"""
        server {
            listen 127.0.0.1:@PORT@;
            default_type text/plain;
            root html;
            location / { random_index on; add_header X-Uri $uri; add_header X-Args $args; }
            location /al/ { alias html/dir/; random_index on; add_header X-Uri $uri; }
            location = /exact/ { alias html/dir/; random_index on; }
            location ~ ^/re/ { alias html/dir/; random_index on; }
            location /off/ { alias html/dir/; index a;
                location /off/in/ { random_index on; alias html/dir/; } }
            location /inherits/ { random_index on; alias html/dir/;
                location /inherits/in/ { alias html/dir/; }
                location /inherits/off/ { alias html/dir/; random_index off; } }
            location /if/ { random_index on; alias html/dir/; if ($arg_x) { add_header X-If 1; } }
            location /both/ { random_index on; alias html/dir/; index nothing; autoindex on; }
            location /listed/ { random_index on; alias html/sub/; autoindex on; autoindex_format json; }
            location /proxied/ { random_index on; return 200 x; }
            location /404/ { random_index on; root none; error_page 404 /al/; }
            location /ssi/ { ssi on; ssi_types *; }
        }
        """, "\n".join("GET " + target for target in (
            "/dir/", "/empty/", "/sub/", "/links/", "/hidden/", "/esc/", "/bad/\n=> 200 kept | X-Uri: /bad/new line -- nginx sends the line end in its head", "/onlydir/", "/none/", "/dir", "/al/", "/exact/", "/re/",
            "/off/", "/off/in/", "/inherits/in/", "/inherits/off/", "/if/?x=1", "/if/", "/both/", "/proxied/", "/404/", "/ssi/p",
            "/dir/?x=y&z", "/dir/a/", "/dir/ | Range: bytes=1-2", "/dir/ HTTP/1.0"))
        + "\nHEAD /dir/\nPOST /dir/ << x\nPUT /dir/ << x\nOPTIONS /dir/\nDELETE /dir/\nPOST /empty/ << x\nHEAD /empty/",
           files={"html/dir/a": "contents of a", "html/empty": None, "html/sub/in/x": "x", "html/links/.x": "", "html/hidden/.h": "h",
                  "html/esc/a%b c?d.html": "escaped", "html/bad/new\nline": "line", "html/onlydir/.x": "",
                  "html/ssi/p": '<!--#include virtual="/dir/" -->'}, prepare=links),
]
