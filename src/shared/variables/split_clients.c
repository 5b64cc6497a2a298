/* The split_clients block: a variable with one of several values, each for a part of all keys. */
#include "shared/variables/split_clients.h"

#include "base/checksum.h"
#include "base/parse.h"
#include "server/module.h"

#define WHOLE 10000 /* the sum of all parts: 100.00 % */

/* A line. */
struct share {
    uint64_t end; /* hashes from the end of the previous share up to this one belong to it */
    struct str value;
};

/* A block. */
struct split {
    struct template *key;
    struct vec shares; /* struct share */
};

/* The value of the first share whose end is above the key's hash; empty if the parts are less than
 * the whole. */
static bool split_variable_get(struct variable_env *env, const struct variable *variable,
                               struct str *out)
{
    const struct split *split = (const struct split *) variable->data;
    uint32_t hash = murmur2_of(template_text(split->key, env));

    vec_each(const struct share, share, &split->shares) {
        if (hash < share->end) {
            *out = share->value;
            return true;
        }
    }
    *out = STR("");
    return true;
}

/* "12.5%" is 1250. */
static bool parse_percent(struct str text, uint64_t *out)
{
    return str_ends(text, STR("%")) && parse_fixed_point(str_head(text, text.len - 1), 2, out) &&
           *out != 0;
}

/* `total`: the sum of the parts so far. */
static bool variables_split_clients_add_line(struct conf *conf, const struct conf_node *line,
                                             struct split *split, uint64_t *total)
{
    bool is_rest = str_is(line->args[0], "*");
    size_t count = split->shares.count;
    uint64_t start = count == 0 ? 0 : vec_at(&split->shares, struct share, count - 1)->end;
    uint64_t part = 0;

    if (line->count != 2) {
        return conf_error(conf, line, "invalid number of the split_clients parameters");
    }
    if (!is_rest && !parse_percent(line->args[0], &part)) {
        return conf_error(conf, line, "invalid percent value \"%.*s\"", STR_ARG(line->args[0]));
    }
    if (part > WHOLE - *total) {
        return conf_error(conf, line, "percent total is greater than 100%%");
    }
    *total = is_rest ? WHOLE : *total + part;
    struct share *share = vec_add(&split->shares, conf->arena, struct share);
    share->value = line->args[1];
    /* Each part is rounded down; the last part of a whole gets the remainder. */
    share->end = *total == WHOLE ? (uint64_t) UINT32_MAX + 1 : start + part * UINT32_MAX / WHOLE;
    return true;
}

bool split_clients_apply(struct conf_scope *scope, const struct directive *row,
                         struct conf_node *node, void *settings)
{
    struct conf *conf = scope->conf;
    struct split *split = arena_new(conf->arena, struct split);
    uint64_t total = 0;
    bool is_good = true;

    if (!conf_value_template(scope, node, 1, &split->key)) {
        return false;
    }
    struct variable *variable = variable_define_word(conf, node, node->args[2]);
    if (variable == NULL) {
        return false;
    }
    for (const struct conf_node *line = node->children; line != NULL; line = line->next) {
        is_good &= variables_split_clients_add_line(conf, line, split, &total);
    }
    variable_compute(variable, split_variable_get, split);
    return is_good;
}

/* ---- the modules of http and stream ---- */

static const struct directive http_split_clients_rows[] = {SPLIT_CLIENTS_ROW(IN_HTTP), {0}};

const struct module ngx_http_split_clients_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_split_clients_module",
    .kind = MODULE_HTTP,
    .table = {.rows = http_split_clients_rows, .contexts = IN_HTTP},
};

static const struct directive stream_split_clients_rows[] = {SPLIT_CLIENTS_ROW(IN_STREAM), {0}};

const struct module ngx_stream_split_clients_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_stream_split_clients_module",
    .kind = MODULE_STREAM,
    .table = {.rows = stream_split_clients_rows, .contexts = IN_STREAM},
};
