"""What `set` assigns, also to names of families and of other modules: it holds for the request that did it, and nowhere else."""

from ..engine import Config

NAMES = ("http_foo arg_foo cookie_foo sent_http_foo upstream_http_foo upstream_cookie_foo sent_trailer_foo "
         "upstream_trailer_foo plain").split()
SET = "".join('set $%s "set"; ' % name for name in NAMES)
SHOW = "|".join("$" + name for name in NAMES)
FIELDS = "?foo=q&bar=b&mapped=m | Foo: hdr | Bar: b | Mapped: hdr | Cookie: foo=ck; geo=ck"

CONFIGS = [
    Config("assign", r"""
        map $uri $http_mapped { default mapped; }
        map $uri $arg_mapped { default mapped; }
        map $arg_n $fleeting { volatile; default d$arg_n; }
        map $arg_n $lasting { default d$arg_n; }
        geo $cookie_geo { default geo; }
        split_clients $uri $sent_http_split { * split; }
        server {
            listen 127.0.0.1:@PORT@;
            location /all { %s return 200 "%s"; }
            location /none { return 200 "%s"; }
            location /field { add_header Foo real; add_header Y "$sent_http_foo"; return 200 ""; }
            location /fieldset { set $sent_http_foo set; add_header Foo real; add_header Y "$sent_http_foo"; return 200 ""; }
            location /mapped { return 200 "$http_mapped|$arg_mapped|$cookie_geo|$sent_http_split"; }
            location /mappedset { set $http_mapped set; set $cookie_geo set; return 200 "$http_mapped|$arg_mapped|$cookie_geo"; }
            location /if { if ($arg_bar) { set $arg_bar over; } if ($http_bar = b) { set $http_bar over; }
                           return 200 "$arg_bar|$http_bar"; }
            location /before { set $a $arg_foo; set $arg_foo set; return 200 "$a,$arg_foo"; }
            location /args { set $a $arg_foo; set $args foo=new; return 200 "$a,$arg_foo"; }
            location /fleeting { set $fleeting over; return 200 "$fleeting"; }
            location /fleetingtwice { set $a $fleeting; set $args n=5; return 200 "$a,$fleeting"; }
            location /lasting { set $lasting over; return 200 "$lasting"; }
            location /lastingtwice { set $a $lasting; set $args n=5; return 200 "$a,$lasting"; }
            location /redirected { set $http_foo set; set $arg_foo set; rewrite ^ /none?foo=other last; }
            location /copied { set $copy "$http_foo$arg_foo"; set $arg_foo set; return 200 "$copy|$arg_foo"; }
        }
        """ % (SET, SHOW, SHOW), "\n".join(
            "GET /%s%s" % (name, fields) for fields in ("", FIELDS + " | X: 1") for name in
            """all none field fieldset mapped mappedset if before args redirected copied""".split()) + r"""
        GET /fleeting?n=1
        GET /fleetingtwice?n=1
        GET /lasting?n=1
        GET /lastingtwice?n=1
        """),
]
