/* Parameters of the CGI kinds: fastcgi_param, uwsgi_param, scgi_param, and HTTP_* of the client's
 * fields. */
#include "http/exchange/heads/params.h"

#include "base/checksum.h"
#include "http/message/fields.h"

#define CGI_PREFIX "HTTP_"
#define CGI_PREFIX_LENGTH (sizeof(CGI_PREFIX) - 1)

/* Fields that ask for a part or for a difference: the cache wants the whole. */
static const uint64_t conditional_ids = FIELD_BIT(FIELD_IF_MODIFIED_SINCE) |
                                        FIELD_BIT(FIELD_IF_UNMODIFIED_SINCE) |
                                        FIELD_BIT(FIELD_IF_NONE_MATCH) | FIELD_BIT(FIELD_IF_MATCH) |
                                        FIELD_BIT(FIELD_RANGE) | FIELD_BIT(FIELD_IF_RANGE);

/* "HTTP_USER_AGENT" of the known fields; filled when the first list is compiled. */
static struct cgi_name {
    char text[32];
    size_t len;
} cgi_names[FIELD_COUNT];

/* RFC 3875, 4.1.18: upper case, '_' for '-'. Gives the length. */
static size_t write_cgi_name(char *at, struct str field)
{
    memcpy(at, CGI_PREFIX, CGI_PREFIX_LENGTH);
    for (size_t i = 0; i < field.len; i++) {
        unsigned char c = (unsigned char) field.data[i];
        if (c == '-') {
            c = '_';
        } else if ((unsigned char) (c - 'a') < 26) {
            c &= (unsigned char) ~0x20u;
        }
        at[CGI_PREFIX_LENGTH + i] = (char) c;
    }
    return CGI_PREFIX_LENGTH + field.len;
}

static void fill_cgi_names(void)
{
    for (unsigned id = 1; id < FIELD_COUNT; id++) {
        struct str name = field_names[id];
        if (cgi_names[id].len == 0 && name.len + CGI_PREFIX_LENGTH <= sizeof(cgi_names[id].text)) {
            cgi_names[id].len = write_cgi_name(cgi_names[id].text, name);
        }
    }
}

static struct str known_cgi_name(enum field_id id)
{
    return (struct str){cgi_names[id].text, cgi_names[id].len};
}

/* ---- when the configuration is read ---- */

bool param_apply(struct conf_scope *scope, const struct directive *row, struct conf_node *node,
                 void *settings)
{
    struct vec *list = (struct vec *) (void *) ((char *) settings + row->offset);
    bool skips_empty = false;

    if (node->count == 4) {
        if (!str_is(node->args[3], "if_not_empty")) {
            return conf_error(scope->conf, node, "invalid parameter \"%.*s\"",
                              STR_ARG(node->args[3]));
        }
        skips_empty = true;
    }
    struct template *value = NULL;
    if (!conf_value_template(scope, node, 2, &value)) {
        return false;
    }
    struct param *param = vec_add(list, scope->conf->arena, struct param);
    param->name = node->args[1];
    param->value = value;
    /* HTTP_NAME "" hides the client's field and says nothing in its place, as with nginx. */
    param->skips_empty = skips_empty || (value->is_constant && value->constant.len == 0 &&
                                         str_starts(param->name, STR(CGI_PREFIX)));
    if (value->count == 1 && value->parts[0].kind == PART_VARIABLE) {
        param->variable = value->parts[0].variable;
    }
    return true;
}

/* A parameter HTTP_NAME stands for the client's field of that name. */
static void hide_field(struct conf *conf, struct params *params, struct str name)
{
    static char mark;

    for (unsigned id = 1; id < FIELD_COUNT; id++) {
        if (str_equal(known_cgi_name(id), name)) {
            params->hidden_ids |= FIELD_BIT(id);
            return;
        }
    }
    map_put(&params->hidden_names, conf->arena, name, &mark);
}

const struct params *params_compile(struct conf *conf, const struct vec *list)
{
    struct params *params = arena_new(conf->arena, struct params);

    fill_cgi_names();
    params->items = list->items;
    params->count = (unsigned) list->count;
    vec_each(const struct param, param, list) {
        if (str_starts(param->name, STR(CGI_PREFIX))) {
            hide_field(conf, params, param->name);
        }
    }
    return params;
}

/* ---- for a request ---- */

static inline void add_value(struct param_values *out, struct str name, struct str value)
{
    out->items[out->count++] = (struct param_value){name, value};
    out->bytes += name.len + value.len;
}

