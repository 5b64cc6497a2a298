/* Parameters of a FastCGI request: constant ones are framed when the configuration is read; a
 * request inserts its own values, in one pass. */
#include "base/buf.h"
#include "http/modules/backends/fastcgi/fastcgi.h"
#include "http/variables/variables.h"

#define LENGTHS_MAX (2 * (size_t) PAIR_LENGTH_SIZE)
#define WORD 32 /* short strings are copied by words: this many bytes after them are readable */
#define SCRATCH_MIN 2048
/* Bytes of scratch memory that are kept for the next request. */
#define SCRATCH_KEPT (256 * 1024)

/* ---- when the configuration is read ---- */

/* Variables of the core and of this module compute their values without side effects, most of them
 * with a few instructions: calling them directly is cheaper than caching their values. */
static bool is_plain(const struct variable *variable)
{
    const struct variable *const lists[] = {core_variables, fastcgi_variables};

    for (unsigned i = 0; i < 2; i++) {
        for (const struct variable *row = lists[i]; row->name.len != 0; row++) {
            if (row->get == variable->get && str_equal(row->name, variable->name)) {
                return true;
            }
        }
    }
    return false;
}

/* Is the value known when the configuration is read: without variables, or only with the
 * version? */
static bool is_constant(const struct param *param)
{
    const struct template *template = param->value;

    for (unsigned i = 0; i < template->count; i++) {
        const struct template_part *part = &template->parts[i];

        if (part->kind == PART_CAPTURE ||
            (part->kind == PART_VARIABLE &&
             (!str_is(part->variable->name, "nginx_version") || !is_plain(part->variable)))) {
            return false;
        }
    }
    return !template->is_path;
}

static struct str constant_of(struct conf *conf, const struct param *param)
{
    struct variable_env nobody = {.arena = conf->arena, .set = conf_variables(conf)};

    return template_text(param->value, &nobody);
}

/* Can the value be written part by part, without building it in separate memory? */
static bool is_simple(const struct template *template)
{
    for (unsigned i = 0; i < template->count; i++) {
        if (template->parts[i].kind == PART_CAPTURE) {
            return false;
        }
    }
    return !template->is_path;
}

static void set_value(struct conf *conf, struct fastcgi_step *step, const struct param *param)
{
    const struct template *template = param->value;

    step->name = param->name;
    step->skips_empty = param->skips_empty;
    step->value = template;
    if (!is_simple(template) || param->name.len >= 128 ||
        (param->skips_empty && template->count != 1)) {
        return;
    }
    step->parts = arena_array(conf->arena, template->count, sizeof(*step->parts));
    step->count = template->count;
    for (unsigned i = 0; i < template->count; i++) {
        const struct template_part *part = &template->parts[i];

        step->parts[i].text = part->text;
        if (part->kind == PART_VARIABLE) {
            step->parts[i].variable = part->variable;
            step->parts[i].get = is_plain(part->variable) ? part->variable->get : NULL;
        }
    }
}

/* Ends the constant part before a value: the constant pairs, and the beginning of the value's own
 * pair. */
static char *end_step(struct fastcgi_step *step, char *start, char *at)
{
    step->ready = (struct str){start, (size_t) (at - start)};
    if (step->count != 0) {
        *at++ = (char) step->name.len;
        *at++ = 0;
        memcpy(at, step->name.data, step->name.len);
        at += step->name.len;
    }
    step->framed = (size_t) (at - start);
    return at;
}

const struct fastcgi_plan *fastcgi_plan_new(struct conf *conf, const struct vec *list)
{
    struct fastcgi_plan *plan = arena_new(conf->arena, struct fastcgi_plan);
    size_t size = WORD;

    vec_each(const struct param, param, list) {
        size += LENGTHS_MAX + param->name.len;
        size += is_constant(param) ? constant_of(conf, param).len : 0;
    }
    char *at = arena_zalloc(conf->arena, size);
    char *start = at;
    struct fastcgi_step *step = arena_array(conf->arena, (unsigned) list->count + 1, sizeof(*step));

    plan->steps = step;
    plan->fields = *params_compile(conf, list);
    plan->fields.count = 0;
    vec_each(const struct param, param, list) {
        if (!is_constant(param)) {
            set_value(conf, step, param);
            at = start = end_step(step++, start, at);
            continue;
        }
        struct str value = constant_of(conf, param);
        if (value.len != 0 || !param->skips_empty) {
            at = pair_write(at, param->name, value);
        }
    }
    end_step(step++, start, at);
    plan->count = (unsigned) (step - plan->steps);
    return plan;
}

