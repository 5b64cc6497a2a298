"""The lint rules, each on a small tree that breaks it."""

import os
import subprocess
import sys

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

import calls  # noqa: E402
import circles  # noqa: E402
import ffi  # noqa: E402
import includes  # noqa: E402
import layers  # noqa: E402
import layout  # noqa: E402
import pages  # noqa: E402
import places  # noqa: E402
import words  # noqa: E402


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
    good = tree({"base/str.h": "", "net/conn/conn.c": '#include "base/str.h"\n'})
    assert includes.errors(good) == []
    bad = tree({"net/conn/conn.h": "", "base/str.c": '/* x */\n#include "net/conn/conn.h"\n'})
    assert includes.errors(bad) == [
        'src/base/str.c:2: include of "net/conn/conn.h": src/net/conn lies above src/base']


def test_include_beside_and_of_another_module(tree):
    paths = tree({"http/v2/key.h": "", "http/v1/peer.c": '#include "http/v2/key.h"\n',
                  "http/modules/a.h": "", "http/modules/a.c": '#include "http/modules/a.h"\n',
                  "http/modules/a_more.c": '#include "http/modules/a.h"\n',
                  "http/modules/b.c": '#include "http/modules/a.h"\n'})
    found = includes.errors(paths)
    assert len(found) == 2
    assert "src/http/v2 lies beside src/http/v1" in found[0]
    assert found[1].startswith("src/http/modules/b.c:1:") and "another module" in found[1]


def test_module_in_a_folder(tree):
    paths = tree({"http/modules/c/c.h": "", "http/modules/c/c.c": '#include "http/modules/c/c.h"\n',
                  "http/modules/b.c": '#include "http/modules/c/c.h"\n'})
    [found] = includes.errors(paths)
    assert found.startswith("src/http/modules/b.c:1:") and "another module" in found


def test_rooms_of_http(tree):
    paths = tree({"http/message/uri.h": "", "http/exchange/options/pass.h": "", "http/exchange/pass.c":
                  '#include "http/exchange/options/pass.h"\n#include "http/message/uri.h"\n',
                  "http/message/uri.c": '#include "http/exchange/options/pass.h"\n',
                  "http/lost.c": '#include "http/message/uri.h"\n'})
    assert includes.errors(paths) == [
        'src/http/message/uri.c:1: include of "http/exchange/options/pass.h": src/http/exchange/options lies'
        ' above src/http/message', 'src/http/lost.c:1: include of "http/message/uri.h": http/lost.c belongs to no layer']


def test_protocols_stand_beside_each_other(tree):
    paths = tree({"http/v1/v1.h": "", "http/v2/setup.c": '#include "http/v1/v1.h"\n',
                  "stream/session/session.h": "",
                  "http/config/rows.c": '#include "stream/session/session.h"\n'})
    assert [fault.rsplit(": ", 1)[1] for fault in includes.errors(paths)] == [
        "src/http/v1 lies beside src/http/v2", "src/stream/session lies beside src/http/config"]


def test_private_header_of_the_fibers(tree):
    paths = tree({"fiber/stack.h": "", "fiber/fiber.h": "", "fiber/fiber.c":
                  '#include "fiber/stack.h"\n', "net/conn/conn.c":
                  '#include "fiber/fiber.h"\n#include "fiber/stack.h"\n'})
    assert includes.errors(paths) == ['src/net/conn/conn.c:2: "fiber/stack.h" is private to src/fiber']


def test_circle(tree):
    paths = tree({"base/a.h": '#include "base/b.h"\n', "base/b.h": '#include "base/a.h"\n'})
    assert includes.errors(paths) == [
        "src/base/a.h:1: includes go in a circle: base/a.h > base/b.h > base/a.h"]


def test_relative_include(tree):
    paths = tree({"base/a.h": "", "base/a.c": '#include "a.h"\n'})
    assert "written from src/" in includes.errors(paths)[0]


def test_choice_without_config_h(tree):
    paths = tree({"base/a.c": "#ifdef HAVE_JEMALLOC\n#endif\n#if WITH_DEBUG\n#endif\n",
                  "base/b.c": '#include "config.h"\n#ifdef HAVE_JEMALLOC\n#endif\n'})
    assert includes.errors(paths) == ['src/base/a.c:1: asks for HAVE_JEMALLOC without "config.h"']


def test_call_up_a_layer(tree):
    paths = tree({"base/low.c": "void high(void);\nvoid low(void);\nvoid low(void)\n{\n    high();\n}\n",
                  "http/request/high.c": "void high(void);\nvoid high(void)\n{\n}\n"})
    build(paths)
    assert calls.look("objs", paths)[1] == [
        "src/base/low.c:1: uses high of src/http/request/high.c: src/http/request lies above src/base"]


