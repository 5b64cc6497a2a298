/* The $upstream_ variables: what was asked of which peer, and how it went. */
#include "http/exchange/module/variables.h"

#include "base/parse.h"
#include "http/exchange/cache/caching.h"
#include "http/variables/variables.h"

#define NAMED(text) .name = STR_INIT(text)
/* What a variable says may change with each attempt. */
#define VOLATILE .flags = VARIABLE_VOLATILE
#define ASSIGNABLE .flags = VARIABLE_VOLATILE | VARIABLE_CHANGEABLE
#define FAMILY .flags = VARIABLE_PREFIX | VARIABLE_VOLATILE

#define GETTER(name)                                                                               \
    static bool name(struct variable_env *env, const struct variable *variable, struct str *out)

static struct exchange *exchange_of(struct variable_env *env)
{
    return request_exchange(variable_request(env));
}

/* ---- lists: one entry for each attempt ---- */

GETTER(get_attempts)
{
    const struct exchange *x = exchange_of(env);

    return x != NULL &&
           attempts_text(&x->attempts, (enum attempt_part) variable->data, env->arena, out);
}

/* ---- time limits of a request's own (Tengine); data: enum own_timeout, for set ---- */

static void set_timeout(struct variable_env *env, enum own_timeout which,
                        const struct variable *variable, struct str value)
{
    uint64_t ms;

    if (!parse_msec(value, &ms) || ms == 0) {
        log_error(env->log, 0, "invalid $%.*s \"%.*s\"", STR_ARG(variable->name), STR_ARG(value));
        return;
    }
    exchange_set_timeout(variable_request(env), which, ms);
}

static void set_own_timeout(struct variable_env *env, const struct variable *variable,
                            struct str value)
{
    set_timeout(env, (enum own_timeout) variable->data, variable, value);
}

/* $upstream_connect_time tells how long connecting took, and takes how long it may. */
static void set_connect_timeout(struct variable_env *env, const struct variable *variable,
                                struct str value)
{
    set_timeout(env, OWN_CONNECT, variable, value);
}

