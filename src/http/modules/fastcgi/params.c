/* Parameters of a FastCGI request: constants are framed when the configuration is read, so that a request writes its
 * own values only. */
#include "http/modules/fastcgi/fastcgi.h"

/* ---- when the configuration is read ---- */

/* Room for the two lengths before a name and a value. */
#define LENGTHS_MAX (2 * (size_t) PAIR_LENGTH_SIZE)

/* A name that is not followed by constants needs no step of its own. */
static bool is_constant(const struct param *param)
{
    return param->variable == NULL && param->value->is_constant;
}

const struct fastcgi_plan *fastcgi_plan_new(struct conf *conf, const struct vec *list)
{
    struct fastcgi_plan *plan = arena_new(conf->arena, struct fastcgi_plan);
    size_t size = 0;
    unsigned steps = 1;

    vec_each(const struct param, param, list) {
        if (is_constant(param)) {
            size += LENGTHS_MAX + param->name.len + param->value->constant.len;
        } else {
            steps++;
        }
    }
    char *at = arena_text(conf->arena, size);
    struct fastcgi_step *step = arena_array(conf->arena, steps, sizeof(*step));

    plan->steps = step;
    plan->fields = *params_compile(conf, list);
    plan->fields.count = 0;
    step->ready.data = at;
    vec_each(const struct param, param, list) {
        if (!is_constant(param)) {
            step->name = param->name;
            step->variable = param->variable;
            step->value = param->value;
            step->skips_empty = param->skips_empty;
            plan->fixed += LENGTHS_MAX + param->name.len;
            step++;
            step->ready.data = at;
        } else if (param->value->constant.len != 0 || !param->skips_empty) {
            char *end = pair_write(at, param->name, param->value->constant);
            step->ready.len += (size_t) (end - at);
            plan->fixed += (size_t) (end - at);
            at = end;
        }
    }
    plan->count = steps;
    return plan;
}

/* ---- for a request ---- */

/* The values of all steps, in order; *size grows by their bytes. */
static struct str *evaluate(const struct fastcgi_plan *plan, struct request *request, size_t *size)
{
    struct str *values = arena_alloc(&request->arena, plan->count * sizeof(*values));
    const struct fastcgi_step *step = plan->steps;
    struct str *value = values;

    for (const struct fastcgi_step *last = step + plan->count - 1; step < last; step++, value++) {
        if (step->variable == NULL) {
            *value = template_text(step->value, &request->env);
        } else if (!variable_get(&request->env, step->variable, value)) {
            *value = STR_NONE;
        }
        *size += value->len;
    }
    return values;
}

static inline char *put(char *at, struct str s)
{
    if (s.len != 0) {
        memcpy(at, s.data, s.len);
    }
    return at + s.len;
}

static char *write_steps(char *at, const struct fastcgi_plan *plan, const struct str *value)
{
    const struct fastcgi_step *step = plan->steps;

    for (const struct fastcgi_step *last = step + plan->count - 1; step < last; step++, value++) {
        at = put(at, step->ready);
        if (value->len != 0 || !step->skips_empty) {
            at = pair_write(at, step->name, *value);
        }
    }
    return put(at, step->ready);
}

/* Parameters of any length: as many records as it takes, and the empty one. */
static struct str frame_long(struct request *request, struct str pairs)
{
    size_t records = pairs.len / RECORD_CONTENT_MAX + 2;
    size_t size = RECORD_BEGIN_SIZE + pairs.len + records * RECORD_HEADER_SIZE;
    char *text = arena_text(&request->arena, size);
    char *at = record_write_begin(text, 1, false);

    while (pairs.len != 0) {
        struct str part = str_head(pairs, RECORD_CONTENT_MAX);

        at = record_write(at, RECORD_PARAMS, 1, (uint16_t) part.len);
        at = put(at, part);
        pairs = str_skip(pairs, part.len);
    }
    at = record_write(at, RECORD_PARAMS, 1, 0);
    return str_from(text, at);
}

static struct fastcgi_stream *stream_new(struct exchange *x)
{
    struct fastcgi_stream *stream = arena_new(&x->request->arena, struct fastcgi_stream);

    stream->x = x;
    list_init(&stream->in_news);
    return stream;
}

bool fastcgi_make_request(struct exchange *x)
{
    const struct fastcgi_plan *plan = fastcgi_settings_of(x)->plan;
    struct request *request = x->request;
    struct param_values fields;
    size_t size = plan->fixed;

    if (x->state == NULL) {
        x->state = stream_new(x);
    }
    const struct str *values = evaluate(plan, request, &size);
    params_evaluate(&plan->fields, x, 0, &fields);
    size += fields.bytes + fields.count * LENGTHS_MAX;

    char *text = arena_text(&request->arena, RECORD_BEGIN_SIZE + 2 * RECORD_HEADER_SIZE + size);
    char *pairs = text + RECORD_BEGIN_SIZE + RECORD_HEADER_SIZE;
    char *at = write_steps(pairs, plan, values);
    for (unsigned i = 0; i < fields.count; i++) {
        at = pair_write(at, fields.items[i].name, fields.items[i].value);
    }
    size_t length = (size_t) (at - pairs);
    if (length > RECORD_CONTENT_MAX) {
        x->head = frame_long(request, str_from(pairs, at));
        return true;
    }
    char *header = record_write_begin(text, 1, false);
    if (length == 0) {
        at = header;
    } else {
        record_write(header, RECORD_PARAMS, 1, (uint16_t) length);
    }
    at = record_write(at, RECORD_PARAMS, 1, 0);
    x->head = str_from(text, at);
    return true;
}