static void add_configured(const struct params *params, struct variable_env *env,
                           struct param_values *out)
{
    for (unsigned i = 0; i < params->count; i++) {
        const struct param *param = &params->items[i];
        struct str value;

        if (param->variable == NULL) {
            value = template_text(param->value, env);
        } else if (!variable_get(env, param->variable, &value)) {
            value = STR_NONE;
        }
        if (value.len != 0 || !param->skips_empty) {
            add_value(out, param->name, value);
        }
    }
}

static inline bool is_same_field(const struct field *a, const struct field *b)
{
    return a->id == b->id && !b->is_removed &&
           (a->id != FIELD_OTHER ||
            (a->name.len == b->name.len && str_equal_nocase(a->name, b->name)));
}

/* Did a field of this name come before? */
static bool was_seen(const struct fields *fields, const struct field *field)
{
    for (const struct field *former = fields->items; former < field; former++) {
        if (is_same_field(field, former)) {
            return true;
        }
    }
    return false;
}

/* The values of this field and of all later ones of its name, made one. */
static struct str joined_value(struct arena *arena, const struct fields *fields,
                               const struct field *first)
{
    const struct field *end = fields->items + fields->count;
    struct str separator = first->id == FIELD_COOKIE ? STR("; ") : STR(", ");
    size_t size = first->value.len;
    unsigned others = 0;

    for (const struct field *field = first + 1; field < end; field++) {
        if (is_same_field(first, field)) {
            size += separator.len + field->value.len;
            others++;
        }
    }
    if (others == 0) {
        return first->value;
    }
    char *text = arena_text(arena, size);
    char *at = text;
    for (const struct field *field = first; field < end; field++) {
        if (field != first) {
            if (!is_same_field(first, field)) {
                continue;
            }
            at = str_put(at, separator);
        }
        at = str_put(at, field->value);
    }
    return (struct str){text, size};
}

/* The parameter's name of a field, or an empty one when it is not passed on. */
static struct str field_cgi_name(const struct params *params, struct arena *arena,
                                 uint64_t hidden_ids, const struct field *field)
{
    if (field->id != FIELD_OTHER) {
        return (hidden_ids & FIELD_BIT(field->id)) != 0 ? STR_NONE : known_cgi_name(field->id);
    }
    char *text = arena_text(arena, CGI_PREFIX_LENGTH + field->name.len);
    struct str name = {text, write_cgi_name(text, field->name)};

    if (params->hidden_names.count != 0 && map_get(&params->hidden_names, name) != NULL) {
        return STR_NONE;
    }
    return name;
}

/* ---- very many fields: those of a name are found by a hash, and chained ---- */

#define FEW_FIELDS 32 /* up to here comparing each with each costs less */

struct chained {
    struct str name; /* of the parameter; empty: it is not passed on */
    uint32_t next;   /* the next field of the same name; 0 = none */
    uint32_t last;   /* of the first one: the last of them */
    bool is_first;
};

static uint32_t params_hash_of(const struct field *field, char *room)
{
    if (field->id != FIELD_OTHER) {
        return field->id;
    }
    for (size_t i = 0; i < field->name.len; i++) {
        room[i] = (char) ascii_lower((unsigned char) field->name.data[i]);
    }
    return (uint32_t) keyed_hash((struct str){room, field->name.len});
}

/* Fields by name. */
struct chain_table {
    const struct fields *fields;
    struct chained *chains; /* of each field */
    uint32_t *slots;        /* number of a first field and one; 0 = free */
    uint32_t mask;          /* slots less one */
};

/* Puts a field after those of its name; `at` is its hash. */
static void chain(const struct chain_table *table, uint32_t index, uint32_t at)
{
    const struct fields *fields = table->fields;
    const struct field *field = &fields->items[index];
    struct chained *chains = table->chains;

    for (;; at++) {
        uint32_t *slot = &table->slots[at & table->mask];
        if (*slot == 0) {
            *slot = index + 1;
            chains[index].is_first = true;
            chains[index].last = index;
            return;
        }
        if (is_same_field(&fields->items[*slot - 1], field)) {
            struct chained *first = &chains[*slot - 1];
            chains[first->last].next = index;
            first->last = index;
            return;
        }
    }
}

static struct str chain_value(struct arena *arena, const struct fields *fields,
                              const struct chained *chains, uint32_t first)
{
    struct str separator = fields->items[first].id == FIELD_COOKIE ? STR("; ") : STR(", ");
    struct str value = fields->items[first].value;
    size_t size = value.len;

    if (chains[first].next == 0) {
        return value;
    }
    for (uint32_t i = chains[first].next; i != 0; i = chains[i].next) {
        size += separator.len + fields->items[i].value.len;
    }
    char *text = arena_text(arena, size);
    char *at = str_put(text, value);
    for (uint32_t i = chains[first].next; i != 0; i = chains[i].next) {
        at = str_put(str_put(at, separator), fields->items[i].value);
    }
    return (struct str){text, size};
}

