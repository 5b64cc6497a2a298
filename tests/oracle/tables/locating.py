"""geo, split_clients, valid_referers: variables that sort clients."""

from ..engine import Config

ADDRESSES = ["127.0.0.1", "::1", "foo", "", "10.0.0.0", "10.2.2.2", "10.127.255.255", "10.128.0.0", "10.1.2.3",
             "10.1.2.255", "::ffff:10.2.2.2", "::ffff:10.1.2.3", "1.2.3.4", "[::1]", "127.0.0.1:80", "unix:",
             "255.255.255.255", "0.0.0.0", "2001:db8::1", "2001:db8:0:1::", "2001:db9::", "ffff::1", "192.0.2.1",
             "192.0.2.5", "192.0.2.9", "192.0.2.10", "192.0.3.255", "192.0.4.0"]

FORWARDED = ["10.2.2.2", "10.2.2.2, 192.0.2.1", "192.0.2.1, 127.0.0.1", "192.0.2.1,127.0.0.1,127.0.0.2", "junk", "",
             "192.0.2.1:80", "[2001:db8::1]:80", "2001:db8::1", "192.0.2.1, junk, 127.0.0.1", " , 192.0.2.1 , ",
             "::ffff:192.0.2.1"]

REFERERS = ["x", "http://", "https://", "HTTP://a.com", "http://a.com", "http://A.com/", "http://a.com:80/x",
            "http://xa.com", "http://x.a.com", "http://b.com", "http://x.b.com", "http://x.y.B.com", "http://c.com",
            "http://x.c.com", "http://d.org", "http://d.o.r.g", "http://d", "http://d.", "http://e.com",
            "http://e.com/path", "http://e.com:1/paths", "http://e.com/Path", "http://x.f.com/p", "http://x.f.com/q",
            "http://g.com/x", "http://G.com/X", "http://g.com/y", "https://own.com", "http://x.own.net",
            "http://own.net", "http://re1", "http://re1.x/", "http://xre1", "ftp://a.com", "http:a.com", "http://a.co",
            "http://a.com?x", "http://u@a.com/", "http://" + "g" * 257 + ".com/x"]

CONFIGS = [
    Config("geo", r"""
        geo $peer { default d; 127.0.0.0/8 lo; }
        geo $none { 10.0.0.0/8 ten; }
        geo $arg_a $nets { default d; 240.0.0.0/4 high; ::/8 zero; ::ffff:10.0.0.0/104 mapped; 10.0.0.0/9 ten;
                           10.1.0.0/16 $host; 10.1.2.0/24 "two words"; 10.1.2.3 one; 2001:db8::/32 doc;
                           2001:db8:0:1::/64 sub; 192.0.2.0/24 gone; delete 192.0.2.0/24; }
        geo $arg_a $world { 0.0.0.0/0 four; ::/0 six; include geo.inc; }
        geo $arg_a $ranges { ranges; default d; 10.0.0.0-10.127.255.255 ten; 10.1.2.0-10.1.3.9 sub;
                             10.1.2.3-10.1.2.3 one; 192.0.2.5-192.0.3.255 r; 192.0.2.9-192.0.2.9 nine; include geor.inc;
                             delete 10.1.2.3-10.1.2.3; }
        geo $proxied { default d; proxy 127.0.0.1; 192.0.2.0/24 test; 10.0.0.0/8 ten; 127.0.0.0/8 lo; 2001:db8::/32 doc; }
        geo $recursive { default d; proxy 127.0.0.0/8; proxy 2001:db8::1; proxy_recursive; 192.0.2.0/24 test;
                         10.0.0.0/8 ten; 127.0.0.0/8 lo; 2001:db8::/32 doc; }
        geo $stranger { ranges; default d; proxy 10.0.0.0/8; 192.0.2.0-192.0.2.255 test; 127.0.0.1-127.0.0.1 lo; }
        geo $arg_a $both { default d; proxy 10.0.0.0/8; 192.0.2.0/24 test; 10.0.0.0/8 ten; }
        server {
            listen 127.0.0.1:@PORT@;
            server_name localhost;
            location / { return 200 "$peer [$none] $nets $world $ranges $both\n"; }
            location /f { return 200 "$proxied $recursive $stranger\n"; }
        }
        """,
           "".join("        GET /?a=%s | X-Forwarded-For: 192.0.2.1\n" % address for address in ADDRESSES)
           + "".join("        GET /f | X-Forwarded-For: %s\n" % text for text in FORWARDED)
           + "        GET /f | X-Forwarded-For: 192.0.2.1 | X-Forwarded-For: 127.0.0.1\n",
           files={"geo.inc": "192.0.2.0/24 test;\n2001:db8::/32 doc;\n", "geor.inc": "0.0.0.0-0.0.0.0 zero;\n"}),

    Config("split_clients", r"""
        split_clients $arg_k $a { 0.5% a; 2% b; 33.33% c; 10.01% d; * e; }
        split_clients "${arg_k}x$arg_k" $b { 50% a; 25% $host; }
        split_clients $arg_k $c { 30% x; 70% y; * z; }
        split_clients $arg_k $d { }
        server {
            listen 127.0.0.1:@PORT@;
            server_name localhost;
            location / { return 200 "$a $b $c [$d]\n"; }
        }
        """, "".join("        GET /?k=%s%d\n" % ("abc%ff"[:n % 7] + "x" * (n % 5), n) for n in range(100)) + "        GET /\n"),

    Config("referer", r"""
        server {
            listen 127.0.0.1:@PORT@;
            server_name localhost own.com *.own.net ~^re\d;
            location /all { valid_referers none blocked a.com *.b.com .c.com d.* e.com/path *.f.com/p ~g\.com/x server_names;
                            return 200 "[$invalid_referer]\n"; }
            location /few { valid_referers a.com; valid_referers *.b.com; return 200 "[$invalid_referer]\n"; }
            location /open { return 200 "[$invalid_referer]\n"; }
            location /outer { valid_referers none blocked a.com;
                location /outer/in { return 200 "[$invalid_referer]\n"; }
                location /outer/own { valid_referers *.b.com; if ($invalid_referer) { return 403; } return 200 "ok\n"; } }
        }
        """, "".join("        GET %s | Referer: %s\n" % (place, referer)
                     for place in ("/all", "/few", "/outer/own") for referer in REFERERS)
           + "".join("        GET %s\n" % place for place in ("/all", "/few", "/open", "/outer/in", "/outer/own"))
           + "        GET /outer/in | Referer: x\n        GET /all | Referer:\n        GET /few | Referer:\n"),
]
