"""access_log: formats, escapes, conditions, several logs, inheritance."""

from ..engine import Config

CONFIGS = [
    Config("log", r"""
        log_format plain '$remote_port $status "$request" "$http_referer" "$http_user_agent"';
        log_format defaulted escape=default '$remote_port [$http_x] [$arg_x] [$uri] [$missing_var]';
        log_format json escape=json '$remote_port {"x":"$http_x","arg":"$arg_x","uri":"$uri","none":"$http_none"}';
        log_format none escape=none '$remote_port [$http_x] [$arg_x] [$uri] [$http_none]';
        log_format pieces '$remote_port ' 'one ' "two" ' $status';
        log_format vars '$remote_port $remote_addr $remote_user $server_protocol $request_method '
                        '$scheme $host $server_addr $server_name $body_bytes_sent $pipe '
                        '$connection_requests $request_length $sent_http_content_type '
                        '$sent_http_location $sent_http_x_set $sent_http_connection '
                        '$sent_http_keep_alive $sent_http_transfer_encoding '
                        '$sent_http_content_length $sent_http_last_modified $request_completion';
        log_format literal '$remote_port literal\ttab\\back "quote" \x41 100%';
        map $status $isbad { default 0; ~^[45] 1; }
        map $arg_m $missing_var { default ""; }
        server {
            listen 127.0.0.1:@PORT@;
            server_name localhost;
            root html;
            access_log logs/oracle.access oracle;
            access_log logs/plain.access plain;
            location /escape { access_log logs/oracle.access oracle; access_log logs/d.access defaulted; access_log logs/j.access json; access_log logs/n.access none; return 200 "x"; }
            location /pieces { access_log logs/oracle.access oracle; access_log logs/p.access pieces; return 200 "x"; }
            location /vars { access_log logs/oracle.access oracle; access_log logs/v.access vars; add_header X-Set set; alias html/; }
            location /varsr { access_log logs/oracle.access oracle; access_log logs/v.access vars; return 302 /x; }
            location /literal { access_log logs/oracle.access oracle; access_log logs/l.access literal; return 200; }
            location /off { access_log off; return 200 "off"; }
            location /if { access_log logs/oracle.access oracle; access_log logs/if.access plain if=$arg_log; return 200 "x"; }
            location /ifbad { access_log logs/oracle.access oracle; access_log logs/bad.access plain if=$isbad; }
            location /same { access_log logs/oracle.access oracle; access_log logs/same.access plain; access_log logs/same.access pieces; return 200 "x"; }
            location /inif { if ($arg_l) { access_log logs/inif.access plain; } return 200 "x"; }
            location /except { limit_except GET { access_log logs/except.access plain; deny all; } return 200 "x"; }
            location /redirected { error_page 404 /target; }
            location /target { access_log logs/oracle.access oracle; access_log logs/target.access plain; return 200 "t"; }
            location /rewritten { rewrite ^ /target last; }
            location /named { try_files /none @named; }
            location @named { access_log logs/named.access plain; return 200 "n"; }
            location /varpath { access_log logs/oracle.access oracle; access_log logs/v-$arg_n.access plain; return 200 "x"; }
            location /444 { return 444; }
        }
        server {
            listen 127.0.0.1:@PORT1@;
            server_name localhost;
            access_log logs/oracle.access oracle;
            location / { return 200 "inherited"; }
        }
        """, r"""
        GET /a.txt
        GET /a.txt | Referer: http://ref/ | User-Agent: agent
        GET /a.txt | User-Agent: quote " back \\ slash
        GET /none
        GET /escape?x=1 | X: value
        GET /escape?x=%22 | X: "q" \\b
        GET /escape | X: \xc3\xa4\xff\x80
        GET /escape?x=\xc3\xa4 | X: a\tb
        GET /escape | X: \x01\x1f\x7f
            => 400 closed -- the issue asks to refuse control bytes
        GET /escape | X: /slash/
        GET /escape/%0A%22%5C%08%0C%0D%09%01%7F
        GET /pieces
        GET /vars/a.txt
        GET /vars/a.txt | Connection: close
        GET /vars/a.txt HTTP/1.0
        GET /vars/a.txt | Authorization: Basic dXNlcjpwYXNz
        GET /vars/a.txt | Authorization: Basic !!!
        GET /vars/a.txt | Authorization: Digest x
        GET /vars/a.txt | Authorization: Basic dXNlcg==
        GET /vars/none
        HEAD /vars/a.txt
        GET /vars/a.txt && GET /vars/a.txt && HEAD /vars/a.txt
        GET /varsr
        POST /varsr << body
        GET /literal
        GET /off
        GET /if
        GET /if?log=1
        GET /if?log=0
        GET /if?log=00
        GET /if?log=
        GET /ifbad/none
        GET /ifbad/
        GET /same
        GET /inif
        GET /inif?l=1
        GET /except
        POST /except
        GET /redirected/x
        GET /rewritten
        GET /named
        GET /varpath?n=one
        GET /varpath?n=two
        GET /444
        GET / | @PORT1
        RAW GET / HTTP/1.1\r\n\r\n
        RAW \x16\x03\x01\x02\r\n\r\n
        BARE GET /\r\n\r\n
        GET / HTTP/2.0
        GET /bad%zz
        """, files={"html/a.txt": "a\n", "html/ifbad/index.html": "i"}, errors=True),
]
