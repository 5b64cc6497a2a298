"""Files once more: symlinks, open_file_cache, sendfile and its kin, root forms."""

import os

from ..engine import Config


def symlinks(server):
    def link(target, name):
        os.symlink(target, server.path("html", name))
    link("a.txt", "to-file")
    link("sub", "to-dir")
    link("../outside.txt", "to-outside")
    link("nowhere", "dangling")
    link("loop2", "loop1")
    link("loop1", "loop2")
    link("to-file", "to-link")
    link("../a.txt", "sub/up")
    os.symlink(server.path("html"), server.path("rootlink"))
    os.lchown(server.path("html/to-outside"), 65534, 65534)
    for name in ("html/sub", "html"):
        os.utime(server.path(name), (1700000000, 1700000000))


LINKS = """
        GET {0}/a.txt
        GET {0}/to-file
        GET {0}/to-dir/in.txt
        GET {0}/to-dir/
        GET {0}/to-dir
        GET {0}/to-outside
        GET {0}/dangling
        GET {0}/loop1
        GET {0}/to-link
        GET {0}/sub/up
        GET {0}/sub/in.txt
"""

CONFIGS = [
    Config("disable_symlinks", r"""
        server {
            listen 127.0.0.1:@PORT@;
            server_name localhost;
            location /off/ { alias html/; disable_symlinks off; }
            location /on/ { alias html/; disable_symlinks on; }
            location /owner/ { alias html/; disable_symlinks if_not_owner; }
            location /from/ { alias @DIR@/rootlink/; disable_symlinks on from=@DIR@/rootlink; }
            location /onroot/ { alias @DIR@/rootlink/; disable_symlinks on; }
            location /fromvar/ { alias html/; disable_symlinks on from=$document_root; }
            location /fromdir/ { alias html/; disable_symlinks on from=html/to-dir/; }
            location /try/ { root html; disable_symlinks on; try_files /to-file /a.txt =404; }
            location /cached/ { alias html/; disable_symlinks on; open_file_cache max=10; }
        }
        """, "".join(LINKS.format(base) for base in
                     ("/off", "/on", "/owner", "/from", "/onroot", "/fromvar", "/fromdir"))
           + "GET /try/x\nGET /cached/a.txt\nGET /cached/to-file\nGET /cached/to-file\n",
           files={"html/a.txt": "a\n", "html/sub/in.txt": "in\n", "outside.txt": "out\n"},
           prepare=symlinks),

    Config("open_file_cache", r"""
        server {
            listen 127.0.0.1:@PORT@;
            server_name localhost;
            root html;
            open_file_cache max=3 inactive=20s;
            open_file_cache_errors on;
            open_file_cache_valid 30s;
            open_file_cache_min_uses 1;
            location /uses/ { alias html/; open_file_cache_min_uses 3; }
            location /noerrors/ { alias html/; open_file_cache_errors off; }
            location /off/ { alias html/; open_file_cache off; }
            location /index/ { alias html/; index a.txt; }
            location /try/ { root html; try_files /none /a.txt; }
            location /direct/ { alias html/; directio 1; }
            location /send/ { alias html/; sendfile on; tcp_nopush on; }
            location /aio/ { alias html/; aio threads; }
        }
        """, """
        GET /a.txt
        GET /a.txt
        GET /b.txt
        GET /c.txt
        GET /d.txt
        GET /a.txt
        GET /none
        GET /none
        GET /dir
        GET /dir
        GET /dir/
        GET /uses/a.txt
        GET /uses/a.txt
        GET /uses/a.txt
        GET /noerrors/none
        GET /off/a.txt
        GET /index/
        GET /index/
        GET /try/x
        GET /try/x
        GET /direct/a.txt
        GET /send/a.txt
        GET /send/a.txt | Range: bytes=1-1
        GET /aio/a.txt
        HEAD /a.txt
        GET /secret
        GET /secret
        GET /a.txt && GET /b.txt && GET /a.txt && GET /none && GET /a.txt
        """, files={"html/a.txt": "a a a\n", "html/b.txt": "b\n", "html/c.txt": "c\n",
                    "html/d.txt": "d\n", "html/dir/x": "", "html/secret": "s"},
           prepare=lambda server: os.chmod(server.path("html/secret"), 0)),

    Config("big_files", r"""
        server {
            listen 127.0.0.1:@PORT@;
            server_name localhost;
            root html;
            location /send/ { alias html/; sendfile on; }
            location /chunk/ { alias html/; sendfile on; sendfile_max_chunk 4k; }
            location /nopush/ { alias html/; sendfile on; tcp_nopush on; tcp_nodelay off; }
            location /buffers/ { alias html/; output_buffers 1 4k; }
            location /direct/ { alias html/; directio 8k; output_buffers 1 64k; }
            location /threads/ { alias html/; aio threads; }
            location /postpone/ { alias html/; postpone_output 0; }
            location /ahead/ { alias html/; read_ahead 64k; }
        }
        """, "".join("""
        GET {0}/big.bin
        HEAD {0}/big.bin
        GET {0}/big.bin | Range: bytes=1000-250000
        GET {0}/big.bin | Range: bytes=0-9,100000-200000,-100
        GET {0}/small.bin && GET {0}/big.bin && GET {0}/small.bin
        """.format(base) for base in ("", "/send", "/chunk", "/nopush", "/buffers", "/direct",
                                      "/threads", "/postpone", "/ahead")),
           files={"html/big.bin": bytes(number * 7 % 251 for number in range(300007)),
                  "html/small.bin": "small"}),
]
