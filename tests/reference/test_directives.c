/*
 * Holds the rows of all linked modules against the facts in directives.tsv: name, contexts, block
 * or line, count of arguments, default. Where we differ on purpose, deviations.h says so and why.
 */
#include "base/unit.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/fs.h"
#include "conf/internal.h"
#include "reference/deviations.h"
#include "server/module.h"

#define FACTS "tests/reference/directives.tsv" /* make unit runs in the root */

static struct arena arena;
static bool was_used[COUNT(deviations)];
static unsigned differences;

/* ---- facts ---- */

/* One line of the file. */
struct fact {
    struct str module;
    struct str name;
    struct str contexts; /* "http,server" */
    struct str kind;     /* "line" or "block" */
    struct str arity;    /* "1", "1-2", "2+"; empty = not known */
    struct str initial;  /* empty = none; "4k|8k" = one or the other */
};

static struct vec read_facts(void)
{
    struct vec facts = {0};
    struct str rest;

    if (!fs_read_all(&arena, FACTS, 1 << 20, &rest)) {
        fail_msg("cannot read %s: run this in the root of the repository", FACTS);
    }
    while (rest.data != NULL) {
        struct str line = str_cut(&rest, '\n');
        if (line.len == 0 || line.data[0] == '#') {
            continue;
        }
        struct fact *fact = vec_add(&facts, &arena, struct fact);
        fact->module = str_cut(&line, '\t');
        fact->name = str_cut(&line, '\t');
        fact->contexts = str_cut(&line, '\t');
        fact->kind = str_cut(&line, '\t');
        fact->arity = str_cut(&line, '\t');
        fact->initial = line;
    }
    return facts;
}

/* ---- rows ---- */

static const struct module *find_module(struct str name)
{
    for (const struct module *const *module = linked_modules; *module != NULL; module++) {
        if (str_is(name, (*module)->name)) {
            return *module;
        }
    }
    return NULL;
}

/* The n-th row of this name, or NULL. */
static const struct directive *find_row(const struct module *module, struct str name, unsigned n)
{
    const struct directive_table *table;

    for (unsigned i = 0; (table = module_table(module, i)) != NULL; i++) {
        for (const struct directive *row = table->rows; row != NULL && row->name != NULL; row++) {
            if (str_is(name, row->name) && n-- == 0) {
                return row;
            }
        }
    }
    return NULL;
}

static const struct {
    const char *name;
    uint32_t context;
} context_words[] = {
    {"main", IN_MAIN},
    {"events", IN_EVENTS},
    {"dso", IN_DSO},
    {"http", IN_HTTP},
    {"server", IN_SERVER},
    {"server-if", IN_SERVER_IF},
    {"location", IN_LOCATION},
    {"location-if", IN_LOCATION_IF},
    {"limit_except", IN_LIMIT_EXCEPT},
    {"upstream", IN_UPSTREAM},
    {"stream", IN_STREAM},
    {"stream-server", IN_STREAM_SERVER},
    {"stream-upstream", IN_STREAM_UPSTREAM},
    {"mail", IN_MAIL},
    {"mail-server", IN_MAIL_SERVER},
    {"processes", IN_PROCESSES},
    {"process", IN_PROCESS},
    {"oidc_provider", IN_OIDC_PROVIDER},
    {"acme_issuer", IN_ACME_ISSUER},
    {"otel_exporter-block", IN_OTEL_EXPORTER},
};

static struct str contexts_text(uint32_t contexts)
{
    struct buf out = {0};

    if ((contexts & IN_ANY) == IN_ANY) {
        return STR("any");
    }
    for (size_t i = 0; i < COUNT(context_words); i++) {
        if ((contexts & context_words[i].context) != 0) {
            buf_printf(&out, "%s%s", out.len == 0 ? "" : ",", context_words[i].name);
            contexts &= ~context_words[i].context;
        }
    }
    if (contexts != 0) {
        buf_append(&out, STR(",other"));
    }
    struct str text = arena_dup(&arena, buf_str(&out));
    buf_free(&out);
    return text;
}

/* The same words in our order. */
static struct str contexts_sorted(struct str words)
{
    uint32_t contexts = 0;

    if (str_is(words, "any")) {
        return words;
    }
    while (words.data != NULL) {
        struct str word = str_cut(&words, ',');
        size_t i = 0;
        while (i < COUNT(context_words) && !str_is(word, context_words[i].name)) {
            i++;
        }
        if (i == COUNT(context_words)) {
            fail_msg("what is the context \"%.*s\"?", STR_ARG(word));
        }
        contexts |= context_words[i].context;
    }
    return contexts_text(contexts);
}

static struct str arity_text(const struct directive *row)
{
    unsigned least;
    unsigned most;

    conf_row_arity(row, &least, &most);
    if (most >= ARGS_ANY) {
        return arena_printf(&arena, "%u+", least);
    }
    return least == most ? arena_printf(&arena, "%u", least)
                         : arena_printf(&arena, "%u-%u", least, most);
}

/* ---- comparison ---- */

/* One "*" of the pattern stands for any text. */
static bool is_like(struct str text, const char *pattern)
{
    struct str tail = str_of(pattern);
    struct str head = str_cut(&tail, '*');

    if (tail.data == NULL) {
        return str_equal(text, head);
    }
    return text.len >= head.len + tail.len && str_starts(text, head) && str_ends(text, tail);
}

