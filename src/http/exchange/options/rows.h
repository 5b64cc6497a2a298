/* The rows of the options that all backend protocols share: one family, instantiated with each
 * prefix. The rows of the cache are in cache/rows.h. */
#ifndef HTTP_EXCHANGE_OPTIONS_ROWS_H
#define HTTP_EXCHANGE_OPTIONS_ROWS_H

#include "conf/directive.h"
#include "http/exchange/options/settings.h"
#include "net/addr/addr.h"
#include "net/tls/tls.h"
#include "server/generation.h"
#include "shared/tls/options.h"
#include "shared/upstream/rows.h"

/* Parameters of *_next_upstream and *_cache_use_stale: the failures of a server, and the statuses
 * of a gateway. */
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

/* Parameters of *_next_upstream: for protocols that distinguish a response with status 502 or 504
 * from a failure, and for FastCGI, SCGI and uwsgi. */
extern const struct directive_word next_upstream_words[];
extern const struct directive_word cgi_next_upstream_words[];
extern const struct directive_word bare_next_upstream_words[]; /* of protocols without headers */
extern const struct directive_word ignore_headers_words[];

/* Apply functions of the family (rows.c). */
typedef bool exchange_row_apply(struct conf_scope *scope, const struct directive *row,
                                struct conf_node *node, void *settings);
exchange_row_apply exchange_temp_path_apply, exchange_store_apply, exchange_store_access_apply,
    exchange_max_temp_file_size_apply, exchange_quic_host_key_apply;

#define EXCHANGE_S struct exchange_settings

/* Connections and attempts: all protocols. NEXT is the list of parameters of *_next_upstream. */
#define EXCHANGE_CONNECT_ROWS(PREFIX, NEXT)                                                        \
    UPSTREAM_BIND_ROW(PREFIX, IN_HTTP_ALL, EXCHANGE_S),                                            \
        {PREFIX "_bind_dynamic", IN_HTTP_ALL, FLAG(EXCHANGE_S, bind_dynamic), .initial = "off",    \
         .doc = "Accepted and ignored: the address of " PREFIX                                     \
                "_bind is always evaluated for each attempt."},                                    \
        UPSTREAM_TIMEOUT_ROWS(PREFIX, IN_HTTP_ALL, EXCHANGE_S),                                    \
        {PREFIX "_next_upstream",                                                                  \
         IN_HTTP_ALL,                                                                              \
         BITS(EXCHANGE_S, next_upstream, NEXT),                                                    \
         .initial = "error timeout",                                                               \
         .repeat = REPEAT_APPEND,                                                                  \
         .doc = "Conditions under which the request is passed to the next server of the group."},  \
        UPSTREAM_TRIES_ROWS(PREFIX, IN_HTTP_ALL, EXCHANGE_S)

/* Requests that are created for each server. */
#define EXCHANGE_DYNAMIC_ROW(PREFIX)                                                               \
    {                                                                                              \
        PREFIX "_request_dynamic", IN_HTTP_ALL, FLAG(EXCHANGE_S, request_dynamic),                 \
            .initial = "off",                                                                      \
            .doc = "Creates the request again for each server, after the server was selected, so " \
                   "that variables such as `$upstream_last_server_name` have the values of that "  \
                   "server. `off`: the request is created once, before a server is selected."      \
    }

/* Servers that may be used: nginx's own protocols. */
#define EXCHANGE_ALLOW_ROW(PREFIX)                                                                 \
    {                                                                                              \
        PREFIX "_allow_upstream", IN_HTTP_ALL, TEMPLATES(EXCHANGE_S, allow_upstream),              \
            .syntax = "string ...",                                                                \
            .doc =                                                                                 \
                "Conditions for using a server: each string must be neither empty nor \"0\". "     \
                "`$upstream_last_addr` and `$upstream_last_server_name` identify the server. A "   \
                "denied server is skipped if `" PREFIX                                             \
                "_next_upstream` contains `denied`; otherwise the response is 403."                \
    }

