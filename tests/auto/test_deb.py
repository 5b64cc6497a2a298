"""make deb: what is in the package, and what its scripts do beside Debian's nginx and alone."""

import json
import os
import re
import shlex
import subprocess

import pytest

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "../.."))
BASE = "objs"

# A machine of its own: all that is written is gone afterwards, and what was started ends with it.
BOX = """
set -e
mount --make-rprivate /
mount -t tmpfs none /mnt
mkdir /mnt/upper /mnt/work /mnt/root
mount -t overlay none -o lowerdir=/,upperdir=/mnt/upper,workdir=/mnt/work /mnt/root
mount -t proc none /mnt/root/proc
mount --bind /dev /mnt/root/dev
mount -t tmpfs none /mnt/root/run
mkdir /mnt/root/run/lock
mount --bind "$1" /mnt/root/mnt
ip link set lo up
exec chroot /mnt/root sh -ec "$2"
"""

# A site whose program tells its name, in the place of Debian's configuration.
SITE = """
rm -rf /etc/nginx/modules-enabled /etc/nginx/sites-enabled
cat > /etc/nginx/nginx.conf << END
pid /run/nginx.pid;
error_log /var/log/nginx/error.log;
events { }
http { access_log off; server { listen 127.0.0.1:80; root /var/www/html; location = /who { return 200 served; } } }
END
"""

# Who serves: the program behind the pid file, which may be another's for a moment.
WHO = 'who() { readlink /proc/$(cat /run/nginx.pid)/exe; curl -s http://127.0.0.1/who; echo; }\n'


