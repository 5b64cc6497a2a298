/* Lists of the directives, from their rows: `nginx -l` and the manual. */
#include "conf/internal.h"

/* Names of blocks as the manual gives them. */
static const struct {
    uint32_t context;
    const char *name;
} context_names[] = {
    {IN_MAIN, "main"},
    {IN_EVENTS, "events"},
    {IN_DSO, "dso"},
    {IN_HTTP, "http"},
    {IN_SERVER, "server"},
    {IN_LOCATION, "location"},
    {IN_SERVER_IF, "if in server"},
    {IN_LOCATION_IF, "if in location"},
    {IN_LIMIT_EXCEPT, "limit_except"},
    {IN_UPSTREAM, "upstream"},
    {IN_STREAM, "stream"},
    {IN_STREAM_SERVER, "server of stream"},
    {IN_STREAM_UPSTREAM, "upstream of stream"},
    {IN_MAIL, "mail"},
    {IN_MAIL_SERVER, "server of mail"},
    {IN_PROCESSES, "processes"},
    {IN_PROCESS, "process"},
    {IN_OIDC_PROVIDER, "oidc_provider"},
    {IN_REDIS_STORE, "redis_store"},
    {IN_ACME_ISSUER, "acme_issuer"},
    {IN_OTEL_EXPORTER, "otel_exporter"},
    {IN_DISCOVERY, "discovery"},
};

#define CONTEXT_COUNT (sizeof(context_names) / sizeof(*context_names))

static void put_contexts(struct buf *out, uint32_t contexts)
{
    bool is_first = true;

    if ((contexts & IN_ANY) == IN_ANY) {
        buf_append(out, STR("any"));
        return;
    }
    for (size_t i = 0; i < CONTEXT_COUNT; i++) {
        if ((contexts & context_names[i].context) != 0) {
            buf_printf(out, "%s%s", is_first ? "" : ", ", context_names[i].name);
            is_first = false;
        }
    }
}

struct str conf_context_names(struct arena *arena, uint32_t contexts)
{
    struct buf out = {0};

    put_contexts(&out, contexts);
    struct str names = arena_dup(arena, buf_str(&out));
    buf_free(&out);
    return names;
}

static void put_words(struct buf *out, const struct directive *row, const char *separator)
{
    for (const struct directive_word *word = row->words; word != NULL && word->word != NULL;
         word++) {
        buf_printf(out, "%s%s", word == row->words ? "" : separator, word->word);
    }
}

/* Writes the arguments in the format of the manual. */
static void put_arguments(struct buf *out, const struct directive *row)
{
    unsigned least, most;

    if (row->syntax != NULL) {
        buf_printf(out, "%s", row->syntax);
        return;
    }
    switch (row->type) {
    case TYPE_FLAG:
        buf_append(out, STR("on | off"));
        return;
    case TYPE_ENUM:
        put_words(out, row, " | ");
        return;
    case TYPE_BITS:
        put_words(out, row, " | ");
        buf_append(out, STR(" ..."));
        return;
    case TYPE_NUMBER:
        buf_append(out, STR("number"));
        return;
    case TYPE_SIZE:
    case TYPE_OFFSET:
    case TYPE_TEMPLATE_SIZE:
        buf_append(out, STR("size"));
        return;
    case TYPE_MSEC:
    case TYPE_SEC:
        buf_append(out, STR("time"));
        return;
    case TYPE_STRING:
    case TYPE_TEMPLATE:
        buf_append(out, STR("string"));
        return;
    case TYPE_PATH:
    case TYPE_CONF_PATH:
        buf_append(out, STR("path"));
        return;
    case TYPE_STRINGS:
    case TYPE_TEMPLATES:
        buf_append(out, STR("string ..."));
        return;
    case TYPE_KEY_TEMPLATE:
        buf_append(out, STR("name value"));
        return;
    case TYPE_BUFFERS:
        buf_append(out, STR("number size"));
        return;
    case TYPE_CUSTOM:
    case TYPE_BLOCK:
    case TYPE_OBSOLETE:
        break;
    }
    conf_row_arity(row, &least, &most);
    for (unsigned i = 0; i < least; i++) {
        buf_append(out, i == 0 ? STR("value") : STR(" value"));
    }
    if (most > least) {
        buf_append(out, least == 0 ? STR("[value ...]") : STR(" [value ...]"));
    }
}

