/* The $upstream_ variables: what was asked of which peer, and how it went. */
#include "http/exchange/module/variables.h"

#include "base/clock.h"
#include "base/parse.h"
#include "http/exchange/cache/kept.h"
#include "http/variables/variables.h"

#define NAMED(text) .name = STR_INIT(text)
/* What a variable says may change with each try. */
#define VOLATILE .flags = VARIABLE_VOLATILE
#define FAMILY .flags = VARIABLE_PREFIX | VARIABLE_VOLATILE

#define GETTER(name)                                                                               \
    static bool name(struct variable_env *env, const struct variable *variable, struct str *out)

/* Room for one number and what parts it from the next. */
#define NUMBER_ROOM 32

static struct exchange *exchange_of(struct variable_env *env)
{
    return request_exchange(variable_request(env));
}

/* ---- lists: one entry for each try ---- */

/* "-" for what did not happen; seconds with milliseconds. */
static char *put_time(char *at, uint64_t ms)
{
    if (ms == UINT64_MAX) {
        *at++ = '-';
        return at;
    }
    at = format_uint(at, ms / 1000);
    *at++ = '.';
    *at++ = (char) ('0' + ms / 100 % 10);
    *at++ = (char) ('0' + ms / 10 % 10);
    *at++ = (char) ('0' + ms % 10);
    return at;
}

/* What is told of a try. */
enum attempt_part {
    PART_PEER,
    PART_STATUS,
    PART_CONNECT_TIME,
    PART_HEADER_TIME,
    PART_RESPONSE_TIME,
    PART_QUEUE_TIME,
    PART_BYTES_SENT,
    PART_BYTES_RECEIVED,
    PART_RESPONSE_LENGTH,
    /* Tengine's */
    PART_SEND_START,
    PART_SEND_FINISH,
    PART_SEND_TIME,
    PART_RECEIVE_START,
    PART_RECEIVE_FINISH,
    PART_RECEIVE_TIME,
};

/* From one moment of a try to another; "-" where one of them did not come. */
static char *put_between(char *at, uint64_t from_ms, uint64_t to_ms)
{
    return put_time(at,
                    from_ms == UINT64_MAX || to_ms == UINT64_MAX ? UINT64_MAX : to_ms - from_ms);
}

/* A moment of a try in seconds since the epoch. */
static char *put_moment(char *at, const struct attempt *attempt, uint64_t ms)
{
    uint64_t wall_ms = (uint64_t) clock_now.seconds * 1000 + clock_now.milliseconds;

    return put_time(at,
                    ms == UINT64_MAX ? ms : wall_ms - (clock_now.now_ms - attempt->began_ms - ms));
}

static char *put_part(char *at, const struct attempt *attempt, enum attempt_part part)
{
    switch (part) {
    case PART_PEER:
        return str_put(at, attempt->peer);
    case PART_STATUS:
        return attempt->status == 0 ? put_time(at, UINT64_MAX) : format_uint(at, attempt->status);
    case PART_CONNECT_TIME:
        return put_time(at, attempt->connect_ms);
    case PART_HEADER_TIME:
        return put_time(at, attempt->header_ms);
    case PART_RESPONSE_TIME:
        return put_time(at, attempt->response_ms);
    case PART_QUEUE_TIME:
        return put_time(at, attempt->queue_ms);
    case PART_BYTES_SENT:
        return format_uint(at, attempt->bytes_sent);
    case PART_BYTES_RECEIVED:
        return format_uint(at, attempt->bytes_received);
    case PART_RESPONSE_LENGTH:
        return format_uint(at, attempt->response_length);
    case PART_SEND_START:
        return put_moment(at, attempt, attempt->send_ms);
    case PART_SEND_FINISH:
        return put_moment(at, attempt, attempt->sent_ms);
    case PART_SEND_TIME:
        return put_between(at, attempt->send_ms, attempt->sent_ms);
    case PART_RECEIVE_START:
        return put_moment(at, attempt, attempt->first_byte_ms);
    case PART_RECEIVE_FINISH:
        return put_moment(at, attempt,
                          attempt->first_byte_ms == UINT64_MAX ? UINT64_MAX : attempt->response_ms);
    case PART_RECEIVE_TIME:
        return put_between(at, attempt->first_byte_ms, attempt->response_ms);
    }
    return at;
}

GETTER(get_attempts)
{
    const struct exchange *x = exchange_of(env);
    enum attempt_part part = (enum attempt_part) variable->data;
    size_t room = 0;

    if (x == NULL || x->attempts.count == 0) {
        return false;
    }
    vec_each(const struct attempt, attempt, &x->attempts) {
        room += NUMBER_ROOM + (part == PART_PEER ? attempt->peer.len : 0);
    }
    char *text = arena_text(env->arena, room);
    char *at = text;
    const struct attempt *first = x->attempts.items;
    vec_each(const struct attempt, attempt, &x->attempts) {
        if (attempt != first) {
            at = str_put(at, attempt->is_after_redirect ? STR(" : ") : STR(", "));
        }
        at = put_part(at, attempt, part);
    }
    return variable_give(out, str_from(text, at));
}

