"""Configurations for -t: one a line, LEVEL | TEXT, with \\n for a line end.

LEVEL says where the text stands: main, events, http, server, location, or file (the text is the
whole file). Each has at most one fault, since Portunus reports all of a file and nginx the first.
A line `=> TEXT -- why` after a row says that the answer of the reference does not hold, and which
text the first line of standard error must hold instead (`=> ok` when the file must be accepted).
"""

from harness import binaries

FILES = {
    "inc/good.conf": "set $included 1;\n", "inc/bad.conf": "set $a 1;\nunknown_thing 1;\n",
    "inc/open.conf": "location /open {\n", "inc/close.conf": "}\n", "inc/empty.conf": "",
    "inc/half.conf": "set $a", "glob/1.conf": "set $one 1;\n", "glob/2.conf": "set $two 2;\n",
    "types.conf": "text/html html;\n", "map.conf": "a b;\n", "html/x": "",
}

WRAP = {
    "file": "%s",
    "main": "pid nginx.pid;\nerror_log error.log;\n%s\nevents {\n}\n",
    "events": "pid nginx.pid;\nerror_log error.log;\nevents {\n    %s\n}\n",
    "http": "pid nginx.pid;\nerror_log error.log;\nevents {\n}\nhttp {\n    access_log off;\n"
            "    %s\n}\n",
    "server": "pid nginx.pid;\nerror_log error.log;\nevents {\n}\nhttp {\n    access_log off;\n"
              "    server {\n        listen 127.0.0.1:@PORT@;\n        %s\n    }\n}\n",
    "location": "pid nginx.pid;\nerror_log error.log;\nevents {\n}\nhttp {\n    access_log off;\n"
                "    server {\n        listen 127.0.0.1:@PORT@;\n        location / {\n"
                "            %s\n        }\n    }\n}\n",
    "stream": binaries.load_module("ngx_stream_module", binaries.reference()) +
              "pid nginx.pid;\nerror_log error.log;\nevents {\n}\nstream {\n    %s\n}\n",
}

