/* The value types: how the arguments of a row are parsed and stored. */
#include "base/parse.h"
#include "conf/internal.h"

void conf_row_arity(const struct directive *row, unsigned *least, unsigned *most)
{
    *least = row->min_args;
    *most = row->max_args == ARGS_ANY ? UINT32_MAX : row->max_args;
    if (row->min_args != 0 || row->max_args != 0) {
        return;
    }
    switch (row->type) {
    case TYPE_CUSTOM:
    case TYPE_BLOCK:
        break;
    case TYPE_OBSOLETE:
        *most = UINT32_MAX;
        break;
    case TYPE_BITS:
    case TYPE_STRINGS:
    case TYPE_TEMPLATES:
        *least = 1;
        *most = UINT32_MAX;
        break;
    case TYPE_KEY_TEMPLATE:
    case TYPE_BUFFERS:
        *least = *most = 2;
        break;
    default:
        *least = *most = 1;
        break;
    }
}

static bool is_list_type(enum value_type type)
{
    return type == TYPE_STRINGS || type == TYPE_TEMPLATES || type == TYPE_KEY_TEMPLATE;
}

static bool invalid_value(struct conf_scope *scope, const struct conf_node *node)
{
    return conf_error(scope->conf, node, "\"%.*s\" directive invalid value",
                      STR_ARG(node->args[0]));
}

/* ---- parsers that rows use as well */

bool conf_value_flag(struct conf_scope *scope, const struct conf_node *node, unsigned arg,
                     bool *out)
{
    if (str_equal_nocase(node->args[arg], STR("on"))) {
        *out = true;
        return true;
    }
    if (str_equal_nocase(node->args[arg], STR("off"))) {
        *out = false;
        return true;
    }
    return conf_error(scope->conf, node,
                      "invalid value \"%.*s\" in \"%.*s\" directive, it must be \"on\" or \"off\"",
                      STR_ARG(node->args[arg]), STR_ARG(node->args[0]));
}

bool conf_value_template(struct conf_scope *scope, const struct conf_node *node, unsigned arg,
                         struct template **out)
{
    struct template *made = template_compile(scope->conf, node, node->args[arg]);

    if (made == NULL) {
        return false;
    }
    *out = made;
    return true;
}

/* ---- words */

static const struct directive_word *find_word(const struct directive *row, struct str text)
{
    for (const struct directive_word *word = row->words; word->word != NULL; word++) {
        if (str_equal_nocase(str_of(word->word), text)) {
            return word;
        }
    }
    return NULL;
}

static bool unknown_word(struct conf_scope *scope, const struct directive *row,
                         const struct conf_node *node, struct str text)
{
    struct conf *conf = scope->conf;
    struct vec words = {0};
    struct str all = STR("");

    conf_error(conf, node, "invalid value \"%.*s\"", STR_ARG(text));
    for (const struct directive_word *word = row->words; word->word != NULL; word++) {
        *vec_add(&words, conf->arena, struct str) = str_of(word->word);
        all = arena_printf(conf->arena, "%.*s%s%s", STR_ARG(all), all.len == 0 ? "" : ", ",
                           word->word);
    }
    struct str near = conf_nearest(text, words.items, words.count);
    if (near.data != NULL) {
        conf_hint(conf, "did you mean \"%.*s\"?", STR_ARG(near));
    } else {
        conf_hint(conf, "it may be: %.*s", STR_ARG(all));
    }
    return false;
}

static bool store_enum(struct conf_scope *scope, const struct directive *row,
                       const struct conf_node *node, unsigned *field)
{
    const struct directive_word *word = find_word(row, node->args[1]);

    if (word == NULL) {
        return unknown_word(scope, row, node, node->args[1]);
    }
    *field = word->value;
    return true;
}

static bool store_bits(struct conf_scope *scope, const struct directive *row,
                       const struct conf_node *node, unsigned *field)
{
    for (unsigned i = 1; i < node->count; i++) {
        const struct directive_word *word = find_word(row, node->args[i]);
        if (word == NULL) {
            return unknown_word(scope, row, node, node->args[i]);
        }
        if (word->value != 0 && (*field & word->value) == word->value) {
            conf_warn(scope->conf, node, "duplicate value \"%.*s\"", STR_ARG(node->args[i]));
        }
        *field |= word->value;
    }
    return true;
}