static void put_row_manual(struct buf *out, const struct directive *row)
{
    struct buf arguments = {0};

    put_arguments(&arguments, row);
    buf_printf(out, "### %s\n\n", row->name);
    buf_printf(out, "- Syntax: `%s%s%.*s%s`\n", row->name, arguments.len == 0 ? "" : " ",
               STR_ARG(buf_str(&arguments)), row->type == TYPE_BLOCK ? " { ... }" : ";");
    if (row->initial == NULL) {
        buf_append(out, STR("- Default: none\n"));
    } else {
        buf_printf(out, "- Default: `%s %s;`\n", row->name, row->initial);
    }
    buf_append(out, STR("- Context: "));
    put_contexts(out, row->contexts);
    buf_printf(out, "\n- Source: %s\n\n", row->source == NULL ? "unknown" : row->source);
    if (row->replaced_by != NULL) {
        buf_printf(out, "Deprecated, use `%s` instead. ", row->replaced_by);
    }
    if (row->type == TYPE_OBSOLETE) {
        buf_append(out, STR("Accepted with a warning, has no effect. "));
    }
    if (row->doc != NULL) {
        buf_printf(out, "%s", row->doc);
    }
    buf_append(out, STR("\n\n"));
    buf_free(&arguments);
}

const char *conf_table_module(const struct conf_table *use)
{
    const char *name = use->table == NULL || use->table->module_name == NULL
                           ? use->module
                           : use->table->module_name;

    return name == NULL ? "?" : name;
}

static bool is_same_module(const struct conf_table *a, const struct conf_table *b)
{
    return strcmp(conf_table_module(a), conf_table_module(b)) == 0;
}

static bool has_rows(const struct conf_table *use)
{
    return use->table != NULL && use->table->rows != NULL;
}

/* Is this row's name in an earlier row of the same module? The list has each name once. */
static bool was_listed(const struct conf_table *tables, unsigned table, unsigned row)
{
    const char *name = tables[table].table->rows[row].name;

    for (unsigned i = 0; i <= table; i++) {
        if (!has_rows(&tables[i]) || !is_same_module(&tables[i], &tables[table])) {
            continue;
        }
        const struct directive *rows = tables[i].table->rows;
        for (unsigned j = 0; rows[j].name != NULL && (i < table || j < row); j++) {
            if (strcmp(rows[j].name, name) == 0) {
                return true;
            }
        }
    }
    return false;
}

/* Is there an earlier table of the same module? Then its rows were listed there. */
static bool is_later_table(const struct conf_table *tables, unsigned table)
{
    for (unsigned i = 0; i < table; i++) {
        if (is_same_module(&tables[i], &tables[table])) {
            return true;
        }
    }
    return false;
}

static void put_module(const struct conf_table *tables, unsigned count, unsigned first,
                       struct buf *out, bool as_markdown)
{
    bool has_head = false;

    for (unsigned i = first; i < count; i++) {
        if (!has_rows(&tables[i]) || !is_same_module(&tables[i], &tables[first])) {
            continue;
        }
        const struct directive *rows = tables[i].table->rows;
        for (unsigned j = 0; rows[j].name != NULL; j++) {
            if (!has_head) {
                buf_printf(out, "%s%s%s", as_markdown ? "## " : "", conf_table_module(&tables[i]),
                           as_markdown ? "\n\n" : ":\n");
                has_head = true;
            }
            if (as_markdown) {
                put_row_manual(out, &rows[j]);
            } else if (!was_listed(tables, i, j)) {
                buf_printf(out, "    %s\n", rows[j].name);
            }
        }
    }
}

void conf_list_directives(const struct conf_table *tables, unsigned count, struct buf *out,
                          bool as_markdown)
{
    buf_append(out, as_markdown ? STR("# Directives\n\n") : STR("all available directives:\n"));
    for (unsigned i = 0; i < count; i++) {
        if (!is_later_table(tables, i)) {
            put_module(tables, count, i, out, as_markdown);
        }
    }
}