/* Socket buffers; and with low-water marks. */
#define EXCHANGE_SOCKET_BUFFER_ROWS(PREFIX)                                                        \
    UPSTREAM_SOCKET_BUFFER_ROWS(PREFIX, IN_HTTP_ALL, EXCHANGE_S)
#define EXCHANGE_SOCKET_ROWS(PREFIX) UPSTREAM_SOCKET_ROWS(PREFIX, IN_HTTP_ALL, EXCHANGE_S)

/* Tengine's name of *_next_upstream_tries; tunnel does not have it. */
#define EXCHANGE_TENGINE_TRIES_ROW(PREFIX)                                                         \
    {                                                                                              \
        PREFIX "_upstream_tries", IN_HTTP_ALL, NUMBER(EXCHANGE_S, next_upstream_tries),            \
            .replaced_by = PREFIX "_next_upstream_tries",                                          \
            .doc = "Tengine's name of `" PREFIX "_next_upstream_tries`."                           \
    }

/* Tengine's names for the socket buffers. */
#define EXCHANGE_TENGINE_SOCKET_ROWS(PREFIX)                                                       \
    {PREFIX "_sndbuf_size", IN_HTTP_ALL, SIZE(EXCHANGE_S, socket_sndbuf),                          \
     .doc = "Tengine's name of `" PREFIX "_socket_sndbuf`."},                                      \
    {                                                                                              \
        PREFIX "_rcvbuf_size", IN_HTTP_ALL, SIZE(EXCHANGE_S, socket_rcvbuf),                       \
            .doc = "Tengine's name of `" PREFIX "_socket_rcvbuf`."                                 \
    }

/* Response header fields that are hidden from clients, or passed: proxy, grpc, fastcgi, uwsgi,
 * scgi. */
#define EXCHANGE_HIDE_ROWS(PREFIX)                                                                 \
    {PREFIX "_hide_header",                                                                        \
     IN_HTTP_ALL,                                                                                  \
     STRINGS(EXCHANGE_S, hide_headers),                                                            \
     ARGS(1, 1),                                                                                   \
     .repeat = REPEAT_APPEND,                                                                      \
     .doc = "Response header field that is not passed to the client."},                            \
        {PREFIX "_hide_header_inherit", IN_HTTP_ALL,                                               \
         ENUM(EXCHANGE_S, hide_inherit, list_inherit_words), .initial = "on",                      \
         .doc = "How the lines of an outer block are inherited by a block with its own " PREFIX    \
                "_hide_header: `on` means that its own replace them, `merge` adds to them; "       \
                "`off` disables inheritance altogether."},                                         \
        {PREFIX "_pass_header",                                                                    \
         IN_HTTP_ALL,                                                                              \
         STRINGS(EXCHANGE_S, pass_headers),                                                        \
         ARGS(1, 1),                                                                               \
         .repeat = REPEAT_APPEND,                                                                  \
         .doc = "Response header field that is passed to the client although it is hidden by "     \
                "default."},                                                                       \
    {                                                                                              \
        PREFIX "_pass_header_inherit", IN_HTTP_ALL,                                                \
            ENUM(EXCHANGE_S, pass_inherit, list_inherit_words),                                    \
            .initial = "on",                                                                       \
            .doc =                                                                                 \
                "The same as " PREFIX "_hide_header_inherit, for lines of " PREFIX "_pass_header." \
    }