def test_call_of_another_module(tree):
    paths = tree({"http/modules/a.c": "int a_state;\nint a_more(void);\nint a(void)\n{\n    return a_more();\n}\n",
                  "http/modules/a_more.c": "int a_more(void)\n{\n    return 1;\n}\n",
                  "http/modules/b.c": "extern int a_state;\nint b(void)\n{\n    return a_state;\n}\n"})
    build(paths)
    found = calls.look("objs", paths)[1]
    assert len(found) == 1 and "b.c:1: uses a_state" in found[0] and "another module" in found[0]


def ring(files):
    """Sources that call each other in a circle."""
    return {name: "int f%d(void);\nint f%d(void);\nint f%d(void)\n{\n    return f%d();\n}\n"
            % (number, (number + 1) % len(files), number, (number + 1) % len(files))
            for number, name in enumerate(files)}


def test_circle_of_calls_across_folders(tree):
    paths = tree(ring(["stream/session/pick.c", "stream/session/way/hash.c"]))
    build(paths)
    [found] = calls.look("objs", paths)[1]
    assert "2 files across folders (stream/session, stream/session/way)" in found
    assert "stream/session/pick.c needs of stream/session/way/hash.c: f1; without it the largest is of 0" in found


def test_circle_of_calls_in_one_folder(tree):
    small, large = (["net/conn/c%d.c" % number for number in range(count)] for count in (6, 7))
    paths = tree(ring(small))
    build(paths)
    assert circles.large(calls.look("objs", paths)[0]) == []
    assert len(circles.listing(calls.uses_of(calls.objects_of("objs", paths)[0]), "net")) == 7
    paths = tree(ring(large))
    build(paths)
    uses, errors = calls.look("objs", paths)
    assert errors == [] and "7 files in one folder" in circles.large(uses)[0]
    paths = tree(ring(["event/c%d.c" % number for number in range(7)]))
    build(paths)
    assert circles.large(calls.look("objs", paths)[0]) == []


def test_source_that_is_never_built(tree):
    assert "has no object" in calls.look("objs", tree({"base/lost.c": ""}))[1][0]


def test_long_function(tree):
    [path] = tree({"base/a.c": "/* a */\n\nvoid f(void)\n{\n" + "    f();\n" * 68 + "}\n"})
    assert layout.long_functions([path]) == ["src/base/a.c:3: a function of 71 lines; above 70 it should say why"]
    [path] = tree({"base/b.c": "/* b */\n\nvoid f(void)\n{\n" + "    f();\n" * 67 + "}\n"})
    assert layout.long_functions([path]) == []


def test_many_parameters(tree):
    [path] = tree({"base/a.c": "int f(int a, void (*b)(int, int), int c,\n      int d, void *e)\n{\n}\n\n"
                               "int g(int a, int b, int c, int d, const char *format, ...)\n{\n}\n\n"
                               "int h(int a, void (*b)(void *), int c, int d, int e, int f)\n{\n}\n"})
    [found] = layout.many_parameters([path], [])
    assert found.startswith("src/base/a.c:10: h has 6 parameters; above 5")
    assert layout.many_parameters([path], ["src/base/a.c h"]) == []


def test_atomics_of_another_style(tree):
    paths = tree({"base/a.c": "int f(void)\n{\n    return __atomic_load_n(&a, __ATOMIC_RELAXED) + atomic_load(&b);\n}\n",
                  "base/b.c": "int g(void)\n{\n    return __sync_add_and_fetch(&a, 1);\n}\n"})
    assert layout.other_atomics(paths) == [
        "src/base/a.c:3: __atomic_load_n: atomics are those of <stdatomic.h>",
        "src/base/b.c:3: __sync_add_and_fetch: atomics are those of <stdatomic.h>"]


def test_comparisons_of_secrets(tree):
    paths = tree({"base/a.c": "int f(void)\n{\n    return CRYPTO_memcmp(a, b, 3) || str_equal(text, asked->nonce);\n}\n",
                  "shared/jose/b.c": "int g(void)\n{\n    return memcmp(a, b, 3) || secret_equal(a, nonce);\n}\n",
                  "http/c.c": "int h(void)\n{\n    return memcmp(a, b, 3) || str_is(name, \"nonce\");\n}\n",
                  "http/d.c": "int i(void)\n{\n    return str_is(client_secret, \"x\");\n}\n"})
    assert layout.compares_secrets(paths) == [
        "%s:3: a secret is compared by secret_equal (base/checksum.h)" % path
        for path in ("src/base/a.c", "src/shared/jose/b.c", "src/http/d.c")]