/* A module of that name or pattern is linked. */
static bool is_linked(const char *pattern)
{
    for (const struct module *const *module = linked_modules; *module != NULL; module++) {
        if (is_like(str_of((*module)->name), pattern)) {
            return true;
        }
    }
    return false;
}

static void differ(struct str module, struct str name, enum aspect aspect, struct str ours,
                   struct str fact)
{
    static const char *const words[] = {"contexts", "kind",    "arguments",
                                        "default",  "missing", "extra"};

    for (size_t i = 0; i < COUNT(deviations); i++) {
        const struct deviation *deviation = &deviations[i];
        if (is_like(module, deviation->module) && is_like(name, deviation->name) &&
            aspect == deviation->aspect &&
            (deviation->ours == NULL || str_is(ours, deviation->ours))) {
            assert_true(deviation->reason[0] != '\0');
            was_used[i] = true;
            return;
        }
    }
    differences++;
    print_error("%.*s, %.*s: %s: ours \"%.*s\", the fact \"%.*s\"\n", STR_ARG(module),
                STR_ARG(name), words[aspect], STR_ARG(ours), STR_ARG(fact));
}

/* Is the text one of those between the bars? */
static bool is_one_of(struct str text, struct str alternatives)
{
    if (str_equal(text, alternatives)) {
        return true;
    }
    while (alternatives.data != NULL) {
        if (str_equal(str_cut(&alternatives, '|'), text)) {
            return true;
        }
    }
    return false;
}

static void compare(const struct module *module, const struct fact *fact)
{
    const struct directive *row = find_row(module, fact->name, 0);
    uint32_t contexts = 0;

    if (row == NULL) {
        differ(fact->module, fact->name, MISSING, STR_NONE, STR("a row"));
        return;
    }
    for (unsigned n = 0; find_row(module, fact->name, n) != NULL; n++) {
        contexts |= find_row(module, fact->name, n)->contexts;
    }
    struct str ours = contexts_text(contexts);
    struct str wanted = contexts_sorted(fact->contexts);
    if (!str_equal(ours, wanted)) {
        differ(fact->module, fact->name, CONTEXTS, ours, wanted);
    }
    ours = row->type == TYPE_BLOCK ? STR("block") : STR("line");
    if (!str_equal(ours, fact->kind)) {
        differ(fact->module, fact->name, KIND, ours, fact->kind);
    }
    ours = arity_text(row);
    if (fact->arity.len != 0 && !str_equal(ours, fact->arity)) {
        differ(fact->module, fact->name, ARGUMENTS, ours, fact->arity);
    }
    if (row->initial == NULL && (row->type == TYPE_OBSOLETE || row->replaced_by != NULL)) {
        return; /* what has no effect has no default, and that of an older name is the newer one's
                 */
    }
    ours = row->initial == NULL ? STR("") : str_of(row->initial);
    if (!is_one_of(ours, fact->initial)) {
        differ(fact->module, fact->name, DEFAULT, ours, fact->initial);
    }
}

static void each_fact_has_its_row(void **state)
{
    struct vec facts = read_facts();

    assert_true(facts.count > 100);
    vec_each(const struct fact, fact, &facts) {
        const struct module *module = find_module(fact->module);
        if (module != NULL) { /* else it was left out by --without-… or is loadable */
            compare(module, fact);
        }
    }
    assert_int_equal(differences, 0);
}

static bool is_fact(const struct vec *facts, const char *module, const char *name)
{
    vec_each(const struct fact, fact, facts) {
        if (str_is(fact->module, module) && str_is(fact->name, name)) {
            return true;
        }
    }
    return false;
}

static void each_row_is_a_fact(void **state)
{
    struct vec facts = read_facts();

    differences = 0;
    for (const struct module *const *module = linked_modules; *module != NULL; module++) {
        const struct directive_table *table;

        for (unsigned i = 0; (table = module_table(*module, i)) != NULL; i++) {
            for (const struct directive *row = table->rows; row != NULL && row->name != NULL;
                 row++) {
                if (row->source == NULL) {
                    fail_msg("the row of \"%s\" has no source", row->name);
                }
                if (!is_fact(&facts, (*module)->name, row->name)) {
                    differ(str_of((*module)->name), str_of(row->name), EXTRA, STR_NONE,
                           STR("no row"));
                }
            }
        }
    }
    assert_int_equal(differences, 0);
}

/* What was put right is struck off the list. */
static void each_deviation_is_one(void **state)
{
    unsigned stale = 0;

    for (size_t i = 0; i < COUNT(deviations); i++) {
        if (!was_used[i] && is_linked(deviations[i].module)) {
            print_error("%s: deviations.h has a row that does not hold any more\n",
                        deviations[i].name);
            stale++;
        }
    }
    assert_int_equal(stale, 0);
}

static int tear_down_group(void **state)
{
    arena_free(&arena);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_fact_has_its_row),
        cmocka_unit_test(each_row_is_a_fact),
        cmocka_unit_test(each_deviation_is_one),
    };

    return cmocka_run_group_tests_name("reference/directives", tests, NULL, tear_down_group);
}
