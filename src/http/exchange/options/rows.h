/* The rows of the options that protocols towards backends share: one family, instantiated under
 * each prefix. Those of the cache are in cache/rows.h. */
#ifndef HTTP_EXCHANGE_OPTIONS_ROWS_H
#define HTTP_EXCHANGE_OPTIONS_ROWS_H

#include "conf/directive.h"
#include "http/exchange/options/settings.h"
#include "net/addr/addr.h"
#include "net/tls/tls.h"
#include "server/generation.h"
#include "shared/tls/options.h"
#include "shared/upstream/rows.h"

/* What can go wrong with a peer, as *_next_upstream and *_cache_use_stale name it; and after a
 * gateway. */
#define EXCHANGE_TRY_WORDS                                                                         \
    {"error", NEXT_ERROR}, {"timeout", NEXT_TIMEOUT}, {"invalid_header", NEXT_INVALID_HEADER},     \
        {"non_idempotent", NEXT_NON_IDEMPOTENT}, {"http_500", NEXT_500}, {"http_503", NEXT_503},   \
        {"http_403", NEXT_403}, {"http_404", NEXT_404}, {"http_429", NEXT_429},                    \
        {"updating", NEXT_UPDATING},                                                               \
    {                                                                                              \
        "off", NEXT_OFF                                                                            \
    }
#define EXCHANGE_GATEWAY_WORDS                                                                     \
    {"http_502", NEXT_502},                                                                        \
    {                                                                                              \
        "http_504", NEXT_504                                                                       \
    }

/* Words of *_next_upstream, for protocols that tell 502 and 504 apart from failures, and for those
 * of the CGI kind. */
extern const struct directive_word next_upstream_words[];
extern const struct directive_word cgi_next_upstream_words[];
extern const struct directive_word bare_next_upstream_words[]; /* of protocols without heads */
extern const struct directive_word ignore_headers_words[];

/* Apply functions of the family (rows.c). */
typedef bool exchange_row_apply(struct conf_scope *scope, const struct directive *row,
                                struct conf_node *node, void *settings);
exchange_row_apply exchange_temp_path_apply, exchange_store_apply, exchange_store_access_apply,
    exchange_max_temp_file_size_apply, exchange_quic_host_key_apply;

#define EXCHANGE_S struct exchange_settings

/* Connections and tries: every protocol. NEXT is the list of words of *_next_upstream. */
#define EXCHANGE_CONNECT_ROWS(PREFIX, NEXT)                                                        \
    UPSTREAM_BIND_ROW(PREFIX, IN_HTTP_ALL, EXCHANGE_S),                                            \
        {PREFIX "_bind_dynamic", IN_HTTP_ALL, FLAG(EXCHANGE_S, bind_dynamic), .initial = "off",    \
         .doc = "The address of " PREFIX                                                           \
                "_bind is found for each attempt, which it is in any case."},                      \
        UPSTREAM_TIMEOUT_ROWS(PREFIX, IN_HTTP_ALL, EXCHANGE_S),                                    \
        {PREFIX "_next_upstream",                                                                  \
         IN_HTTP_ALL,                                                                              \
         BITS(EXCHANGE_S, next_upstream, NEXT),                                                    \
         .initial = "error timeout",                                                               \
         .repeat = REPEAT_APPEND,                                                                  \
         .doc = "When the request goes to another peer of the group."},                            \
        UPSTREAM_TRIES_ROWS(PREFIX, IN_HTTP_ALL, EXCHANGE_S)

/* Requests that are made for each peer. */
#define EXCHANGE_DYNAMIC_ROW(PREFIX)                                                               \
    {                                                                                              \
        PREFIX "_request_dynamic", IN_HTTP_ALL, FLAG(EXCHANGE_S, request_dynamic),                 \
            .initial = "off",                                                                      \
            .doc = "Makes the request for each server that is asked, when it was chosen, so that " \
                   "variables such as $upstream_last_server_name are of that server. off: it is "  \
                   "made once, before the first one is chosen."                                    \
    }

/* Which peers may be asked: of nginx's own protocols. */
#define EXCHANGE_ALLOW_ROW(PREFIX)                                                                 \
    {                                                                                              \
        PREFIX "_allow_upstream", IN_HTTP_ALL, TEMPLATES(EXCHANGE_S, allow_upstream),              \
            .syntax = "string ...",                                                                \
            .doc = "A server is used only when none of these is empty or \"0\"; "                  \
                   "`$upstream_last_addr` and `$upstream_last_server_name` name it. Others are "   \
                   "skipped if `" PREFIX                                                           \
                   "_next_upstream` has `denied`, otherwise the response is 403."                  \
    }

/* Socket buffers; and with low-water marks. */
#define EXCHANGE_SOCKET_BUFFER_ROWS(PREFIX)                                                        \
    UPSTREAM_SOCKET_BUFFER_ROWS(PREFIX, IN_HTTP_ALL, EXCHANGE_S)
#define EXCHANGE_SOCKET_ROWS(PREFIX) UPSTREAM_SOCKET_ROWS(PREFIX, IN_HTTP_ALL, EXCHANGE_S)

