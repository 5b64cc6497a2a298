"""flv: files from a place on."""

from ..engine import Config

DATA = b"FLV\1\5\0\0\0\x09\0\0\0\0" + bytes(range(200))

CONFIGS = [
    Config("flv", r"""
        types { video/x-flv flv; text/plain txt; }
        server {
            listen 127.0.0.1:@PORT@;
            root html;
            location / { flv; }
            location /alias/ { alias html/; flv; location /alias/in/ { alias html/; } }
            location /read/ { alias html/; flv; sendfile off; }
            location /if/ { alias html/; flv; if ($arg_x) { add_header X-If 1; } }
            location /noetag/ { alias html/; flv; etag off; max_ranges 0; }
            location /error/ { alias html/; flv; error_page 404 /a.flv; error_page 405 /x.txt; }
            location /index/ { alias html/; flv; index x.txt; }
            location = /ssi { ssi on; ssi_types *; alias html/ssi; }
        }
        """, "\n".join("GET %s" % target for target in (
            "/a.flv", "/a.flv?start=0", "/a.flv?start=1", "/a.flv?start=13", "/a.flv?start=100", "/a.flv?start=212", "/a.flv?start=213", "/a.flv?start=214",
            "/a.flv?start=-1", "/a.flv?start=x", "/a.flv?start=1x", "/a.flv?start=", "/a.flv?START=100", "/a.flv?x=1&start=100", "/a.flv?start=100&end=150",
            "/a.flv?start=99999999999999999999", "/a.flv?start=9223372036854775807", "/x.txt?start=5", "/empty.flv?start=0", "/empty.flv?start=1", "/dir.flv?start=1", "/dir.flv/", "/none.flv",
            "/none.flv?start=1", "/", "/alias/a.flv?start=200", "/alias/in/a.flv?start=200", "/read/a.flv?start=150", "/if/a.flv?start=100&x=1", "/if/a.flv?start=100",
            "/noetag/a.flv?start=100", "/noetag/a.flv?start=100 | Range: bytes=0-5", "/error/none.flv?start=210", "/index/", "/ssi",
            "/a.flv?start=100 HTTP/1.0", "/a.flv?start=100 | If-Modified-Since: Tue, 14 Nov 2023 22:13:20 GMT"))
        + "\n" + "\n".join("GET /%sa.flv?start=100 | Range: bytes=%s" % (place, text) for place in ("", "read/") for text in (
            "0-20", "0-12", "0-13", "13-13", "12-14", "5-5", "100-", "-3", "-500", "125-", "126-", "0-0,12-14\n=> 200 kept -- nginx breaks off", "10-15,100-110\n=> 200 kept -- nginx breaks off", "x"))
        + "\nHEAD /a.flv?start=100\nPOST /a.flv?start=100 << x\nPUT /a.flv << x\nHEAD /a.flv\nPOST /error/a.flv << x",
           files={"html/a.flv": DATA, "html/x.txt": "0123456789", "html/empty.flv": "", "html/dir.flv/x": "", "html/ssi": '<!--#include virtual="/x.txt?start=5" -->'}),
]
