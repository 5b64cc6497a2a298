"""Server side includes: every command, its parameters, and what is said of wrong ones."""

from ..engine import Config

# name: (page, what stands behind the "=>" of a table or None)
OWN = {}
SAME = {}


def page(name, text, expect=None):
    assert name not in SAME and name not in OWN
    (OWN if expect else SAME)[name] = (text, expect)


def echo(name="y", rest=""):
    return '<!--#echo var="%s"%s -->' % (name, rest)


def choice(expression, yes="yes", no="no"):
    return 'x<!--#if expr="%s" -->%s<!--#else -->%s<!--#endif -->x' % (expression, yes, no)


# the form of a directive

page("plain", "plain <b>text</b> <!-- a comment -->")
page("usual", "x" + echo("foo") + "x")
page("blank", 'x<!--# echo var="foo" -->x')
page("noblank", 'x<!--#echo var="foo"-->x')
page("blanks", 'x<!--#  echo   var = "foo"   -->x')
page("single", "x<!--#echo var='foo' -->x")
page("lines", 'x<!--#echo\nvar="foo"\r\n-->x')
page("unquoted", "x<!--#echo var=foo -->x")
page("unquoted2", 'x<!--#echo var=fo"o -->text "more" -->x')
page("unclosed", "x<!--#echo var=\"foo' -->x")
page("upper", 'x<!--#ECHO VAR="FOO" -->x')
page("spaced", 'x<!-- #echo var="foo" -->x')
page("dashes", 'x<!---#echo var="foo" -->x')
page("double", 'x<<<!--#echo var="foo" -->x')
page("half", 'x<!<!--#echo var="foo" -->x')
page("half2", 'x<!-<!--#echo var="foo" -->x')
page("half3", 'x<!--<!--#echo var="foo" -->x')
page("cut", 'x<!--#echo var="foo')
page("cut2", "x<!--#")
page("cut3", "x<!-", "200 kept | body~x<!- -- the beginning of a mark that never came is text")
page("noname", "x<!--# -->x", "200 kept | body~x[an error occurred while processing the directive]x"
     " -- the page goes on behind it")
page("unknown", "x<!--#nope -->x")
page("unknown2", 'x<!--#nope a="b" -->x')
page("slash", 'x<!--#echo/var="foo" -->x')
page("equals", "x<!--#echo=foo -->x")
page("longname", "x<!--#averyverylongcommandnamethatisnotknown -->x")
page("longparameter", 'x<!--#echo averyverylongparameternamethatisnotknownatall="x" -->x')
page("endinvalue", 'x<!--#echo var="foo" default="-->" -->x')
page("novalue", 'x<!--#echo var="foo" default -->x')
page("novalue2", 'x<!--#echo var="foo" default= -->x')
page("glued", 'x<!--#echo var="foo"default="x" -->x')
page("several", 'x<!--#echo var="foo" a b c -->x')
page("angle", 'x<!--#echo var="foo" ></a-->x')
page("short", 'x<!--#echo var="foo" default="12345678" -->x')
page("long", 'x<!--#echo var="foo" default="123456789" -->x')
page("long2", 'x<!--#echo var="nope" default="1234567$foo" -->y-->x')

# echo

page("none", "x" + echo("nope") + "x")
page("default", "x" + echo("nope", ' default="dd"') + "x")
page("defaultraw", "x" + echo("nope", ' default="<b>&$foo"') + "x")
page("empty", "x" + echo("blank", ' default="dd"') + "x")
page("entity", "x" + echo("html") + echo("html", ' encoding="entity"') + "x")
page("encnone", "x" + echo("html", ' encoding="none"') + "x")
page("encurl", "x" + echo("html", ' encoding="url"') + "x")
page("encstays", echo("html", ' encoding="none"') + echo("html") + echo("html", ' encoding="url"')
     + echo("html"))
