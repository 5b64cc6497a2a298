/* Tests of the lexer: words, blocks, places, and each message about grammar. */
#include "conf/fixture.h"

/* The tree as text: words in <>, blocks in {}. */
static void print_nodes(struct buf *out, const struct conf_node *node)
{
    for (; node != NULL; node = node->next) {
        for (unsigned i = 0; i < node->count; i++) {
            buf_printf(out, node->quoted[i] ? "<'%.*s'>" : "<%.*s>", STR_ARG(node->args[i]));
        }
        if (node->is_block) {
            buf_append_char(out, '{');
            print_nodes(out, node->children);
            buf_append_char(out, '}');
        } else {
            buf_append_char(out, ';');
        }
    }
}

static struct str tree(void)
{
    struct buf out = {0};

    print_nodes(&out, conf.root->children);
    struct str text = arena_dup(&arena, buf_str(&out));
    buf_free(&out);
    return text;
}

static void words_and_blocks_make_a_tree(void **state)
{
    assert_true(parse("a 1 2;\n b { c; d { } e x; }\nf;"));
    assert_text(tree(), "<a><1><2>;<b>{<c>;<d>{}<e><x>;}<f>;");
    assert_text(report(), "");
}

static void quotes_escapes_and_comments(void **state)
{
    static const struct {
        const char *text;
        const char *tree;
    } cases[] = {
        {"", ""},
        {"# only a comment", ""},
        {"a \"b c\" 'd \"e';", "<a><'b c'><'d \"e'>;"},
        {"a \"\";", "<a><''>;"},
        {"\"a\" b;", "<'a'><b>;"},
        {"a 'x\\'y' \"x\\\"y\" x\\\\y;", "<a><'x'y'><'x\"y'><x\\y>;"},
        {"a \"1\\t2\\r3\\n4\\5\";", "<a><'1\t2\r3\n4\\5'>;"},
        {"a b\\ c d\\;e f\\{g;", "<a><b\\ c><d\\;e><f\\{g>;"},
        {"a b#c # d\n e;", "<a><b#c><e>;"},
        {"a ${b}c $ d${e;", "<a><${b}c><$><d${e>;"},
        {"a $;b $;", "<a><$>;<b><$>;"},
        {"a ${b ;", "<a><${b>;"},
        {"a b}c;", "<a><b}c>;"},
        {"a b\"c d\";", "<a><b\"c><d\">;"},
        {"a{b;}", "<a>{<b>;}"},
        {"a 'b'{c;}", "<a><'b'>{<c>;}"},
        {"if ('a' = 'b') {}", "<if><('a'><=><'b'><)>{}"},
        {"a\tb\r\n c\r\n;", "<a><b><c>;"},
        {"a \"b\nc\";", "<a><'b\nc'>;"},
        {"a 'b'#;", "<a>"},
    };

    for (size_t i = 0; i + 1 < COUNT(cases); i++) {
        tear_down(state);
        set_up(state);
        bool is_good = parse(cases[i].text);
        assert_str(tree(), str_of(cases[i].tree));
        assert_true(is_good);
        assert_text(report(), "");
    }
}

static void nodes_know_their_places(void **state)
{
    assert_true(parse("a\n b\n;\nc\n{\n d;\n}\n"));
    const struct conf_node *a = conf.root->children;
    const struct conf_node *c = a->next;

    assert_int_equal(a->line, 1);
    assert_int_equal(a->end_line, 3);
    assert_int_equal(c->line, 4);
    assert_int_equal(c->end_line, 5);
    assert_int_equal(c->close_line, 7);
    assert_int_equal(c->children->line, 6);
    assert_ptr_equal(c->children->parent, c);
    assert_true(a->order < c->order && c->order < c->children->order);
    assert_true(c->children->order < c->close_order);
    assert_int_equal(c->source - c->file->text.data, 7);
}

