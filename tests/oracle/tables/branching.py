"""Two `if` that match, and what stands in either and around them: who answers, and from which place."""

from ..engine import Config

# What may stand in an `if`, or in the location around both.
BODIES = {
    "nothing": "",
    "proxy": "proxy_pass http://127.0.0.1:@PORT1@;",
    "proxy2": "proxy_pass http://127.0.0.1:@PORT2@;",
    "named": "set $to 127.0.0.1:@PORT1@; proxy_pass http://$to;",
    "empty": "empty_gif;",
    "fastcgi": "fastcgi_pass 127.0.0.1:@PORT3@;",
    "root": "root html/other;",
    "header": "add_header X-Here yes;",
    "set": "set $seen yes;",
    "rewrite": "rewrite ^ /rewritten break;",
    "last": "rewrite ^ /last/ last;",
    "break": "break;",
    "stop": "break; set $seen never;",
    "return": "return 202 returned;",
}


def location(around, first, second):
    # empty_gif may not stand in an `if`.
    return 'location /%s/%s/%s/ { %s add_header X-Seen "$seen"; if ($arg_a) { %s } if ($arg_b) { %s } }\n' % (
        around, first, second, BODIES[around], BODIES[first], BODIES[second])


CASES = [("nothing", first, second)
         for first in "nothing proxy named fastcgi rewrite break".split()
         for second in "nothing proxy2 root header set rewrite last break stop return".split()]
CASES += [(around, first, second) for around in ("empty", "proxy2")
          for first in "nothing proxy root fastcgi".split() for second in "nothing proxy2 set".split()]
# The reference's handler is the first one's, its settings the second one's, which are the location's.
OWN = {("proxy2", "fastcgi", "nothing"): " => 201 -- the location passes on itself, so its own backend answers",
       ("proxy2", "fastcgi", "set"): " => 201 -- as above"}

CONFIGS = [
    Config("branches", r"""
        server { listen 127.0.0.1:@PORT1@; return 200 "backend $request_uri"; }
        server { listen 127.0.0.1:@PORT2@; return 201 "second backend $request_uri"; }
        server {
            listen 127.0.0.1:@PORT@;
            root html; log_not_found off; proxy_http_version 1.0; set $seen "";
            location /last/ { return 203 "last"; }
            location /rewritten { return 204; }
            %s
        }
        """ % "".join(location(*case) for case in CASES),
           "\n".join("GET /%s/%s/%s/?a=1&b=1%s" % (case + (OWN.get(case, ""),)) for case in CASES),
           files={"html/index.html": "top", "html/rewritten": "rewritten",
                  "html/other/rewritten": "other rewritten"}, errors=False),
]
