"""realip: whom a trusted proxy speaks for. No line of the frame's log: it would tell other ports."""

from ..engine import Config

# Ports that clients have by themselves are not told; those of tables have three digits.
PORTS = r"""
        map $remote_port $told { default its; "" none; "~^(?<digits>[0-9][0-9][0-9])$" $digits; }
        map $realip_remote_port $old { default its; "" none; "~^(?<digit>[0-9][0-9][0-9])$" $digit; }
        add_header X-Client "$remote_addr $told" always;
        add_header X-Peer "$realip_remote_addr $old" always;
"""

CONFIGS = [
    Config("realip", PORTS + r"""
        server {
            listen 127.0.0.1:@PORT@;
            listen unix:@DIR@/u.sock;
            server_name localhost;
            set_real_ip_from 127.0.0.0/8;
            set_real_ip_from 10.0.0.0/8;
            set_real_ip_from 2001:db8::/32;
            set_real_ip_from unix:;
            location / { empty_gif; }
            location /custom { real_ip_header X-Client-IP; empty_gif; }
            location /custom/recursive { real_ip_header x-client-ip; real_ip_recursive on; empty_gif; }
            location /forwarded { real_ip_header X-Forwarded-For; empty_gif; }
            location /forwarded/recursive { real_ip_header X-Forwarded-For; real_ip_recursive on; empty_gif; }
            location /head { real_ip_header proxy_protocol; empty_gif; }
            location /host { real_ip_header Host; empty_gif; }
            location /empty { real_ip_header ""; empty_gif; }
            location /denied { deny 192.0.2.1; empty_gif; }
            location /allowed { allow 192.0.2.0/24; deny all; empty_gif; }
            location /others { set_real_ip_from 192.0.2.5; empty_gif; }
            location /redirect { error_page 404 /custom; deny 127.0.0.2; real_ip_header X-Client-IP; }
            location /early { return 200 "$remote_addr\n"; }
            location /binary { set $bytes $binary_remote_addr; return 200 "$bytes\n"; }
            location /passed {
                proxy_set_header X-Passed "$proxy_add_x_forwarded_for|$remote_addr|$http_x_forwarded_for";
                proxy_pass http://127.0.0.1:@PORT1@;
            }
            location /unix { proxy_set_header X-Real-IP $http_x_inner; proxy_pass http://unix:@DIR@/u.sock:/early; }
        }
        server { listen 127.0.0.1:@PORT1@; server_name passed; return 200 "$http_x_passed\n"; }
        server {
            listen 127.0.0.1:@PORT2@;
            server_name server;
            set_real_ip_from 127.0.0.1;
            real_ip_header X-Server;
            location / { set_real_ip_from 192.0.2.0/24; real_ip_header X-Place; empty_gif; }
        }
        """, r"""
        GET /a
        GET /a | X-Real-IP: 192.0.2.1
        GET /a | X-Real-IP: 192.0.2.1:123
        GET /a | X-Real-IP: 2001:DB8:0::1
        GET /a | X-Real-IP: [2001:db8::1]:456
        GET /a | X-Real-IP: [2001:db8::1]
        GET /a | X-Real-IP: [192.0.2.1]:456
        GET /a | X-Real-IP: [192.0.2.1]
        GET /a | X-Real-IP: ::ffff:192.0.2.1
        GET /a | X-Real-IP: 127.0.0.1
        GET /a | X-Real-IP: 10.0.0.1
        GET /a | X-Real-IP: 0.0.0.0
        GET /a | X-Real-IP: junk
        GET /a | X-Real-IP:
        GET /a | X-Real-IP: unix:
        GET /a | X-Real-IP: unix:/tmp/x
        GET /a | X-Real-IP: localhost
        GET /a | X-Real-IP: 192.0.2
        GET /a | X-Real-IP: 192.0.2.1:
        GET /a | X-Real-IP: 192.0.2.1:0
        GET /a | X-Real-IP: 192.0.2.1:65536
        GET /a | X-Real-IP: 192.0.2.1:x
        GET /a | X-Real-IP: 192.0.2.1/32
        GET /a | X-Real-IP: [::1
        GET /a | X-Real-IP: ::1%lo
        GET /a | X-Real-IP: 192.0.2.1, 192.0.2.2
        GET /a | X-Real-IP: 192.0.2.1,192.0.2.2:222,
        GET /a | X-Real-IP: 192.0.2.1 192.0.2.2 , ,
        GET /a | X-Real-IP: 192.0.2.1\t192.0.2.2
        GET /a | X-Real-IP: 192.0.2.1, junk
        GET /a | X-Real-IP: junk, 192.0.2.1
        GET /a | X-Real-IP: 192.0.2.1 | X-Real-IP: 192.0.2.2
        GET /a | X-Real-IP: | X-Real-IP: 192.0.2.2
        GET /a | x-real-ip: 192.0.2.1 | X-Forwarded-For: 192.0.2.9
        GET /a | X-Real-IP: 01.2.3.4
        HEAD /a | X-Real-IP: 192.0.2.1
        GET /custom | X-Client-IP: 192.0.2.1 | X-Real-IP: 192.0.2.2
        GET /a | X-Real-IP: 192.0.2.1 && GET /a && GET /a | X-Real-IP: 192.0.2.2 && GET /a | X-Real-IP: junk
        GET /forwarded | X-Forwarded-For: 192.0.2.1
        GET /forwarded | X-Forwarded-For: 192.0.2.1, 10.0.0.1
        GET /forwarded | X-Forwarded-For: 192.0.2.1 | X-Forwarded-For: 192.0.2.2
        GET /forwarded | X-Forwarded-For: 192.0.2.1 | X-Forwarded-For:
        GET /forwarded | X-Forwarded-For: | X-Forwarded-For: 192.0.2.1
        GET /forwarded/recursive | X-Forwarded-For: 192.0.2.1
        GET /forwarded/recursive | X-Forwarded-For: 192.0.2.1:321, 10.0.0.1:123
        GET /forwarded/recursive | X-Forwarded-For: 192.0.2.1, 192.0.2.2, 10.0.0.1, 127.0.0.1
        GET /forwarded/recursive | X-Forwarded-For: 10.0.0.2, 10.0.0.1
        GET /forwarded/recursive | X-Forwarded-For: junk, 10.0.0.1
        GET /forwarded/recursive | X-Forwarded-For: 192.0.2.1, 2001:db8::1, [2001:db8::2]:123
        GET /forwarded/recursive | X-Forwarded-For: 192.0.2.1 | X-Forwarded-For: 10.0.0.2, 10.0.0.1
        GET /forwarded/recursive | X-Forwarded-For: 192.0.2.1, 10.0.0.3 | X-Forwarded-For: 10.0.0.2 | X-Forwarded-For: 10.0.0.1
        GET /forwarded/recursive | X-Forwarded-For: 10.0.0.2 | X-Forwarded-For:
        GET /forwarded/recursive | X-Forwarded-For: 192.0.2.1 | X-Forwarded-For: junk, 10.0.0.1
        GET /custom | X-Client-IP: 192.0.2.1
        GET /custom | x-CLIENT-ip: 192.0.2.1
        GET /custom | X-Client-IP: 192.0.2.1 | X-Client-IP: 192.0.2.2
        GET /custom/recursive | X-Client-IP: 192.0.2.1, 10.0.0.1
        GET /custom/recursive | X-Client-IP: 192.0.2.1 | X-Client-IP: 10.0.0.1
        GET /custom/recursive | X-Client-IP: 10.0.0.1 | X-Client-IP: 192.0.2.1
        GET /head
        GET /host | Host: 192.0.2.7:777
        GET /empty
        GET /denied | X-Real-IP: 192.0.2.1
        GET /denied | X-Real-IP: 192.0.2.2
        GET /denied
        GET /allowed | X-Real-IP: 192.0.2.1
        GET /allowed
        GET /others | X-Real-IP: 192.0.2.1
        GET /redirect | X-Client-IP: 192.0.2.1
        GET /redirect | X-Client-IP: 192.0.2.1 | X-Real-IP: 192.0.2.2
        GET /early | X-Real-IP: 192.0.2.1
        GET /binary | X-Real-IP: 65.66.67.68
        GET /binary | X-Real-IP: 4142:4344:4546:4748:494a:4b4c:4d4e:4f50
        GET /passed | X-Real-IP: 192.0.2.1
        GET /passed | X-Real-IP: 192.0.2.1 | X-Forwarded-For: 192.0.2.8, 192.0.2.9
        GET /passed
        GET /unix | X-Inner: 192.0.2.1
        GET /unix | X-Inner: junk
        GET /a | X-Server: 192.0.2.1 | X-Place: 192.0.2.2 | @PORT2
        GET /a | X-Server: 10.0.0.1 | X-Place: 192.0.2.2 | @PORT2
        GET /a | X-Place: 192.0.2.2 | @PORT2
        GET / | X-Server: 192.0.2.1 | X-Place: junk | @PORT2
        """, plain=True),
]