/* ---- per request ---- */

static struct buf scratch; /* buffer for the parameters; nothing waits while it is in use */

/* The output position. */
struct params_writer {
    char *at;
    char *end; /* end of the buffer, minus WORD */
};

static __attribute__((noinline)) void grow(struct params_writer *writer, size_t size)
{
    scratch.len = scratch.data == NULL ? 0 : (size_t) (writer->at - scratch.data);
    writer->at = buf_reserve(&scratch, size + WORD);
    writer->end = scratch.data + scratch.capacity - WORD;
}

static inline __attribute__((always_inline)) void need(struct params_writer *writer, size_t size)
{
    if (__builtin_expect((size_t) (writer->end - writer->at) < size, 0)) {
        grow(writer, size);
    }
}

/* Copies our own text, which is followed by readable bytes; the buffer has space for it. */
static inline __attribute__((always_inline)) char *put_ready(char *at, const char *text,
                                                             size_t size)
{
    if (size <= WORD) {
        memcpy(at, text, WORD);
    } else {
        memcpy(at, text, size);
    }
    return at + size;
}

/* Copies a short string by two overlapping words, which saves a call. */
#define PUT_BOTH_ENDS(type)                                                                        \
    do {                                                                                           \
        type head_, tail_;                                                                         \
        memcpy(&head_, s.data, sizeof(type));                                                      \
        memcpy(&tail_, s.data + s.len - sizeof(type), sizeof(type));                               \
        memcpy(at, &head_, sizeof(type));                                                          \
        memcpy(at + s.len - sizeof(type), &tail_, sizeof(type));                                   \
    } while (0)

/* Copies any text; the buffer has space for it. */
static inline __attribute__((always_inline)) char *put(char *at, struct str s)
{
    if (s.len > 32) {
        memcpy(at, s.data, s.len);
    } else if (s.len >= 16) {
        PUT_BOTH_ENDS(__uint128_t);
    } else if (s.len >= 8) {
        PUT_BOTH_ENDS(uint64_t);
    } else if (s.len >= 4) {
        PUT_BOTH_ENDS(uint32_t);
    } else if (s.len != 0) {
        at[0] = s.data[0];
        at[s.len / 2] = s.data[s.len / 2];
        at[s.len - 1] = s.data[s.len - 1];
    }
    return at + s.len;
}

static inline __attribute__((always_inline)) struct str value_of(const struct fastcgi_part *part,
                                                                 struct variable_env *env)
{
    const struct variable *variable = part->variable;
    struct str value = part->text;

    if (variable != NULL) {
        bool is_found = part->get != NULL && part->get == variable->get
                            ? part->get(env, variable, &value)
                            : variable_get(env, variable, &value);
        value.len = is_found ? value.len : 0;
    }
    return value;
}

/* The value that ends at `at` needs more than the one byte for its length: inserts the bytes; the
 * buffer has space for them. */
static __attribute__((noinline)) char *widen(char *at, const struct fastcgi_step *step,
                                             size_t length)
{
    char *name = at - length - step->name.len;

    memmove(name + PAIR_LENGTH_SIZE - 1, name, step->name.len + length);
    pair_write_length(name - 1, length);
    return at + PAIR_LENGTH_SIZE - 1;
}

static inline __attribute__((always_inline)) char *end_value(char *at,
                                                             const struct fastcgi_step *step,
                                                             size_t length)
{
    if (__builtin_expect(length >= 128, 0)) {
        return widen(at, step, length);
    }
    at[-(ptrdiff_t) (length + step->name.len) - 1] = (char) length;
    return at;
}

