/* Applies the tree: copies settings down block by block, reads rows, calls hooks. */
#include <stdlib.h>

#include "base/log.h"
#include "base/parse.h"
#include "conf/internal.h"

/* A nested block that waits for the rows and hooks of its enclosing block. */
struct pending_block {
    struct pending_block *next;
    const struct row_entry *entry;
    struct conf_node *node;
};

/* ---- lookup of names */

static void add_row(struct conf *conf, struct conf_engine *engine, unsigned number,
                    unsigned row_index)
{
    struct row_entry *entry = arena_new(conf->arena, struct row_entry);

    entry->table = conf->tables[number].table;
    entry->number = number;
    entry->row = &entry->table->rows[row_index];
    entry->row_index = row_index;
    struct row_entry *first = map_get(&engine->rows, str_of(entry->row->name));
    if (first == NULL) {
        map_put(&engine->rows, conf->arena, str_of(entry->row->name), entry);
        return;
    }
    while (first->next != NULL) {
        first = first->next;
    }
    first->next = entry;
}

/* Can settings of this table change other than by rows that the engine reads itself? */
static bool table_needs_copy(const struct directive_table *table)
{
    if (table->finish != NULL || table->fresh != NULL || table->rows == NULL) {
        return true;
    }
    for (const struct directive *row = table->rows; row->name != NULL; row++) {
        if (row->inherit == INHERIT_NEVER || row->type == TYPE_CUSTOM || row->type == TYPE_BLOCK) {
            return true;
        }
    }
    return false;
}

static void register_tables(struct conf *conf)
{
    struct conf_engine *engine = arena_new(conf->arena, struct conf_engine);

    conf->engine = engine;
    engine->needs_copy = arena_array(conf->arena, conf->table_count + 1, sizeof(bool));
    engine->defaults = arena_array(conf->arena, conf->table_count + 1, sizeof(void *));
    for (unsigned i = 0; i < conf->table_count; i++) {
        const struct directive_table *table = conf->tables[i].table;
        if (table == NULL) {
            continue;
        }
        if (table->key != NULL && table->key->number != i) {
            table->key->number = i; /* for the first reading of this process that has the table */
        }
        engine->needs_copy[i] = table_needs_copy(table);
        for (unsigned j = 0; table->rows != NULL && table->rows[j].name != NULL; j++) {
            add_row(conf, engine, i, j);
        }
    }
}

/* ---- scopes */

static void reset_fields(const struct directive_table *table, const void *defaults, void *settings)
{
    const struct directive *row = table->rows;

    for (; row != NULL && row->name != NULL; row++) {
        if (row->inherit == INHERIT_NEVER && row->size != 0) {
            memcpy((char *) settings + row->offset, (const char *) defaults + row->offset,
                   row->size);
        }
    }
    if (table->fresh != NULL) {
        table->fresh(settings);
    }
}

/* The settings of a table in this scope: a copy of its own, or the parent's, which it shares until
   a row is set. */
static void *inherit_settings(struct conf_scope *scope, unsigned number)
{
    const struct directive_table *table = scope->conf->tables[number].table;
    void *from = scope->parent == NULL ? NULL : scope->parent->settings[number];

    if (table == NULL || table->size == 0 || (table->contexts & scope->context) == 0) {
        return from;
    }
    const void *defaults = conf_defaults(scope->conf, number);
    if (from != NULL && !scope->conf->engine->needs_copy[number]) {
        return from;
    }
    void *settings = arena_alloc(scope->conf->arena, table->size);
    memcpy(settings, from == NULL ? defaults : from, table->size);
    reset_fields(table, defaults, settings);
    return settings;
}

static struct conf_scope *make_scope(struct conf *conf, struct conf_scope *parent,
                                     struct conf_node *node, uint32_t context)
{
    struct conf_scope *scope = arena_new(conf->arena, struct conf_scope);

    scope->conf = conf;
    scope->parent = parent;
    scope->node = node;
    scope->context = context;
    scope->settings = arena_array(conf->arena, conf->table_count + 1, sizeof(void *));
    scope->presence = arena_array(conf->arena, conf->table_count + 1, sizeof(uint64_t *));
    for (unsigned i = 0; i < conf->table_count; i++) {
        scope->settings[i] = inherit_settings(scope, i);
    }
    return scope;
}