page("encbad", "x" + echo("html", ' encoding="bad"') + "x")
page("ascii", '<!--#set var="a" value=" !#%&\'()*+,-./:;<=>?@[]^_`{|}~\u00e9\x7f" -->['
     + echo("a", ' encoding="url"') + "][" + echo("a") + "]")
page("novar", 'x<!--#echo encoding="none" -->x')
page("twovars", 'x<!--#echo var="foo" var="foo" -->x')
page("badparameter", 'x<!--#echo var="foo" bad="1" -->x')
page("case", "x" + echo("FOO") + "x")
page("dollar", "x" + echo("$foo") + echo("${foo}") + echo("") + "x")
page("request", "x" + ",".join(map(echo, ("arg_a", "query_string", "http_host", "uri",
                                         "document_uri", "request_method"))) + "x")

# set

page("set", 'x<!--#set var="y" value="abc" -->' + echo() + "x")
page("settext", 'x<!--#set var="y" value="a$foo.b${foo}c$nope.d" -->' + echo() + "x")
page("setbad", 'x<!--#set var="y" value="a$" -->' + echo() + "x")
page("setbad2", 'x<!--#set var="y" value="a${foo" -->' + echo() + "x")
page("setbad3", 'x<!--#set var="y" value="a${}b" -->' + echo() + "x")
page("setescapes", "x<!--#set var=\"y\" value=\"a\\$foo \\\\ \\' \\\" \\b\" -->"
     + echo("y", ' encoding="none"') + "x")
page("setself", 'x<!--#set var="y" value="1" --><!--#set var="y" value="2$y" -->' + echo() + "x")
page("setcase", 'x<!--#set var="Y" value="up" -->' + echo("y") + echo("Y") + "x")
page("setover", 'x<!--#set var="foo" value="own" -->' + echo("foo") + "x")
page("setnovalue", 'x<!--#set var="y" -->' + echo() + "x")
page("setnovar", 'x<!--#set value="y" -->x')
page("setempty", 'x<!--#set var="y" value="" -->' + echo("y", ' default="d"') + "x")
page("setdirective", "x<!--#set var=\"v\" value=\"<!--#echo var='foo' -->\" -->"
     + echo("v", ' encoding="none"') + "x")

# config

page("errmsg", 'x<!--#config errmsg="E<>!$foo" --><!--#nope -->x')
page("timefmt", 'x<!--#config timefmt="T" -->' + echo("date_gmt") + echo("date_local") + "x")
page("timefmt2", 'x<!--#config timefmt="%Y" -->' + echo("date_gmt") + "x")
page("both", 'x<!--#config timefmt="Q" errmsg="zz" -->' + echo("date_gmt") + "<!--#nope -->x")
page("confempty", "x<!--#config -->x")
page("confbad", 'x<!--#config bad="x" -->x')

# if

page("if", choice("$foo"))
page("ifnope", choice("$nope"))
page("ifzero", choice("$zero"))
page("ifempty", choice("$blank"))
page("iftext", choice("text") + choice(""))
page("ifequal", choice("$foo = foo") + choice("$foo=foo") + choice("$foo == foo"))
page("ifdiffers", choice("$foo != foo") + choice("$foo !=bar"))
page("ifjoined", choice("$foo$foo = foofoo") + choice("${foo}x = foox") + choice("$foo = f$nope"))
page("ifblank", choice("$blank = ") + choice("$blank =") + choice("$foo = ") + choice(" = foo"))
page("iftrailing", choice("a  =  a") + choice("a  =  a  "))
page("ifbad", choice("$foo ! foo"))
page("ifbad2", choice("!$foo"))
page("ifbad3", choice("a b = a b"))
page("ifbad4", choice("/f/ = $foo"))
page("ifregex", choice("$foo = /^f(o+)\\$/", echo("1") + echo("0") + echo("2")))
page("ifregexno", choice("$foo = /F/") + choice("$foo != /z/") + choice("$foo = /a|f/"))
page("ifregexvar", choice("$foo = /$foo/") + choice("$foo = /\\w+/") + choice("$foo = //"))
page("ifslash", choice("$foo = /"))
page("ifregexbad", choice("$foo = /f"))
page("ifregexbad2", choice("$foo = /f/i"))
page("ifregexbad3", choice("$foo = /(/"))
page("ifregexbad4", choice("$foo = /o$/"))
page("ifnames", choice("$foo = /(?P<first>f)(?<rest>.*)/",
                       '<!--#set var="z" value="$1-$2-$first-$rest-${1}" -->' + echo("z")))