/* Bodies, fields, buffering, store: proxy, fastcgi, uwsgi, scgi. */
#define EXCHANGE_BODY_ROWS(PREFIX)                                                                 \
    {PREFIX "_pass_request_headers", IN_HTTP_ALL, FLAG(EXCHANGE_S, pass_request_headers),          \
     .initial = "on",                                                                              \
     .doc = "Whether the header fields of the client's request are passed to the backend."},       \
        {PREFIX "_pass_request_body", IN_HTTP_ALL, FLAG(EXCHANGE_S, pass_request_body),            \
         .initial = "on",                                                                          \
         .doc = "Whether the body of the client's request is passed to the backend."},             \
        {PREFIX "_request_buffering", IN_HTTP_ALL, FLAG(EXCHANGE_S, request_buffering),            \
         .initial = "on",                                                                          \
         .doc = "Whether the client's request body is read completely before the request is "      \
                "passed to the backend."},                                                         \
        {PREFIX "_ignore_client_abort", IN_HTTP_ALL, FLAG(EXCHANGE_S, ignore_client_abort),        \
         .initial = "off",                                                                         \
         .doc = "Whether the request to the backend continues after the client has closed the "    \
                "connection."},                                                                    \
        {PREFIX "_intercept_errors", IN_HTTP_ALL, FLAG(EXCHANGE_S, intercept_errors),              \
         .initial = "off",                                                                         \
         .doc = "Whether responses with status 300 and above are replaced by error_page."},        \
        {PREFIX "_buffering", IN_HTTP_ALL, FLAG(EXCHANGE_S, buffering), .initial = "on",           \
         .doc = "Whether the response is read and buffered as fast as the backend sends it "       \
                "(`on`), or only as fast as the client receives it (`off`)."},                     \
        {PREFIX "_buffers", IN_HTTP_ALL, BUFFERS(EXCHANGE_S, buffers), .initial = "8 4k",          \
         .doc = "Number and size of the buffers for the part of a response that the client has "   \
                "not received yet."},                                                              \
        {PREFIX "_busy_buffers_size", IN_HTTP_ALL, SIZE(EXCHANGE_S, busy_buffers_size),            \
         .doc = "Ignored, except that the value must fit the buffers, as in nginx. By default "    \
                "it is the size of two buffers."},                                                 \
        {PREFIX "_max_temp_file_size",                                                             \
         IN_HTTP_ALL,                                                                              \
         CUSTOM_FIELD(EXCHANGE_S, max_temp_file_size, exchange_max_temp_file_size_apply),          \
         ARGS(1, 1),                                                                               \
         .initial = "1024m",                                                                       \
         .syntax = "size",                                                                         \
         .doc = "Largest size of the temporary file for the part of a response that does not "     \
                "fit into the buffers; 0 disables temporary files. Responses that are cached or "  \
                "stored are not limited."},                                                        \
        {PREFIX "_temp_file_write_size", IN_HTTP_ALL, SIZE(EXCHANGE_S, temp_file_write_size),      \
         .doc = "Ignored, except that the value must fit the buffers, as in nginx. By default "    \
                "it is the size of two buffers."},                                                 \
        {PREFIX "_temp_path",                                                                      \
         IN_HTTP_ALL,                                                                              \
         CUSTOM_FIELD(EXCHANGE_S, temp_path, exchange_temp_path_apply),                            \
         ARGS(1, 4),                                                                               \
         .syntax = "path [level1 [level2 [level3]]]",                                              \
         .doc = "Directory of the temporary files, with up to three levels of subdirectories."},   \
        {PREFIX "_limit_rate", IN_HTTP_ALL, TEMPLATE_SIZE(EXCHANGE_S, limit_rate), .initial = "0", \
         .doc = "Largest rate at which a response is read from the backend, in bytes per "         \
                "second; 0: no limit."},                                                           \
        {PREFIX "_force_ranges", IN_HTTP_ALL, FLAG(EXCHANGE_S, force_ranges), .initial = "off",    \
         .doc = "Whether range requests are served whatever the Accept-Ranges field of the "       \
                "response says."},                                                                 \
        {PREFIX "_ignore_headers", IN_HTTP_ALL,                                                    \
         BITS(EXCHANGE_S, ignore_headers, ignore_headers_words), .repeat = REPEAT_APPEND,          \
         .doc = "Response header fields of the backend that have no effect on the processing of "  \
                "the response."},                                                                  \
        EXCHANGE_HIDE_ROWS(PREFIX),                                                                \
        {PREFIX "_store",                                                                          \
         IN_HTTP_ALL,                                                                              \
         CUSTOM_FIELD(EXCHANGE_S, stores, exchange_store_apply),                                   \
         ARGS(1, 1),                                                                               \
         .initial = "off",                                                                         \
         .syntax = "on | off | string",                                                            \
         .doc = "Saves responses as files: `on` below `root` or `alias`, or at the given path."},  \
    {                                                                                              \
        PREFIX "_store_access", IN_HTTP_ALL,                                                       \
            CUSTOM_FIELD(EXCHANGE_S, store_access, exchange_store_access_apply), ARGS(1, 3),       \
            .initial = "user:rw", .syntax = "users:permissions ...",                               \
            .doc = "Permissions of the files and directories that " PREFIX "_store creates."       \
    }

