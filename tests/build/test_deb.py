"""make deb: what is in the package, and what its scripts do beside Debian's nginx and alone."""

import os
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
    # What the image is made of is what the package brings.
    with open(os.path.join(ROOT, "conf/Dockerfile"), encoding="utf-8") as source:
        image = source.read()
    assert "COPY portunus_*.deb" in image and "/var/log/nginx/access.log" in image


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
    assert "portunus: the configuration above is not taken" in said
    assert "nginx version: nginx/1.31" not in said and "Debian's nginx is in its place again" in said


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