page("ifgroups", choice("$foo = /(f)(x)?(o)/", "".join(map(echo, "1234"))))
page("elif", 'x<!--#if expr="$foo = bar" -->1<!--#elif expr="$foo = foo" -->2'
     '<!--#elif expr="$foo = foo" -->3<!--#else -->4<!--#endif -->x')
page("elifno", 'x<!--#if expr="" -->1<!--#elif expr="" -->2<!--#else -->3<!--#endif -->x')
page("noexpr", "x<!--#if -->yes<!--#endif -->x")
page("else", "x<!--#else -->y<!--#endif -->x")
page("elif2", 'x<!--#elif expr="a" -->y<!--#endif -->x')
page("endif", "x<!--#endif -->x")
page("twoelse", 'x<!--#if expr="" -->1<!--#else -->2<!--#else -->3<!--#endif -->x')
page("elselif", 'x<!--#if expr="" -->1<!--#else -->2<!--#elif expr="1" -->3<!--#endif -->x')
page("noendif", 'x<!--#if expr="a" -->y')
page("skipped", 'x<!--#if expr="" -->' + echo("foo") + '<!--#nope --><!--#set var="z" value="1" -->'
     '<!--#include virtual="/a.html" --><!--#endif -->x' + echo("z"))
page("badendif", 'x<!--#if expr="a" -->1<!--#else -->2<!--#endif a="b" -->x')
page("nested", 'x<!--#if expr="a" --><!--#if expr="" -->y<!--#else -->z<!--#endif -->w<!--#else -->v'
     '<!--#endif -->x', "200 kept | body~xzwx -- nginx has no `if` inside another")

# include

page("virtual", 'x<!--#include virtual="/a.html" -->x')
page("relative", 'x<!--#include virtual="a.html" --><!--#include file="sub/b.html" -->x')
page("file", 'x<!--#include file="/a.html" -->x')
page("deep", 'x<!--#include virtual="/sub/c.html" -->x')
page("dots", 'x<!--#include virtual="sub/../a.html" -->x')
page("dots2", 'x<!--#include virtual="/a%2f..%2fb" -->x')
page("dots3", 'x<!--#include file="$foo/../x" -->x')
page("vars", 'x<!--#include virtual="/ret/$foo?a=$foo" -->x')
page("quoted", 'x<!--#include virtual="/ret%41%2f%3f?a" --><!--#include file="ret%41" -->x')
page("fragment", 'x<!--#include virtual="/ret#frag" -->x')
page("args", 'x<!--#include virtual="/ret" --><!--#include virtual="/ret?" -->x')
page("blankuri", 'x<!--#include virtual="/ret x" --><!--#include virtual="/ret\\"x" -->x')
page("twosources", 'x<!--#include virtual="/a.html" file="a.html" -->x')
page("nosource", 'x<!--#include --><!--#include stub="a" -->x')
page("wait", 'x<!--#include virtual="/a.html" wait="yes" --><!--#include virtual="/a.html" '
     'wait="no" -->x')
page("waitbad", 'x<!--#include virtual="/a.html" wait="maybe" -->x')
page("twice", 'x<!--#include virtual="/a.html" virtual="/a.html" -->x')
page("raw", 'x<!--#include virtual="/nossi" -->x')
page("proxied", 'x<!--#include virtual="/p/a.html" -->y<!--#include virtual="/p/big.html" -->x')
page("null", 'x<!--#include virtual="/empty" --><!--#include virtual="/null.html" -->'
     '<!--#include virtual="/e204" --><!--#include virtual="/p/null.html" -->x')
