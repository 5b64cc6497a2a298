/* Tests of reading files: includes, globs, the command line, and what cannot be read. */
#include "conf/fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fs.h"

static char folder[32];

static struct str path_of(const char *name)
{
    return arena_printf(&arena, "%s/%s", folder, name);
}

static void write_file(const char *name, const char *text)
{
    FILE *file = fopen(path_of(name).data, "w");

    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static int set_up_files(void **state)
{
    set_up(state);
    conf.conf_prefix = STR_NONE;
    strcpy(folder, "/tmp/test_include.XXXXXX");
    return mkdtemp(folder) == NULL;
}

static int tear_down_files(void **state)
{
    struct str command = arena_printf(&arena, "rm -rf %s", folder);

    assert_int_equal(system(command.data), 0);
    return tear_down(state);
}

/* The report with the folder's name cut out. */
static struct str short_report(void)
{
    struct str text = report();
    struct str needle = arena_printf(&arena, "%s/", folder);
    struct buf out = {0};

    for (;;) {
        const char *found = str_find(text, needle);
        if (found == NULL) {
            break;
        }
        buf_append(&out, str_from(text.data, found));
        text = str_skip(text, (size_t) (found - text.data) + needle.len);
    }
    buf_append(&out, text);
    struct str copy = arena_dup(&arena, buf_str(&out));
    buf_free(&out);
    return copy;
}

static bool read_main(const char *text, const char *extra)
{
    write_file("main.conf", text);
    return conf_read(&conf, path_of("main.conf"), str_of(extra));
}

/* Names of the nodes, in order, blocks in {}. */
static struct str names(const struct conf_node *node)
{
    struct str text = STR("");

    for (; node != NULL; node = node->next) {
        struct str inner = node->is_block ? names(node->children) : STR("");
        text = arena_printf(&arena, "%.*s%.*s%s%.*s%s ", STR_ARG(text), STR_ARG(node->args[0]),
                            node->is_block ? "{ " : "", STR_ARG(inner), node->is_block ? "}" : "");
    }
    return text;
}

static void files_are_read_in_place(void **state)
{
    mkdir(path_of("sub").data, 0700);
    write_file("one", "b; c { d; }");
    write_file("sub/z.inc", "z;");
    write_file("sub/a.inc", "a1; include one;");
    write_file("sub/b.other", "no;");
    assert_true(read_main("a; include one; { ", "") == false);
    tear_down_files(state);
    set_up_files(state);

    mkdir(path_of("sub").data, 0700);
    write_file("one", "b; c { d; }");
    write_file("sub/z.inc", "z;");
    write_file("sub/a.inc", "a1; include one;");
    write_file("sub/b.other", "no;");
    assert_true(read_main("a; x { include one; }\ninclude sub/*.inc;\ninclude none*;\nlast;", ""));
    assert_str(names(conf.root->children), STR("a x{ b c{ d } } a1 b c{ d } z last "));
    assert_text(report(), "");

    const struct conf_file *file = conf.files;
    assert_str(file->name, path_of("main.conf"));
    assert_str(file->next->name, path_of("one"));
    assert_str(file->next->next->name, path_of("sub/a.inc"));
    assert_str(file->next->next->next->name, path_of("sub/z.inc"));
    assert_null(file->next->next->next->next);
    assert_text(file->next->text, "b; c { d; }");
    assert_str(conf.conf_prefix, arena_printf(&arena, "%s/", folder));
    assert_str(conf.file_name, path_of("main.conf"));
}

static void blocks_close_in_their_own_file(void **state)
{
    write_file("opens", "events {\n");
    write_file("closes", "}\n");
    write_file("half", "a 10");
    assert_false(
        read_main("x {\n include opens;\n}\ny {\n include closes;\n}\nz { include half; }\n", ""));
    assert_text(short_report(),
                "[emerg] unexpected end of file, expecting \"}\" in opens:2\n"
                "[emerg] unexpected \"}\" in closes:1\n"
                "[emerg] unexpected end of file, expecting \";\" or \"}\" in half:1\n");
    assert_str(names(conf.root->children), STR("x{ events{ } } y{ } z{ } "));
}

static void files_that_cannot_be_read(void **state)
{
    mkdir(path_of("dir").data, 0700);
    assert_false(read_main("a;\ninclude nofile;\ninclude dir;\nb;", ""));
    assert_text(short_report(),
                "[emerg] open() \"nofile\" failed (2: No such file or directory) in main.conf:2\n"
                "[crit] pread() \"dir\" failed (21: Is a directory)\n");
    assert_str(names(conf.root->children), STR("a b "));
}

static void main_file_that_cannot_be_read(void **state)
{
    assert_false(conf_read(&conf, path_of("none.conf"), STR("")));
    assert_text(short_report(),
                "[emerg] open() \"none.conf\" failed (2: No such file or directory)\n");
    assert_int_equal(conf.grammar_error_count, 1);
}

static void includes_that_never_end(void **state)
{
    write_file("one", "include two;");
    write_file("two", "a;\ninclude one;");
    assert_false(read_main("include one;", ""));
    assert_text(short_report(), "[emerg] file \"one\" includes itself in two:2\n");
    assert_str(names(conf.root->children), STR("a "));
}

static void includes_nested_too_deeply(void **state)
{
    for (int i = 0; i < 70; i++) {
        write_file(arena_printf(&arena, "f%d", i).data,
                   arena_printf(&arena, "include f%d;", i + 1).data);
    }
    assert_false(read_main("include f0;", ""));
    assert_text(short_report(),
                "[emerg] includes are nested too deeply, at most 64 are possible in f62:1\n");
}

static void command_line_comes_first(void **state)
{
    static const struct {
        const char *extra;
        const char *report;
    } cases[] = {
        {"x 1; y;", ""},
        {"#", ""},
        {"daemon on", "[emerg] unexpected end of parameter, expecting \";\" in command line\n"},
        {"daemon \"on", "[emerg] unexpected end of parameter, expecting \";\" in command line\n"},
        {"a;daemon", "[emerg] unexpected end of parameter, expecting \";\" in command line\n"},
        {"events {", "[emerg] block directives are not supported in -g option in command line\n"},
        {"events {}", "[emerg] block directives are not supported in -g option in command line\n"},
        {"}", "[emerg] unexpected \"}\" in command line\n"},
        {";", "[emerg] unexpected \";\" in command line\n"},
        {"\"x\"y;", "[emerg] unexpected \"y\" in command line\n"},
        {"include nofile;",
         "[emerg] open() \"nofile\" failed (2: No such file or directory) in command line\n"},
    };

    for (size_t i = 0; i < COUNT(cases); i++) {
        tear_down_files(state);
        set_up_files(state);
        bool is_good = read_main("last;", cases[i].extra);
        assert_str(short_report(), str_of(cases[i].report));
        assert_int_equal(is_good, cases[i].report[0] == '\0');
    }
    tear_down_files(state);
    set_up_files(state);
    write_file("one", "from_file;");
    assert_true(read_main("last;", "x 1; include one; y;"));
    assert_str(names(conf.root->children), STR("x from_file y last "));
}

/* For blocks that read lines of their own, after the tree was made. */
static void later_include_appends_to_a_block(void **state)
{
    write_file("more", "b 2;\nc;");
    assert_true(read_main("types { a 1; load more; }", ""));
    struct conf_node *types = conf.root->children;
    assert_true(conf_include(&conf, types, types->children->next));
    assert_str(names(types->children), STR("a load b c "));
    struct conf_node *load = types->children->next;
    load->count = 1;
    assert_false(conf_include(&conf, types, load));
    assert_text(short_report(),
                "[emerg] invalid number of arguments in \"include\" directive in main.conf:1\n");
}

static void full_names(void **state)
{
    conf.conf_prefix = STR("/etc/x/");
    assert_text(conf_full_name(&conf, STR("a"), true), "/etc/x/a");
    assert_text(conf_full_name(&conf, STR("a"), false), "/run/a");
    assert_text(conf_full_name(&conf, STR("/a"), true), "/a");
}

#define file_test(function) cmocka_unit_test_setup_teardown(function, set_up_files, tear_down_files)

int main(void)
{
    const struct CMUnitTest tests[] = {
        file_test(files_are_read_in_place),
        file_test(blocks_close_in_their_own_file),
        file_test(files_that_cannot_be_read),
        file_test(main_file_that_cannot_be_read),
        file_test(includes_that_never_end),
        file_test(includes_nested_too_deeply),
        file_test(command_line_comes_first),
        file_test(later_include_appends_to_a_block),
        file_test(full_names),
    };

    return cmocka_run_group_tests_name("conf/include", tests, NULL, NULL);
}
