/* Heads of requests to HTTP servers, of any version: laid out as far as possible when the
 * configuration is read, filled in for a request. */
#include "http/exchange/heads/request_head.h"
#include "http/request/body.h"

#include "base/parse.h"
#include "base/text.h"

/* ---- when the configuration is read ---- */

/* Fields of the client that are never passed on: they say something about one connection or message
 * (RFC 9110, 7.6.1). */
#define OWN_IDS                                                                                    \
    (FIELD_BIT(FIELD_HOST) | FIELD_BIT(FIELD_CONNECTION) | FIELD_BIT(FIELD_CONTENT_LENGTH) |       \
     FIELD_BIT(FIELD_TRANSFER_ENCODING) | FIELD_BIT(FIELD_TE) | FIELD_BIT(FIELD_KEEP_ALIVE) |      \
     FIELD_BIT(FIELD_EXPECT) | FIELD_BIT(FIELD_UPGRADE))

/* Not passed on where the response may be stored: the whole of it is requested. */
#define CONDITION_IDS                                                                              \
    (FIELD_BIT(FIELD_IF_MODIFIED_SINCE) | FIELD_BIT(FIELD_IF_UNMODIFIED_SINCE) |                   \
     FIELD_BIT(FIELD_IF_NONE_MATCH) | FIELD_BIT(FIELD_IF_MATCH) | FIELD_BIT(FIELD_RANGE) |         \
     FIELD_BIT(FIELD_IF_RANGE))

/* A plan that is being made. */
struct planning {
    struct arena *arena;
    struct head_plan *plan;
    struct vec parts; /* struct head_part */
};

static void add_part(struct planning *planning, struct head_part part)
{
    *vec_add(&planning->parts, planning->arena, struct head_part) = part;
}

/* Text right after other text becomes one with it. */
static void request_head_add_text(struct planning *planning, struct str text)
{
    struct vec *parts = &planning->parts;
    struct head_part *last =
        parts->count == 0 ? NULL : vec_at(parts, struct head_part, parts->count - 1);

    if (last != NULL && last->kind == HEAD_TEXT) {
        last->text = arena_concat(planning->arena, last->text, text);
    } else {
        add_part(planning, (struct head_part){.kind = HEAD_TEXT, .text = text});
    }
}

static void request_head_add_line(struct planning *planning, struct str name, struct str value)
{
    const struct str parts[] = {name, STR(": "), field_value_safe(planning->arena, value),
                                STR("\r\n")};

    request_head_add_text(planning, arena_join(planning->arena, parts, 4));
}

/* Host, whose value falls back to that of the target, which is known where it has no variables. */
static void add_host(struct planning *planning, const struct template *value,
                     const struct str *host)
{
    bool is_own = value == NULL || (value->is_constant && value->constant.len == 0);

    if (!is_own && value->is_constant) {
        request_head_add_line(planning, STR("Host"), value->constant);
    } else if (is_own && host != NULL) {
        request_head_add_line(planning, STR("Host"), *host);
    } else {
        add_part(planning, (struct head_part){.kind = HEAD_HOST, .value = is_own ? NULL : value});
    }
}

/* A name that *_set_header takes for itself. */
static void hide_name(struct planning *planning, struct str name)
{
    static char mark;
    struct head_plan *plan = planning->plan;
    enum field_id id = field_identify(name);

    if (id != FIELD_OTHER) {
        plan->hidden |= FIELD_BIT(id);
        return;
    }
    map_put_nocase(&plan->names, planning->arena, name, &mark);
    plan->lengths |= (uint64_t) 1 << (name.len & 63);
}

/* Of a value of Connection. */
static bool lists_close(struct str value)
{
    const struct field field = {.value = value};

    return field_lists(&field, STR("close"));
}

/* One *_set_header. */
static void add_own(struct planning *planning, const struct key_template *own,
                    const struct str *host)
{
    const struct template *value = own->text;
    enum field_id id = field_identify(own->key);
    bool is_empty = value->is_constant && value->constant.len == 0;

    hide_name(planning, own->key);
    if (id == FIELD_HOST) {
        add_host(planning, value, host);
        planning->plan->has_own_host = value->is_constant && !is_empty;
        return;
    }
    if (id == FIELD_CONTENT_LENGTH || id == FIELD_TRANSFER_ENCODING) {
        planning->plan->doubts_framing |= !is_empty;
    }
    if (is_empty) {
        return;
    }
    if (value->is_constant) {
        request_head_add_line(planning, own->key, value->constant);
        planning->plan->says_close |= id == FIELD_CONNECTION && lists_close(value->constant);
    } else {
        struct str start = arena_concat(planning->arena, own->key, STR(": "));
        add_part(planning, (struct head_part){.kind = HEAD_LINE,
                                              .is_connection = id == FIELD_CONNECTION,
                                              .text = start,
                                              .value = value});
    }
}