def test_two_rows_of_a_table_on_a_line(tree):
    paths = tree({"base/a.c": 'static const struct word a[] = {\n    {"a", 1}, {"b", 2},\n    {"c", 3},\n};\n'
                              "    struct iovec parts[] = {{a, 1}, {b, 2}};\n"})
    assert layout.crowded_tables(paths) == [
        "src/base/a.c:2: more than one row of a table on a line: one each, between clang-format off and on"]


def test_carrier_of_a_client(tree):
    text = ("/* conn->sent */\nint f(void)\n{\n    conn_zone_read();\n    conn_flush(out);\n"
            "    return request->connection->conn->sent;\n}\n")
    version = "/* a */\nbool f(void)\n{\n    return request->head.version >= HTTP_2;\n}\n"
    paths = tree({"http/files/a.c": text, "http/v1/b.c": text + version, "stream/modules/c.c": text,
                  "stream/modules/proxy/d.c": text, "http/modules/backends/proxy/e.c": text, "http/files/f.c": version})
    assert layout.looks_at_carrier(paths) == [
        "%s: looks into struct conn: see KNOW_CONN in tests/lint/layers.py" % place
        for place in ("src/http/files/a.c:5", "src/http/files/a.c:6", "src/stream/modules/c.c:5", "src/stream/modules/c.c:6",
                      "src/http/modules/backends/proxy/e.c:6")] + ["src/http/files/f.c:4: asks the version: see request/wire.h"]


def test_who_may_look_into_a_connection_is_there():
    top = os.path.join(HERE, "../../src")
    assert [name for name in layers.KNOW_CONN if not os.path.exists(os.path.join(top, name))] == []


def test_uri_is_set_by_its_setter_alone(tree):
    text = ("/* a */\nvoid f(struct request *child, struct lock *lock)\n{\n    child->uri = STR(\"/\");\n"
            "    x->request->args.len = 0;\n    lock->uri = child->uri;\n    return child->uri.len == 0;\n}\n")
    paths = tree({"http/files/a.c": text, "http/request/request.h": text})
    assert layout.sets_uri(paths) == [
        "src/http/files/a.c:%d: sets the URI of a request: see request_set_uri in http/request/request.h" % line
        for line in (4, 5)]


def test_page_first_line_and_format(tree):
    paths = tree({"base/a.c": "int  a;\n"})
    assert layout.missing_pages("src") == ["src/base:1: the folder has no README.md"]
    assert "src/base/a.c:1:" in layout.first_lines(paths)[0]
    assert layout.unformatted(paths)[0].startswith("src/base/a.c:1: not as clang-format")


def test_folder_that_pytest_leaves_out(tree):
    tree({"auto/test_a.py": "", "net/build/test_b.py": ""})
    assert layout.never_collected("src") == ["src/net/build:1: pytest leaves out folders of this name"]


def test_functions_implemented_elsewhere(tree):
    files = {"base/a.h": "/* A. */\nint a(int x);\nconst char *b(\n    void);\nstatic inline int c(void)\n{\n    return 1;\n}\n",
             "base/a.c": "/* A. */\nint a(int x)\n{\n    return x;\n}\n",
             "base/more.c": "/* B. */\nstatic int a(int x)\n{\n    return x;\n}\nconst char *b(void)\n{\n    return 0;\n}\n"}
    assert layout.implemented_elsewhere(tree(files)) == [
        "src/base/a.h:1: b is implemented in src/base/more.c, which the header does not name"]
    files["base/a.h"] = "/* Implemented in a.c and more.c. */\n" + files["base/a.h"]
    assert layout.implemented_elsewhere(tree(files)) == []


def test_small_files(tree):
    paths = tree({"base/a.h": "", "base/a.c": "int a;\n" * 39, "base/b.c": "int b;\n" * 40, "base/c.c": "int c;\n"})
    assert [note.split(";")[0] for note in layout.small_files(paths, ["# a reason each", "src/base/c.c one counter", ""])] == [
        "src/base/a.c:1: 39 lines"]
    assert layout.small_files(paths, ["src/base/a.c one counter", "src/base/b.c long", "src/base/c.c"])[-1] == (
        "tests/lint/small.txt:1: src/base/b.c is not a small file")


FFI_C = """
struct str { const char *data; size_t len; };
struct pair { struct str name, value; int *left; };
int sum(const struct pair *pair, unsigned char *out, _Bool *is_long);
static void *own(void *r, size_t len)
{ return r; }
extern __typeof__(own) ngx_http_lua_ffi_own __attribute__((alias("own")));
struct clock { long now; int more; };
extern struct clock now;
struct set *set_new(int count);
"""