static void add_many_fields(const struct params *params, struct request *request,
                            uint64_t hidden_ids, struct param_values *out)
{
    const struct fields *fields = &request->headers;
    struct arena *arena = &request->arena;
    struct chained *chains = arena_array(arena, fields->count, sizeof(*chains));
    uint32_t size = FEW_FIELDS * 2;

    while (size < fields->count * 2) {
        size *= 2;
    }
    const struct chain_table table = {.fields = fields,
                                      .chains = chains,
                                      .slots = arena_array(arena, size, sizeof(uint32_t)),
                                      .mask = size - 1};
    size_t longest = 0;
    fields_each(field, fields) {
        longest = field->name.len > longest ? field->name.len : longest;
    }
    char *room = arena_text(arena, longest);
    for (uint32_t i = 0; i < fields->count; i++) {
        if (!fields->items[i].is_removed) {
            chains[i].name = field_cgi_name(params, arena, hidden_ids, &fields->items[i]);
        }
        if (chains[i].name.len != 0) {
            chain(&table, i, params_hash_of(&fields->items[i], room));
        }
    }
    for (uint32_t i = 0; i < fields->count; i++) {
        if (chains[i].is_first) {
            add_value(out, chains[i].name, chain_value(arena, fields, chains, i));
        }
    }
}

static void add_fields(const struct params *params, struct request *request, uint64_t hidden_ids,
                       struct param_values *out)
{
    const struct fields *fields = &request->headers;
    uint64_t seen = 0;
    uint64_t repeated = 0; /* numbers that came twice; the unknown share one */

    if (fields->count > FEW_FIELDS && fields->has_repeats) {
        add_many_fields(params, request, hidden_ids, out);
        return;
    }
    fields_each(field, fields) {
        repeated |= seen & FIELD_BIT(field->id);
        seen |= FIELD_BIT(field->id);
    }
    fields_each(field, fields) {
        bool may_repeat = (repeated & FIELD_BIT(field->id)) != 0;

        if (field->is_removed || (may_repeat && was_seen(fields, field))) {
            continue;
        }
        struct str name = field_cgi_name(params, &request->arena, hidden_ids, field);
        if (name.len != 0) {
            add_value(out, name,
                      may_repeat ? joined_value(&request->arena, fields, field) : field->value);
        }
    }
}

/* Unless it is configured otherwise the backend sees the host that was asked for, as $host and
 * $request_port say, and not what a client wrote into its Host field. */
static void add_host(struct request *request, struct param_values *out)
{
    struct str host = request->head.host.len != 0 ? request->head.host : request->server->name;

    if (request->head.port.len != 0) {
        const struct str parts[] = {host, STR(":"), request->head.port};
        host = arena_join(&request->arena, parts, 3);
    }
    add_value(out, known_cgi_name(FIELD_HOST), host);
}

/* What asks the backend whether a stored response still holds. */
static void add_validators(const struct params *params, const struct exchange *x,
                           struct param_values *out)
{
    if (x->cache.renews_since.len != 0 &&
        (params->hidden_ids & FIELD_BIT(FIELD_IF_MODIFIED_SINCE)) == 0) {
        add_value(out, known_cgi_name(FIELD_IF_MODIFIED_SINCE), x->cache.renews_since);
    }
    if (x->cache.renews_etag.len != 0 &&
        (params->hidden_ids & FIELD_BIT(FIELD_IF_NONE_MATCH)) == 0) {
        add_value(out, known_cgi_name(FIELD_IF_NONE_MATCH), x->cache.renews_etag);
    }
}

void params_evaluate(const struct params *params, struct exchange *x, unsigned room,
                     struct param_values *out)
{
    struct request *request = x->request;
    uint64_t hidden_ids =
        params->hidden_ids | FIELD_BIT(FIELD_HOST) | (x->cache.is_cacheable ? conditional_ids : 0);
    size_t capacity = params->count + request->headers.count + 3 + room;

    out->items = arena_alloc(&request->arena, capacity * sizeof(*out->items));
    out->count = 0;
    out->bytes = 0;
    add_configured(params, &request->env, out);
    if ((params->hidden_ids & FIELD_BIT(FIELD_HOST)) == 0) {
        add_host(request, out);
    }
    if (x->cache.is_cacheable) {
        add_validators(params, x, out);
    }
    if (x->settings->pass_request_headers) {
        add_fields(params, request, hidden_ids, out);
    }
}