/* ---- numbers */

static bool check_range(struct conf_scope *scope, const struct directive *row,
                        const struct conf_node *node, int64_t value)
{
    bool has_range = row->min != 0 || row->max != 0;
    bool has_top = has_range && row->max != INT64_MAX && (row->max != 0 || row->min <= 0);

    if (!has_range || (value >= row->min && (!has_top || value <= row->max))) {
        return true;
    }
    if (has_top) {
        return conf_error(scope->conf, node, "\"%s\" directive value must be between %lld and %lld",
                          row->name, (long long) row->min, (long long) row->max);
    }
    return conf_error(scope->conf, node,
                      "\"%s\" directive value must be equal to or greater than %lld", row->name,
                      (long long) row->min);
}

static bool store_number(struct conf_scope *scope, const struct directive *row,
                         const struct conf_node *node, int64_t *field)
{
    int64_t value;

    if (!parse_int(node->args[1], &value) || (value < 0 && row->min >= 0)) {
        return conf_error(scope->conf, node, "\"%s\" directive invalid number", row->name);
    }
    if (!check_range(scope, row, node, value)) {
        return false;
    }
    *field = value;
    return true;
}

/* Stores a size, an offset or a time in its field if it is in the row's range. */
static bool store_checked(struct conf_scope *scope, const struct directive *row,
                          const struct conf_node *node, uint64_t value, uint64_t *field)
{
    if (value > INT64_MAX) {
        return invalid_value(scope, node);
    }
    if (!check_range(scope, row, node, (int64_t) value)) {
        return false;
    }
    *field = value;
    return true;
}

static bool store_offset(struct conf_scope *scope, const struct directive *row,
                         const struct conf_node *node, int64_t *field)
{
    int64_t value;

    if (!parse_offset(node->args[1], &value) || value < 0) {
        return invalid_value(scope, node);
    }
    if (!check_range(scope, row, node, value)) {
        return false;
    }
    *field = value;
    return true;
}

static bool store_unsigned(struct conf_scope *scope, const struct directive *row,
                           const struct conf_node *node, uint64_t *field,
                           bool (*parse)(struct str s, uint64_t *out))
{
    uint64_t value;

    if (!parse(node->args[1], &value)) {
        return invalid_value(scope, node);
    }
    return store_checked(scope, row, node, value, field);
}

static bool store_buffers(struct conf_scope *scope, const struct conf_node *node,
                          struct buffers *field)
{
    struct buffers value;

    if (!parse_uint(node->args[1], &value.number) || value.number == 0 ||
        value.number > INT32_MAX || !parse_size(node->args[2], &value.size) || value.size == 0) {
        return invalid_value(scope, node);
    }
    *field = value;
    return true;
}

/* ---- text */

static bool store_path(struct conf_scope *scope, const struct conf_node *node,
                       bool is_conf_relative, struct str *field)
{
    if (memchr(node->args[1].data, '\0', node->args[1].len) != NULL) {
        return invalid_value(scope, node);
    }
    /* An empty name removes the inherited value. */
    *field = node->args[1].len == 0 && is_conf_relative
                 ? STR("")
                 : conf_full_name(scope->conf, node->args[1], is_conf_relative);
    return true;
}

static bool store_template(struct conf_scope *scope, const struct directive *row,
                           const struct conf_node *node, struct template **field)
{
    struct template *made = NULL;
    uint64_t size;

    if (!conf_value_template(scope, node, 1, &made)) {
        return false;
    }
    if (row->type == TYPE_TEMPLATE_SIZE && made->is_constant &&
        !parse_size(made->constant, &size)) {
        return invalid_value(scope, node);
    }
    *field = made;
    return true;
}

/* ---- lists */

