"""secure_link, both forms: which links hold, what the variables say."""

import base64
import hashlib

from ..engine import Config


def token(text):
    return base64.urlsafe_b64encode(hashlib.md5(text.encode()).digest()).rstrip(b"=").decode()


def word(link):
    return hashlib.md5((link + "secret").encode()).hexdigest()


FAR, PAST = "4102444800", "1000000000"
GOOD, OLD = token("/s/a" + FAR), token("/s/a" + PAST)
PLAIN = token("/plain")

CONFIGS = [
    Config("secure_link", r"""
        add_header X-Link "<$secure_link>" always;
        add_header X-Expires "<$secure_link_expires>" always;
        server {
            listen 127.0.0.1:@PORT@;
            location /s/ { secure_link $arg_md5,$arg_e; secure_link_md5 "$uri$arg_e";
                if ($secure_link = "") { return 403 "bad $secure_link_expires\n"; }
                if ($secure_link = "0") { return 410 "gone $secure_link_expires\n"; }
                return 200 "good $secure_link_expires\n";
                location /s/in/ { return 200 in; } }
            location /plain { secure_link $arg_md5; secure_link_md5 $uri; return 200 "$secure_link\n"; }
            location /half { secure_link $arg_md5; return 200 "$secure_link.\n"; }
            location /otherhalf { secure_link_md5 $uri; return 200 "$secure_link.\n"; }
            location /empty { secure_link ""; secure_link_md5 ""; return 200 "$secure_link.\n"; }
            location /none { return 200 "$secure_link.$secure_link_expires.\n"; }
            location /first { secure_link "$arg_md5,4102444800"; secure_link_md5 $arg_text; return 200 "$secure_link_expires $secure_link $secure_link_expires\n"; }
            location /p/ { secure_link_secret secret; if ($secure_link = "") { return 403; } rewrite ^ /files/$secure_link; }
            location /q/ { secure_link_secret secret; return 200 "<$secure_link>\n";
                location /q/in/ { secure_link_secret other; return 200 "<$secure_link>\n"; } }
            location /files/ { internal; return 200 "$uri\n"; }
        }
        """, "\n".join("GET /s/a?" + args for args in (
            "md5=%s&e=%s" % (GOOD, FAR), "md5=%s&e=%s" % (OLD, PAST), "md5=%s&e=%s" % (OLD, FAR), "md5=%s&e=%s" % (GOOD, PAST), "",
            "md5=&e=" + FAR, "md5=" + GOOD, "e=" + FAR, "md5=%s&e=" % GOOD, "md5=%s&e=-1" % GOOD, "md5=%s&e=0" % token("/s/a0"),
            "md5=%s&e=1x" % token("/s/a1x"), "md5=%s&e=99999999999999999999999" % token("/s/a99999999999999999999999"),
            "md5=%s&e=9223372036854775807" % token("/s/a9223372036854775807"),
            "md5=%s&e=9223372036854775808" % token("/s/a9223372036854775808"),
            "md5=%s==&e=%s" % (GOOD, FAR), "md5=%s&e=%s" % (GOOD[:-1], FAR), "md5=%sA&e=%s" % (GOOD, FAR), "md5=%s&e=%s" % ("*" * 22, FAR),
            "md5=%s&e=%s" % (GOOD.replace("-", "+").replace("_", "/"), FAR), "md5=%s&e=%s,1" % (token("/s/a" + FAR + ",1"), FAR),
            "md5=%s,1&e=%s" % (GOOD, FAR), "md5=%s&e=+%s" % (token("/s/a+" + FAR), FAR), "md5=%s&e=%%20%s" % (GOOD, FAR)))
        + "\n" + "\n".join("GET /plain?" + args for args in (
            "md5=" + PLAIN, "md5=%sx" % PLAIN, "md5=%s==" % PLAIN, "md5=%s=" % PLAIN, "md5=%s=x" % PLAIN, "md5=%s===" % PLAIN, "md5=" + PLAIN[:21], "", "md5=%s,%s" % (PLAIN, FAR),
            "md5=%s,%s" % (PLAIN, PAST), "md5=%s," % PLAIN, "md5=%s%s" % (PLAIN, PLAIN), "md5=%s" % PLAIN.swapcase()))
        + "\nHEAD /s/a?md5=%s&e=%s\nGET /s/a?md5=%s&e=%s HTTP/1.0\nPOST /s/a?md5=%s&e=%s << abc" % ((GOOD, FAR) * 3)
        + "\nGET /half?md5=%s\nGET /otherhalf\nGET /empty\nGET /none\nGET /s/in/?md5=%s" % (token("/half"), token("/s/in/"))
        + "\nGET /first?md5=%s&text=x\n=> 200 kept | body~4102444800 1 4102444800 -- nginx knows the moment once $secure_link was asked for"
        "\nGET /first?md5=%s&text=y\n=> 200 kept | body~4102444800  4102444800 -- the same" % (token("x"), token("x"))
        + "\n" + "\n".join("GET " + target for target in (
            "/p/%s/a/b.txt" % word("a/b.txt"), "/p/%s/a" % word("b"), "/p/%s/" % word(""), "/p/%s" % word(""), "/p/", "/p/x/a",
            "/p/%s/a" % word("a").upper(), "/p/%s0/a" % word("a"), "/p/%s/a" % word("a")[:31], "/p/%sg/a" % word("a")[:31],
            "/p/%s/a%%20b" % word("a b"), "/p/%s/a%%20b" % word("a%20b"), "/p/%s/a?x=y" % word("a"), "/p//%s/a" % word("a"), "/p/%s/a?x=y" % word("a?x=y"), "http://localhost/p/%s/a" % word("a"),
            "/p/more/%s/a" % word("a"), "/q/%s/a" % word("a"), "/q/%s//a" % word("/a"), "/q/%s//a" % word("a"), "/q/in/%s/a" % word("a"), "/q", "/q/in/",
            "/q/in/%s" % hashlib.md5(b"aother").hexdigest(), "/q/%s/a%%3fb" % word("a?b"), "/q/%s/../%s/c" % (word("a"), word("c")))))
]
