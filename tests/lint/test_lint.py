"""The lint rules, each on a small tree that breaks it."""

import os
import subprocess
import sys

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

import calls  # noqa: E402
import includes  # noqa: E402
import layout  # noqa: E402


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """A function that writes files and gives their paths below src/; the test stands beside it."""
    monkeypatch.chdir(tmp_path)
    os.mkdir("auto")
    with open("auto/modules", "w", encoding="utf-8") as rows:
        rows.write("ngx_http_a_module - always http/modules/a.c,http/modules/a_more.c\n"
                   "ngx_http_b_module - always http/modules/b.c\n"
                   "ngx_http_c_module - always http/modules/c/\n")

    def write(files):
        for name, text in files.items():
            path = os.path.join("src", name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as out:
                out.write(text)
        return ["src/" + name for name in files]

    return write


def build(paths):
    for path in paths:
        if path.endswith(".c"):
            out = path.replace("src/", "objs/")[:-2] + ".o"
            os.makedirs(os.path.dirname(out), exist_ok=True)
            subprocess.run(["gcc", "-Isrc", "-c", path, "-o", out], check=True)


def test_include_down_is_fine_and_up_is_not(tree):
    good = tree({"base/str.h": "", "net/conn.c": '#include "base/str.h"\n'})
    assert includes.faults(good) == []
    bad = tree({"net/conn.h": "", "base/str.c": '/* x */\n#include "net/conn.h"\n'})
    assert includes.faults(bad) == [
        'src/base/str.c:2: include of "net/conn.h": src/net lies above src/base']


def test_include_beside_and_of_another_module(tree):
    paths = tree({"cache/key.h": "", "upstream/peer.c": '#include "cache/key.h"\n',
                  "http/modules/a.h": "", "http/modules/a.c": '#include "http/modules/a.h"\n',
                  "http/modules/a_more.c": '#include "http/modules/a.h"\n',
                  "http/modules/b.c": '#include "http/modules/a.h"\n'})
    found = includes.faults(paths)
    assert len(found) == 2
    assert "src/cache lies beside src/upstream" in found[0]
    assert found[1].startswith("src/http/modules/b.c:1:") and "another module" in found[1]


def test_module_in_a_folder(tree):
    paths = tree({"http/modules/c/c.h": "", "http/modules/c/c.c": '#include "http/modules/c/c.h"\n',
                  "http/modules/b.c": '#include "http/modules/c/c.h"\n'})
    [found] = includes.faults(paths)
    assert found.startswith("src/http/modules/b.c:1:") and "another module" in found


def test_private_header_of_the_fibers(tree):
    paths = tree({"fiber/stack.h": "", "fiber/fiber.h": "", "fiber/fiber.c":
                  '#include "fiber/stack.h"\n', "net/conn.c":
                  '#include "fiber/fiber.h"\n#include "fiber/stack.h"\n'})
    assert includes.faults(paths) == ['src/net/conn.c:2: "fiber/stack.h" is private to src/fiber']


def test_circle(tree):
    paths = tree({"base/a.h": '#include "base/b.h"\n', "base/b.h": '#include "base/a.h"\n'})
    assert includes.faults(paths) == [
        "src/base/a.h:1: includes go in a circle: base/a.h > base/b.h > base/a.h"]


def test_relative_include(tree):
    paths = tree({"base/a.h": "", "base/a.c": '#include "a.h"\n'})
    assert "written from src/" in includes.faults(paths)[0]


def test_choice_without_config_h(tree):
    paths = tree({"base/a.c": "#ifdef HAVE_JEMALLOC\n#endif\n#if WITH_DEBUG\n#endif\n",
                  "base/b.c": '#include "config.h"\n#ifdef HAVE_JEMALLOC\n#endif\n'})
    assert includes.faults(paths) == ['src/base/a.c:1: asks for HAVE_JEMALLOC without "config.h"']


def test_call_up_a_floor(tree):
    paths = tree({"base/low.c": "void high(void);\nvoid low(void);\nvoid low(void)\n{\n    high();\n}\n",
                  "http/high.c": "void low(void);\nvoid high(void)\n{\n    low();\n}\n"})
    build(paths)
    assert calls.faults("objs", paths) == [
        "src/base/low.c:1: uses high of src/http/high.c: src/http lies above src/base"]


def test_call_of_another_module(tree):
    paths = tree({"http/modules/a.c": "int a_state;\nint a_more(void);\nint a(void)\n{\n    return a_more();\n}\n",
                  "http/modules/a_more.c": "int a_more(void)\n{\n    return 1;\n}\n",
                  "http/modules/b.c": "extern int a_state;\nint b(void)\n{\n    return a_state;\n}\n"})
    build(paths)
    found = calls.faults("objs", paths)
    assert len(found) == 1 and "b.c:1: uses a_state" in found[0] and "another module" in found[0]


def test_source_that_is_never_built(tree):
    assert "has no object" in calls.faults("objs", tree({"base/lost.c": ""}))[0]


def test_long_function_needs_its_reason(tree):
    body = "void f(void)\n{\n" + "    f();\n" * 99 + "}\n"
    [path] = tree({"base/a.c": "/* a */\n\n" + body})
    assert "src/base/a.c:3: a function of 102 lines" in layout.long_functions([path])[0]
    [path] = tree({"base/b.c": "/* b */\n\n/* Does f. long: one table of cases. */\n" + body})
    assert layout.long_functions([path]) == []
    [path] = tree({"base/c.c": "/* c */\n\nvoid f(void)\n{\n" + "    f();\n" * 97 + "}\n"})
    assert layout.long_functions([path]) == []


def test_page_first_line_and_format(tree):
    paths = tree({"base/a.c": "int  a;\n"})
    assert layout.missing_pages("src") == ["src/base:1: the folder has no README.md"]
    assert "src/base/a.c:1:" in layout.first_lines(paths)[0]
    assert layout.unformatted(paths)[0].startswith("src/base/a.c:1: not as clang-format")