page("shared", 'x<!--#set var="x" value="set" --><!--#include virtual="/v.html" wait="yes" -->'
     + echo())
page("cycle", 'x<!--#include virtual="/cycle.html" -->x')
page("missing", 'x<!--#include virtual="/nope.html" -->y',
     "200 kept | body~x<html> | body~404 Not Found | body~</html>\\r\\ny -- the page names the server")

page("setinto", 'x<!--#include virtual="/a.html" set="v" -->x' + echo("v"))
page("setproxied", 'x<!--#include virtual="/p/a.html" set="v" -->x' + echo("v"))
page("setret", 'x<!--#include virtual="/ret?q" set="v" -->x' + echo("v"))
page("setnope", 'x<!--#include virtual="/p/nope.html" set="v" -->x[' + echo("v") + "]")
page("setstub", 'x<!--#include virtual="/ret" set="v" stub="s" -->x' + echo("v"))
page("setbig", 'x<!--#include virtual="/big.html" set="v" -->x[' + echo("v") + "]y")

# block and stub

STUB = '<!--#block name="s" -->STUB<!--#endblock -->y<!--#include virtual="%s" stub="s" -->x'

page("stubfull", STUB % "/a.html")
page("stubempty", STUB % "/empty")
page("stubnull", STUB % "/null.html")
page("stub204", STUB % "/e204")
page("stub404", STUB % "/nope")
page("stub500", STUB % "/e500")
page("stub301", STUB % "/sub")
page("stubproxied", STUB % "/p/null.html")
page("stubown", STUB % "/p/own404")
page("stubmissing", 'x<!--#include virtual="/nope" stub="s" -->x')
page("stubvar", '<!--#block name="foo" -->A<!--#endblock -->'
     'y<!--#include virtual="/empty" stub="$foo" -->x')
page("stubnothing", '<!--#block name="s" --><!--#endblock -->y<!--#include virtual="/nope" '
     'stub="s" -->x')
page("stubfirst", 'x<!--#block name="s" -->A<!--#endblock --><!--#block name="s" -->B<!--#endblock -->'
     'y<!--#include virtual="/empty" stub="s" -->x')
page("stubdirective", 'x<!--#block name="s" -->[' + echo("uri") + echo("request_uri")
     + '<!--#include virtual="/a.html" -->]<!--#endblock -->y<!--#include virtual="/nope" stub="s" -->x')
page("stubrelative", 'x<!--#block name="s" -->A<!--#include virtual="b.html" -->B<!--#endblock -->'
     'y<!--#include virtual="/sub/nope" stub="s" -->x')
page("stubset", 'x<!--#set var="y" value="1" --><!--#block name="s" -->[' + echo()
     + ']<!--#set var="y" value="3" --><!--#endblock --><!--#set var="y" value="2" -->'
     '<!--#include virtual="/sub/nope" stub="s" wait="yes" -->' + echo() + "x")
page("stubouter", 'x<!--#block name="outer" -->OUTER<!--#endblock --><!--#include virtual="/blk.html" '
     '-->x')
page("stubif", 'x<!--#block name="s" -->A<!--#if expr="$foo = foo" -->B<!--#else -->C<!--#endif -->'
     '<!--#endblock -->y<!--#include virtual="/nope" stub="s" -->x')
page("stubplain", 'x<!--#block name="s" -->A' + echo("foo") + '<!--#endblock -->'
     'y<!--#include virtual="/empty" stub="s" -->x',
     "200 kept | body~xyAfoox -- a stub is a page, whether the answer it stands for has a length or not")
page("blockopen", 'x<!--#block name="s" -->A' + echo("foo"))
page("blockend", "x<!--#endblock -->x")
page("blocknoname", "x<!--#block -->A<!--#endblock -->x")
page("blockbad", '<!--#block name="s" a="b" -->STUB<!--#endblock -->y')
page("blocknested", 'x<!--#block name="s" -->A<!--#block name="t" -->B<!--#endblock -->C<!--#endblock -->'
     'y<!--#include virtual="/empty" stub="s" -->x',
     "200 kept | body~xyACx -- nginx has no block inside another")
