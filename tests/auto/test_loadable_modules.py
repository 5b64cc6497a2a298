"""Loadable modules: load_module and dso, with a build of ngx_http_empty_gif_module that is one."""

import os
import re
import shlex
import shutil
import subprocess

import pytest

from harness import binaries, run_binary
from harness.workers import wait_workers

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "../.."))
NAME = "ngx_http_empty_gif_module"

HTTP = """
    server { listen 127.0.0.1:@PORT@; location = /empty.gif { empty_gif; } }
"""

pytestmark = pytest.mark.skipif("Portunus" not in binaries.version_text(binaries.under_test()),
                                reason="about our build")


def run(*command):
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, check=False)
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.fixture(scope="module")
def shared_build(tmp_path_factory):
    """The directory of a build with the module loadable, made from the objects that are there."""
    directory = str(tmp_path_factory.mktemp("shared") / "objs")
    shutil.copytree(os.path.dirname(binaries.under_test()), directory, symlinks=True,
                    ignore=shutil.ignore_patterns("tests", "bench", "serve", "nginx", "*.a",
                                                  "*.so", "empty_gif.*"))
    for folder, _, names in os.walk(directory):
        for name in names:
            path = os.path.join(folder, name)
            # What knows the arguments of configure is compiled anew.
            if name.endswith(".d") and "config.h" in open(path, encoding="utf-8").read() and \
                    os.path.exists(path[:-2] + ".o"):
                os.unlink(path[:-2] + ".o")
    line = re.search(r"^configure arguments:(.*)$", binaries.version_text(binaries.under_test()),
                     re.M).group(1)
    run("./configure", "--builddir=" + directory, "--with-http_empty_gif_module=shared",
        *[word for word in shlex.split(line) if not word.startswith("--builddir=")])
    run("make", "BUILD=" + directory)
    assert os.path.exists("%s/%s.so" % (directory, NAME))
    return directory


def check(server):
    answer = server.get("/empty.gif")
    assert (answer.status, len(answer.body)) == (200, 43)


def test_without_it_the_directive_is_unknown(shared_build, tmp_path):
    (tmp_path / "nginx.conf").write_text(
        "pid nginx.pid; events { } http { access_log off; server { location / { empty_gif; } } }")
    done = run_binary("-t", "-p", "%s/" % tmp_path, "-c", "nginx.conf", "-e", "stderr",
                      binary=shared_build + "/nginx")
    assert done.returncode == 1
    assert 'unknown directive "empty_gif"' in done.stderr


def test_load_module(shared_build, serve):
    server = serve(HTTP, main="load_module %s/%s.so;" % (shared_build, NAME),
                   binary=shared_build + "/nginx")
    check(server)
    server.reload()
    check(server)


@pytest.mark.parametrize("block", [
    "load {name}.so; path {path};",
    "path {path}; load {name};",
    "path {path}; load {name} {name}.so;",
    "load {path}/{name}.so;",
    "path @DIR@/modules; load {name};",
])
def test_dso(shared_build, serve, block):
    files = {}
    if "@DIR@" in block:
        with open("%s/%s.so" % (shared_build, NAME), "rb") as module:
            files["modules/%s.so" % NAME] = module.read()
    text = block.replace("{name}", NAME).replace("{path}", shared_build)
    server = serve(HTTP, main="dso { %s }" % text, binary=shared_build + "/nginx", files=files)
    check(server)


def test_lists_say_shared(shared_build, tmp_path):
    (tmp_path / "nginx.conf").write_text("load_module %s/%s.so; events { }" % (shared_build, NAME))
    done = run_binary("-m", "-p", "%s/" % tmp_path, "-c", "nginx.conf", "-e", "stderr",
                      binary=shared_build + "/nginx")
    assert re.search(r"%s \(shared" % NAME, done.stdout)
    assert re.search(r"ngx_http_core_module \(static\)", done.stdout)
    assert done.stdout.count(NAME) == 1


