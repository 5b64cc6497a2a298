"""Directory listings in every format."""

import os

from ..engine import Config

FILES = {
    "html/dir/a.txt": "hello", "html/dir/b": "", "html/dir/c dir/x": "x",
    "html/dir/z" + "long" * 30 + ".txt": "long", "html/dir/.hidden": "no",
    "html/dir/quote\"'.txt": "q", "html/dir/lt<gt>&amp.txt": "m", "html/dir/percent%.txt": "p",
    "html/dir/question?.txt": "q", "html/dir/hash#.txt": "h", "html/dir/semi;.txt": "s",
    "html/dir/\u00e4\u00f6\u4e2d.txt": "utf", "html/dir/back\\slash": "b",
    "html/dir/big1": b"x" * 1023, "html/dir/big2": b"x" * 1024, "html/dir/big3": b"x" * 1048575,
    "html/dir/big4": b"x" * 1600000, "html/dir/B": "upper", "html/empty": None,
    "html/names/" + "n" * 50: "", "html/names/" + "n" * 51: "", "html/names/" + "n" * 49 + "/x": "",
    "html/names/" + "\u00e4" * 60: "", "html/dir/new\nline": "n", "html/dir/colon:x": "c",
}


def links(server):
    os.symlink("a.txt", server.path("html/dir/link"))
    os.symlink("nowhere", server.path("html/dir/dangling"))
    os.symlink("c dir", server.path("html/dir/linkdir"))
    os.utime(server.path("html/dir"), (1700000000, 1700000000))


CONFIGS = [
    Config("autoindex", """
        server {
            listen 127.0.0.1:@PORT@;
            server_name localhost;
            root html;
            autoindex on;
            location /off/ { alias html/dir/; autoindex off; }
            location /human/ { alias html/dir/; autoindex_exact_size off; }
            location /local/ { alias html/dir/; autoindex_localtime on; }
            location /json/ { alias html/dir/; autoindex_format json; }
            location /jsonhuman/ { alias html/dir/; autoindex_format json; autoindex_exact_size off; }
            location /xml/ { alias html/dir/; autoindex_format xml; }
            location /jsonp/ { alias html/dir/; autoindex_format jsonp; }
            location /html/ { alias html/dir/; autoindex_format html; charset_types text/html; }
            location /jsonempty/ { alias html/empty/; autoindex_format json; }
            location /xmlempty/ { alias html/empty/; autoindex_format xml; }
            location /xmllocal/ { alias html/dir/; autoindex_format xml; autoindex_localtime on; }
            location /none/ { alias html/none/; }
        }
        """.replace("charset_types text/html;", ""), """
        GET /dir/
        GET /dir
        GET /
        GET /empty/
        GET /names/
        GET /off/
        GET /human/
        GET /local/
        GET /json/
        GET /jsonhuman/
        GET /xml/
        GET /xmllocal/
        GET /jsonp/
        GET /jsonp/?callback=show
        GET /jsonp/?callback=
        GET /jsonp/?callback=a.b[0]_c
        GET /jsonp/?callback=a%28b
        GET /jsonp/?callback=alert(1)
        GET /jsonp/?x=1&callback=f&y=2
        GET /jsonp/?CALLBACK=f
        GET /jsonempty/
        GET /xmlempty/
        GET /html/
        GET /none/
        GET /dir/c%20dir/
        GET /dir/linkdir/
        HEAD /dir/
        HEAD /json/
        POST /dir/ << x
        POST /json/ << x
        OPTIONS /dir/
        GET /dir/ HTTP/1.0
        GET /dir/%3Cscript%3E/
        """, files=FILES, prepare=links),
]
