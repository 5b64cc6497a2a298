"""auto/install: what lands where, and what is never overwritten."""

import os
import subprocess

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "../.."))


def install(tmp_path, **paths):
    program = tmp_path / "program"
    program.write_text("new")
    module = tmp_path / "ngx_http_hello_module.so"
    module.write_text("object")
    places = {"DESTDIR": str(tmp_path / "dest"), "PREFIX": "/opt/web", "SBIN_PATH": "sbin/nginx",
              "CONF_PATH": "conf/nginx.conf", "MODULES_PATH": "modules", "PID_PATH": "run/nginx.pid",
              "ERROR_LOG_PATH": "logs/error.log", "HTTP_LOG_PATH": "/var/log/web/access.log"}
    places.update(paths)
    return subprocess.run(["auto/install", str(program), str(module)], cwd=ROOT,
                          env={**os.environ, **places}, capture_output=True, text=True)


def test_everything_lands_below_destdir(tmp_path):
    assert install(tmp_path).returncode == 0
    top = tmp_path / "dest/opt/web"
    for name in ("sbin/nginx", "conf/nginx.conf", "conf/nginx.conf.default", "conf/mime.types",
                 "conf/fastcgi_params.default", "html/index.html", "html/50x.html", "logs", "run",
                 "modules/ngx_http_hello_module.so"):
        assert (top / name).exists(), name
    assert os.access(top / "sbin/resty", os.X_OK)
    assert (top / "share/doc/portunus" / "README.md").exists()
    assert (tmp_path / "dest/var/log/web").is_dir()


def test_a_second_time_keeps_the_configuration_and_the_old_program(tmp_path):
    install(tmp_path)
    top = tmp_path / "dest/opt/web"
    for name in ("conf/nginx.conf", "conf/mime.types", "html/index.html", "sbin/nginx"):
        (top / name).write_text("mine")
    assert install(tmp_path).returncode == 0
    for name in ("conf/nginx.conf", "conf/mime.types", "html/index.html", "sbin/nginx.old"):
        assert (top / name).read_text() == "mine", name
    assert (top / "sbin/nginx").read_text() == "new"
    assert "worker_processes" in (top / "conf/nginx.conf.default").read_text()


def test_an_error_log_on_stderr_makes_no_folder(tmp_path):
    assert install(tmp_path, ERROR_LOG_PATH="stderr", HTTP_LOG_PATH="a.log").returncode == 0
    assert not (tmp_path / "dest/opt/web/logs").exists()


def test_an_empty_prefix_needs_destdir(tmp_path):
    done = install(tmp_path, PREFIX="", DESTDIR="")
    assert done.returncode == 1 and "DESTDIR" in done.stderr


def test_what_the_machine_takes_has_the_paths_of_the_installation(tmp_path):
    done = install(tmp_path, PID_PATH="/run/web.pid")
    share = tmp_path / "dest/opt/web/share"
    unit = (share / "portunus/nginx.service").read_text()
    assert "ExecStart=/opt/web/sbin/nginx -g" in unit and "PIDFile=/run/web.pid\n" in unit
    rotate = (share / "portunus/nginx.logrotate").read_text()
    assert "/var/log/web/*.log /opt/web/logs/*.log {" in rotate and "/run/web.pid" in rotate
    welcome = (tmp_path / "dest/opt/web/html/index.html").read_text()
    assert "/opt/web/conf/nginx.conf" in welcome and "/opt/web/share/doc/portunus" in welcome
    page = (share / "man/man8/nginx.8").read_text()
    assert "/opt/web/conf/nginx.conf" in page
    for text in (unit, rotate, page, welcome):
        assert "/usr/local/nginx" not in text
    assert "/opt/web/sbin/nginx -t" in done.stdout
    assert "cp /opt/web/share/portunus/nginx.service /etc/systemd/system/" in done.stdout