static bool is_present(const struct conf_scope *scope, unsigned number, unsigned row_index)
{
    const uint64_t *bits = scope->presence[number];

    return bits != NULL && (bits[row_index / 64] >> row_index % 64 & 1) != 0;
}

static void set_present(struct conf_scope *scope, const struct row_entry *entry)
{
    uint64_t **bits = &scope->presence[entry->number];

    if (*bits == NULL) {
        unsigned rows = 0;
        while (entry->table->rows[rows].name != NULL) {
            rows++;
        }
        *bits = arena_array(scope->conf->arena, rows / 64 + 1, sizeof(uint64_t));
    }
    (*bits)[entry->row_index / 64] |= (uint64_t) 1 << entry->row_index % 64;
}

bool conf_is_set(const struct conf_scope *scope, const struct settings_key *key, const char *name)
{
    const struct directive_table *table = scope->conf->tables[key->number].table;

    for (unsigned i = 0; table->rows != NULL && table->rows[i].name != NULL; i++) {
        if (strcmp(table->rows[i].name, name) == 0 && is_present(scope, key->number, i)) {
            return true;
        }
    }
    return false;
}

/* The settings that a row writes to; a shared one is copied first. */
static void *own_settings(struct conf_scope *scope, const struct row_entry *entry)
{
    const struct directive_table *table = entry->table;
    void *settings = scope->settings[entry->number];

    if (settings == NULL || (table->contexts & scope->context) == 0 || scope->parent == NULL ||
        settings != scope->parent->settings[entry->number]) {
        return settings;
    }
    void *copy = arena_alloc(scope->conf->arena, table->size);
    memcpy(copy, settings, table->size);
    scope->settings[entry->number] = copy;
    return copy;
}

/* ---- rows */

/* Hints at invisible bytes that make the name another word. */
static bool hint_invisible(struct conf *conf, struct str name)
{
    if (str_starts(name, STR("\xef\xbb\xbf"))) {
        conf_hint(conf, "the file begins with a byte order mark (bytes EF BB BF): save it without");
        return true;
    }
    if (str_find(name, STR("\xc2\xa0")) != NULL) {
        conf_hint(conf, "there is a no-break space (bytes C2 A0) in it: put a plain one there");
        return true;
    }
    return false;
}

static bool unknown_directive(struct conf_scope *scope, const struct conf_node *node)
{
    struct conf *conf = scope->conf;
    struct vec here = {0};
    struct vec elsewhere = {0};
    struct str known = conf->explain_unknown == NULL
                           ? STR_NONE
                           : conf->explain_unknown(conf, node->args[0], scope->context);

    if (known.len != 0) {
        return conf_error(conf, node, "unknown directive \"%.*s\" (%.*s)", STR_ARG(node->args[0]),
                          STR_ARG(known));
    }
    conf_error(conf, node, "unknown directive \"%.*s\"", STR_ARG(node->args[0]));
    if (hint_invisible(conf, node->args[0])) {
        return false;
    }
    map_each(slot, &conf->engine->rows) {
        uint32_t contexts = 0;
        for (const struct row_entry *entry = slot->value; entry != NULL; entry = entry->next) {
            contexts |= entry->row->contexts;
        }
        struct vec *list = (contexts & scope->context) != 0 ? &here : &elsewhere;
        *vec_add(list, conf->arena, struct str) = slot->key;
    }
    *vec_add(&here, conf->arena, struct str) = STR("include");
    struct str near = conf_nearest(node->args[0], here.items, here.count);
    if (near.data == NULL) {
        near = conf_nearest(node->args[0], elsewhere.items, elsewhere.count);
    }
    if (near.data != NULL) {
        conf_hint(conf, "did you mean \"%.*s\"?", STR_ARG(near));
    }
    return false;
}

static bool misplaced_directive(struct conf_scope *scope, const struct conf_node *node,
                                const struct row_entry *entry)
{
    uint32_t contexts = 0;

    for (; entry != NULL; entry = entry->next) {
        contexts |= entry->row->contexts;
    }
    conf_error(scope->conf, node, "\"%.*s\" directive is not allowed here", STR_ARG(node->args[0]));
    struct str names = conf_context_names(scope->conf->arena, contexts);
    conf_hint(scope->conf, "it may stand in: %.*s", STR_ARG(names));
    return false;
}

