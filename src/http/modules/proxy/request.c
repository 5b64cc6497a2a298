/* What is sent to a proxied server: the head of the request, laid out as far as possible when the configuration
 * is read, and the frames of its body. */
#include "http/modules/proxy/proxy.h"

#include <stdio.h>

#include "base/parse.h"
#include "http/connection.h"
#include "net/proxy_protocol.h"

/* ---- when the configuration is read ---- */

/* Fields of the client that are never passed on: they say something about one connection or message (RFC 9110, 7.6.1). */
#define OWN_IDS                                                                                    \
    (FIELD_BIT(FIELD_HOST) | FIELD_BIT(FIELD_CONNECTION) | FIELD_BIT(FIELD_CONTENT_LENGTH) |       \
     FIELD_BIT(FIELD_TRANSFER_ENCODING) | FIELD_BIT(FIELD_TE) | FIELD_BIT(FIELD_KEEP_ALIVE) |      \
     FIELD_BIT(FIELD_EXPECT) | FIELD_BIT(FIELD_UPGRADE))

/* … and where the answer may be stored: the whole of it is asked for. */
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
    *(struct head_part *) vec_push(&planning->parts, planning->arena, sizeof(part)) = part;
}

/* Text right behind other text becomes one with it. */
static void add_text(struct planning *planning, struct str text)
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

static void add_line(struct planning *planning, struct str name, struct str value)
{
    const struct str parts[] = {name, STR(": "), field_value_safe(planning->arena, value),
                                STR("\r\n")};

    add_text(planning, arena_join(planning->arena, parts, 4));
}

/* Host, whose value falls back to that of the target, which is known where it has no variables. */
static void add_host(struct planning *planning, const struct template *value,
                     const struct proxy_target *target)
{
    bool is_own = value == NULL || (value->is_constant && value->constant.len == 0);

    if (!is_own && value->is_constant) {
        add_line(planning, STR("Host"), value->constant);
    } else if (is_own && target->text == NULL) {
        add_line(planning, STR("Host"), target->url.host);
    } else {
        add_part(planning, (struct head_part){.kind = HEAD_HOST, .value = is_own ? NULL : value});
    }
}

/* A name that proxy_set_header takes for itself. */
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

/* One proxy_set_header. */
static void add_own(struct planning *planning, const struct key_template *own,
                    const struct proxy_target *target)
{
    const struct template *value = own->text;
    enum field_id id = field_identify(own->key);
    bool is_empty = value->is_constant && value->constant.len == 0;

    hide_name(planning, own->key);
    if (id == FIELD_HOST) {
        add_host(planning, value, target);
        return;
    }
    if (id == FIELD_CONTENT_LENGTH || id == FIELD_TRANSFER_ENCODING) {
        planning->plan->doubts_framing |= !is_empty;
    }
    if (is_empty) {
        return;
    }
    if (value->is_constant) {
        add_line(planning, own->key, value->constant);
    } else {
        struct str start = arena_concat(planning->arena, own->key, STR(": "));
        add_part(planning, (struct head_part){.kind = HEAD_LINE, .text = start, .value = value});
    }
}

struct head_plan *head_plan_make(struct arena *arena, const struct proxy_settings *settings)
{
    struct head_plan *plan = arena_new(arena, struct head_plan);
    struct planning planning = {.arena = arena, .plan = plan};
    const struct proxy_target *target = settings->target;

    vec_each(const struct key_template, own, &settings->set_headers) {
        add_own(&planning, own, target);
    }
    plan->own = plan->hidden;
    if ((plan->own & FIELD_BIT(FIELD_HOST)) == 0) {
        add_host(&planning, NULL, target);
    }
    add_part(&planning, (struct head_part){.kind = HEAD_FRAMING});
    plan->hidden |= OWN_IDS;
    hide_name(&planning, STR("Proxy-Connection"));
    plan->parts = planning.parts.items;
    plan->count = (unsigned) planning.parts.count;
    return plan;
}

/* ---- what the head depends on ---- */

static bool is_method(struct str name)
{
    for (size_t i = 0; i < name.len; i++) {
        unsigned char c = (unsigned char) name.data[i];
        if (c <= ' ' || c >= 127) {
            return false;
        }
    }
    return name.len != 0;
}

