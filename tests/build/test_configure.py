"""configure: what it writes, what it refuses, and a module from elsewhere."""

import os
import re
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


def test_arguments_are_kept_as_V_prints_them(configure):
    status, text, read = configure("--with-cc-opt=-g -DX='\"y\"'", "--build=one two")
    assert status == 0, text
    shown = defined(read("config.h"), "CONFIGURE_ARGUMENTS").replace('\\"', '"')
    # As given, and then what nginx would have and this build has not.
    missing = [" --without-" + row[1].split(",")[0] for row in table("modules")
               if row[2] == "missing"]
    assert shown.endswith(" --with-cc-opt='-g -DX='\"y\"'' --build='one two'" + "".join(missing))
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
    assert text.splitlines()[-1] == 'configure: error: invalid option "%s"' % argument


def test_every_later_option_is_named(configure):
    later = [row[0] for row in table("options") if row[1] == "later"]
    later += ["--with-" + stem for row in table("modules") if row[2] == "later"
              for stem in row[1].split(",")]
    assert later
    for option in later[::7] + ["--with-http_lua_module=shared", "--with-mail=dynamic",
                                "--with-openssl=/usr/src/openssl"]:
        status, text, _ = configure(option)
        assert status == 1, option
        assert text == 'configure: error: the option "%s" is not built yet\n' % option


def test_what_is_not_built_may_be_left_out(configure):
    status, text, _ = configure("--without-http_proxy_module", "--without-mail_pop3_module",
                                "--without-http-cache", "--without-poll_module")
    assert status == 0, text


def test_what_was_left_out_by_hand_is_told_once(configure):
    missing = [row[1].split(",")[0] for row in table("modules") if row[2] == "missing"]
    status, text, read = configure(*["--without-" + stem for stem in missing])
    assert status == 0, text
    shown = defined(read("config.h"), "CONFIGURE_ARGUMENTS")
    assert shown.split()[1:] == ["--without-" + stem for stem in missing]


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
    assert "ngx_http_map_module" not in registry
    assert "&ngx_http_empty_gif_module" not in registry
    assert registry.endswith('loadable_modules[] = {\n    "ngx_http_empty_gif_module",\n'
                             "    NULL,\n};\n")
    assert "SHARED_MODULES = ngx_http_empty_gif_module\n" in read("config.mk")


def test_without_http_no_http_module_is_linked(configure):
    status, text, read = configure("--without-http")
    assert status == 0, text
    assert "ngx_http" not in read("modules.c")
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


def test_tables_name_nothing_twice():
    options = [row[0] for row in table("options")]
    assert len(options) == len(set(options))
    modules = [row[0] for row in table("modules")]
    assert len(modules) == len(set(modules))
    assert all(len(row) == 4 for row in table("modules"))
    stems = [stem for row in table("modules") if row[1] != "-" for stem in row[1].split(",")]
    assert len(stems) == len(set(stems))