static bool takes_arguments(const struct directive *row, const struct conf_node *node)
{
    unsigned least, most;

    conf_row_arity(row, &least, &most);
    return node->count - 1 >= least && node->count - 1 <= most;
}

/* The row for this use of the name: of those allowed in this block, the first one that accepts the
 * number of arguments, else the first one. NULL: none is allowed. */
static const struct row_entry *choose_row(const struct conf_scope *scope,
                                          const struct conf_node *node,
                                          const struct row_entry *entry)
{
    const struct row_entry *chosen = NULL;

    for (; entry != NULL; entry = entry->next) {
        if ((entry->row->contexts & scope->context) == 0) {
            continue;
        }
        if (takes_arguments(entry->row, node)) {
            return entry;
        }
        chosen = chosen == NULL ? entry : chosen;
    }
    return chosen;
}

/* The row for this use of the name, with the shape of the directive checked. NULL after an
 * error. */
static const struct row_entry *find_row(struct conf_scope *scope, const struct conf_node *node)
{
    const struct row_entry *first = map_get(&scope->conf->engine->rows, node->args[0]);

    if (first == NULL) {
        unknown_directive(scope, node);
        return NULL;
    }
    const struct row_entry *entry = choose_row(scope, node, first);
    if (entry == NULL) {
        misplaced_directive(scope, node, first);
        return NULL;
    }
    bool wants_block = entry->row->type == TYPE_BLOCK;
    if (node->is_block && !wants_block) {
        conf_error(scope->conf, node, "directive \"%s\" is not terminated by \";\"",
                   entry->row->name);
        conf_drop_brace_error(scope->conf, node, -1);
        return NULL;
    }
    if (!node->is_block && wants_block) {
        conf_error(scope->conf, node, "directive \"%s\" has no opening \"{\"", entry->row->name);
        conf_drop_brace_error(scope->conf, node, 1);
        return NULL;
    }
    if (!node->is_code && conf_is_code_block(node->args[0])) {
        conf_error(scope->conf, node, "directive \"%s\" has no opening \"{\"", entry->row->name);
        return NULL;
    }
    if (!takes_arguments(entry->row, node)) {
        conf_error(scope->conf, node, "invalid number of arguments in \"%s\" directive",
                   entry->row->name);
        return NULL;
    }
    return entry;
}

/* The entries of a free-form block must be lines: a block among them is an error. */
static void check_free_form(struct conf *conf, const struct conf_node *block)
{
    for (const struct conf_node *node = block->children; node != NULL; node = node->next) {
        if (node->is_block) {
            conf_error(conf, node, "unexpected \"{\"");
        }
    }
}

/* Applies one use of a directive: repetition, value, the row's own apply. False after an error. */
static bool apply_row(struct conf_scope *scope, const struct row_entry *entry,
                      struct conf_node *node, void *settings, bool is_first)
{
    const struct directive *row = entry->row;

    switch (row->type) {
    case TYPE_OBSOLETE:
        if (row->replaced_by != NULL) {
            conf_warn(scope->conf, node,
                      "the \"%s\" directive is obsolete, use the \"%s\" directive instead",
                      row->name, row->replaced_by);
        } else {
            conf_warn(scope->conf, node, "the \"%s\" directive is obsolete and has no effect",
                      row->name);
        }
        return true;
    case TYPE_CUSTOM:
    case TYPE_BLOCK:
        if (is_first && row->repeat == REPEAT_APPEND && row->size != 0 && settings != NULL) {
            memset((char *) settings + row->offset, 0, row->size);
        }
        return row->apply == NULL || row->apply(scope, row, node, settings);
    default:
        if (settings == NULL) {
            return conf_error(scope->conf, node, "internal error: no settings for \"%s\" here",
                              row->name);
        }
        return conf_store_value(scope, row, node, settings, is_first) &&
               (row->apply == NULL || row->apply(scope, row, node, settings));
    }
}

/* The same for a row with is_late: its variables must be defined only if a server inherits it. */
static bool apply_late_row(struct conf_scope *scope, const struct row_entry *entry,
                           struct conf_node *node, bool is_first)
{
    struct conf *conf = scope->conf;
    void *settings = own_settings(scope, entry);