/* The method that the backend is asked with. False: proxy_method gives none; status set. */
static bool choose_method(struct exchange *x)
{
    struct request *request = x->request;
    const struct proxy_settings *settings = proxy_settings_of(x);
    struct proxy_state *state = proxy_state_of(x);

    state->method = request->method_name;
    if (settings->method != NULL) {
        struct str name = template_text(settings->method, &request->env);
        if (name.len != 0) {
            state->method = name;
        }
        if (!is_method(state->method)) {
            log_error(&request->log, 0, "invalid method \"%.*s\"", STR_ARG(name));
            request->response.status = 500;
            return false;
        }
    }
    if (x->is_cacheable && x->settings->cache_convert_head && str_is(state->method, "HEAD")) {
        state->method = STR("GET");
    }
    return true;
}

/* How long the body is that will be sent, and whether the head tells it rightly. */
static void measure_body(struct exchange *x)
{
    const struct request *request = x->request;
    const struct head_plan *plan = proxy_settings_of(x)->plan;
    struct proxy_state *state = proxy_state_of(x);
    int64_t size = request->body == NULL ? 0 : (int64_t) request->body->size;
    bool is_announced = request->content_length >= 0 || request->is_chunked_body || size != 0;
    bool is_sent = x->sends_body;

    state->body_length = -1;
    state->is_chunked = false;
    if (x->body_override.data != NULL) {
        state->body_length = (int64_t) x->body_override.len;
        is_sent = true;
    } else if (x->streams_body) {
        state->is_chunked = request->content_length < 0;
        state->body_length = request->content_length;
    } else if (is_announced) {
        state->body_length = size;
    }
    x->is_chunked_out = state->is_chunked;
    bool has_length = (plan->own & FIELD_BIT(FIELD_CONTENT_LENGTH)) == 0;
    bool has_coding = (plan->own & FIELD_BIT(FIELD_TRANSFER_ENCODING)) == 0;
    state->is_unframed = plan->doubts_framing ||
                         (state->body_length > 0 && is_sent != has_length) ||
                         (state->is_chunked && !has_coding);
}

/* ---- the head ---- */

static inline char *put(char *at, struct str s)
{
    if (s.len != 0) {
        memcpy(at, s.data, s.len);
    }
    return at + s.len;
}

#define PUT(at, literal) (memcpy(at, literal, sizeof(literal) - 1), (at) + sizeof(literal) - 1)

static char *put_line(char *at, struct str name, struct str value)
{
    at = put(at, name);
    at = PUT(at, ": ");
    at = put(at, value);
    return PUT(at, "\r\n");
}

/* Room of what put_framing writes at most. */
#define FRAMING_MAX (sizeof("Content-Length: 18446744073709551615\r\n"))

static char *put_framing(char *at, const struct head_plan *plan, const struct proxy_state *state)
{
    if (state->is_chunked) {
        return (plan->own & FIELD_BIT(FIELD_TRANSFER_ENCODING)) == 0
                   ? PUT(at, "Transfer-Encoding: chunked\r\n")
                   : at;
    }
    if (state->body_length < 0 || (plan->own & FIELD_BIT(FIELD_CONTENT_LENGTH)) != 0) {
        return at;
    }
    at = PUT(at, "Content-Length: ");
    at = format_uint(at, (uint64_t) state->body_length);
    return PUT(at, "\r\n");
}

/* The question whether a stored answer still holds. */
static char *put_conditions(char *at, const struct exchange *x, uint64_t own)
{
    if (x->renews_since.len != 0 && (own & FIELD_BIT(FIELD_IF_MODIFIED_SINCE)) == 0) {
        at = put_line(at, STR("If-Modified-Since"), x->renews_since);
    }
    if (x->renews_etag.len != 0 && (own & FIELD_BIT(FIELD_IF_NONE_MATCH)) == 0) {
        at = put_line(at, STR("If-None-Match"), x->renews_etag);
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
    const char *start = request->line.data;
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
        at = put(at, run);
        run = (struct str){start, 0};
        if (as_it_is) {
            run = (struct str){field->name.data, size};
        } else {
            at = put_line(at, field->name, field->value);
        }
    }
    return put(at, run);
}