/* Writes a value of several parts, or one that must be evaluated as a whole. */
static __attribute__((noinline)) void put_composed(struct params_writer *writer,
                                                   const struct fastcgi_step *step,
                                                   struct variable_env *env)
{
    size_t length = 0;

    need(writer, step->framed);
    if (step->count == 0) {
        struct str value = template_text(step->value, env);

        writer->at = put_ready(writer->at, step->ready.data, step->ready.len);
        if (value.len != 0 || !step->skips_empty) {
            need(writer, LENGTHS_MAX + step->name.len + value.len);
            writer->at = pair_write(writer->at, step->name, value);
        }
        return;
    }
    writer->at = put_ready(writer->at, step->ready.data, step->framed);
    for (unsigned i = 0; i < step->count; i++) {
        struct str value = value_of(&step->parts[i], env);

        need(writer, value.len + PAIR_LENGTH_SIZE);
        writer->at = put(writer->at, value);
        length += value.len;
    }
    writer->at = end_value(writer->at, step, length);
}

/* Writes the configured parameters. */
static void put_steps(struct params_writer *writer, const struct fastcgi_plan *plan,
                      struct variable_env *env)
{
    const struct fastcgi_step *last = plan->steps + plan->count - 1;
    char *at = writer->at;

    for (const struct fastcgi_step *step = plan->steps; step < last; step++) {
        if (step->count != 1) {
            writer->at = at;
            put_composed(writer, step, env);
            at = writer->at;
            continue;
        }
        struct str value = value_of(step->parts, env);
        if (__builtin_expect((size_t) (writer->end - at) <
                                 step->framed + value.len + PAIR_LENGTH_SIZE,
                             0)) {
            writer->at = at;
            grow(writer, step->framed + value.len + PAIR_LENGTH_SIZE);
            at = writer->at;
        }
        if (value.len != 0) {
            at = put_ready(at, step->ready.data, step->framed);
            at = end_value(put(at, value), step, value.len);
        } else {
            at =
                put_ready(at, step->ready.data, step->skips_empty ? step->ready.len : step->framed);
        }
    }
    writer->at = at;
    need(writer, last->ready.len);
    writer->at = put_ready(writer->at, last->ready.data, last->ready.len);
}

/* Writes all parameters of the request to the scratch buffer. */
static struct str write_pairs(struct exchange *x)
{
    const struct fastcgi_plan *plan = fastcgi_settings_of(x)->plan;
    struct params_writer writer = {scratch.data, scratch.data};
    struct param_values fields;

    grow(&writer, SCRATCH_MIN);
    put_steps(&writer, plan, &x->request->env);
    params_evaluate(&plan->fields, x, 0, &fields);
    need(&writer, fields.bytes + fields.count * LENGTHS_MAX);
    for (unsigned i = 0; i < fields.count; i++) {
        const struct param_value *field = &fields.items[i];

        writer.at = pair_write_length(writer.at, field->name.len);
        writer.at = pair_write_length(writer.at, field->value.len);
        writer.at = put(writer.at, field->name);
        writer.at = put(writer.at, field->value);
    }
    return str_from(scratch.data, writer.at);
}

static struct str frame(struct request *request, struct str pairs)
{
    size_t size = RECORD_BEGIN_SIZE + records_params_room(pairs.len);
    char *text = arena_text(&request->arena, size);

    return str_from(text, records_write_params(record_write_begin(text, 1, false), 1, pairs));
}

bool fastcgi_make_request(struct exchange *x)
{
    struct request *request = x->request;

    if (x->state == NULL) {
        struct fastcgi_stream *stream = arena_new(&request->arena, struct fastcgi_stream);

        stream->x = x;
        list_init(&stream->in_pending);
        x->state = stream;
    }
    scratch.len = 0;
    x->head = frame(request, write_pairs(x));
    if (scratch.capacity > SCRATCH_KEPT) {
        buf_free(&scratch);
    }
    return true;
}