/* ---- the last of them ---- */

GETTER(get_last_address)
{
    const struct exchange *x = exchange_of(env);

    if (x == NULL || x->attempts.count == 0) {
        return false;
    }
    return variable_give(out, vec_at(&x->attempts, struct attempt, x->attempts.count - 1)->peer);
}

/* The name that the server was written with, while its peer is in use: for SNI and the like. */
GETTER(get_last_server_name)
{
    const struct exchange *x = exchange_of(env);

    if (x == NULL || x->pick.peer == NULL) {
        return false;
    }
    return variable_give(out, arena_dup(env->arena, x->pick.peer->server->host));
}

/* ---- the answer ---- */

GETTER(get_field)
{
    const struct exchange *x = exchange_of(env);

    return x != NULL && fields_by_variable_name(&x->answer.fields, env->arena, variable->rest, out);
}

GETTER(get_trailer)
{
    const struct exchange *x = exchange_of(env);

    return x != NULL && x->answer.trailers != NULL &&
           fields_by_variable_name(x->answer.trailers, env->arena, variable->rest, out);
}

GETTER(get_cookie)
{
    const struct exchange *x = exchange_of(env);

    return x != NULL && fields_set_cookie(&x->answer.fields, variable->rest, out);
}

/* ---- the cache ---- */

GETTER(get_cache_status)
{
    const struct exchange *x = exchange_of(env);

    return x != NULL && x->kept != NULL && x->kept->status.len != 0 &&
           variable_give(out, x->kept->status);
}

/* data: 1 = the ETag, else the date, of the stored answer that this request renews. */
GETTER(get_validator)
{
    const struct exchange *x = exchange_of(env);

    if (x == NULL) {
        return false;
    }
    *out = variable->data == 1 ? x->renews_etag : x->renews_since;
    return out->len != 0;
}

const struct variable exchange_variables[] = {
    {NAMED("upstream_addr"), .get = get_attempts, .data = PART_PEER, VOLATILE},
    {NAMED("upstream_status"), .get = get_attempts, .data = PART_STATUS, VOLATILE},
    {NAMED("upstream_connect_time"), .get = get_attempts, .data = PART_CONNECT_TIME, VOLATILE},
    {NAMED("upstream_header_time"), .get = get_attempts, .data = PART_HEADER_TIME, VOLATILE},
    {NAMED("upstream_first_pkg_time"), .get = get_attempts, .data = PART_HEADER_TIME, VOLATILE},
    {NAMED("upstream_response_time"), .get = get_attempts, .data = PART_RESPONSE_TIME, VOLATILE},
    {NAMED("upstream_queue_time"), .get = get_attempts, .data = PART_QUEUE_TIME, VOLATILE},
    {NAMED("upstream_bytes_sent"), .get = get_attempts, .data = PART_BYTES_SENT, VOLATILE},
    {NAMED("upstream_bytes_received"), .get = get_attempts, .data = PART_BYTES_RECEIVED, VOLATILE},
    {NAMED("upstream_response_length"), .get = get_attempts, .data = PART_RESPONSE_LENGTH,
     VOLATILE},
    {NAMED("upstream_stat_send_start_time"), .get = get_attempts, .data = PART_SEND_START,
     VOLATILE},
    {NAMED("upstream_stat_send_finish_time"), .get = get_attempts, .data = PART_SEND_FINISH,
     VOLATILE},
    {NAMED("upstream_stat_send_time"), .get = get_attempts, .data = PART_SEND_TIME, VOLATILE},
    {NAMED("upstream_stat_recv_start_time"), .get = get_attempts, .data = PART_RECEIVE_START,
     VOLATILE},
    {NAMED("upstream_stat_recv_finish_time"), .get = get_attempts, .data = PART_RECEIVE_FINISH,
     VOLATILE},
    {NAMED("upstream_stat_recv_time"), .get = get_attempts, .data = PART_RECEIVE_TIME, VOLATILE},
    {NAMED("upstream_last_addr"), .get = get_last_address, VOLATILE},
    {NAMED("upstream_last_server_name"), .get = get_last_server_name, VOLATILE},
    {NAMED("upstream_http_"), .get = get_field, FAMILY},
    {NAMED("upstream_trailer_"), .get = get_trailer, FAMILY},
    {NAMED("upstream_cookie_"), .get = get_cookie, FAMILY},
    {NAMED("upstream_cache_status"), .get = get_cache_status, VOLATILE},
    {NAMED("upstream_cache_last_modified"), .get = get_validator, VOLATILE},
    {NAMED("upstream_cache_etag"), .get = get_validator, .data = 1, VOLATILE},
    {.name = {NULL, 0}},
};