/* Values of the lines that have variables, in order, and the room that all lines take at most. */
static struct str *evaluate(struct request *request, const struct head_plan *plan,
                            const struct proxy_state *state, size_t *room)
{
    struct str *values = arena_alloc(&request->arena, plan->count * sizeof(*values));
    size_t size = 0;

    for (unsigned i = 0; i < plan->count; i++) {
        const struct head_part *part = &plan->parts[i];
        struct str value = STR_NONE;

        if (part->value != NULL) {
            value = field_value_safe(&request->arena, template_text(part->value, &request->env));
        }
        if (part->kind == HEAD_HOST && value.len == 0) {
            value = state->url.host;
        }
        values[i] = value;
        size += part->text.len + value.len + 8;
    }
    *room = size + FRAMING_MAX;
    return values;
}

static char *put_parts(char *at, const struct head_plan *plan, const struct str *values,
                       const struct proxy_state *state)
{
    for (unsigned i = 0; i < plan->count; i++) {
        const struct head_part *part = &plan->parts[i];

        switch (part->kind) {
        case HEAD_TEXT:
            at = put(at, part->text);
            break;
        case HEAD_LINE:
            if (values[i].len != 0) {
                at = put(at, part->text);
                at = put(at, values[i]);
                at = PUT(at, "\r\n");
            }
            break;
        case HEAD_HOST:
            at = put_line(at, STR("Host"), values[i]);
            break;
        case HEAD_FRAMING:
            at = put_framing(at, plan, state);
            break;
        }
    }
    return at;
}

static size_t fields_room(const struct fields *fields)
{
    size_t size = 0;

    fields_each(field, fields) {
        size += field->name.len + field->value.len + 4;
    }
    return size;
}

bool proxy_make_request(struct exchange *x)
{
    struct request *request = x->request;
    const struct proxy_settings *settings = proxy_settings_of(x);
    const struct head_plan *plan = settings->plan;
    struct proxy_state *state = proxy_state_of(x);
    uint64_t hidden = plan->hidden | (x->is_cacheable ? CONDITION_IDS : 0);
    size_t room;

    if (!choose_method(x)) {
        return false;
    }
    measure_body(x);
    struct str *values = evaluate(request, plan, state, &room);
    room += state->method.len + state->url.uri.len + 64 + x->renews_since.len + x->renews_etag.len +
            fields_room(&request->headers);
    char *start = arena_text(&request->arena, room);
    char *at = put(start, state->method);
    *at++ = ' ';
    at = put(at, state->url.uri);
    at = settings->version == HTTP_1_1 ? PUT(at, " HTTP/1.1\r\n") : PUT(at, " HTTP/1.0\r\n");
    at = put_parts(at, plan, values, state);
    if (x->is_cacheable) {
        at = put_conditions(at, x, plan->own);
    }
    if (x->settings->pass_request_headers) {
        at = put_fields(at, request, plan, hidden);
    }
    at = PUT(at, "\r\n");
    x->head = str_from(start, at);
    return true;
}

/* ---- sending ---- */

struct str proxy_announcement(struct exchange *x)
{
    struct request *request = x->request;
    struct addr client = {.len = 0};
    char text[PROXY_HEADER_V1_MAX];

    request_client(request, &client);
    size_t length = proxy_header_write(&client, connection_local(request->http), text);
    return arena_dup(&request->arena, (struct str){text, length});
}

void proxy_send_head(struct exchange *x)
{
    if (proxy_settings_of(x)->proxy_protocol && !x->is_secure) {
        conn_write(x->link->conn, proxy_announcement(x));
    }
    conn_write(x->link->conn, x->head);
}

/* A part of a body without a known length: one chunk (RFC 9112, 7.1). */
static void send_chunk(struct exchange *x, const struct body_piece *piece)
{
    struct conn *conn = x->link->conn;
    uint64_t size = piece->bytes.data != NULL ? piece->bytes.len : piece->size;
    char line[24];

    if (size == 0) {
        return;
    }
    int length = snprintf(line, sizeof(line), "%llx\r\n", (unsigned long long) size);
    conn_write(conn, (struct str){line, (size_t) length});
    exchange_send_piece(x, piece);
    conn_write(conn, STR("\r\n"));
}

void proxy_send_body(struct exchange *x, const struct body_piece *piece, bool is_last)
{
    if (!x->is_chunked_out) {
        if (piece != NULL) {
            exchange_send_piece(x, piece);
        }
        return;
    }
    if (piece != NULL) {
        send_chunk(x, piece);
    }
    if (is_last) {
        conn_write(x->link->conn, STR("0\r\n\r\n"));
    }
}