BROKEN = r"""
    # a port beside a block of that name
    http | server { listen 127.0.0.1:@PORT@; location / { proxy_pass http://localhost:80; } location /b { proxy_pass http://localhost; } }\nupstream localhost { server 127.0.0.1:81; }
    http | server { listen 127.0.0.1:@PORT@; location / { proxy_pass http://localhost; } }\nupstream localhost { server 127.0.0.1:81; }\nserver { listen 127.0.0.1:@PORT@; server_name b; location / { proxy_pass http://localhost:80; } }
    # grammar
    main | unknown_directive on;
    main | unknown_directive { }
    http | unknown_directive;
    server | unknown;
    location | unknown x y z;
    main | server { }
    main | listen 80;
    http | events { }
    http | listen 80;
    http | worker_processes 1;
    events | server { }
    server | events { }
    location | server_name x;
    location | listen 80;
    server | empty_gif;
    server | alias /x;
    server | internal;
    location | http { }
    http | if ($x) { }
    main | worker_processes;
    main | worker_processes 1 2;
    main | daemon;
    server | root;
    server | root a b;
    server | server_name;
    location | internal on;
    location | empty_gif on;
    http | add_header X;
    http | add_header X a b c;
    server | location { }
    server | location a b c { }
    server | return;
    server | return 200 a b;
    server | rewrite a;
    http | server a { }
    main | worker_processes 1
    file | worker_processes 1
    file | events { } worker_processes 1
    server | root html
    server | location / { root html; }}
    server | location / { root html; } }
    server | location / root html;
    server | location /;
    server | location / ;
    http | server;
    main | events;
    server | root html {\n}
    server | ;
    server | root html;;
    main | }
    main | {
    main | { }
    main | ;
    file | events { } http {
    file | events { } http { server {
    file | events { } http { server { listen 80; }
    file | events { } http { server { listen
    file | events { } http { server { listen 80
    file | events { } http { server { listen "80
    file | events { } "
    file | events { } '
    server | root "html;
    server | root 'html;
    server | root "html"x;
    server | root "html"'x';
    server | root "html"{
    server | set $a "b"c;
    server | set $a 'b\n
    file | events { } events { }
    http | } http {
    main | error_log
    server | return 200 "unclosed;
    # values
    main | daemon yes;
    main | daemon on; daemon off;
    main | daemon 1;
    main | master_process true;
    main | worker_processes x;
    main | worker_processes -1;
    main | worker_processes 1; worker_processes 2;
    main | worker_priority x;
    main | worker_rlimit_nofile x;
    main | worker_rlimit_nofile 1; worker_rlimit_nofile 2;
    main | worker_rlimit_core 1x;
    main | worker_shutdown_timeout x;
    main | worker_cpu_affinity 012;
    main | worker_cpu_affinity 01x;
    main | user nosuchuser;
    main | user nobody nosuchgroup;
    main | user nobody nogroup; user root root;
    main | debug_points x;
    main | timer_resolution x;
    main | pcre_jit maybe;
    file | pid a; pid b; events { }
    main | lock_file a; lock_file b;
    main | env
    main | error_log error.log badlevel;
    main | error_log error.log info extra;
    main | error_log syslog:;
    main | error_log syslog:server=127.0.0.1,facility=bad;
    main | error_log syslog:server=127.0.0.1,severity=bad;
    main | error_log syslog:server=127.0.0.1,tag=bad-tag;
    main | error_log syslog:server=127.0.0.1,what=bad;
    main | load_module nosuch.so;
        => ok -- only its directives are errors
    main | working_directory a; working_directory b;
    events | worker_connections x;
    events | worker_connections 1; worker_connections 2;
    events | worker_connections;
    events | use nosuch;
    events | use epoll; use epoll;
    events | multi_accept x;
    events | accept_mutex 1;
    events | accept_mutex_delay x;
    http | sendfile yes;
    http | sendfile on; sendfile off;
    http | sendfile_max_chunk x;
    http | client_max_body_size x;
    http | client_max_body_size 1t;
    http | client_max_body_size 1kk;
    http | client_max_body_size -1;
    http | client_max_body_size 99999999999999999999;
    http | client_header_buffer_size x;
    http | client_header_buffer_size 1g;
    http | large_client_header_buffers 4;
    http | large_client_header_buffers x 8k;
    http | large_client_header_buffers 0 8k;
    http | large_client_header_buffers 4 0;
    http | large_client_header_buffers 4 x;
    http | client_body_timeout x;
    http | client_body_timeout 1x;
    http | client_body_timeout 1m1m;
    http | client_body_timeout 1s1m;
    http | client_body_timeout -1;
    http | client_body_timeout 1y;
    http | client_body_timeout "";
    http | keepalive_timeout x;
    http | keepalive_timeout 1 x;
    http | keepalive_timeout 1 2 3;
    http | keepalive_requests x;
    http | keepalive_time x;
    http | keepalive_disable x;
    http | send_timeout 10 20;
    http | resolver;
    http | lingering_close maybe;
    http | lingering_close on; lingering_close off;
    http | if_modified_since x;
    http | satisfy none;
    http | server_tokens maybe;
    http | types { text/html html\n}
    http | types x { }
    http | default_type a b;
    http | default_type a; default_type b;
    http | open_file_cache x;
    http | open_file_cache max=x;
    http | open_file_cache max=0;
    http | open_file_cache inactive=20s;
    http | open_file_cache max=10 inactive=x;
    http | open_file_cache_valid x;
    http | open_file_cache max=1; open_file_cache max=2;
    http | client_body_temp_path temp_zero 0;
    http | client_body_in_file_only x;
    http | aio x;
    http | aio threads=nopool;
    http | directio x;
    http | limit_rate x;
    http | limit_rate_after x;
    http | postpone_output x;
    http | output_buffers 1;
    http | output_buffers x 1k;
    http | max_ranges x;
    http | etag x;
    http | disable_symlinks x;
    http | disable_symlinks on x;
    http | disable_symlinks from=/x;
    http | server_names_hash_max_size x;
    http | underscores_in_headers x;
    http | types_hash_max_size x;
    http | reset_timedout_connection x;
    location | limit_except { }
    location | limit_except BAD { }
    location | limit_except GET;
    location | limit_except GET { root x; }
    location | alias a; alias b;
    location | root a; alias b;
    location | alias a; root b;
    location | root a; root b;
    location | root $nosuch;
    location | alias $nosuch;
    location | try_files x;
    location | try_files x =abc;
    location | try_files x =1000;
    location | try_files a b; try_files c d;
    location | try_files $nosuch =404;
    http | error_page 404;
    http | error_page x /x;
    http | error_page 299 /x;
    http | error_page 600 /x;
    http | error_page 499 /x;
    http | error_page 404 =x /x;
    http | error_page 404 =99x /x;
    http | error_page 404 /$nosuch;
    http | error_page =200 /x;
    server | post_action;
    # locations
    server | location / { } location / { }
    server | location = / { } location = / { }
    server | location /a { } location ^~ /a { }
    server | location /a { location /b { } }
    server | location = /a { location /a/b { } }
    server | location @a { location /b { } }
    server | location /a { location @b { } }
    server | location ?? /a { }
    server | location =~ /a { }
    server | location ~ ( { }
    server | location ~ "a{2" { root x$; }
    server | location ~* [ { }
    server | location ^~ /a { location /b { } }
    server | location ~ (?<x>a)(?<x>b) { }
    # names
    server | server_name ~;
    server | server_name ~(;
    server | server_name *;
    server | server_name *a.b;
    server | server_name .;
    # listen
    server | listen;
    server | listen 127.0.0.1:@PORT@;
    server | listen 0;
    server | listen 65536;
    server | listen 127.0.0.1:x;
    server | listen 127.0.0.1:99999;
    server | listen 127.0.0.1:0;
    server | listen :@PORT1@;
    server | listen nosuch.invalid:80;
    server | listen [::1;
    server | listen [::x]:80;
    server | listen unix:;
    server | listen unix:/a bad;
    server | listen 127.0.0.1:@PORT1@ bad;
    server | listen 127.0.0.1:@PORT1@ backlog=x;
    server | listen 127.0.0.1:@PORT1@ backlog=0;
    server | listen 127.0.0.1:@PORT1@ rcvbuf=x;
    server | listen 127.0.0.1:@PORT1@ sndbuf=x;
    server | listen 127.0.0.1:@PORT1@ so_keepalive=x;
    server | listen 127.0.0.1:@PORT1@ so_keepalive=1:2:3:4;
    server | listen 127.0.0.1:@PORT1@ so_keepalive=::;
    server | listen [::1]:@PORT1@ ipv6only=x;
    server | listen 127.0.0.1:@PORT1@ fastopen=x;
    http | server { listen 127.0.0.1:@PORT@ default_server; } server { listen 127.0.0.1:@PORT@ default_server; }
    http | server { listen 127.0.0.1:@PORT@ backlog=5; } server { listen 127.0.0.1:@PORT@ backlog=6; }
    http | server { listen 127.0.0.1:@PORT@ backlog=5; } server { listen 127.0.0.1:@PORT@ backlog=5; }
    server | listen 127.0.0.1:@PORT1@; listen 127.0.0.1:@PORT1@;
    # rewrite
    server | return x;
    server | return 1000;
    server | return -1;
    server | return x 200;
    server | return 301 $nosuch;
    server | return 200 "${unclosed";
    server | return 200 "$";
    server | return 200 "$$";
    server | return 200 "${}";
    server | return 200 "a$-b";
    server | rewrite ( /x;
    server | rewrite ^ /x bad;
    server | rewrite ^ /$nosuch;
    server | rewrite ^ "";
    server | rewrite ^ /x last y;
    server | set a b;
    server | set $ b;
    server | set $a;
    server | set $uri x;
    server | set $host x;
    server | set $a $nosuch;
    server | if { }
    server | if ( { }
    server | if () { }
    server | if $a { }
    server | if (a) { }
    server | if ($nosuch) { }
    server | if ($uri = ) { }
    server | if ($uri =) { }
    server | if ($uri == a) { }
    server | if ($uri x a) { }
    server | if ($uri = a b) { }
    server | if ($uri ~ () { }
    server | if ($uri ~) { }
    server | if (-f) { }
    server | if (-f ) { }
    server | if (-z /x) { }
    server | if (!-z /x) { }
    server | if (! -f /x) { }
    server | if ($uri = "a) { }
    server | if ($uri) { root x; }
    server | if ($uri) { location / { } }
    server | if ($uri) { return 200
    location | if ($uri) { alias x; }
    location | if ($uri) { internal; }
    location | if ($uri) { try_files a b; }
    location | break on;
    # map
    http | map $uri { }
    http | map $uri a { }
    http | map $uri $a;
    http | map $nosuch $a { }
    http | map $uri $a { a; }
    http | map $uri $a { a b c; }
    http | map $uri $a { a 1; a 2; }
    http | map $uri $a { default 1; default 2; }
    http | map $uri $a { ~( 1; }
    http | map $uri $a { hostnames; *.a..b 1; }
    http | map $uri $a { hostnames; *.a 1; *.a 2; }
    http | map $uri $a { a $nosuch; }
    http | map $uri $a { include nosuch; }
    http | map $uri $uri { }
    http | map $uri $host { a b; }
    http | map $uri $a { "a 1; }
    http | map_hash_max_size x;
    # access
    http | allow;
    http | allow x;
    http | deny 1.2.3.4/33;
    http | deny 1.2.3;
    http | deny 1.2.3.4/x;
    http | deny ::1/129;
    http | allow all x;
    # log
    http | log_format a;
    http | log_format a $nosuch;
    http | log_format a x; log_format a y;
    http | log_format combined x;
    http | log_format a escape=bad x;
    http | log_format a $;
    http | access_log;
    http | access_log a nosuch;
    http | access_log a combined bad;
    http | access_log a combined buffer=x;
    http | access_log a combined buffer=0;
    http | access_log a combined flush=1s;
    http | access_log a combined buffer=1k flush=x;
    http | access_log a combined gzip=0;
    http | access_log a combined gzip=10;
    http | access_log a combined if=$nosuch;
    http | access_log logs/$nosuch;
    http | access_log logs/$uri combined buffer=1k;
    http | access_log syslog:server=;
    http | access_log syslog:server=127.0.0.1,facility=x;
    http | access_log off off;
    http | access_log /nosuch/dir/log;
    http | open_log_file_cache x;
    http | open_log_file_cache max=x;
    http | open_log_file_cache inactive=5;
    http | open_log_file_cache max=1 valid=x;
    # headers, autoindex, index, others
    http | expires x;
    http | expires modified;
    http | expires modified x;
    http | expires @25h;
    http | expires @-1;
    http | expires 1 2 3;
    http | expires 1h; expires 2h;
    http | add_header X $nosuch;
    http | add_header X a bad;
    http | add_trailer X a bad;
    http | autoindex x;
    http | autoindex_format csv;
    http | autoindex_format html; autoindex_format json;
    http | index;
    http | index $nosuch;
    http | index "";
    location | stub_status x y;
    # include
    server | include nosuch.conf;
    server | include inc/bad.conf;
    server | include inc/open.conf;
    server | include inc/close.conf;
    server | include inc/half.conf;
    server | include;
    server | include a b;
    server | include inc;
    http | include inc/good.conf;
    # proxy
    location | proxy_pass 127.0.0.1:1;
    location | proxy_pass ftp://127.0.0.1:1;
    location | proxy_pass "";
    location | proxy_pass http://;
    location | proxy_pass http:///x;
    location | proxy_pass http://127.0.0.1:99999;
    location | proxy_pass http://127.0.0.1:x;
    location | proxy_pass http://127.0.0.1:0;
    location | proxy_pass http://unix:;
    location | proxy_pass http://127.0.0.1:1; proxy_pass http://127.0.0.1:2;
    location | proxy_pass http://$a b;
    location | proxy_pass http://$nosuch;
    location | proxy_pass;
    server | proxy_pass http://127.0.0.1:1;
    http | proxy_pass http://127.0.0.1:1;
    location | if ($arg_a) { proxy_pass http://127.0.0.1:1/x; }
    location | limit_except GET { proxy_pass http://127.0.0.1:1/x; }
    server | location ~ ^/x { proxy_pass http://127.0.0.1:1/; }
    server | location @x { proxy_pass http://127.0.0.1:1/; }
    http | upstream up { server 127.0.0.1:1; } server { location / { proxy_pass http://up:80; } }
    location | proxy_redirect x;
    location | proxy_redirect off; proxy_redirect a b;
    location | proxy_redirect a b; proxy_redirect off;
    location | proxy_redirect default; proxy_pass http://127.0.0.1:1;
    location | proxy_pass http://$host; proxy_redirect default;
    location | proxy_redirect ~( b;
    location | proxy_cookie_domain x;
    location | proxy_cookie_domain off; proxy_cookie_domain a b;
    location | proxy_cookie_domain ~( b;
    location | proxy_cookie_path x;
    location | proxy_cookie_path a b; proxy_cookie_path off;
    location | proxy_cookie_flags x;
    location | proxy_cookie_flags off; proxy_cookie_flags x secure;
    location | proxy_cookie_flags x secure httponly samesite=lax nosecure;
    location | proxy_http_version 1.2;
    location | proxy_method;
    location | proxy_method GET; proxy_method PUT;
    location | proxy_set_header X;
    location | proxy_set_header X a b;
    location | proxy_set_header X $nosuch;
    location | proxy_set_body a; proxy_set_body b;
    location | proxy_headers_hash_max_size x;
    location | proxy_headers_hash_bucket_size 1; proxy_headers_hash_bucket_size 1;
    # limit_conn, limit_req
    http | limit_conn_zone $binary_remote_addr zone=:1m;
    http | limit_conn_zone $binary_remote_addr zone=one;
    http | limit_conn_zone $binary_remote_addr zone=one:1x;
    http | limit_conn_zone $binary_remote_addr zone=one:31k;
    http | limit_conn_zone $binary_remote_addr zone=one:;
    http | limit_conn_zone $binary_remote_addr zone=o:n:1m;
    http | limit_conn_zone $binary_remote_addr one:1m;
    http | limit_conn_zone $binary_remote_addr;
    http | limit_conn_zone $unknown zone=one:1m;
    http | limit_conn_zone ${a zone=one:1m;
    http | limit_conn_zone $uri zone=one:1m;\nlimit_conn_zone $args zone=one:1m;
    http | limit_conn_zone $uri zone=one:1m;\nlimit_conn_zone $uri zone=one:2m;
    http | limit_conn_zone $uri zone=one:1m;\nlimit_req_zone $uri zone=one:1m rate=1r/s;
    http | limit_conn_zone $uri zone=one:1m;\nlimit_conn one 0;
    http | limit_conn_zone $uri zone=one:1m;\nlimit_conn one x;
    http | limit_conn_zone $uri zone=one:1m;\nlimit_conn one -1;
    http | limit_conn_zone $uri zone=one:1m;\nlimit_conn one 65536;
    http | limit_conn_zone $uri zone=one:1m;\nlimit_conn one 99999999999999999999;
    http | limit_conn_zone $uri zone=one:1m;\nlimit_conn one 1;\nlimit_conn one 2;
    http | limit_conn_zone $uri zone=one:1m;\nlimit_conn one;
    http | limit_conn two 1;
    location | limit_conn_log_level debug;
    location | limit_conn_dry_run yes;
    location | limit_conn_status x;
    location | mirror off; mirror X;
    location | mirror X; mirror off;
    location | mirror off; mirror off;
    location | mirror;
    location | mirror a b;
    location | mirror_request_body yes;
    location | mirror_request_body on; mirror_request_body on;
    location | auth_request off; auth_request off;
    location | auth_request_set x y;
    location | auth_request_set $x;
    location | auth_request_set $uri y;
    location | auth_request_set $x $nope;
    location | if ($uri) { mirror off; }
    location | limit_except GET { auth_request off; }
    location | if ($uri) { auth_request off; }
    location | auth_basic;
    location | auth_basic a b;
    location | auth_basic a; auth_basic b;
    location | auth_basic_user_file a; auth_basic_user_file b;
    location | if ($uri) { auth_basic a; }
    location | auth_basic_user_file $nope;
    location | auth_basic $nope;
    location | auth_delay x;
    location | auth_delay 1s; auth_delay 1s;
    location | userid maybe;
    location | userid_mark xx;
    location | userid_mark -;
    location | userid_mark OFF;
    location | userid_expires never;
    location | userid_expires -1;
    location | userid_expires 1x;
    location | userid_expires MAX;
    location | userid_service x;
    location | userid_service -1;
    location | userid_service 99999999999999999999;
    location | userid_flags x;
    location | userid_flags secure httponly samesite=lax samesite=strict;
    location | userid_p3p a b;
    location | userid_path a; userid_path b;
    location | set $uid_got 1;
    location | set $uid_set 1;
    location | userid_flags;
    location | if ($uri) { userid on; }
    location | secure_link a; secure_link_md5 b; secure_link_secret c;
    location | secure_link a; secure_link b;
    location | secure_link_secret a b;
    location | secure_link_md5;
    location | secure_link $nope;
    location | if ($uri) { secure_link a; }
    location | set $secure_link 1;
    location | random_index;
    location | random_index yes;
    location | random_index on; random_index on;
    server | random_index on;
    location | modern_browser x 1.0;
    location | modern_browser unlisted 1;
    location | modern_browser msie x;
    location | modern_browser msie 1.2x;
    location | modern_browser msie -1;
    location | modern_browser msie;
    => the version of browser "msie" is missing -- nginx says nothing
    location | modern_browser;
    location | modern_browser msie 1 2;
    location | ancient_browser;
    location | ancient_browser_value a b;
    location | if ($uri) { modern_browser msie 5; }
    location | if ($uri) { random_index on; }
    location | limit_except GET { userid on; }
    http | limit_req_zone $uri rate=1r/s;
    http | limit_req_zone $uri zone=one:1m rate=1r;
    http | limit_req_zone $uri zone=one:1m rate=0r/s;
    http | limit_req_zone $uri zone=one:1m rate=1r/h;
    http | limit_req_zone $uri zone=one:1m rate=-1r/s;
    http | limit_req_zone $uri zone=one:1m rate=99999999999999999999r/s;
    http | limit_req_zone $uri zone=one:1m word;
    http | limit_req_zone $uri zone=:1m rate=1r/s;
    http | limit_req_zone $uri zone=one:1m rate=1r/s;\nlimit_req_zone $uri zone=one:1m rate=1r/s;
    http | limit_req_zone $uri zone=one:1m rate=1r/s;\nlimit_conn one 1;
    http | limit_req_zone $uri zone=one:1m rate=1r/s;\nlimit_req one;
    http | limit_req_zone $uri zone=one:1m rate=1r/s;\nlimit_req burst=1;
    http | limit_req_zone $uri zone=one:1m rate=1r/s;\nlimit_req zone=one burst=0;
    http | limit_req_zone $uri zone=one:1m rate=1r/s;\nlimit_req zone=one burst=x;
    http | limit_req_zone $uri zone=one:1m rate=1r/s;\nlimit_req zone=one burst=;
    http | limit_req_zone $uri zone=one:1m rate=1r/s;\nlimit_req zone=one delay=0;
    http | limit_req_zone $uri zone=one:1m rate=1r/s;\nlimit_req zone=one delay=-1;
    http | limit_req_zone $uri zone=one:1m rate=1r/s;\nlimit_req zone=one;\nlimit_req zone=one burst=2;
    http | limit_req zone=two;
    location | limit_req;
    location | limit_req_log_level crit;

    # others
    main | WORKER_PROCESSES 1;
    http | keepalive_time 1y2M3w;
    http | open_file_cache off; open_file_cache max=1;
    location | aio on;
        => ok -- io_uring may serve it on Linux
    file | 
    file | worker_processes 1;
    file | http { }
    file | # only a comment
    file | events { } http { server { listen 127.0.0.1:@PORT@; access_log /nosuch/dir/log; } }
    file | events { } error_log /nosuch/dir/log;
    file | events { } pid /nosuch/dir/pid;
    # geo, charset, split_clients, valid_referers
    http | geo $a { 1.2.3 x; }
    http | geo $a { 1.2.3.4/33 x; }
    http | geo $a { localhost x; }
    http | geo $a { delete; }
    http | geo $a { 10.0.0.0/8 x y; }
    http | geo $a { 10.0.0.0/8; }
    http | geo $a { ranges; default x; 10.0.0.0-10.0.0.255 a; 10.0.0.100-10.0.0.200 b; 10.0.0.0-10.0.0.255 c;}
    http | geo $a { ranges; 10.0.0.0-10.0.0.255 a; 10.0.0.200-10.0.1.3 b; }
    http | geo $a { default x; ranges; }
    http | geo $a { 10.0.0.0/8 x; ranges;  }
    http | geo $a { ranges; 10.0.0.1 b; }
    http | geo $a { ranges; 10.0.0.0/8 c; }
    http | geo $a { ranges; ::1-::2 e; }
    http | geo $a { ranges; x-y f; }
    http | geo $a { proxy; }
    http | geo $a { proxy localhost; }
    http | geo $a { proxy all; }
    http | geo $a { proxy unix:; }
    http | geo $a { proxy [::1]; }
    http | geo $a { ::1/200 x; }
    http | geo a { }
    http | geo $ {}
    http | geo a $b {}
    http | geo $x $y $z {}
    http | geo $host {}
    http | geo $remote_addr {}
    http | geo $nosuch $b {}
    http | geo $a { include nosuch; }
    http | geo $a { "" y; }
    http | geo $a { 10.0.0.0/8 x }
    http | geo $a { ranges; 10.0.0.0- x; }
    http | geo $a { ranges; 10.0.0.1-10.0.0.3-4 x; }
    http | geo $a { 0x10.1.1.1 y;  }
    http | geo $a { default; }
    http | geo $a { all x; }
    http | geo $a { [::1] x; }
    http | geo $a { unix: x; }
    http | geo $a { delete default; }
    http | geo $a { proxy_recursive x; }
    http | geo $a { ranges; 10.0.0.0-10.2.0.10 x; 10.1.0.5-10.1.0.10 y; 10.0.255.1-10.1.0.6 z; }
    http | geo $a { ranges; delete 10.0.0.3-10.0.0.1; }
    http | geo $a { 10.0.0.1/ x; }
    http | charset $foo;
    http | charset utf-8; source_charset koi8-r; server { }
    http | charset_map a a { C0 D1; }
    http | charset_map a b { C0 D1; } charset_map a b { C0 D2; }
    http | charset_map a b { C0 D1; } charset_map b a { C0 D2; }
    http | charset_map a b { 100 D1; }
    http | charset_map a b { G1 D1; }
    http | charset_map a b { C1 G1; }
    http | charset_map a b { C1 100; }
    http | charset_map a utf-8 { C1 zz; }
    http | charset_map a utf-8 { C1 D18; }
    http | charset_map a b { C1; }
    http | charset_map a b { C1 C2 C3; }
    http | charset_map a {}
    http | source_charset $x;
    http | charset a; charset b;
    http | charset_map a utf-8 { 0x41 D1; }
    http | charset_map a utf-8 { C1 FF; }
    http | server { charset a; source_charset b; }
    http | server { charset a; location / { source_charset b; } }
    http | split_clients $host $a { 50% x; 51% y; }
    http | split_clients $host $a { 0% x; * y; }
    http | split_clients $host $a { 0.555% x; * y; }
    http | split_clients $host $a { 50 x; * y; }
    http | split_clients $host $a { -5% x; * y; }
    http | split_clients $host $a { x% x; * y; }
    http | split_clients $host $a { 5% x y; }
    => invalid number of the split_clients parameters -- nginx drops the second value
    http | split_clients $host $a { 5%; }
    => invalid number of the split_clients parameters -- nginx looks for the value where none is
    http | split_clients $host $a { * x; 5% y; }
    http | split_clients $host $a { 101% x; }
    http | split_clients $host $a { 99.99% x; 0.01% y; 0.01% z; }
    http | split_clients $host $a { 5% x { } }
    http | split_clients $host $a { 5% ""; "" x; }
    http | split_clients $host a { 5% ""; }
    http | split_clients $host $host { 5% ""; }
    http | split_clients $host { 5% ""; }
    http | split_clients $nosuch $a { 5% ""; }
    http | split_clients $host $a { include x; }
    => open() -- include is understood in every block
    http | split_clients $host $a { 999999999999999999999% x; }
    http | split_clients $host $a { 42949672.96% x; }
    => percent total is greater than 100% -- nginx counts beyond the end of 32 bits
    http | server { valid_referers; }
    http | server { valid_referers none none; }
    http | server { valid_referers a.b; valid_referers a.b; }
    http | server { valid_referers a.b a.b; }
    http | server { valid_referers *.a.b .a.b a.*; }
    http | server { valid_referers *.a.b *.a.b; }
    http | server { valid_referers *; }
    http | server { valid_referers a*b; }
    http | server { valid_referers *a.b; }
    http | server { valid_referers a.*.b; }
    http | server { valid_referers ~; }
    http | server { valid_referers ~(; }
    http | server { valid_referers ~*A; }
    http | server { valid_referers ""; }
    http | server { valid_referers *.; }
    http | server { valid_referers .; }
    => invalid hostname or wildcard "." -- it can be no host
    http | server { valid_referers a..b; }
    http | server { valid_referers a.b:*; }
    http | server { valid_referers *.a.*; }
    http | server { referer_hash_max_size x; }
    http | server { referer_hash_bucket_size 64; referer_hash_bucket_size 64; }
    http | valid_referers none;
    http | server { location / { if ($host) { valid_referers none; } } }
    http | server { server_name a.b *.a.b; valid_referers server_names a.b; }
    => ok -- twice valid is valid

    # what stands in http is checked for each server that takes it over
    http | proxy_buffer_size 64k;\nserver { listen 127.0.0.1:@PORT@; }
    http | server { listen 127.0.0.1:@PORT@; location / { proxy_buffer_size 64k; } }
    http | proxy_set_header X $nosuch;\nserver { listen 127.0.0.1:@PORT@; }
    http | proxy_set_header X $nosuch;\nserver { listen 127.0.0.1:@PORT@; location / { proxy_pass http://127.0.0.1; proxy_set_header A b; } }
    http | fastcgi_param X $nosuch;\nserver { listen 127.0.0.1:@PORT@; fastcgi_param A b; }\nserver { listen 127.0.0.1:@PORT1@; }
    server | proxy_set_header X $nosuch; location / { proxy_set_header A b; }
    location | internal; internal;
    # sessions of stream
    stream | server { listen 127.0.0.1:@PORT@; }
    => ok -- a server without a handler closes its clients, as in nginx 1.31; a warning says so
    stream | server { return x; }
    stream | server { listen 127.0.0.1:@PORT@ foo; return x; }
    stream | server { listen 127.0.0.1:@PORT@ backlog=0; return x; }
    stream | server { listen 127.0.0.1:@PORT@ rcvbuf=x; return x; }
    stream | server { listen 127.0.0.1:9-8; return x; }
    stream | server { listen 127.0.0.1:@PORT@ ssl; return x; }
    stream | server { listen 127.0.0.1:@PORT@; return x; return y; }
    stream | server { listen 127.0.0.1:@PORT@; proxy_pass 127.0.0.1; }
    stream | server { listen 127.0.0.1:@PORT@; proxy_pass nosuch; }
    stream | server { listen 127.0.0.1:@PORT@; proxy_pass 127.0.0.1:1; proxy_pass 127.0.0.1:2; }
    stream | server { listen 127.0.0.1:@PORT@; access_log off x; return x; }
    stream | server { listen 127.0.0.1:@PORT@; access_log logs/a; return x; }
    stream | server { listen 127.0.0.1:@PORT@; access_log logs/a nosuch; return x; }
    stream | server { listen 127.0.0.1:@PORT@; return $nosuch; }
    stream | server { listen 127.0.0.1:@PORT@; set nosuch x; return x; }
    stream | server { listen 127.0.0.1:@PORT@; set $remote_addr x; return x; }
    stream | server { listen 127.0.0.1:@PORT@; proxy_bind nosuch; proxy_pass 127.0.0.1:1; }
    stream | server { listen 127.0.0.1:@PORT@; limit_conn nosuch 1; return x; }
    stream | server { listen 127.0.0.1:@PORT@; deny 1.2.3; return x; }
    stream | server { listen 127.0.0.1:@PORT@; keepalive_timeout 1s; return x; }
    stream | server { listen 127.0.0.1:@PORT@; return x; } server { }
    stream | log_format a b; log_format a c;
    stream | stream { }
    stream | preread_timeout x;
    stream | tcp_nodelay maybe;
    # groups of stream
    stream | upstream a { server 127.0.0.1; }
    stream | upstream a { server localhost; }
    stream | upstream a { server [::1]; }
    stream | upstream a { server 127.0.0.1:0; }
    stream | upstream a { server 127.0.0.1:99999; }
    stream | upstream a { server 127.0.0.1:1 drain; }
    stream | upstream a { server 127.0.0.1:1 route=x; }
    stream | upstream a { server 127.0.0.1:1 id=x; }
    stream | upstream a { server 127.0.0.1:1 weight=0; }
    stream | upstream a { server 127.0.0.1:1 max_fails=x; }
    stream | upstream a { server 127.0.0.1:1 fail_timeout=x; }
    stream | upstream a { server; }
    stream | upstream a { }
    stream | upstream { server 127.0.0.1:1; }
    stream | upstream a { server 127.0.0.1:1 backup; }
    stream | upstream a { hash $remote_addr; server 127.0.0.1:1 backup; }
    stream | upstream a { random; server 127.0.0.1:1 backup; }
    stream | upstream a { server 127.0.0.1:1; hash $remote_addr x; }
    stream | upstream a { server 127.0.0.1:1; hash; }
    stream | upstream a { server 127.0.0.1:1; random three; }
    stream | upstream a { server 127.0.0.1:1; random two least_time=header; }
    stream | upstream a { server 127.0.0.1:1; least_conn x; }
    stream | upstream a { server 127.0.0.1:1; keepalive 5; }
    stream | upstream a { server 127.0.0.1:1; ip_hash; }
    stream | upstream a { server 127.0.0.1:1; zone; }
    stream | upstream a { server 127.0.0.1:1; zone z 1k; }
    stream | upstream a { server 127.0.0.1:1; zone z x; }
    stream | upstream a { server 127.0.0.1:1; } upstream A { server 127.0.0.1:2; }
    stream | upstream a { server 127.0.0.1:1; upstream b { server 127.0.0.1:2; } }
    stream | upstream a { server 127.0.0.1:1; hash $nosuch; }
    stream | upstream a { server 127.0.0.1:1; sticky cookie x; }
    => "sticky" directive is not allowed here -- it is known here, of http
    stream | upstream a { server 127.0.0.1:1; queue 1; }
    => "queue" directive is not allowed here -- it is known here, of http
    stream | upstream a { server 127.0.0.1:1; zone z 64k; }\n}\nhttp {\n    upstream a { server 127.0.0.1:1; zone z 64k; }
    stream | upstream a { server 127.0.0.1:1; server 127.0.0.1:2 backup weight=x; }
    stream | upstream a { server unix:; }
    stream | upstream a { server "127.0.0.1:1 "; }
"""

