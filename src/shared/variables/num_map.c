/* The num_map block: variables whose values depend on a number. */
#include "shared/variables/num_map.h"

#include <stdlib.h>

#include "base/parse.h"
#include "conf/template.h"
#include "server/module.h"

/* A line of a block. */
struct num_range {
    uint64_t first, last;
    unsigned order; /* number of the line */
    const struct template *value;
};

/* All numbers from `first` up to the next span's have the same value. */
struct num_span {
    uint64_t first;
    const struct template *value; /* NULL: the value of `default` */
};

/* A `num_map` block. */
struct num_map {
    const struct template *source;
    struct vec ranges;      /* struct num_range, while the block is read */
    struct num_span *spans; /* in order; the first one begins with 0 */
    size_t span_count;
    const struct template *fallback; /* `default`; NULL = empty */
    bool is_volatile;
};

/* ---- at run time ---- */

static const struct template *find_value(const struct num_map *map, uint64_t number)
{
    size_t low = 0, high = map->span_count; /* the span is one of [low, high) */

    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;

        if (map->spans[middle].first <= number) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return map->spans[low].value;
}

static bool num_map_get(struct variable_env *env, const struct variable *variable, struct str *out)
{
    const struct num_map *map = (const struct num_map *) variable->data;
    const struct template *value = NULL;
    uint64_t number;

    if (parse_uint(template_text(map->source, env), &number)) {
        value = find_value(map, number);
    }
    if (value == NULL) {
        value = map->fallback;
    }
    *out = value == NULL ? STR("") : template_text(value, env);
    return true;
}

/* ---- while the configuration is read ---- */

/* "80", "8000-8999", "<=1023". */
static bool parse_range(struct str text, struct num_range *out)
{
    struct str rest = text;

    if (str_starts(text, STR("<="))) {
        out->first = 0;
        return parse_uint(str_skip(text, 2), &out->last);
    }
    struct str first = str_cut(&rest, '-');
    if (!parse_uint(first, &out->first)) {
        return false;
    }
    out->last = out->first;
    return rest.data == NULL || (parse_uint(rest, &out->last) && out->first <= out->last);
}

static bool add_entry(struct conf *conf, const struct conf_node *node, struct num_map *map)
{
    struct template *value = template_compile(conf, node, node->args[1]);
    struct num_range range = {.order = (unsigned) map->ranges.count, .value = value};

    if (value == NULL) {
        return false;
    }
    if (str_is(node->args[0], "default")) {
        if (map->fallback != NULL) {
            return conf_error(conf, node, "duplicate default num_map parameter");
        }
        map->fallback = value;
        return true;
    }
    if (!parse_range(node->args[0], &range)) {
        return conf_error(conf, node, "invalid number or range \"%.*s\"", STR_ARG(node->args[0]));
    }
    vec_each(struct num_range, other, &map->ranges) {
        if (other->first == range.first && other->last == range.last) {
            return conf_error(conf, node, "conflicting parameter \"%.*s\"", STR_ARG(node->args[0]));
        }
    }
    *vec_add(&map->ranges, conf->arena, struct num_range) = range;
    return true;
}

static bool variables_num_map_add_line(struct conf *conf, const struct conf_node *node,
                                       struct num_map *map)
{
    if (node->count == 1 && str_is(node->args[0], "volatile")) {
        map->is_volatile = true;
        return true;
    }
    if (node->count != 2) {
        return conf_error(conf, node, "invalid number of the num_map parameters");
    }
    return add_entry(conf, node, map);
}

/* Order: the largest first; of two with the same size, the later line first. */
static int compare_ranges(const void *a, const void *b)
{
    const struct num_range *one = a, *other = b;
    uint64_t size = one->last - one->first, other_size = other->last - other->first;

    return size != other_size ? (size > other_size ? -1 : 1) : one->order > other->order ? -1 : 1;
}

static int compare_spans(const void *a, const void *b)
{
    const struct num_span *one = a, *other = b;

    return one->first < other->first ? -1 : one->first > other->first;
}

/* Each range begins a span, and another one begins after it. The ranges are then written over the
 * spans, smaller ones over larger ones. */
static void make_spans(struct conf *conf, struct num_map *map)
{
    size_t count = map->ranges.count;
    struct num_range *ranges = map->ranges.items;
    struct num_span *spans = arena_array(conf->arena, 2 * count + 1, sizeof(*spans));
    size_t used = 1, kept = 1; /* the first one begins with 0 */

    for (size_t i = 0; i < count; i++) {
        spans[used++].first = ranges[i].first;
        if (ranges[i].last != UINT64_MAX) {
            spans[used++].first = ranges[i].last + 1;
        }
    }
    qsort(spans, used, sizeof(*spans), compare_spans);
    for (size_t i = 1; i < used; i++) {
        if (spans[i].first != spans[kept - 1].first) {
            spans[kept++] = spans[i];
        }
    }
    if (count != 0) {
        qsort(ranges, count, sizeof(*ranges), compare_ranges);
    }
    for (size_t i = 0; i < count; i++) {
        const struct num_span wanted = {.first = ranges[i].first};
        struct num_span *span = bsearch(&wanted, spans, kept, sizeof(*spans), compare_spans);

        for (; span < spans + kept && span->first <= ranges[i].last; span++) {
            span->value = ranges[i].value;
        }
    }
    map->spans = spans;
    map->span_count = kept;
}

bool num_map_apply(struct conf_scope *scope, const struct directive *row, struct conf_node *node,
                   void *settings)
{
    struct conf *conf = scope->conf;
    struct num_map *map = arena_new(conf->arena, struct num_map);
    bool is_good = true;

    map->source =
        template_compile(conf, node, node->count == 3 ? node->args[1] : STR("$remote_port"));
    if (map->source == NULL) {
        return false;
    }
    struct variable *variable = variable_define_word(conf, node, node->args[node->count - 1]);
    if (variable == NULL) {
        return false;
    }
    for (const struct conf_node *line = node->children; line != NULL; line = line->next) {
        is_good &= variables_num_map_add_line(conf, line, map);
    }
    make_spans(conf, map);
    variable_compute(variable, num_map_get, map);
    if (map->is_volatile) {
        variable->flags |= VARIABLE_VOLATILE;
    }
    return is_good;
}

/* ---- the modules of http and stream ---- */

static const struct directive http_num_map_rows[] = {NUM_MAP_ROW(IN_HTTP), {0}};

const struct module ngx_http_num_map_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_num_map_module",
    .kind = MODULE_HTTP,
    .table = {.rows = http_num_map_rows, .contexts = IN_HTTP},
};

static const struct directive stream_num_map_rows[] = {NUM_MAP_ROW(IN_STREAM), {0}};

const struct module ngx_stream_num_map_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_stream_num_map_module",
    .kind = MODULE_STREAM,
    .table = {.rows = stream_num_map_rows, .contexts = IN_STREAM},
};