/* Tengine's name of *_next_upstream_tries, which tunnel has not. */
#define EXCHANGE_TENGINE_TRIES_ROW(PREFIX)                                                         \
    {                                                                                              \
        PREFIX "_upstream_tries", IN_HTTP_ALL, NUMBER(EXCHANGE_S, next_upstream_tries),            \
            .replaced_by = PREFIX "_next_upstream_tries",                                          \
            .doc = "How many peers may be tried; Tengine's name."                                  \
    }

/* Tengine's names for the socket buffers. */
#define EXCHANGE_TENGINE_SOCKET_ROWS(PREFIX)                                                       \
    {PREFIX "_sndbuf_size", IN_HTTP_ALL, SIZE(EXCHANGE_S, socket_sndbuf),                          \
     .doc = "SO_SNDBUF of connections to backends; Tengine's name."},                              \
    {                                                                                              \
        PREFIX "_rcvbuf_size", IN_HTTP_ALL, SIZE(EXCHANGE_S, socket_rcvbuf),                       \
            .doc = "SO_RCVBUF of connections to backends; Tengine's name."                         \
    }

/* Fields of responses that clients do not get, or get: proxy, grpc and the CGI kinds. */
#define EXCHANGE_HIDE_ROWS(PREFIX)                                                                 \
    {PREFIX "_hide_header",                                                                        \
     IN_HTTP_ALL,                                                                                  \
     STRINGS(EXCHANGE_S, hide_headers),                                                            \
     ARGS(1, 1),                                                                                   \
     .repeat = REPEAT_APPEND,                                                                      \
     .doc = "A field that is not passed to the client."},                                          \
        {PREFIX "_hide_header_inherit", IN_HTTP_ALL,                                               \
         ENUM(EXCHANGE_S, hide_inherit, list_inherit_words), .initial = "on",                      \
         .doc = "Whether a block with its own lines of " PREFIX                                    \
                "_hide_header replaces the outer ones (on), or adds to them (merge); off: "        \
                "never inherits any."},                                                            \
        {PREFIX "_pass_header",                                                                    \
         IN_HTTP_ALL,                                                                              \
         STRINGS(EXCHANGE_S, pass_headers),                                                        \
         ARGS(1, 1),                                                                               \
         .repeat = REPEAT_APPEND,                                                                  \
         .doc = "A field that is passed though it is usually not."},                               \
    {                                                                                              \
        PREFIX "_pass_header_inherit", IN_HTTP_ALL,                                                \
            ENUM(EXCHANGE_S, pass_inherit, list_inherit_words),                                    \
            .initial = "on", .doc = "The same for lines of " PREFIX "_pass_header."                \
    }

/* Bodies, fields, buffering, store: proxy, fastcgi, uwsgi, scgi. */
#define EXCHANGE_BODY_ROWS(PREFIX)                                                                 \
    {PREFIX "_pass_request_headers", IN_HTTP_ALL, FLAG(EXCHANGE_S, pass_request_headers),          \
     .initial = "on", .doc = "Are the client's header fields passed on?"},                         \
        {PREFIX "_pass_request_body", IN_HTTP_ALL, FLAG(EXCHANGE_S, pass_request_body),            \
         .initial = "on", .doc = "Is the client's body passed on?"},                               \
        {PREFIX "_request_buffering", IN_HTTP_ALL, FLAG(EXCHANGE_S, request_buffering),            \
         .initial = "on",                                                                          \
         .doc = "Whether the body is read completely before the backend gets the request."},       \
        {PREFIX "_ignore_client_abort", IN_HTTP_ALL, FLAG(EXCHANGE_S, ignore_client_abort),        \
         .initial = "off",                                                                         \
         .doc = "Whether the request to the backend continues when the client has closed the "     \
                "connection."},                                                                    \
        {PREFIX "_intercept_errors", IN_HTTP_ALL, FLAG(EXCHANGE_S, intercept_errors),              \
         .initial = "off", .doc = "Do answers of 300 and above go to error_page?"},                \
        {PREFIX "_buffering", IN_HTTP_ALL, FLAG(EXCHANGE_S, buffering), .initial = "on",           \
         .doc = "Is the answer read as fast as the backend gives it?"},                            \
        {PREFIX "_buffers", IN_HTTP_ALL, BUFFERS(EXCHANGE_S, buffers), .initial = "8 4k",          \
         .doc = "Memory for an answer that the client has not taken yet."},                        \
        {PREFIX "_busy_buffers_size", IN_HTTP_ALL, SIZE(EXCHANGE_S, busy_buffers_size),            \
         .doc = "How much of it may be on its way to the client; by default two buffers."},        \
        {PREFIX "_max_temp_file_size",                                                             \
         IN_HTTP_ALL,                                                                              \
         CUSTOM_FIELD(EXCHANGE_S, max_temp_file_size, exchange_max_temp_file_size_apply),          \
         ARGS(1, 1),                                                                               \
         .initial = "1024m",                                                                       \
         .syntax = "size",                                                                         \
         .doc = "What is above the buffers goes to a file of this size at most; 0 is none. "       \
                "Responses that are stored have no such limit."},                                  \
        {PREFIX "_temp_file_write_size", IN_HTTP_ALL, SIZE(EXCHANGE_S, temp_file_write_size),      \
         .doc = "Bytes written there at a time; by default two buffers."},                         \
        {PREFIX "_temp_path",                                                                      \
         IN_HTTP_ALL,                                                                              \
         CUSTOM_FIELD(EXCHANGE_S, temp_path, exchange_temp_path_apply),                            \
         ARGS(1, 4),                                                                               \
         .syntax = "path [level1 [level2 [level3]]]",                                              \
         .doc = "Directory of those files."},                                                      \
        {PREFIX "_limit_rate", IN_HTTP_ALL, TEMPLATE_SIZE(EXCHANGE_S, limit_rate), .initial = "0", \
         .doc = "Bytes per second read from a backend; 0 is no limit."},                           \
        {PREFIX "_force_ranges", IN_HTTP_ALL, FLAG(EXCHANGE_S, force_ranges), .initial = "off",    \
         .doc = "Are ranges served whatever Accept-Ranges says?"},                                 \
        {PREFIX "_ignore_headers", IN_HTTP_ALL,                                                    \
         BITS(EXCHANGE_S, ignore_headers, ignore_headers_words), .repeat = REPEAT_APPEND,          \
         .doc = "Fields of the answer that are not acted on."},                                    \
        EXCHANGE_HIDE_ROWS(PREFIX),                                                                \
        {PREFIX "_store",                                                                          \
         IN_HTTP_ALL,                                                                              \
         CUSTOM_FIELD(EXCHANGE_S, stores, exchange_store_apply),                                   \
         ARGS(1, 1),                                                                               \
         .initial = "off",                                                                         \
         .syntax = "on | off | string",                                                            \
         .doc = "Keeps answers as files below root, or at the given path."},                       \
    {                                                                                              \
        PREFIX "_store_access", IN_HTTP_ALL,                                                       \
            CUSTOM_FIELD(EXCHANGE_S, store_access, exchange_store_access_apply), ARGS(1, 3),       \
            .initial = "user:rw", .syntax = "users:permissions ...",                               \
            .doc = "Permissions of those files."                                                   \
    }