page("blockskipped", 'x<!--#if expr="" --><!--#block name="s" -->bb<!--#endblock --><!--#endif -->x')

FILES = {"html/%s.html" % name: text for name, (text, _) in list(SAME.items()) + list(OWN.items())}
FILES.update({
    "html/a.html": "AAA", "html/sub/b.html": "BBB",
    "html/sub/c.html": 'c<!--#include virtual="b.html" -->c<!--#include file="b.html" -->',
    "html/null.html": "", "html/big.html": "big " * 2500,
    "html/v.html": "[" + echo("x") + ']<!--#set var="y" value="fromv" -->',
    "html/blk.html": '<!--#include virtual="/empty" stub="outer" -->',
    "html/t.txt": "x" + echo("foo") + "x",
})

HTTP = r"""
        # Without the length of the body: how it is cut into chunks is nobody's business.
        log_format including '$remote_port $connection $status "$request" "$uri" "$args" "$host"';
        access_log logs/oracle.access including;
        ssi on;
        types { text/html html; text/plain txt; }
        default_type text/html;
        log_not_found off;
        server {
            listen 127.0.0.1:@PORT@;
            server_name localhost;
            root html;
            set $blank "";
            set $zero 0;
            set $foo foo;
            set $html "<a&'\">";
            location /p/ { proxy_pass http://127.0.0.1:@PORT1@/; }
            location /ret { return 200 "ret:$args:$request_uri:$uri"; }
            location /empty { return 200 ""; }
            location /e500 { return 500; }
            location /e204 { return 204; }
            location = /nossi { ssi off; return 200 "<!--#echo var='foo' -->"; }
            location ~ ^/(short|long) { ssi_value_length 8; }
            location /silent/ { ssi_silent_errors on; alias html/; }
            location /off/ { ssi off; alias html/; }
            location /types/ { ssi_types text/plain; alias html/; }
            location /all/ { ssi_types *; alias html/; }
            location /dated/ { ssi_last_modified on; alias html/; }
            location /zipped/ { gzip on; gzip_comp_level 4; gzip_min_length 1; alias html/; }
            location /sendfile/ { sendfile on; alias html/; }
            location /if/ { ssi off; if ($arg_ssi) { ssi on; } alias html/; }
        }
        server {
            listen 127.0.0.1:@PORT1@;
            server_name backend;
            access_log off;
            ssi off;
            root html;
            location /own404 { return 404 "own page"; }
        }
"""

CONFIGS = [
    Config("ssi", HTTP, "\n".join(
        ["GET /%s.html%s" % (name, "?a=b&c=%20d" if name in ("request", "args") else "")
         for name in SAME]
        + ["GET /%s.html\n=> %s" % (name, expect) for name, (_, expect) in OWN.items()]
        + ["GET /t.txt", "GET /silent/unknown.html", "GET /off/usual.html", "GET /types/t.txt",
           "GET /types/usual.html", "GET /all/t.txt", "GET /dated/usual.html",
           "GET /dated/usual.html | If-Modified-Since: Tue, 14 Nov 2023 22:13:20 GMT",
           "GET /usual.html | If-Modified-Since: Tue, 14 Nov 2023 22:13:20 GMT",
           "GET /usual.html | Range: bytes=0-1", "HEAD /usual.html", "HEAD /proxied.html",
           "GET /usual.html HTTP/1.0", "POST /usual.html << body",
           "GET /sendfile/usual.html", "GET /sendfile/proxied.html", "GET /null.html",
           "GET /if/usual.html", "GET /if/usual.html?ssi=1", "GET /p/usual.html",
           "GET /usual.html && GET /virtual.html && GET /usual.html"]),
        files=FILES, plain=True),
]