GOOD = r"""
    # accepted, if with a warning, though one might think otherwise
    http | client_body_temp_path temp_levels 1 2 4;
    location | alias "";
    server | location @a { } location @a { }
    server | location ~ { }
    server | server_name a..b;
    server | server_name a.*.b;
    server | server_name a*;
    server | server_name "a b";
    server | server_name a/b;
    http | server { listen 127.0.0.1:@PORT@; server_name a; } server { listen 127.0.0.1:@PORT@; server_name a; }
    http | server { listen 127.0.0.1:@PORT@; server_name *.a; } server { listen 127.0.0.1:@PORT@; server_name *.a; }
    server | server_name a a;
    http | server_names_hash_bucket_size 1; server { server_name a; listen 127.0.0.1:@PORT@; }
    http | server_names_hash_bucket_size 32; server { server_name aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.com; listen 127.0.0.1:@PORT@; }
    server | listen 127.0.0.1:@PORT1@ ipv6only=on;
    server | listen unix:/tmp/x so_keepalive=on ipv6only=on;
    server | rewrite ^ /$2;
    http | deny 1.2.3.4/8;
    http | index a /b c;
    http | access_log a combined if=;
    # a cache without a key; nginx says so for each place, Portunus once
    http | fastcgi_cache_path c keys_zone=z:1m; server { listen 127.0.0.1:@PORT@; location /a { fastcgi_cache z; } location /b { fastcgi_cache z; fastcgi_cache_key k; } }
    http | scgi_cache_path c keys_zone=z:1m; scgi_cache z; server { listen 127.0.0.1:@PORT@; location /a { scgi_cache off; } location /b { scgi_cache_key $uri; limit_except GET { deny all; } } }
    http | uwsgi_cache_path c keys_zone=z:1m; server { listen 127.0.0.1:@PORT@; uwsgi_cache_key ""; location /a { uwsgi_cache z; if ($arg_a) { } } location /b { uwsgi_cache $arg_z; } } server { listen 127.0.0.1:@PORT@; server_name b; location / { uwsgi_cache $arg_z; } }
    http | proxy_cache_path c keys_zone=z:1m; proxy_cache z; server { listen 127.0.0.1:@PORT@; }
    # nobody takes over what stands in http
    http | proxy_set_body $nosuch; server { listen 127.0.0.1:@PORT@; proxy_set_body ""; }
    http | proxy_buffer_size 64k;
    http | proxy_buffer_size 64k; server { listen 127.0.0.1:@PORT@; location / { } proxy_buffers 4 64k; }
    http | fastcgi_busy_buffers_size 100k; server { listen 127.0.0.1:@PORT@; fastcgi_buffers 8 64k; }
    http | proxy_set_header X $nosuch;
    http | proxy_set_header X $nosuch; server { listen 127.0.0.1:@PORT@; proxy_set_header A b; location / { proxy_pass http://127.0.0.1; } }
    http | uwsgi_param X $nosuch; scgi_param X $nosuch; fastcgi_param X $nosuch; grpc_set_header X $nosuch; server { listen 127.0.0.1:@PORT@; uwsgi_param A b; scgi_param A b; fastcgi_param A b; grpc_set_header A b; }
    server | location / { proxy_pass http://localhost; } location /b { proxy_pass http://localhost:80; } location /c { proxy_pass http://LOCALHOST:080; }
    http | server { listen 127.0.0.1:@PORT@; location / { proxy_pass http://127.0.0.1:80; } location /b { proxy_pass http://127.0.0.1; } location /c { proxy_pass https://127.0.0.1; } location /d { proxy_pass https://127.0.0.01:0443; } }
    http | upstream u { server 127.0.0.1; server 127.0.0.1:80; server 127.0.0.01:0080; } server { listen 127.0.0.1:@PORT@; location / { proxy_pass http://u; } location /b { proxy_pass https://U; } }
    http | upstream 127.0.0.1:80 { server 127.0.0.1:81; } upstream 127.0.0.1 { server 127.0.0.1:81; } server { listen 127.0.0.1:@PORT@; location / { proxy_pass http://127.0.0.1; } }
    # with a port beside a block of that name: before the block, behind one without a port
    http | server { listen 127.0.0.1:@PORT@; location / { proxy_pass http://localhost; } location /b { proxy_pass http://localhost:80; } location /c { proxy_pass http://LOCALHOST:81; } location /d { fastcgi_pass LocalHost:9000; } }\nupstream localhost { server 127.0.0.1:81; }
    # leading zeros are decimal
    server | allow 010.0.0.1; deny 0127.000.000.0001/032; set_real_ip_from 010.0.0.0/08; allow 0001::/064;
    http | geo $x { default 0; 010.0.0.1 1; 010.1.0.0/016 2; proxy 127.0.0.01; } geo $y { ranges; 010.0.0.1-010.0.0.02 1; }
    http | server { listen 127.0.0.01:0@PORT@; } server { listen 0127.000.0.1:0@PORT@; server_name b; }
    # limit_conn, limit_req
    http | limit_conn_zone $uri zone=one:32k;\nlimit_conn one 65535;
    http | limit_conn_zone "" zone=one:1m; server { limit_conn one 1; }
    http | server { limit_conn one 1; }\nlimit_conn_zone $uri zone=one:1m;
    http | limit_req_zone $uri zone=one:1m rate=9223372036854775807r/s;\nlimit_req zone=one burst=9223372036854775807;
    http | limit_req_zone $uri rate=01r/m zone=one:1m;\nlimit_req nodelay zone=one;
    http | limit_req_zone $uri zone=one:1m rate=5;\nlimit_req zone=one burst=1 delay=5;
    http | limit_req_zone $uri zone=one:1m rate=5r/s;\nlimit_req zone=one delay=5 nodelay;

    # ordinary
    main | worker_processes auto;
    main | worker_processes 4; worker_cpu_affinity 0001 0010;
    main | worker_processes 4; worker_cpu_affinity auto;
    main | worker_cpu_affinity auto 0101;
    main | worker_processes 4; worker_cpu_affinity 01 10 11;
    main | worker_priority -5;
    main | worker_rlimit_nofile 100; worker_rlimit_core 10m;
    main | env A; env B=c; env C;
    main | error_log stderr; error_log error.log debug;
    main | daemon ON;
    main | timer_resolution 100ms; worker_shutdown_timeout 1h;
    main | # comment ; { }
    main | user nobody nogroup;
    main | debug_points stop;
    events | worker_connections 10; use epoll; multi_accept on; accept_mutex on; accept_mutex_delay 10ms;
    events | debug_connection 127.0.0.1; debug_connection 10.0.0.0/8; debug_connection ::1; debug_connection unix:;
        => ok -- the reference is built with --with-debug, else there is a warning
    events | worker_aio_requests 10; epoll_events 20;
    http | server { }
    http | sendfile ON; tcp_nopush Off;
    http | keepalive_timeout "1h 30m"; send_timeout 10;
    http | client_body_timeout 1d2h3m4s5ms; keepalive_time 5w6d;
    http | client_body_timeout 1w; client_header_timeout "1m 30s";
    http | client_max_body_size 1g; client_body_buffer_size 1M; directio 2G;
    http | client_max_body_size 0;
    http | large_client_header_buffers 4 8K;
    http | types { } types { text/html html; } types { text/css html; }
    http | types { include types.conf; text/plain txt; }
    http | map $uri $a { include map.conf; default 1; }
    http | map $uri $a { }
    http | map $uri $a { hostnames; a 1; *.b 2; c.* 3; .d 4; ~e 5; default 6; }
    http | keepalive_disable msie6 safari; keepalive_disable none;
    http | error_page 404 403 =200 /x; error_page 500 = @x; error_page 494 495 496 497 /y;
    http | open_file_cache max=10 inactive=5s;
    http | open_file_cache off;
    http | disable_symlinks if_not_owner from=$document_root;
    http | log_format a escape=json '{"a":"$uri"}' "$host"; access_log logs/a.log a buffer=32k flush=1m gzip=9 if=$arg_x;
    http | access_log syslog:server=127.0.0.1:514,facility=local7,tag=x,severity=info combined;
    http | access_log logs/$host.log; open_log_file_cache max=10 inactive=1m min_uses=2 valid=1m;
    http | expires -1; add_header A b always; add_trailer C d;
    http | deny 10.0.0.0/8; allow 192.168.1.0/24; allow ::1; deny unix:; deny all;
    http | server_names_hash_bucket_size 128; variables_hash_max_size 2048; types_hash_bucket_size 64;
    http | limit_rate 10k; limit_rate_after 1m;
    server | server_name a *.b c.* .d ~^e$ "" _ $hostname "~^(?<x>a{1,2})$";
    server | server_name a.b. A.B;
    server | location / { } location = / { } location ~ / { } location ~ / { } location @x { }
    server | location /a { location /a/b { location ~ x { } } }
    server | location ^~ /a { } location ~* \.(gif|jpg)$ { }
    server | listen 127.0.0.1:@PORT1@ default_server backlog=10 rcvbuf=8k sndbuf=8k so_keepalive=on deferred reuseport bind fastopen=5;
    server | listen [::1]:@PORT1@ ipv6only=on; listen unix:@DIR@/sock; listen localhost:@PORT2@; listen @PORT3@;
    server | listen 127.0.0.1:@PORT1@ so_keepalive=10m::5; listen 127.0.0.1:@PORT2@ so_keepalive=off proxy_protocol;
    http | server { listen 127.0.0.1:@PORT@; } server { listen 127.0.0.1:@PORT@ default; }
    server | rewrite ^/(a)$ /b/$1? last; rewrite ^ http://x permanent; return 301 https://$host$request_uri;
    server | set $a b; set $b "$a${a}"; if ($a = b) { return 403; } if ($a != b) { set $c d; break; }
    server | if (-f $request_filename) { break; } if (!-d /x) { break; } if (-e /x) { break; } if (!-x /x) { break; }
    server | if ($http_cookie ~* "id=([^;]+)(?:;|$)") { set $id $1; } if ($uri !~ ^/x) { break; }
    server | return 444; return 200 'a"b'; return 200 "a'b"; return http://x;
    server | include inc/good.conf; include glob/*.conf; include nosuch/*.conf; include inc/empty.conf;
    server | set $a "line\nbreak"; set $b 'tab\tquote\''; set $c a\ b; set $d a\;b;
    server | error_log logs/e.log crit; error_log stderr; access_log off; root "html"; index a b /c;
    server | try_files $uri $uri/ @x; location @x { return 404; }
    location | limit_except GET POST { deny all; } satisfy any; internal; alias html/; autoindex on;
    location | if ($arg_a) { return 200; } if ($arg_b) { add_header X y; expires 1h; error_page 404 /x; }
    location | empty_gif; expires max; etag off;
    location | stub_status; access_log off;
    location | client_body_temp_path temp 1 2; client_body_in_file_only clean; lingering_close always; resolver 127.0.0.1 valid=10s;
    location | directio 4k; directio_alignment 4k; output_buffers 2 64k; read_ahead 1k; sendfile_max_chunk 1m;
    location | aio threads; aio_write on; postpone_output 0; msie_padding off; msie_refresh on; chunked_transfer_encoding off;
    location | root html/$host; try_files $arg_x =404;
    location | mirror X; mirror X;
    location | mirror $a; mirror "";
    location | auth_request "";
    location | auth_request $x;
    location | auth_request_set $http_x y; auth_request_set $limit_rate 5; auth_request_set $x y; auth_request_set $x z;
    location | auth_basic_user_file ""; auth_basic "";
    location | limit_except GET { auth_basic a; auth_basic_user_file b; }
    location | userid ON; userid_mark off; userid_expires 0; userid_service 4294967296; userid_domain ""; userid_name "";
    location | userid_flags off secure;
    location | userid_flags samesite=lax samesite=none;
    location | userid_flags secure secure;
    location | userid_flags secure; userid_flags httponly;
    location | userid_flags SECURE; set $uid_reset 1;
    http | secure_link_secret a; server { secure_link $arg_a; location / { secure_link_secret b; if ($uri) { return 403 $secure_link; } } }
    location | modern_browser msie 1.2.3.4.5; modern_browser MSIE ""; modern_browser gecko 1..2; modern_browser opera .5;
    location | modern_browser unlisted; modern_browser unlisted; modern_browser_value a; modern_browser_value $x$y;
    location | ancient_browser "" netscape4; ancient_browser a; ancient_browser_value ""; ancient_browser_value b;
    location | set $msie 1; set $modern_browser 1; set $ancient_browser 1;
    server | secure_link_secret ""; location /x { secure_link_md5 ""; }
    location | auth_delay 1s; if_modified_since before; log_not_found off; log_subrequest on; recursive_error_pages on;
    location | port_in_redirect off; absolute_redirect off; server_name_in_redirect on; server_tokens off; reset_timedout_connection on;
    location | tcp_nodelay off; tcp_nopush on; subrequest_output_buffer_size 8k; max_ranges 5; keepalive_requests 5; keepalive_time 1h;
    location | proxy_pass http://127.0.0.1:1; proxy_redirect default; proxy_redirect a b; proxy_redirect ~* c;
    location | proxy_pass HTTP://127.0.0.1; proxy_method put; proxy_set_body ""; proxy_set_header X "";
    location | proxy_pass http://[::1]:80/x?y; proxy_headers_hash_max_size 64; proxy_headers_hash_bucket_size 32;
    location | proxy_pass http://unix:/tmp/x:/y; proxy_http_version 1.0; proxy_cookie_flags ~x secure samesite=lax;
    location | proxy_pass http://$host$request_uri; if ($arg_a) { proxy_pass http://127.0.0.1:1; } limit_except GET { proxy_pass http://127.0.0.1:2; }
    http | proxy_cookie_domain off; proxy_cookie_path a $host; proxy_redirect off; upstream up { server 127.0.0.1:1; } server { location / { proxy_pass http://up/; location /a { } } }
    http | geo $a { default a; default b; 10.0.0.0/8 x; 10.0.0.0/8 y; 10.0.0.0/8 y; 10.1.1.1/8 z; }
    http | geo $a { delete 10.0.0.0/8; }
    http | geo $a { 10.0.0.0/8 x; delete 10.0.0.0/8; 10.0.0.0/9 y; }
    http | geo $a { proxy 10.0.0.1; ranges;  }
    http | geo $a { proxy_recursive; ranges;  }
    http | geo $a { proxy 10.0.0.1/8; proxy_recursive; proxy_recursive; }
    http | geo $a { proxy ::1/64; }
    http | geo $a { ::1/33 y; ::1/33 z; }
    http | geo $a {default x;} geo $a {default y;}
    http | geo $a { ranges; ranges; delete 10.0.0.0-10.0.0.5; 10.0.0.0-10.0.0.10 x; delete 10.0.0.2-10.0.0.3; delete 10.0.0.0-10.0.0.10; }
    http | geo $a { 0.0.0.0/0 x; default y; ::/0 z; }
    http | geo $a { default y; delete 0.0.0.0/0; delete ::/0; }
    http | geo $a { ranges; default x; default y; }
    http | geo $a { ranges; 127.0.0.0-127.2.0.255 test; delete 127.1.0.0-127.1.255.255; }
    http | geo $a { delete 10.0.0.1/8; }
    http | charset utf-8;
    http | charset off;
    http | charset "";
    http | charset_map koi8-r utf-8 { C0 D18E; 80 E282AC; } charset utf-8; source_charset koi8-r;
    http | charset_types text/css text/css text/html;
    http | charset_map a UTF-8 { C1 D18E; }
    http | charset_map A b { C1 D1; } charset a; source_charset B;
    http | charset a; source_charset a;
    http | split_clients $host $a { 50% x; * y; }
    http | split_clients $host $a { 50% x; 50% y; * z; }
    http | split_clients $host $a { 50% x; }
    http | split_clients $host $a { 0.5% x; * y; }
    http | split_clients $host $a { 0.55% x; * y; }
    http | split_clients $host $a { .5% x; * y; }
    http | split_clients $host $a { 5.% x; * y; }
    http | split_clients $host $a { * x; * y; }
    http | split_clients $host $a { 100% x; }
    http | split_clients $host $a { 99.99% x; 0.01% y; * z; }
    http | split_clients $host $a { 5% $host; * $uri; }
    http | split_clients $host $a { 5% $nosuch; }
    http | split_clients $host $a { }
    http | server { valid_referers none blocked server_names; }
    http | server { valid_referers ~a ~a; }
    http | server { valid_referers /x; }
    http | server { valid_referers http://a.b/; }
    http | server { valid_referers a.b:80; }
    http | server { valid_referers *.a.b/x; }
    http | server { valid_referers $host; }
    http | server { referer_hash_max_size 1; referer_hash_bucket_size 1; valid_referers a.b; }
    http | server { referer_hash_max_size 0; }
    http | server { location / { set $x $invalid_referer; } }
    # groups of stream
    stream | server { listen 127.0.0.1:@PORT@; return x; proxy_pass 127.0.0.1:1; }
    stream | proxy_downstream_buffer 4k; server { listen 127.0.0.1:@PORT@; return x; }
    stream | upstream a { server 127.0.0.1:1; server [::1]:1 weight=2 max_fails=0 fail_timeout=1s max_conns=3; server unix:/s backup down; }
    stream | upstream a { server 127.0.0.1:1; least_conn; random; hash $remote_addr consistent; }
    stream | upstream a { server 127.0.0.1:1; random two least_conn; zone z 64k; } upstream b { server 127.0.0.1:1; zone z; }
    stream | upstream a { server 127.0.0.1:1; }\n}\nhttp {\n    upstream a { server 127.0.0.1:1; }
    stream | upstream a { hash $remote_addr$server_port; server 127.0.0.1:1; } server { listen 127.0.0.1:@PORT@; return x; }
    stream | upstream a { server nosuch.invalid:1; }
    => ok -- it is asked for again while the service runs
    stream | upstream a { server 127.0.0.1:1 slow_start=1s; }
    => ok -- nginx Plus has it
    stream | resolver 127.0.0.1; upstream a { zone z 64k; server localhost:1 resolve; server localhost service=http resolve; }
    => ok -- since 1.27.3
    stream | upstream a { least_time connect; server 127.0.0.1:1; } upstream b { least_time first_byte inflight; server 127.0.0.1:1; } upstream c { random two least_time=last_byte; server 127.0.0.1:1; }
    => ok -- since 1.31.0
    stream | match m { send "a\\x0d\\x0a"; expect ~* "^2"; } match n { expect 220; }
    => ok -- nginx Plus has it
"""


def parse(text):
    """Gives [(level, text of the level, expectation or None)]."""
    rows = []
    for line in text.strip("\n").split("\n"):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        if line.startswith("=> "):
            expect, _, reason = line[3:].partition(" -- ")
            assert reason, line
            rows[-1][2] = expect.strip()
        else:
            level, _, body = line.partition(" |")
            rows.append([level.strip(), body.strip(), None])
    return rows


def whole(level, body):
    """The whole file of a row."""
    return WRAP[level] % body.replace("\\n\n", "\n") if level != "file" else body