/* HTTP/3: proxy, grpc. */
#define EXCHANGE_HTTP3_ROWS(PREFIX)                                                                \
    {PREFIX "_http3_max_concurrent_streams",                                                       \
     IN_HTTP_ALL,                                                                                  \
     NUMBER(EXCHANGE_S, http3.max_concurrent_streams),                                             \
     .initial = "128",                                                                             \
     .min = 1,                                                                                     \
     .max = 1024,                                                                                  \
     .doc = "Largest number of concurrent requests on one HTTP/3 connection to a backend; "        \
            "further requests open another connection."},                                          \
        {PREFIX "_http3_max_table_capacity",                                                       \
         IN_HTTP_ALL,                                                                              \
         SIZE(EXCHANGE_S, http3.max_table_capacity),                                               \
         .initial = "4096",                                                                        \
         .max = 65536,                                                                             \
         .doc = "Size in bytes of the QPACK dynamic table that a backend may use for its "         \
                "response header fields; 0 disables the table."},                                  \
        {PREFIX "_http3_stream_buffer_size",                                                       \
         IN_HTTP_ALL,                                                                              \
         SIZE(EXCHANGE_S, http3.stream_buffer_size),                                               \
         .initial = "64k",                                                                         \
         .min = 1024,                                                                              \
         .max = 16 * 1024 * 1024,                                                                  \
         .doc = "Number of bytes of a response that a backend may send before they are read: "     \
                "the initial flow control window of a stream, which grows to at most four times "  \
                "this size."},                                                                     \
        {PREFIX "_quic_active_connection_id_limit",                                                \
         IN_HTTP_ALL,                                                                              \
         NUMBER(EXCHANGE_S, http3.active_connection_id_limit),                                     \
         .initial = "2",                                                                           \
         .min = 2,                                                                                 \
         .max = 8,                                                                                 \
         .doc = "Number of connection IDs of a backend that are kept for each connection (the "    \
                "transport parameter active_connection_id_limit)."},                               \
        {PREFIX "_quic_gso", IN_HTTP_ALL, FLAG(EXCHANGE_S, http3.gso), .initial = "off",           \
         .doc = "Enables sending several packets with one system call (UDP segmentation "          \
                "offload)."},                                                                      \
    {                                                                                              \
        PREFIX "_quic_host_key", IN_HTTP_ALL, CONF_PATH(EXCHANGE_S, http3.host_key_file),          \
            .apply = exchange_quic_host_key_apply, .syntax = "file",                               \
            .doc = "File with at least 32 bytes of secret data from which the keys of connection " \
                   "IDs and stateless reset tokens are derived. Without it each worker generates " \
                   "random keys."                                                                  \
    }

/* TLS: proxy, uwsgi, grpc. */
#define EXCHANGE_TLS_ROWS(PREFIX) TLS_CLIENT_ROWS(PREFIX, IN_HTTP_ALL, EXCHANGE_S)

#endif