@pytest.fixture(scope="module", name="deb")
def _deb(tmp_path_factory):
    if not os.path.exists(os.path.join(ROOT, BASE, "flags")):
        pytest.skip("nothing is built in " + BASE)
    folder = str(tmp_path_factory.mktemp("deb"))
    done = subprocess.run(["auto/deb", BASE, folder], cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()[-1]


def boxed(deb, script):
    """Runs shell in a copy of this machine, where the package is /mnt/*.deb; gives what it said."""
    if os.getuid() != 0:
        pytest.skip("needs root, to make namespaces")
    command = ["unshare", "-m", "-n", "-p", "-f", "--kill-child", "sh", "-c", BOX, "sh", os.path.dirname(deb)]
    if subprocess.run(command + [":"], capture_output=True, check=False).returncode != 0:
        pytest.skip("no overlay of the file system can be made here")
    done = subprocess.run(command + ["exec 2>&1\nexport DEBIAN_FRONTEND=noninteractive\n" + WHO + script],
                          capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_contents(deb, tmp_path):
    fields = subprocess.run(["dpkg-deb", "-f", deb], capture_output=True, text=True, check=True).stdout
    assert "Package: portunus\n" in fields and "libpcre2-8-0" in fields and "libc6 (>= 2." in fields
    subprocess.run(["dpkg-deb", "-R", deb, str(tmp_path)], check=True)
    program = subprocess.run([str(tmp_path / "usr/sbin/nginx"), "-V"], capture_output=True, text=True, check=True).stderr
    for path in ("--conf-path=/etc/nginx/nginx.conf", "--pid-path=/run/nginx.pid", "--user=www-data"):
        assert path in program
    unit = (tmp_path / "lib/systemd/system/nginx.service").read_text()
    assert "ExecStart=/usr/sbin/nginx -g" in unit and "PIDFile=/run/nginx.pid\n" in unit
    assert "/usr/local" not in unit + (tmp_path / "usr/share/portunus/nginx.logrotate").read_text()
    assert not (tmp_path / "etc").exists(), "conffiles of Debian's nginx would be in the way"
    assert "Provides: nginx (= 1.31." in fields and "httpd" in fields
    recommends = re.search(r"(?m)^Recommends: (.*)$", fields).group(1).split(", ")
    assert "libgd3" in recommends or not (tmp_path / "usr/lib/portunus/modules/ngx_http_image_filter_module.so").exists()
    depends = re.search(r"(?m)^Depends: (.*)$", fields).group(1)
    assert "libgd3" not in depends and not [name for name in recommends if " %s," % name in " %s," % depends]
    for name in ("proxy_params", "snippets/fastcgi-php.conf"):
        assert (tmp_path / "usr/share/portunus" / name).exists()
    assert (tmp_path / "usr/share/doc/portunus/recipes/wordpress.conf").exists()
    assert os.access(tmp_path / "usr/sbin/resty", os.X_OK)
    welcome = (tmp_path / "usr/share/portunus/html/index.html").read_text()
    for path in ("/etc/nginx/nginx.conf", "/var/log/nginx/*.log", "/usr/share/doc/portunus</code>"):
        assert "<code>" + path in welcome


def test_beside_nginx(deb):
    """It takes over from a running nginx, keeps its configuration, and gives everything back."""
    if not os.path.exists("/etc/nginx/nginx.conf") or not os.path.exists("/usr/sbin/nginx"):
        pytest.skip("Debian's nginx is not installed")
    said = boxed(deb, SITE + """
        md5sum /etc/nginx/* > /tmp/before 2> /dev/null || true
        /usr/sbin/nginx; echo "1 $(who)"  # as units start it: by its full name, by which it can be started anew
        dpkg --no-triggers -i /mnt/*.deb; echo "2 $(who)"
        test -f /usr/sbin/nginx.distrib; test -f /lib/systemd/system/nginx.service.distrib
        md5sum -c --quiet /tmp/before
        echo nonsense >> /etc/nginx/nginx.conf
        dpkg --no-triggers -i /mnt/*.deb; echo "3 $(who)"
        md5sum /etc/nginx/* > /tmp/before 2> /dev/null || true
        dpkg --no-triggers -r portunus
        nginx -v; dpkg --no-triggers -P portunus
        md5sum -c --quiet /tmp/before
        ! ls /usr/sbin/nginx.distrib /var/lib/portunus
        """)
    one, two, three = (said.split("\n%d " % n if n > 1 else "1 ")[1].split("\n")[:2] for n in (1, 2, 3))
    assert one == ["/usr/sbin/nginx", "served"]
    assert two == ["/usr/sbin/nginx", "served"]
    assert three == ["/usr/sbin/nginx (deleted)", "served"], "a broken configuration must not end what runs"
    assert 'unknown directive "nonsense"' in said or "unexpected end of file" in said
    assert "portunus: the configuration has the errors above; the running server was not changed" in said
    assert "nginx version: nginx/1.31" not in said and "Debian's nginx is restored" in said


def test_alone(deb):
    """Without a configuration it brings one that works; a purge takes back what nobody has changed."""
    said = boxed(deb, """
        rm -rf /etc/nginx /etc/logrotate.d/nginx /usr/sbin/nginx /lib/systemd/system/nginx.service /var/www/html
        dpkg --no-triggers -i /mnt/*.deb
        nginx; curl -s http://127.0.0.1/ | grep -c '<title>'; nginx -s quit
        test -f /etc/logrotate.d/nginx
        echo '# mine' >> /etc/nginx/mime.types
        rm /etc/nginx/uwsgi_params
        dpkg --no-triggers -i /mnt/*.deb
        ! ls /etc/nginx/uwsgi_params
        dpkg --no-triggers -P portunus
        echo left: $(ls /etc/nginx)
        ! ls /etc/logrotate.d/nginx /usr/sbin/nginx
        """)
    assert "\n1\n" in said and "\nleft: mime.types\n" in said


def needs_nginx():
    if not os.path.exists("/etc/nginx/nginx.conf") or not os.path.exists("/usr/sbin/nginx"):
        pytest.skip("Debian's nginx is not installed")


def test_modules_of_nginx_and_ours(deb):
    """After nginx-extras nothing is said of its modules, and load_module as the manual has it means ours, with and without."""
    needs_nginx()
    if not os.path.exists(os.path.join(ROOT, BASE, "ngx_http_image_filter_module.so")):
        pytest.skip("no loadable module is built")
    said = boxed(deb, """
        dpkg --no-triggers -i /mnt/*.deb > /dev/null 2>&1
        echo "quiet: $(nginx -t -q 2>&1)."
        cat > /tmp/modules.conf << END
load_module modules/ngx_http_image_filter_module.so;
events { }
http { server { listen unix:/run/s; location / { image_filter off; } } }
END
        nginx -t -q -c /tmp/modules.conf; echo "beside: $?"
        rm -f /usr/share/nginx/modules
        nginx -t -q -c /tmp/modules.conf; echo "alone: $?"
        """)
    assert "quiet: .\n" in said and "beside: 0\n" in said and "alone: 0\n" in said, said


# A repository for apt in /srv/repository, and none beside it; add VERSION makes a package of that version.
REPOSITORY = """
mkdir -p /srv/repository
rm -rf /etc/apt/sources.list.d /etc/apt/sources.list /var/lib/apt/lists/*
echo 'deb [trusted=yes] file:/srv/repository ./' > /etc/apt/sources.list
echo 'APT::Sandbox::User "root";' > /etc/apt/apt.conf.d/box

list() {
    for file in /srv/repository/*.deb; do
        dpkg-deb -f "$file"
        printf 'Filename: ./%s\nSize: %s\nSHA256: %s\n\n' "${file##*/}" "$(stat -c %s "$file")" "$(sha256sum "$file" | cut -d ' ' -f 1)"
    done > /srv/repository/Packages
    apt-get -q update
}

add() {
    dpkg-deb -R /mnt/*.deb /tmp/package
    sed -i "s/^Version: .*/Version: $1/" /tmp/package/DEBIAN/control
    dpkg-deb -Znone --build /tmp/package "/srv/repository/portunus_$1.deb"
    rm -rf /tmp/package
}

# In the place of certbot's plugin: what depends on nginx.
mkdir -p /tmp/plugin/DEBIAN
printf 'Package: python3-certbot-nginx\nVersion: 2.1.0\nArchitecture: all\nMaintainer: nobody\nDepends: nginx\nDescription: stand-in\n' > /tmp/plugin/DEBIAN/control
dpkg-deb --build /tmp/plugin /srv/repository/python3-certbot-nginx.deb
"""


def test_apt(deb):
    """Installed from a repository where no nginx is, upgraded while it serves, and removed, with what needs an nginx beside it."""
    said = boxed(deb, REPOSITORY + """
        packages=$(dpkg-query -W -f '${Package} ${db:Status-Abbrev}\n' 'nginx*' 'libnginx-mod-*' 'python3-certbot-nginx' 2> /dev/null | sed -n 's/ ii.*//p')
        [ -z "$packages" ] || apt-get -q -y purge $packages
        rm -rf /etc/nginx /usr/sbin/nginx /lib/systemd/system/nginx.service /var/www/html
        add 9.0.1; list
        apt-get -q -y --no-install-recommends install python3-certbot-nginx portunus
        echo "installed: $(dpkg-query -W -f '${Package} ${Version} ${db:Status-Abbrev};' portunus python3-certbot-nginx)"
        echo "nginx of Debian: $(dpkg-query -W -f '${db:Status-Abbrev}' nginx nginx-common 2> /dev/null | grep -c ii)"
        sed 's|listen 80 .*|listen 127.0.0.1:80; location = /who { return 200 served; }|; /::/d' -i /etc/nginx/sites-available/default
        cat > /etc/nginx/conf.d/php.conf << 'END'
server { listen unix:/run/php; root /var/www; location / { include proxy_params; proxy_pass http://127.0.0.1:1; }
         location ~ [.]php { include snippets/fastcgi-php.conf; fastcgi_pass unix:/run/none; } }
END
        /usr/sbin/nginx -t -q
        /usr/sbin/nginx; echo "1 $(who)"
        add 9.0.2; list
        apt-get -q -y install --only-upgrade portunus
        echo "upgraded: $(dpkg-query -W -f '${Version}' portunus)"; echo "2 $(who)"
        apt-get -q -y purge portunus
        for _ in 1 2 3 4 5 6 7 8 9 10; do curl -s http://127.0.0.1/who || break; sleep 0.5; done
        echo "left: $(ls /usr/sbin/nginx /var/lib/portunus /lib/systemd/system/nginx.service 2> /dev/null) $(dpkg-query -W -f '${db:Status-Abbrev}' python3-certbot-nginx)"
        """)
    assert "installed: portunus 9.0.1 ii ;python3-certbot-nginx 2.1.0 ii ;\n" in said, said
    assert "nginx of Debian: 0\n" in said and "upgraded: 9.0.2\n" in said
    assert "\n1 /usr/sbin/nginx\nserved\n" in said and "\n2 /usr/sbin/nginx\nserved\n" in said
    assert re.search(r"\nleft:  (?!ii)", said), said


# ---- the image

def stages():
    """Of conf/Dockerfile: stage: its instructions, as pairs of word and text."""
    with open(os.path.join(ROOT, "conf/Dockerfile"), encoding="utf-8") as source:
        lines = re.sub(r"\\\n", " ", re.sub(r"(?m)^#.*\n", "", source.read())).splitlines()
    found, name = {}, None
    for word, text in (line.split(None, 1) for line in lines if line.strip()):
        if word == "FROM":
            name = text.split(" AS ")[1] if " AS " in text else "last"
        found.setdefault(name, []).append((word, text.strip()))
    return found


def commands(stage, kind="RUN"):
    return [text for word, text in stages()[stage] if word == kind]


def test_image_is_built_from_source():
    found = stages()
    assert list(found) == ["build", "base", "unprivileged", "last"]
    assert commands("build") == ["auto/deps", "make deb"] and os.access(os.path.join(ROOT, "auto/deps"), os.X_OK)
    assert ("EXPOSE", "80 443 443/udp") in found["last"] and commands("base", "HEALTHCHECK")
    for stage in found:
        for text in commands(stage):
            assert subprocess.run(["sh", "-n", "-c", text], check=False).returncode == 0
    with open(os.path.join(ROOT, ".dockerignore"), encoding="utf-8") as ignored:
        assert "objs*\n" in ignored


@pytest.mark.parametrize("stage, port", [("base", 80), ("unprivileged", 8080)])
def test_image(deb, stage, port):
    """What its instructions make of a machine without nginx: it serves, is healthy, and stops by SIGQUIT."""
    made = commands("base") + (commands("unprivileged") if stage != "base" else [])
    made = [text for command in made for text in re.split(r"\s+&&\s+", command) if not text.startswith(("apt-get", "rm -rf"))]
    health = json.loads(commands("base", "HEALTHCHECK")[0].split("CMD", 1)[1])
    start = " ".join(shlex.quote(word) for word in json.loads(commands("base", "CMD")[0]))
    user = "setpriv --reuid=www-data --regid=www-data --clear-groups --bounding-set=-all --no-new-privs" if stage != "base" else ""
    said = boxed(deb, """
        rm -rf /etc/nginx /usr/sbin/nginx /lib/systemd/system/nginx.service /var/www/html
        dpkg --no-triggers -i /mnt/*.deb > /dev/null 2>&1
        %s
        chmod 1777 /tmp; chown www-data /dev/stdout /dev/stderr  # as containers are given them
        export HEALTH_PORT=%d
        ! %s
        %s %s & nginx=$!
        for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do %s 2> /dev/null && break; sleep 0.5; done
        %s && echo healthy
        curl -s -o /dev/null -w 'status %%{http_code}\\n' http://127.0.0.1:%d/
        kill -QUIT $nginx; wait $nginx; echo "ended $?"
        """ % ("\n".join(made), port, shlex.join(health), user, start, shlex.join(health), shlex.join(health), port))
    assert "\nhealthy\n" in said and "status 200\n" in said and "\nended 0\n" in said, said
    assert '"GET / HTTP/1.1" 200' in said, "the access log goes to the output"