    if (!entry->row->is_late || scope->context != IN_HTTP) {
        return apply_row(scope, entry, node, settings, is_first);
    }
    struct late_use use = {.entry = entry};
    conf->engine->late = &use;
    bool is_good = apply_row(scope, entry, node, settings, is_first);
    conf->engine->late = NULL;
    *vec_add(&scope->late, conf->arena, struct late_use) = use;
    return is_good;
}

/* A server was read: the variables of the rows that it inherits from `http` must be defined. */
static void need_inherited(const struct conf_scope *scope)
{
    if (scope->parent == NULL || scope->context != IN_SERVER) {
        return;
    }
    vec_each(const struct late_use, use, &scope->parent->late) {
        if (is_present(scope, use->entry->number, use->entry->row_index)) {
            continue;
        }
        vec_each(struct variable *, variable, &use->variables) {
            (*variable)->flags |= VARIABLE_NEEDED;
        }
    }
}

/* Hints at a missing ";" if the statement continues in a line that begins with a directive. */
static bool hint_semicolon(struct conf *conf, const struct conf_node *node)
{
    if (node->source == NULL || node->line == node->end_line) {
        return false;
    }
    struct str rest = str_from(node->source, node->file->text.data + node->file->text.len);
    struct str line = str_trim(str_cut(&rest, '\n'));
    struct str next = str_trim(rest.data == NULL ? STR("") : rest);
    size_t len = 0;

    while (len < next.len &&
           ((next.data[len] >= 'a' && next.data[len] <= 'z') || next.data[len] == '_' ||
            ascii_is_digit((unsigned char) next.data[len]))) {
        len++;
    }
    if (len == 0 || map_get(&conf->engine->rows, str_head(next, len)) == NULL) {
        return false;
    }
    conf_hint(conf, "is \";\" missing after \"%.*s\"?", STR_ARG(line));
    conf_mark(conf, node->args[0]);
    return true;
}

/* The format of the row's number, size or time; NULL: it is none of them. */
static const char *units_of(const struct directive *row)
{
    struct str name = str_of(row->name);

    switch (row->type) {
    case TYPE_NUMBER:
        return "a number has no unit";
    case TYPE_SIZE:
    case TYPE_TEMPLATE_SIZE:
    case TYPE_BUFFERS:
        return "a size is a number of bytes, or has k or m behind it: 16k";
    case TYPE_OFFSET:
        return "a size is a number of bytes, or has k, m or g behind it: 10m";
    case TYPE_MSEC:
    case TYPE_SEC:
        break;
    default:
        if (str_find(name, STR("time")) == NULL && str_find(name, STR("expires")) == NULL &&
            str_find(name, STR("valid")) == NULL) {
            return NULL;
        }
    }
    return "a time is a number of seconds, or has ms, s, m, h, d, w, M (months) or y behind it: 1h, "
           "\"1m 30s\"";
}

/* Adds a hint to a refused directive: the usual reasons. */
static void explain_refusal(struct conf *conf, const struct directive *row,
                            const struct conf_node *node)
{
    struct conf_message *message = conf->messages;

    if (message->hint.len != 0 || message->node != node || hint_semicolon(conf, node) ||
        row == NULL) {
        return;
    }
    const char *units = units_of(row);
    uint64_t number;
    bool is_of_value = str_find(message->text, STR("invalid value")) != NULL ||
                       str_find(message->text, STR("invalid number")) != NULL ||
                       str_find(message->text, STR("invalid time")) != NULL;
    if (units == NULL || !is_of_value || node->count < 2) {
        return;
    }
    conf_hint(conf, "%s", units);
    bool is_second =
        row->type == TYPE_BUFFERS && node->count == 3 && parse_uint(node->args[1], &number);
    conf_mark(conf, node->args[is_second ? 2 : 1]);
}

static void apply_node(struct conf_scope *scope, struct conf_node *node,
                       struct pending_block ***pending)
{
    struct conf *conf = scope->conf;
    unsigned errors = conf->error_count;