/* In milliseconds. */
GETTER(get_own_timeout)
{
    uint64_t ms = exchange_own_timeout(variable_request(env), (enum own_timeout) variable->data);

    return ms != 0 && variable_give_number(env, out, ms);
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

/* ---- the response ---- */

GETTER(get_field)
{
    const struct exchange *x = exchange_of(env);

    return x != NULL &&
           fields_by_variable_name(&x->response.fields, env->arena, variable->rest, out);
}

GETTER(get_trailer)
{
    const struct exchange *x = exchange_of(env);

    return x != NULL && x->response.trailers != NULL &&
           fields_by_variable_name(x->response.trailers, env->arena, variable->rest, out);
}

GETTER(get_cookie)
{
    const struct exchange *x = exchange_of(env);

    return x != NULL && fields_set_cookie(&x->response.fields, variable->rest, out);
}

/* ---- the cache ---- */

GETTER(get_cache_status)
{
    const struct exchange *x = exchange_of(env);

    return x != NULL && x->cache.state != NULL && x->cache.state->status.len != 0 &&
           variable_give(out, x->cache.state->status);
}

/* data: 1 = the ETag, else the date, of the stored response that this request renews. */
GETTER(get_validator)
{
    const struct exchange *x = exchange_of(env);

    if (x == NULL) {
        return false;
    }
    *out = variable->data == 1 ? x->cache.renews_etag : x->cache.renews_since;
    return out->len != 0;
}

const struct variable exchange_variables[] = {
    {NAMED("upstream_addr"),
     .doc = "Addresses of the servers that were tried; commas separate servers, colons separate "
            "groups.",
     .get = get_attempts, .data = PART_PEER, VOLATILE},
    {NAMED("upstream_status"), .doc = "Statuses of the responses of the servers that were tried.",
     .get = get_attempts, .data = PART_STATUS, VOLATILE},
    {NAMED("upstream_connect_time"),
     .doc = "Time to connect to the backend, including the TLS handshake, in seconds with "
            "milliseconds. Setting it sets the connect timeout of this request.",
     .get = get_attempts, .set = set_connect_timeout, .data = PART_CONNECT_TIME, ASSIGNABLE},
    {NAMED("upstream_send_time"),
     .doc = "Timeout for sending to the backend. Setting it sets the timeout of this "
            "request.",
     .get = get_own_timeout, .set = set_own_timeout, .data = OWN_SEND, ASSIGNABLE},
    {NAMED("upstream_read_time"),
     .doc = "Timeout for reading from the backend. Setting it sets the timeout of this "
            "request.",
     .get = get_own_timeout, .set = set_own_timeout, .data = OWN_READ, ASSIGNABLE},
    {NAMED("upstream_header_time"),
     .doc = "Time until the header of the response, in seconds with milliseconds.",
     .get = get_attempts, .data = PART_HEADER_TIME, VOLATILE},
    {NAMED("upstream_first_pkg_time"), .doc = "The same as `$upstream_header_time`.",
     .get = get_attempts, .data = PART_HEADER_TIME, VOLATILE},
    {NAMED("upstream_response_time"),
     .doc = "Time until the last byte of the response, in seconds with milliseconds.",
     .get = get_attempts, .data = PART_RESPONSE_TIME, VOLATILE},
    {NAMED("upstream_queue_time"),
     .doc = "Time that the request spent in the queue of the group, in seconds with "
            "milliseconds.",
     .get = get_attempts, .data = PART_QUEUE_TIME, VOLATILE},
    {NAMED("upstream_bytes_sent"), .doc = "Number of bytes sent to the backend.",
     .get = get_attempts, .data = PART_BYTES_SENT, VOLATILE},
    {NAMED("upstream_bytes_received"), .doc = "Number of bytes received from the backend.",
     .get = get_attempts, .data = PART_BYTES_RECEIVED, VOLATILE},
    {NAMED("upstream_response_length"),
     .doc = "Length of the response without its header, in bytes; includes the framing of "
            "the body (chunk sizes, records, frames).",
     .get = get_attempts, .data = PART_RESPONSE_LENGTH, VOLATILE},
    {NAMED("upstream_stat_send_start_time"), .doc = "Time at which sending to the backend began.",
     .get = get_attempts, .data = PART_SEND_START, VOLATILE},
    {NAMED("upstream_stat_send_finish_time"), .doc = "Time at which sending to the backend ended.",
     .get = get_attempts, .data = PART_SEND_FINISH, VOLATILE},
    {NAMED("upstream_stat_send_time"), .doc = "Duration of sending to the backend.",
     .get = get_attempts, .data = PART_SEND_TIME, VOLATILE},
    {NAMED("upstream_stat_recv_start_time"),
     .doc = "Time at which receiving from the backend began.", .get = get_attempts,
     .data = PART_RECEIVE_START, VOLATILE},
    {NAMED("upstream_stat_recv_finish_time"),
     .doc = "Time at which receiving from the backend ended.", .get = get_attempts,
     .data = PART_RECEIVE_FINISH, VOLATILE},
    {NAMED("upstream_stat_recv_time"), .doc = "Duration of receiving from the backend.",
     .get = get_attempts, .data = PART_RECEIVE_TIME, VOLATILE},
    {NAMED("upstream_last_addr"), .doc = "Address of the last server that was selected.",
     .get = get_last_address, VOLATILE},
    {NAMED("upstream_last_server_name"),
     .doc = "Name of the last server that was selected, for SNI.", .get = get_last_server_name,
     VOLATILE},
    {NAMED("upstream_http_"), .doc = "Header field of the backend's response.", .get = get_field,
     FAMILY},
    {NAMED("upstream_trailer_"), .doc = "Trailer field of the backend's response.",
     .get = get_trailer, FAMILY},
    {NAMED("upstream_cookie_"), .doc = "Cookie that the backend's response sets.",
     .get = get_cookie, FAMILY},
    {NAMED("upstream_cache_status"),
     .doc = "Status of the request in the cache: MISS, BYPASS, EXPIRED, STALE, UPDATING, "
            "REVALIDATED or HIT.",
     .get = get_cache_status, VOLATILE},
    {NAMED("upstream_cache_last_modified"),
     .doc = "Last-Modified of the cached response while it is revalidated.", .get = get_validator,
     VOLATILE},
    {NAMED("upstream_cache_etag"), .doc = "ETag of the cached response while it is revalidated.",
     .get = get_validator, .data = 1, VOLATILE},
    {.name = {NULL, 0}},
};