bool head_field_apply(struct conf_scope *scope, const struct directive *row, struct conf_node *node,
                      void *settings)
{
    return scope->parent == NULL || node->args[1].len != 0 ||
           conf_error(scope->conf, node, "a header has an empty name");
}

struct head_plan *head_plan_make(struct arena *arena, const struct vec *set_headers,
                                 const struct str *host)
{
    struct head_plan *plan = arena_new(arena, struct head_plan);
    struct planning planning = {.arena = arena, .plan = plan};

    /* Host comes first, wherever it was written (RFC 9110, 7.2). */
    vec_each(const struct key_template, own, set_headers) {
        if (field_identify(own->key) == FIELD_HOST) {
            add_own(&planning, own, host);
        }
    }
    if ((plan->hidden & FIELD_BIT(FIELD_HOST)) == 0) {
        add_host(&planning, NULL, host);
    }
    vec_each(const struct key_template, own, set_headers) {
        if (field_identify(own->key) != FIELD_HOST) {
            add_own(&planning, own, host);
        }
    }
    plan->own = plan->hidden;
    add_part(&planning, (struct head_part){.kind = HEAD_FRAMING});
    plan->hidden |= OWN_IDS;
    hide_name(&planning, STR("Proxy-Connection"));
    plan->parts = planning.parts.items;
    plan->count = (unsigned) planning.parts.count;
    return plan;
}

/* ---- for one request ---- */

void head_draft_begin(struct exchange *x, const struct head_plan *plan, struct str host,
                      struct head_draft *draft)
{
    const struct request *request = x->request;
    bool is_sent = x->body_mode != SENT_BODY_NONE || x->body_override.data != NULL;
    int64_t length = sent_body_length(x);

    *draft = (struct head_draft){.plan = plan,
                                 .host = host,
                                 .body_length = -1,
                                 .says_close = plan->says_close};
    if (!is_sent && request->incoming.body != NULL) {
        length = (int64_t) request_passed_body(x->request)
                     ->size; /* announced all the same, as nginx has it */
    }
    if (length < 0) {
        draft->is_chunked = true;
    } else if (length != 0 || request->incoming.length >= 0 || request->incoming.is_chunked ||
               x->body_override.data != NULL) {
        draft->body_length = length;
    }
    bool has_length = (plan->own & FIELD_BIT(FIELD_CONTENT_LENGTH)) == 0;
    bool has_coding = (plan->own & FIELD_BIT(FIELD_TRANSFER_ENCODING)) == 0;
    x->sent.is_doubtful = plan->doubts_framing ||
                          (draft->body_length > 0 && is_sent != has_length) ||
                          (draft->is_chunked && !has_coding);
}

/* Room of what tells of the body's length at most. */
#define FRAMING_MAX (sizeof("Content-Length: 18446744073709551615\r\n"))

/* The question whether a stored response still holds. */
static char *put_conditions(char *at, const struct exchange *x, uint64_t own)
{
    if (x->cache.renews_since.len != 0 && (own & FIELD_BIT(FIELD_IF_MODIFIED_SINCE)) == 0) {
        at = field_put(at, STR("If-Modified-Since"), x->cache.renews_since);
    }
    if (x->cache.renews_etag.len != 0 && (own & FIELD_BIT(FIELD_IF_NONE_MATCH)) == 0) {
        at = field_put(at, STR("If-None-Match"), x->cache.renews_etag);
    }
    return at;
}

static inline bool is_passed(const struct head_plan *plan, uint64_t hidden,
                             const struct field *field)
{
    if (field->id != FIELD_OTHER) {
        return (hidden & FIELD_BIT(field->id)) == 0 && !field->is_removed;
    }
    return !field->is_removed && ((plan->lengths >> (field->name.len & 63) & 1) == 0 ||
                                  map_get_nocase(&plan->names, field->name) == NULL);
}

/* Does the field lie in the received head just as it is to be sent, "Name: value" and CR LF? */
static inline bool is_ready(const struct field *field, const char *start, const char *end)
{
    const char *name_end = field->name.data + field->name.len;
    const char *value_end = field->value.data + field->value.len;

    return field->name.data >= start && value_end + 2 <= end && field->value.data == name_end + 2 &&
           name_end[0] == ':' && name_end[1] == ' ' && value_end[0] == '\r' && value_end[1] == '\n';
}

/* The client's fields. Those that stand side by side in the received head are copied in one go. */
static char *put_fields(char *at, const struct request *request, const struct head_plan *plan,
                        uint64_t hidden)
{
    const char *start = request->head.line.data;
    const char *end = start + request->head_size;
    struct str run = {start, 0};

    fields_each(field, &request->headers) {
        if (!is_passed(plan, hidden, field)) {
            continue;
        }
        bool as_it_is = is_ready(field, start, end);
        size_t size = field->name.len + field->value.len + 4;
        if (as_it_is && field->name.data == run.data + run.len) {
            run.len += size;
            continue;
        }
        at = str_put(at, run);
        run = (struct str){start, 0};
        if (as_it_is) {
            run = (struct str){field->name.data, size};
        } else {
            at = field_put(at, field->name, field->value);
        }
    }
    return str_put(at, run);
}