static size_t item_size(enum value_type type)
{
    switch (type) {
    case TYPE_STRINGS:
        return sizeof(struct str);
    case TYPE_TEMPLATES:
        return sizeof(struct template *);
    default:
        return sizeof(struct key_template);
    }
}

static bool store_list(struct conf_scope *scope, const struct directive *row,
                       const struct conf_node *node, struct vec *field)
{
    struct arena *arena = scope->conf->arena;

    if (row->type == TYPE_KEY_TEMPLATE) {
        struct template *text = NULL;
        if (!conf_value_template(scope, node, 2, &text)) {
            return false;
        }
        struct key_template *item = vec_add(field, arena, struct key_template);
        *item = (struct key_template){.key = node->args[1], .text = text};
        return true;
    }
    for (unsigned i = 1; i < node->count; i++) {
        if (row->type == TYPE_STRINGS) {
            *vec_add(field, arena, struct str) = node->args[i];
            continue;
        }
        struct template *text = NULL;
        if (!conf_value_template(scope, node, i, &text)) {
            return false;
        }
        *vec_add(field, arena, struct template *) = text;
    }
    return true;
}

/*
 * The first use of a list at a level: an inherited list is dropped, or copied so that the parent's
 * does not change.
 */
static void start_list(struct conf_scope *scope, const struct directive *row, void *field)
{
    bool is_list = is_list_type(row->type);

    if (row->repeat == REPEAT_MERGE) {
        if (is_list) {
            struct vec *list = field;
            *list = vec_copy(list, scope->conf->arena, item_size(row->type));
        }
    } else if (is_list || row->type == TYPE_BITS || row->repeat == REPEAT_APPEND) {
        memset(field, 0, row->size);
    }
}

bool conf_store_value(struct conf_scope *scope, const struct directive *row, struct conf_node *node,
                      void *settings, bool is_first)
{
    void *field = (char *) settings + row->offset;

    if (is_first) {
        start_list(scope, row, field);
    }
    switch (row->type) {
    case TYPE_FLAG:
        return conf_value_flag(scope, node, 1, field);
    case TYPE_ENUM:
        return store_enum(scope, row, node, field);
    case TYPE_BITS:
        return store_bits(scope, row, node, field);
    case TYPE_NUMBER:
        return store_number(scope, row, node, field);
    case TYPE_SIZE:
        return store_unsigned(scope, row, node, field, parse_size);
    case TYPE_OFFSET:
        return store_offset(scope, row, node, field);
    case TYPE_MSEC:
        return store_unsigned(scope, row, node, field, parse_msec);
    case TYPE_SEC:
        return store_unsigned(scope, row, node, field, parse_sec);
    case TYPE_STRING:
        *(struct str *) field = node->args[1];
        return true;
    case TYPE_PATH:
        return store_path(scope, node, false, field);
    case TYPE_CONF_PATH:
        return store_path(scope, node, true, field);
    case TYPE_TEMPLATE:
    case TYPE_TEMPLATE_SIZE:
        return store_template(scope, row, node, field);
    case TYPE_STRINGS:
    case TYPE_TEMPLATES:
    case TYPE_KEY_TEMPLATE:
        return store_list(scope, row, node, field);
    case TYPE_BUFFERS:
        return store_buffers(scope, node, field);
    case TYPE_CUSTOM:
    case TYPE_BLOCK:
    case TYPE_OBSOLETE:
        break;
    }
    return true;
}

bool conf_hash_size_check(struct conf_scope *scope, const struct directive *row,
                          struct conf_node *node, void *settings)
{
    const uint32_t checked = IN_HTTP | IN_SERVER | IN_STREAM;
    uint64_t number;

    (void) settings;
    if ((scope->context & checked) == 0 || node->count != 2 ||
        !parse_uint(node->args[1], &number) || number != 0) {
        return true;
    }
    struct str name = str_of(row->name);
    const char *end = str_find(name, STR("_hash_"));
    struct str table = end == NULL ? name : str_from(name.data, end);
    return conf_error(scope->conf, node, "could not build %.*s_hash, you should increase %s: 0",
                      STR_ARG(table), row->name);
}