    conf->position = node->order;
    const struct row_entry *entry = find_row(scope, node);
    if (entry == NULL) {
        explain_refusal(conf, NULL, node);
        return;
    }
    const struct directive *row = entry->row;
    bool is_first = !is_present(scope, entry->number, entry->row_index);
    if (!is_first && row->repeat == REPEAT_ERROR && row->type != TYPE_OBSOLETE) {
        conf_error(conf, node, "\"%s\" directive is duplicate", row->name);
        return;
    }
    if (row->replaced_by != NULL && row->type != TYPE_OBSOLETE) {
        conf_warn(conf, node,
                  "the \"%s\" directive is deprecated, use the \"%s\" directive instead", row->name,
                  row->replaced_by);
    }
    if (row->is_free_form) {
        check_free_form(conf, node);
    }
    bool is_good = apply_late_row(scope, entry, node, is_first);
    set_present(scope, entry);
    if (!is_good && conf->error_count == errors) {
        conf_error(conf, node, "invalid \"%s\" directive", row->name);
    }
    if (conf->error_count != errors) {
        explain_refusal(conf, row, node);
    }
    if (row->type == TYPE_BLOCK && row->enter != NULL && is_good) {
        struct pending_block *block = arena_new(conf->arena, struct pending_block);
        block->entry = entry;
        block->node = node;
        **pending = block;
        *pending = &block->next;
    } else {
        node->is_closed = node->is_block;
    }
}

/*
 * Calls the finish hooks of all tables with settings here. If a row of this block failed, they run
 * without messages, which would be about incomplete settings.
 */
static void run_finish_hooks(struct conf_scope *scope, bool is_silent)
{
    struct conf *conf = scope->conf;
    const struct conf_node *outermost = scope->node;

    while (outermost->parent != NULL && outermost->parent->parent != NULL) {
        outermost = outermost->parent;
    }
    conf->position = outermost->file == NULL ? conf->next_order : outermost->close_order;
    conf->engine->is_finishing = true;
    conf->engine->mute = is_silent ? scope : NULL;
    for (unsigned i = 0; i < conf->table_count; i++) {
        const struct directive_table *table = conf->tables[i].table;
        if (table != NULL && table->finish != NULL && (table->contexts & scope->context) != 0) {
            table->finish(scope, scope->settings[i]);
        }
    }
    conf->engine->is_finishing = false;
    conf->engine->mute = NULL;
}

static void apply_block(struct conf_scope *scope)
{
    struct conf *conf = scope->conf;
    struct pending_block *pending = NULL;
    struct pending_block **end = &pending;
    unsigned errors = conf->error_count;

    for (struct conf_node *node = scope->node->children; node != NULL; node = node->next) {
        apply_node(scope, node, &end);
    }
    need_inherited(scope);
    run_finish_hooks(scope, conf->error_count != errors || conf->grammar_error_count != 0);
    for (; pending != NULL; pending = pending->next) {
        struct conf_node *node = pending->node;
        conf->position = node->order;
        pending->entry->row->enter(scope, pending->entry->row, node,
                                   scope->settings[pending->entry->number]);
        node->is_closed = true;
    }
}

struct conf_scope *conf_enter(struct conf_scope *parent, struct conf_node *node, uint32_t context,
                              void (*prepare)(struct conf_scope *scope, void *arg), void *arg)
{
    struct conf_scope *scope = make_scope(parent->conf, parent, node, context);

    if (prepare != NULL) {
        prepare(scope, arg);
    }
    apply_block(scope);
    node->is_closed = true;
    scope->conf->position = node->close_order;
    return scope;
}

bool conf_apply(struct conf *conf)
{
    register_tables(conf);
    conf->engine->main = make_scope(conf, NULL, conf->root, IN_MAIN);
    apply_block(conf->engine->main);
    conf->position = conf->next_order;
    return conf->error_count == 0;
}

struct conf_scope *conf_main_scope(struct conf *conf)
{
    return conf->engine->main;
}

/* ---- defaults */

/* A default is part of the program: if it fails, that is a bug, not an error of the user. */
static _Noreturn void bad_default(struct conf *conf, const struct row_entry *entry)
{
    conf_report(conf, log_main, false);
    log_write(log_main, LOG_EMERG, 0, "internal error: default \"%s\" of directive \"%s\" in %s",
              entry->row->initial, entry->row->name,
              conf_table_module(&conf->tables[entry->number]));
    abort();
}

/*
 * Parses .initial, which may have several uses separated by ';', and puts the row's name before
 * each.
 */