def test_lists_say_what_could_be_loaded(shared_build, tmp_path):
    """An object beside the program, or where load_module looks, is listed; one that is not there is not."""
    (tmp_path / "nginx.conf").write_text("events { }")
    shutil.copy(shared_build + "/nginx", tmp_path / "nginx")
    prefix = tmp_path / "prefix"

    def is_listed():
        text = run_binary("-m", "-p", "%s/" % prefix, "-c", str(tmp_path / "nginx.conf"), "-e", "stderr", binary=str(tmp_path / "nginx")).stdout
        return "%s (shared)\n" % NAME in text
    (prefix / "modules").mkdir(parents=True)
    assert not is_listed()
    for place in tmp_path, prefix / "modules":
        shutil.copy("%s/%s.so" % (shared_build, NAME), place / (NAME + ".so"))
        assert is_listed()
        (place / (NAME + ".so")).unlink()


def test_module_comes_with_a_reload(shared_build, serve):
    """And may go with the next."""
    server = serve("server { listen 127.0.0.1:@PORT@; location / { return 200 none; } }",
                   binary=shared_build + "/nginx")
    assert server.get("/empty.gif").text == "none"
    server.configure(HTTP, main="load_module %s/%s.so;" % (shared_build, NAME))
    old = server.children()
    server.reload()
    wait_workers(server, 1, without=old)
    check(server)
    server.configure("server { listen 127.0.0.1:@PORT@; location / { return 200 none; } }")
    old = server.children()
    server.reload()
    wait_workers(server, 1, without=old)
    assert server.get("/empty.gif").text == "none"


@pytest.mark.parametrize("line", ["load_module {path}/{name}.so;",
                                  "dso {{ load {name}; path {path}; }}"])
def test_module_that_is_linked_in_is_skipped_with_a_notice(shared_build, serve, line):
    server = serve(HTTP, main=line.format(path=shared_build, name=NAME))
    server.wait_log(r'\[notice\] .*module "%s" is linked in' % NAME)
    check(server)


@pytest.mark.parametrize("text, why", [
    ("events { } load_module {path}/{name}.so;",
     r'"load_module" directive is specified too late in \S+:1'),
    ("load_module {path}/{name}.so; load_module {path}/{name}.so;", r"already loaded"),
])
def test_what_cannot_be_loaded(shared_build, tmp_path, text, why):
    text = text.replace("{path}", shared_build).replace("{name}", NAME)
    (tmp_path / "nginx.conf").write_text(text + (" events { }" if "events" not in text else ""))
    done = run_binary("-t", "-p", "%s/" % tmp_path, "-c", "nginx.conf", "-e", "stderr",
                      binary=shared_build + "/nginx")
    assert done.returncode == 1
    assert re.search(why, done.stderr), done.stderr


def check_text(tmp_path, text, *words):
    (tmp_path / "nginx.conf").write_text("pid pid;" + text)
    return run_binary("-t", *words, "-p", "%s/" % tmp_path, "-c", "nginx.conf", "-e", "stderr")


@pytest.mark.parametrize("text, why", [
    ("load_module none.so; events { }", r'\[warn\] .*dlopen\(\) ".*/none.so" failed .* in \S+:1'),
    ("load_module text.so; events { }", r'\[warn\] .*dlopen\(\) ".*/text.so" failed'),
    ("dso { load none; } events { }", r'\[warn\] .*dlopen\(\) ".*/none.so" failed'),
    ("load_module ngx_http_perl_module.so; events { }",
     r'\[warn\] .*failed .*, the module is left out of Portunus on purpose in'),
    ("load_module ngx_http_js_module.so; events { }",
     r'\[warn\] .*failed .*, the module is not in Portunus yet in'),
])
def test_the_start_goes_on_without_a_module_that_is_not_there(tmp_path, text, why):
    (tmp_path / "text.so").write_text("no module")
    done = check_text(tmp_path, text)
    assert done.returncode == 0 and "test is successful" in done.stderr, done.stderr
    assert re.search(why, done.stderr) and "[emerg]" not in done.stderr, done.stderr
    assert "the start continues without it" in check_text(tmp_path, text, "-t").stderr


