"""configure: what it writes, what it refuses, and a module from elsewhere."""

import os
import re
import shlex
import subprocess

import pytest

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "../.."))


@pytest.fixture
def configure(tmp_path):
    """Runs configure with its build directory below tmp_path; gives status, text and the files."""

    def run(*arguments):
        build = tmp_path / "objs"
        done = subprocess.run(["./configure", "--builddir=%s" % build, *arguments], cwd=ROOT,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

        def read(name):
            return (build / name).read_text()

        return done.returncode, done.stdout, read

    return run


def defined(header, name):
    return re.search(r'^#define %s "(.*)"$' % name, header, re.M).group(1)


def table(name):
    with open(os.path.join(ROOT, "auto", name), encoding="utf-8") as rows:
        return [row.split() for row in rows if row.strip() and not row.startswith("#")]


def test_defaults(configure):
    status, text, read = configure()
    assert status == 0, text
    header = read("config.h")
    assert defined(header, "DEFAULT_PREFIX") == "/usr/local/nginx/"
    assert defined(header, "DEFAULT_CONF_PATH") == "conf/nginx.conf"
    assert defined(header, "DEFAULT_USER") == "nobody"
    assert "#define HAVE_PCRE2 1" in header
    registry = read("modules.c")
    assert "&ngx_core_module," in registry
    assert registry.index("&ngx_core_module,") < registry.index("&ngx_http_core_module,")


def test_paths_and_empty_prefix(configure):
    status, text, read = configure("--prefix=", "--conf-path=/etc/nginx/nginx.conf", "--user=web")
    assert status == 0, text
    header = read("config.h")
    assert defined(header, "DEFAULT_PREFIX") == ""
    assert defined(header, "DEFAULT_CONF_PATH") == "/etc/nginx/nginx.conf"
    assert defined(header, "DEFAULT_GROUP") == "web"


def objects_of(read):
    """The modules that are loadable objects wherever their library is, as far as that is here."""
    shared = re.search(r"SHARED_MODULES = ?(.*)\n", read("config.mk")).group(1).split()
    return [row[0] for row in table("modules") if row[2] == "object" and row[0] in shared]


def told_of(read):
    """What -V says of modules that nobody asked for."""
    objects = objects_of(read)
    return ["--with-" + row[1].split(",")[0] + ("=dynamic" if row[0] in objects else "")
            for row in table("modules") if row[2] == "with" or row[0] in objects]


def test_arguments_are_kept_as_V_prints_them(configure):
    status, text, read = configure("--with-cc-opt=-g -DX='\"y\"'", "--build=one two")
    assert status == 0, text
    shown = defined(read("config.h"), "CONFIGURE_ARGUMENTS").replace('\\"', '"')
    # As given, and then what nginx would have to be asked for.
    told = [" " + word for word in told_of(read)]
    assert " --with-http_realip_module" in told and "--without" not in shown
    assert shown.endswith(" --with-cc-opt='-g -DX='\"y\"'' --build='one two'" + "".join(told)
                          + " --with-threads --with-file-aio")
    # The script that make runs when configure has changed says the same again.
    before = read("config.h")
    subprocess.run([re.search(r"--builddir=([^' ]+)", read("reconfigure")).group(1)
                    + "/reconfigure"], check=True, stdout=subprocess.DEVNULL)
    assert read("config.h") == before


@pytest.mark.parametrize("argument", ["--frobnicate", "--with-http_nosuch_module", "plain",
                                      "--with-debug=yes", "--without-http_map_module=shared"])
def test_unknown_options_are_refused(configure, argument):
    status, text, _ = configure(argument)
    assert status == 1
    assert text.splitlines()[0] == 'configure: error: invalid option "%s"' % argument
    assert configure("--skip-missing", argument)[0] == 1


def test_every_later_option_is_named(configure):
    later = [row[0] for row in table("options") if row[1] == "later"]
    later += ["--with-" + stem for row in table("modules") if row[2] == "later"
              for stem in row[1].split(",")]
    assert later
    later += ["--with-http_tfs_module=shared", "--with-openssl=/usr/src/openssl"]
    status, text, _ = configure(*later)
    assert status == 1
    lines = text.splitlines()
    assert lines[:-1] == ['configure: error: the option "%s" is not in Portunus%s' % (option, ", on purpose" if "perl" in option else " yet")
                          for option in later]
    assert "--skip-missing" in lines[-1]
    status, text, read = configure("--skip-missing", *later)
    assert status == 0
    assert "warning: not in Portunus yet, left out: %s" % " ".join(later) in text
    assert not set(later) & set(defined(read("config.h"), "CONFIGURE_ARGUMENTS").split())


# Of `nginx -V` on Debian 12.
DEBIAN = """--with-cc-opt='-g -O2 -ffile-prefix-map=/build/reproducible-path/nginx-1.22.1=. -fstack-protector-strong -Wformat
 -Werror=format-security -fPIC -Wdate-time -D_FORTIFY_SOURCE=2' --with-ld-opt='-Wl,-z,relro -Wl,-z,now -fPIC'
 --prefix=/usr/share/nginx --conf-path=/etc/nginx/nginx.conf --http-log-path=/var/log/nginx/access.log --error-log-path=stderr
 --lock-path=/var/lock/nginx.lock --pid-path=/run/nginx.pid --modules-path=/usr/lib/nginx/modules
 --http-client-body-temp-path=/var/lib/nginx/body --http-fastcgi-temp-path=/var/lib/nginx/fastcgi
 --http-proxy-temp-path=/var/lib/nginx/proxy --http-scgi-temp-path=/var/lib/nginx/scgi
 --http-uwsgi-temp-path=/var/lib/nginx/uwsgi --with-compat --with-debug --with-pcre-jit --with-http_ssl_module
 --with-http_stub_status_module --with-http_realip_module --with-http_auth_request_module --with-http_v2_module
 --with-http_dav_module --with-http_slice_module --with-threads --with-http_addition_module --with-http_flv_module
 --with-http_gunzip_module --with-http_gzip_static_module --with-http_mp4_module --with-http_random_index_module
 --with-http_secure_link_module --with-http_sub_module --with-mail_ssl_module --with-stream_ssl_module
 --with-stream_ssl_preread_module --with-stream_realip_module --with-http_geoip_module=dynamic
 --with-http_image_filter_module=dynamic --with-http_perl_module=dynamic --with-http_xslt_module=dynamic
 --with-mail=dynamic --with-stream=dynamic --with-stream_geoip_module=dynamic"""


def test_arguments_of_debian(configure):
    status, text, _ = configure("--skip-missing", *shlex.split(DEBIAN.replace("\n", "")))
    assert status == 0, text
    assert "configure: error" not in text
    last = text.split("Next:\n")[1].splitlines()
    assert len(last) == 3 and " install " in last[1] and "/usr/share/nginx/sbin/nginx -t" in last[2]


def test_what_is_not_built_may_be_left_out(configure):
    status, text, _ = configure("--without-http_proxy_module", "--without-mail_pop3_module",
                                "--without-http-cache", "--without-poll_module")
    assert status == 0, text


def test_what_was_asked_for_is_told_once(configure):
    told = ["--with-" + row[1].split(",")[0] for row in table("modules") if row[2] == "with"]
    status, text, read = configure(*told, "--with-threads")
    assert status == 0, text
    shown = defined(read("config.h"), "CONFIGURE_ARGUMENTS")
    objects = [word for word in told_of(read) if word.endswith("=dynamic")]
    assert shown.split()[1:] == told + ["--with-threads"] + objects + ["--with-file-aio"]


def test_a_value_is_needed(configure):
    assert configure("--conf-path")[0] == 1
    assert configure("--conf-path=")[0] == 1
    assert configure("--add-module=/nonexistent")[0] == 1
    assert configure("--dso-max-modules=many")[0] == 1


def test_a_path_that_would_break_the_build_is_refused(configure):
    status, text, _ = configure('--pid-path=/run/$(reboot)"x')
    assert status == 1
    assert "cannot be used" in text


def test_modules_left_out_and_shared(configure):
    status, text, read = configure("--without-http_map_module", "--with-http_empty_gif_module=shared")
    assert status == 0, text
    registry = read("modules.c")
    assert "&ngx_http_map_module" not in registry
    assert "&ngx_http_empty_gif_module" not in registry
    shared = ["ngx_http_empty_gif_module"] + objects_of(read)
    loadable = "".join('    "%s",\n' % row[0] for row in table("modules") if row[0] in shared)
    assert "loadable_modules[] = {\n%s    NULL,\n};\n" % loadable in registry
    assert 'omitted_modules[] = {\n    "ngx_http_map_module",\n    NULL,\n};\n' in registry
    words = re.search(r"SHARED_MODULES = (.*)\n", read("config.mk")).group(1).split()
    assert sorted(words) == sorted(shared)


@pytest.mark.parametrize("argument, is_there", [("--with-http_dyups_lua_api", True), ("--without-http_dyups_lua_api", False)])
def test_whether_scripts_change_groups(configure, argument, is_there):
    status, text, read = configure(argument)
    assert status == 0, text
    assert ("#define WITH_DYUPS_LUA_API 1" in read("config.h")) == is_there


def test_without_http_no_http_module_is_linked(configure):
    status, text, read = configure("--without-http")
    assert status == 0, text
    assert "&ngx_http" not in read("modules.c")
    assert "WITH_HTTP" not in read("config.h")


def test_a_module_from_elsewhere_is_registered(configure, tmp_path):
    addon = tmp_path / "hello"
    addon.mkdir()
    (addon / "config").write_text("module_name=ngx_http_hello_module\nmodule_sources=hello.c\n")
    (addon / "hello.c").write_text("/* nothing */\n")
    status, text, read = configure("--add-module=%s" % addon)
    assert status == 0, text
    assert "&ngx_http_hello_module," in read("modules.c")
    (addon / "hello.c").unlink()
    status, text, _ = configure("--add-module=%s" % addon)
    assert status == 1 and "hello.c, which is not there" in text


@pytest.mark.parametrize("name, text, said", [
    ("ngx_http_headers_more_filter_module", 'if test -n "$ngx_module_link"; then\n ngx_module_type=HTTP\n . auto/module\nfi\n',
     "ngx_http_headers_more_filter_module is in Portunus already, leave the option out"),
    ("ngx_http_shop_module", 'HTTP_MODULES="$HTTP_MODULES ngx_http_shop_module"\nNGX_ADDON_SRCS="$NGX_ADDON_SRCS $ngx_addon_dir/m.c"\n', "is a module for nginx"),
])
@pytest.mark.parametrize("option", ["--add-module", "--add-dynamic-module"])
def test_a_module_for_nginx_is_refused_in_one_line(configure, tmp_path, name, text, said, option):
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs/config").write_text("ngx_addon_name=%s\n%s" % (name, text))
    words = "%s=%s/theirs" % (option, tmp_path)
    status, told, _ = configure(words)
    lines = told.splitlines()
    assert status == 1 and lines[0].startswith('configure: error: "%s"' % words) and said in lines[0]
    assert len(lines) == 2 and "--skip-missing" in lines[1]
    status, told, _ = configure("--skip-missing", words)
    assert status == 0 and "left out: " + words in told


def luajit():
    """Folders of LuaJIT's headers and library, as its packages say."""
    def ask(word):
        return subprocess.run(["pkg-config", "--variable=" + word, "luajit"], capture_output=True, text=True, check=False).stdout.strip()
    if not ask("includedir"):
        pytest.skip("LuaJIT is not here")
    return ask("includedir"), ask("libdir")


def test_where_luajit_is(configure, tmp_path):
    headers, library = luajit()
    moved = tmp_path / "headers"
    moved.symlink_to(headers)
    status, text, read = configure("--with-luajit-inc=%s" % moved, "--with-luajit-lib=%s" % library, "--dso-tool-path=/usr/sbin/dso_tool")
    assert status == 0, text
    assert "-I%s" % moved in read("config.mk") and "-L%s" % library in read("config.mk")
    assert "#define HAVE_LUAJIT 1" in read("config.h")
    status, text, _ = configure("--with-luajit-inc=/nonexistent")
    assert status == 1 and text.splitlines()[-1].startswith("configure: error: LuaJIT is asked for but was not found")


def test_flags_of_debian_make_no_warnings(configure):
    """dpkg-buildflags name a level of fortification, too."""
    status, text, read = configure("--with-cc-opt=-g -O2 -fstack-protector-strong -Wformat -Werror=format-security -Wdate-time -D_FORTIFY_SOURCE=2")
    assert status == 0, text
    assert re.findall(r"-D_FORTIFY_SOURCE=\d", read("config.mk")) == ["-D_FORTIFY_SOURCE=2"]
    build = re.search(r"--builddir=([^' ]+)", read("reconfigure")).group(1)
    for words in [], ["CFLAGS=-D_FORTIFY_SOURCE=1"]:
        done = subprocess.run(["make", "-B", "BUILD=" + build, build + "/base/str.o", *words], cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0 and "warning" not in done.stdout + done.stderr, done.stdout + done.stderr


def test_tables_name_nothing_twice():
    options = [row[0] for row in table("options")]
    assert len(options) == len(set(options))
    modules = [row[0] for row in table("modules")]
    assert len(modules) == len(set(modules))
    assert all(len(row) == 4 for row in table("modules"))
    stems = [stem for row in table("modules") if row[1] != "-" for stem in row[1].split(",")]
    assert len(stems) == len(set(stems))