/* HTTP/3: proxy, grpc. */
#define EXCHANGE_HTTP3_ROWS(PREFIX)                                                                \
    {PREFIX "_http3_max_concurrent_streams",                                                       \
     IN_HTTP_ALL,                                                                                  \
     NUMBER(EXCHANGE_S, http3.max_concurrent_streams),                                             \
     .initial = "128",                                                                             \
     .min = 1,                                                                                     \
     .max = 1024,                                                                                  \
     .doc = "Most requests on one HTTP/3 connection to a backend at one time; more open "          \
            "another connection."},                                                                \
        {PREFIX "_http3_max_table_capacity",                                                       \
         IN_HTTP_ALL,                                                                              \
         SIZE(EXCHANGE_S, http3.max_table_capacity),                                               \
         .initial = "4096",                                                                        \
         .max = 65536,                                                                             \
         .doc = "Bytes of the dynamic table (QPACK) that a backend may use for the fields of its " \
                "responses; 0 is no table."},                                                      \
        {PREFIX "_http3_stream_buffer_size",                                                       \
         IN_HTTP_ALL,                                                                              \
         SIZE(EXCHANGE_S, http3.stream_buffer_size),                                               \
         .initial = "64k",                                                                         \
         .min = 1024,                                                                              \
         .max = 16 * 1024 * 1024,                                                                  \
         .doc = "Bytes of a response that a backend may send before they are read: the first "     \
                "window of a stream, which grows to four times of it."},                           \
        {PREFIX "_quic_active_connection_id_limit",                                                \
         IN_HTTP_ALL,                                                                              \
         NUMBER(EXCHANGE_S, http3.active_connection_id_limit),                                     \
         .initial = "2",                                                                           \
         .min = 2,                                                                                 \
         .max = 8,                                                                                 \
         .doc = "How many connection ids of a backend are kept for each connection."},             \
        {PREFIX "_quic_gso", IN_HTTP_ALL, FLAG(EXCHANGE_S, http3.gso), .initial = "off",           \
         .doc = "Sends several packets with one system call (UDP segmentation offload)."},         \
    {                                                                                              \
        PREFIX "_quic_host_key", IN_HTTP_ALL, CONF_PATH(EXCHANGE_S, http3.host_key_file),          \
            .apply = exchange_quic_host_key_apply, .syntax = "file",                               \
            .doc =                                                                                 \
                "File with 32 bytes or more, of which the keys of connection ids and stateless "   \
                "resets are made. Without it they are random in each worker."                      \
    }

/* TLS: proxy, uwsgi, grpc. */
#define EXCHANGE_TLS_ROWS(PREFIX) TLS_CLIENT_ROWS(PREFIX, IN_HTTP_ALL, EXCHANGE_S)

#endif