/* What nginx 1.22 says to these, seen from outside, and what more there is to say. */
static void errors_of_grammar(void **state)
{
    static const struct {
        const char *text;
        const char *report;
    } cases[] = {
        {"events {\n\n", "[emerg] unexpected end of file, expecting \"}\" in t.conf:3\n"},
        {"events {\n a 10\n",
         "[emerg] unexpected end of file, expecting \";\" or \"}\" in t.conf:3\n"},
        {"events {\n a 10",
         "[emerg] unexpected end of file, expecting \";\" or \"}\" in t.conf:2\n"},
        {"events {\n a 10\n}", "[emerg] unexpected \"}\" in t.conf:3\n"},
        {"events {} \n}", "[emerg] unexpected \"}\" in t.conf:2\n"},
        {"events {};\n", "[emerg] unexpected \";\" in t.conf:1\n"},
        {"{\n}", "[emerg] unexpected \"{\" in t.conf:1\n"},
        {"; events{}", "[emerg] unexpected \";\" in t.conf:1\n"},
        {"events\n", "[emerg] unexpected end of file, expecting \";\" or \"}\" in t.conf:2\n"},
        {"a \"b;\nc{}", "[emerg] unexpected end of file, expecting \";\" or \"}\" in t.conf:2\n"},
        {"a \"1\"2;\nc{}", "[emerg] unexpected \"2\" in t.conf:1\n"},
        {"a '1'x;", "[emerg] unexpected \"x\" in t.conf:1\n"},
        {"a 'b'#;", "[emerg] unexpected \"#\" in t.conf:1\n"},
        {"a 'b'};", "[emerg] unexpected \"}\" in t.conf:1\n"},
        {"a \"b\"\"c\";", "[emerg] unexpected \"\"\" in t.conf:1\n"},
        {"a }b;c{}", "[emerg] unexpected \"}\" in t.conf:1\n"},
        {"foo\\", "[emerg] unexpected end of file, expecting \";\" or \"}\" in t.conf:1\n"},
        {"a \"\\", "[emerg] unexpected end of file, expecting \";\" or \"}\" in t.conf:1\n"},
        {"a $", "[emerg] unexpected end of file, expecting \";\" or \"}\" in t.conf:1\n"},
        {"include;", "[emerg] invalid number of arguments in \"include\" directive in t.conf:1\n"},
        {"include a b;",
         "[emerg] invalid number of arguments in \"include\" directive in t.conf:1\n"},
        {"include\n {\n}\n",
         "[emerg] directive \"include\" is not terminated by \";\" in t.conf:2\n"},
        /* Reading goes on behind an error, and what a broken word opened is passed over. */
        {"a 'b'c;\n;\nd { 'e'f { g } } }\nh",
         "[emerg] unexpected \"c\" in t.conf:1\n"
         "[emerg] unexpected \";\" in t.conf:2\n"
         "[emerg] unexpected \"f\" in t.conf:3\n"
         "[emerg] unexpected \"}\" in t.conf:3\n"
         "[emerg] unexpected \"}\" in t.conf:3\n"
         "[emerg] unexpected end of file, expecting \";\" or \"}\" in t.conf:4\n"},
    };

    for (size_t i = 0; i < COUNT(cases); i++) {
        tear_down(state);
        set_up(state);
        assert_false(parse(cases[i].text));
        assert_str(report(), str_of(cases[i].report));
        assert_int_equal(conf.error_count, conf.grammar_error_count);
    }
}

static void good_nodes_beside_bad_ones_stay(void **state)
{
    assert_false(parse("a 1; b 'x'y; c { d 1; e } { f; } 'g'h { i; } j;"));
    assert_text(tree(), "<a><1>;<c>{<d><1>;}<j>;");
}

static struct str long_text(const char *before, size_t count, const char *after)
{
    struct buf text = {0};

    buf_append(&text, str_of(before));
    for (size_t i = 0; i < count; i++) {
        buf_append_char(&text, 'a');
    }
    buf_append(&text, str_of(after));
    buf_append_char(&text, '\0');
    struct str copy = arena_dup(&arena, buf_str(&text));
    buf_free(&text);
    return copy;
}

static void long_words_are_refused(void **state)
{
    static const struct {
        const char *before;
        size_t count;
        const char *after;
        const char *report;
    } cases[] = {
        {"pid ", 4090, ";", ""},
        {"pid ", 4095, ";", ""},
        {"pid ", 4096, ";\nb;",
         "[emerg] too long parameter \"aaaaaaaaaa...\" started in t.conf:1\n"},
        {"\npid \"", 4094, "\";", ""},
        {"\npid \"", 4095, "\";",
         "[emerg] too long parameter \"aaaaaaaaaa...\" started in t.conf:2\n"},
        {"\npid \"", 4096, "\n\";",
         "[emerg] too long parameter, probably missing terminating \"\"\" character in t.conf:2\n"},
        {"pid '", 5000, "\n",
         "[emerg] too long parameter, probably missing terminating \"'\" character in t.conf:1\n"},
        {"pid '", 4094, "",
         "[emerg] unexpected end of file, expecting \";\" or \"}\" in t.conf:1\n"},
    };

    for (size_t i = 0; i < COUNT(cases); i++) {
        tear_down(state);
        set_up(state);
        parse(long_text(cases[i].before, cases[i].count, cases[i].after).data);
        assert_str(report(), str_of(cases[i].report));
    }
}

static void nesting_has_a_limit(void **state)
{
    struct buf text = {0};

    for (int i = 0; i < 100000; i++) {
        buf_append(&text, STR("a{"));
    }
    buf_append_char(&text, '\0');
    assert_false(parse(text.data));
    assert_text(report(),
                "[emerg] blocks are nested too deeply, at most 200 are possible in t.conf:1\n");
    buf_free(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        conf_test(words_and_blocks_make_a_tree),
        conf_test(quotes_escapes_and_comments),
        conf_test(nodes_know_their_places),
        conf_test(errors_of_grammar),
        conf_test(good_nodes_beside_bad_ones_stay),
        conf_test(long_words_are_refused),
        conf_test(nesting_has_a_limit),
    };

    return cmocka_run_group_tests_name("conf/lexer", tests, NULL, NULL);
}