@pytest.fixture(scope="module")
def foreign(tmp_path_factory):
    """An object as nginx's modules are: with names that only nginx has."""
    directory = tmp_path_factory.mktemp("foreign")
    (directory / "m.c").write_text("extern void *ngx_palloc(void *, unsigned long);\n"
                                   "void *use(void) { return ngx_palloc(0, 1); }\n")
    path = str(directory / "ngx_nchan_module.so")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", path, str(directory / "m.c")], check=True)
    return path


def test_a_module_of_nginx(tmp_path, foreign):
    line = "load_module %s; events { }\n" % foreign
    done = check_text(tmp_path, line)
    assert done.returncode == 0, done.stderr
    assert re.search(r"\[warn\] .*\"%s\" is a module of nginx's; it cannot be loaded here in \S+:1"
                     % re.escape(foreign), done.stderr), done.stderr
    assert "undefined symbol" not in done.stderr


@pytest.mark.parametrize("what", ["none", "foreign"])
def test_the_folder_of_our_modules_is_looked_into(shared_build, foreign, tmp_path, what):
    """A package's prefix may hold nothing, or nginx's modules: modules/X.so means ours."""
    (tmp_path / "lib").mkdir()
    (tmp_path / "modules").mkdir()
    shutil.copy("%s/%s.so" % (shared_build, NAME), tmp_path / "modules")
    if what == "foreign":
        shutil.copy(foreign, tmp_path / ("lib/%s.so" % NAME))
    (tmp_path / "nginx.conf").write_text(
        "pid nginx.pid; load_module lib/%s.so; events { }\n"
        "http { access_log off; server { listen unix:%s/s; location / { empty_gif; } } }" % (NAME, tmp_path))
    done = run_binary("-t", "-p", "%s/" % tmp_path, "-c", "nginx.conf", "-e", "stderr", binary=shared_build + "/nginx")
    assert done.returncode == 0 and "[warn]" not in done.stderr, done.stderr


@pytest.mark.parametrize("name", ["none", "foreign", "linked"])
def test_a_quiet_test_says_nothing_of_modules_that_are_not_needed(tmp_path, foreign, name):
    path = {"none": "modules/none.so", "foreign": foreign, "linked": "modules/ngx_http_lua_module.so"}[name]
    assert check_text(tmp_path, "load_module %s; events { }\n" % path, "-q").stderr == ""
    assert check_text(tmp_path, "load_module %s; events { }\n" % path).stderr.count(os.path.basename(path)) >= 1


@pytest.mark.parametrize("directive, module", [
    ("modsecurity on;", "ngx_http_modsecurity_module"), ("auth_pam Shop;", "ngx_http_auth_pam_module"),
    ("ldap_server one { }", "ngx_http_auth_ldap_module"), ("image_filter off;", "ngx_http_image_filter_module"),
    ("geoip_country /x;", "ngx_http_geoip_module"), ("xslt_types text/x;", "ngx_http_xslt_filter_module"),
])
def test_a_directive_of_a_module_that_is_not_loaded_names_the_object(tmp_path, directive, module):
    done = check_text(tmp_path, "events { }\nhttp { %s }\n" % directive)
    if not os.path.exists(os.path.join(os.path.dirname(binaries.under_test()), module + ".so")):
        pytest.skip("it is not built as an object here")
    assert done.returncode == 1
    assert '(it belongs to %s, which is not loaded: add "load_module modules/%s.so;" at the top)' % (module, module) in done.stderr


@pytest.mark.parametrize("text, message", [
    ("nchan_pubsub websocket;",
     'unknown directive "nchan_pubsub" (it may belong to ngx_nchan_module, which could not be loaded)'),
    ("perl_modules x;",
     'unknown directive "perl_modules" (it belongs to ngx_http_perl_module, which is left out of Portunus on purpose)'),
    ("gzipp on;", 'unknown directive "gzipp" in'),
])
def test_a_directive_of_a_module_that_was_skipped(tmp_path, foreign, text, message):
    done = check_text(tmp_path, "load_module %s; events { }\nhttp { %s }\n" % (foreign, text))
    assert done.returncode == 1
    errors = [line for line in done.stderr.split("\n") if "[emerg]" in line]
    assert message in errors[0], done.stderr