static struct conf_node *parse_default(struct conf *conf, const struct directive *row)
{
    struct conf_node *block = arena_new(conf->arena, struct conf_node);
    struct conf_file *file = arena_new(conf->arena, struct conf_file);
    struct conf_reading reading = {.file = file};

    file->text = arena_printf(conf->arena, "%s;", row->initial);
    file->name = STR("default value");
    if (!conf_parse_into(conf, &reading, block)) {
        return NULL;
    }
    for (struct conf_node *node = block->children; node != NULL; node = node->next) {
        struct str *args = arena_array(conf->arena, node->count + 1, sizeof(*args));
        bool *quoted = arena_array(conf->arena, node->count + 1, sizeof(*quoted));
        args[0] = str_of(row->name);
        memcpy(args + 1, node->args, node->count * sizeof(*args));
        memcpy(quoted + 1, node->quoted, node->count * sizeof(*quoted));
        node->args = args;
        node->quoted = quoted;
        node->count++;
    }
    return block->children;
}

static void apply_default(struct conf_scope *scope, const struct row_entry *entry, void *defaults)
{
    const struct directive *row = entry->row;
    struct conf *conf = scope->conf;
    unsigned errors = conf->error_count;
    struct conf_node *node = parse_default(conf, row);
    bool is_first = true;

    if (node == NULL) {
        bad_default(conf, entry);
    }
    for (; node != NULL; node = node->next) {
        unsigned least, most;
        conf_row_arity(row, &least, &most);
        bool fits = node->count - 1 >= least && node->count - 1 <= most;
        if (!fits || !apply_row(scope, entry, node, defaults, is_first) ||
            conf->error_count != errors) {
            bad_default(conf, entry);
        }
        is_first = false;
    }
}

static void *make_defaults(struct conf *conf, unsigned number)
{
    const struct directive_table *table = conf->tables[number].table;
    struct conf_node *nowhere = arena_new(conf->arena, struct conf_node);
    struct conf_scope scope = {.conf = conf, .node = nowhere};
    void *defaults = arena_zalloc(conf->arena, table->size);

    scope.settings = arena_array(conf->arena, conf->table_count + 1, sizeof(void *));
    scope.presence = arena_array(conf->arena, conf->table_count + 1, sizeof(uint64_t *));
    scope.settings[number] = defaults;
    if (table->fresh != NULL) {
        table->fresh(defaults);
    }
    for (unsigned i = 0; table->rows != NULL && table->rows[i].name != NULL; i++) {
        if (table->rows[i].initial != NULL) {
            const struct row_entry entry = {.row = &table->rows[i],
                                            .table = table,
                                            .number = number,
                                            .row_index = i};
            apply_default(&scope, &entry, defaults);
        }
    }
    return defaults;
}

const void *conf_defaults(struct conf *conf, unsigned number)
{
    struct conf_engine *engine = conf->engine;

    if (engine->defaults[number] == NULL) {
        const struct conf_scope *mute = engine->mute;
        engine->mute = NULL;
        engine->defaults[number] = make_defaults(conf, number);
        engine->mute = mute;
    }
    return engine->defaults[number];
}

/* ---- configuration text that comes at run time, read with the rows of the running reading ---- */

void conf_later(const struct conf *conf, struct arena *arena, struct variable_set *set,
                struct conf *out)
{
    struct conf_engine *engine = arena_new(arena, struct conf_engine);

    /* Defaults that are made from now on belong to the arena of this text. */
    *engine = *conf->engine;
    engine->defaults = arena_array(arena, conf->table_count + 1, sizeof(void *));
    memcpy(engine->defaults, conf->engine->defaults, conf->table_count * sizeof(void *));
    *out = (struct conf){.arena = arena,
                         .prefix = conf->prefix,
                         .conf_prefix = conf->conf_prefix,
                         .file_name = conf->file_name,
                         .engine = engine,
                         .tables = conf->tables,
                         .table_count = conf->table_count,
                         .generation = conf->generation,
                         .is_later = true};
    conf_set_variables(out, set);
}

struct conf_scope *conf_scope_later(struct conf *later, const struct conf_scope *outer)
{
    struct conf_scope *scope = arena_new(later->arena, struct conf_scope);

    *scope = *outer;
    scope->conf = later;
    return scope;
}