FFI_LUA = """
typedef struct { const char *data; size_t len; } text;
typedef struct { text name, value; int *left; } pair;
int sum(const pair *pair, char *out, bool *is_long);
void *ngx_http_lua_ffi_own(void *r, size_t len);
extern struct clock_start { long now; } now;
struct set *set_new(int count);
"""


def test_ffi_as_in_c():
    assert ffi.compare([("a.lua", FFI_LUA)], FFI_C) == []


@pytest.mark.parametrize("written, instead, name", [
    ("int sum(", "unsigned sum(", "sum"),
    ("char *out, ", "", "sum"),
    ("bool *is_long", "int *is_long", "sum"),
    ("text name, value", "text name", "sum"),
    ("int *left", "size_t *left", "sum"),
    ("size_t len);", "int len);", "ngx_http_lua_ffi_own"),
    ("set_new(int count)", "set_new(double count)", "set_new"),
    ("{ long now; }", "{ int now; }", "now"),
])
def test_ffi_otherwise_than_in_c(written, instead, name):
    assert written in FFI_LUA
    assert ffi.compare([("a.lua", FFI_LUA.replace(written, instead))], FFI_C) == [
        "a.lua:1: %s is declared for FFI otherwise than in C" % name]


def test_ffi_without_a_function():
    assert ffi.compare([("a.lua", "int gone(void);")], FFI_C) == [
        "a.lua:1: gone is declared for FFI, and C has no such function"]


def test_names_of_files_that_are_not_there(tree):
    tree({"base/README.md": "`str.c` and `lost.c`, ../base/str.c, http/lost.h, `src/lost/`, see lost" ".md\n",
          "base/str.c": "/* a (README.md, lost" ".md, and other.c, which is for includes to say) */\n"})
    assert pages.lost_names(["src"]) == [
        "src/base/README.md:1: names lost" ".md, which is not there",
        "src/base/README.md:1: names lost.c, which is not there",
        "src/base/README.md:1: names http/lost.h, which is not there",
        "src/base/README.md:1: names src/lost/, which is not there",
        "src/base/str.c:1: names lost" ".md, which is not there"]


def test_stale_page(tree):
    tree({"base/a.c": ""})
    os.makedirs("docs")
    os.makedirs("objs")
    for path, text in (("auto/docs.py", "print('old')\nraise SystemExit(1)\n"), ("objs/nginx", "")):
        with open(path, "w", encoding="utf-8") as out:
            out.write(text)
    assert pages.stale_pages("objs") == ["docs/directives.md:1: old"]
    assert pages.stale_pages("elsewhere") == []


def test_retired_words(tree):
    [path] = tree({"base/a.c": "/* Whoever asks is answered. */\nint drink_all; /* \u2026 or none */\n"
                               "const char *a = \"it was told\"; // goes on\n/* stold, unfloored, anew-is, Kin */\n"})
    assert [fault.split(": write")[0] for fault in words.retired([path], set())] == [
        'src/base/a.c:1: "Whoever"', 'src/base/a.c:2: "drink"', 'src/base/a.c:2: "..."', 'src/base/a.c:3: "told"',
        'src/base/a.c:3: "goes on"']
    assert len(words.retired([path], {("src/base/a.c", "told"), ("src/base/a.c", "whoever")})) == 3


def test_an_exception_needs_a_reason(tree):
    [path] = tree({"words.txt": "# PATH WORD REASON\nsrc/a.c floor floor() of C\nsrc/b.c floor\n"})
    assert words.exceptions(path) == {("src/a.c", "floor")}


def test_no_exception_is_left_over():
    os.chdir(os.path.join(HERE, "../.."))
    for path, word in words.exceptions():
        with open(path, encoding="utf-8") as text:
            assert word in text.read().lower(), "%s: %s is no longer there" % (path, word)


def test_spelling(tree):
    [path] = tree({"base/a.c": "/* It occ" + "ured. */\n"})
    os.makedirs("tests/lint")
    open(words.CORRECT, "w").close()
    assert words.misspelt([path])[0].startswith("src/base/a.c:1: occ" + "ured ==> occurred")


def test_places(tree):
    body = "int f%d(void)\n{\n" + "    x();\n" * 20 + "}\n\n"
    paths = tree({"base/%d.c" % number: "".join(body % part for part in range(4)) for number in range(20)})
    found = places.chosen(paths, 1)
    assert len({file for file, _, _ in found}) == len(found) == places.COUNT
    assert {end - first for _, first, end in found} <= {48, 72, 49, 73}
    assert found == places.chosen(reversed(paths), 1) != places.chosen(paths, 2)
    for file, first, _ in found:
        with open(file, encoding="utf-8") as text:
            assert text.read().split("\n")[first].startswith("int f")
