"""userid: what is made of cookies that come, and what the log says of them; ids that are made anew differ from server
to server, and are in tests/http/modules/test_http_userid.py."""

from ..engine import Config

ID = "AQIDBAUGBwgJCgsMDQ4PEA"

CONFIGS = [
    Config("userid", r"""
        add_header X-Got "$uid_got" always;
        add_header X-Set "$uid_set" always;
        userid on;
        server {
            listen 127.0.0.1:@PORT@;
            root html;
            location / { empty_gif; }
            location /off { userid off; empty_gif; }
            location /log { userid log; empty_gif; }
            location /v1 { userid v1; empty_gif; }
            location /mark { userid_mark Z; empty_gif; }
            location /equals { userid_mark =; userid_expires max; empty_gif; }
            location /all { userid_mark 7; userid_domain example.com; userid_path /p; userid_p3p 'policyref="/x"'; userid_expires max;
                            userid_flags secure httponly samesite=lax; empty_gif; }
            location /flags { userid_mark 7; userid_flags off secure;
                location /flags/strict { userid_flags samesite=strict; empty_gif; }
                location /flags/none { userid_flags httponly; userid_flags samesite=none; empty_gif; }
                location /flags/first { userid_flags samesite=none samesite=lax; empty_gif; }
                location /flags/off { userid_flags off; empty_gif; } empty_gif; }
            location /name { userid_name other; userid_mark 7; empty_gif; }
            location /none { userid_p3p none; userid_domain none; userid_mark 7; empty_gif; }
            location /404 { userid_mark 7; root none; }
            location /302 { userid_mark 7; return 302 /x; }
            location /204 { userid_mark 7; return 204; }
            location /page { userid_mark 7; error_page 404 /off/page; root none; }
            location /rewritten { rewrite ^ /mark last; }
            location /reset0 { set $uid_reset 0; empty_gif; }
            location /resetempty { set $uid_reset ""; empty_gif; }
            location /ssi { userid_mark 7; ssi on; ssi_types *; }
            location /proxied { userid_mark 7; proxy_set_header X-Sent "$uid_got $uid_set"; proxy_pass http://127.0.0.1:@PORT1@; }
        }
        server { listen 127.0.0.1:@PORT1@; userid off; add_header Set-Cookie own=1; return 200 "$http_x_sent\n"; }
        """, "\n".join("GET %s | Cookie: uid=%s==" % (target, ID) for target in (
            "/", "/off", "/log", "/v1", "/mark", "/equals", "/all", "/flags", "/flags/strict", "/flags/none", "/flags/first",
            "/flags/off", "/none", "/404", "/302", "/204", "/page", "/rewritten", "/reset0", "/resetempty", "/ssi/p", "/proxied"))
        + "\n" + "\n".join("GET /mark | Cookie: uid=" + ID + end for end in ("", "=", "A", "AA", "Z=", "ZZ", "Z", "=Z", "==more", "Z=more"))
        + "\n" + "\n".join("GET /log | Cookie: " + cookie % {"id": ID} for cookie in (
            "uid=%(id)s", "uid=" + ID[:-1], "uid=", "uid=****", "uid=" + ID[:9] + "*" + ID[10:], "uid=abc; uid=%(id)s", "UID=%(id)s==",
            "x=y; uid=%(id)s==; z", "x=y; uid = %(id)s==", "other=%(id)s==", "xuid=%(id)s==", "uid=%(id)s==, uid=x", "=%(id)s==", "uid",
            "uid=%(id)s== | Cookie: uid=x", "a=b | Cookie: uid=%(id)s=="))
        + "\nGET /name | Cookie: other=%s==\nHEAD /all | Cookie: uid=%s==\nGET /mark?x HTTP/1.0 | Cookie: uid=%s==" % (ID, ID, ID),
           files={"html/off/page": "a page\n", "html/ssi/p": '<!--#include virtual="/mark" -->-'}),
]