size_t head_draft_room(struct exchange *x, struct head_draft *draft)
{
    struct request *request = x->request;
    const struct head_plan *plan = draft->plan;
    size_t size = 0;

    draft->values = arena_alloc(&request->arena, plan->count * sizeof(*draft->values));
    for (unsigned i = 0; i < plan->count; i++) {
        const struct head_part *part = &plan->parts[i];
        struct str value = STR_NONE;

        if (part->value != NULL) {
            value = field_value_safe(&request->arena, template_text(part->value, &request->env));
        }
        if (part->kind == HEAD_HOST && value.len == 0) {
            value = draft->host;
        } else if (part->kind == HEAD_HOST) {
            draft->has_own_host = true;
        } else if (part->is_connection) {
            draft->says_close |= lists_close(value);
        }
        draft->values[i] = value;
        size += part->text.len + value.len + 8;
    }
    draft->has_own_host |= plan->has_own_host;
    fields_each(field, &request->headers) {
        size += field->name.len + field->value.len + 4;
    }
    return size + FRAMING_MAX + 64 + x->cache.renews_since.len + x->cache.renews_etag.len;
}

char *head_draft_put(char *at, struct exchange *x, const struct head_draft *draft)
{
    const struct head_plan *plan = draft->plan;
    const struct str *values = draft->values;
    uint64_t hidden = plan->hidden | (x->cache.is_cacheable ? CONDITION_IDS : 0);

    for (unsigned i = 0; i < plan->count; i++) {
        const struct head_part *part = &plan->parts[i];

        switch (part->kind) {
        case HEAD_TEXT:
            at = str_put(at, part->text);
            break;
        case HEAD_LINE:
            if (values[i].len != 0) {
                at = str_put(at, part->text);
                at = str_put(at, values[i]);
                at = STR_PUT(at, "\r\n");
            }
            break;
        case HEAD_HOST:
            at = field_put(at, STR("Host"), values[i]);
            break;
        case HEAD_FRAMING:
            if (draft->is_chunked && (plan->own & FIELD_BIT(FIELD_TRANSFER_ENCODING)) == 0) {
                at = STR_PUT(at, "Transfer-Encoding: chunked\r\n");
            }
            if (draft->body_length >= 0 && (plan->own & FIELD_BIT(FIELD_CONTENT_LENGTH)) == 0) {
                at = STR_PUT(at, "Content-Length: ");
                at = format_uint(at, (uint64_t) draft->body_length);
                at = STR_PUT(at, "\r\n");
            }
            break;
        }
    }
    if (x->cache.is_cacheable) {
        at = put_conditions(at, x, plan->own);
    }
    return x->settings->pass_request_headers ? put_fields(at, x->request, plan, hidden) : at;
}

/* ---- targets ---- */

/* May the byte not stand in a request line as it is? */
static bool ends_word(char c)
{
    return (unsigned char) c <= ' ' || c == 127;
}

/* What variables and rewritten URIs put together: nobody ends the request line with it (RFC
 * 9112, 3.2). */
struct str target_safe(struct arena *arena, struct str text)
{
    static const char digits[] = "0123456789ABCDEF";
    size_t extra = 0;

    for (size_t i = 0; i < text.len; i++) {
        extra += ends_word(text.data[i]) ? 2 : 0;
    }
    if (extra == 0) {
        return text;
    }
    char *start = arena_text(arena, text.len + extra);
    char *at = start;
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char) text.data[i];
        if (ends_word((char) c)) {
            *at++ = '%';
            *at++ = digits[c >> 4];
            *at++ = digits[c & 15];
        } else {
            *at++ = (char) c;
        }
    }
    return str_from(start, at);
}

/* A decoded path as it is sent. What the client sent unquoted is passed on unquoted. */
static struct str encoded(struct request *request, struct str path)
{
    return request->uri_has_quoted || request->is_internal
               ? escape_str(&request->arena, path, ESCAPE_URI)
               : path;
}

/* "first" and the request's URI from `from` bytes on, with the arguments. */
struct str target_assembled(struct request *request, struct str first, size_t from)
{
    const struct str parts[] = {first, encoded(request, str_skip(request->uri, from)),
                                request->args.len != 0 ? STR("?") : STR_NONE, request->args};

    return target_safe(&request->arena, arena_join(&request->arena, parts, 4));
}

/* A target begins with a slash (RFC 9112, 3.2.1). */
struct str target_rooted(struct arena *arena, struct str target)
{
    return target.len != 0 && *target.data == '/' ? target : arena_concat(arena, STR("/"), target);
}

struct str target_of_request(struct request *request)
{
    struct str target = request->head.target;

    if (request->is_target_stale) {
        return target_assembled(request, STR_NONE, 0);
    }
    return target.len != 0 && *target.data == '/'
               ? target
               : target_rooted(&request->arena, request_origin_form(request));
}
