/* The options that all protocols towards backends share: one struct, and one family of rows that is
 * instantiated under each prefix. */
#ifndef HTTP_EXCHANGE_SETTINGS_H
#define HTTP_EXCHANGE_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "cache/cache.h"
#include "conf/directive.h"
#include "http/tls_options.h"
#include "net/addr.h"
#include "net/tls/tls.h"
#include "server/generation.h"

/* When to ask another peer, and when an expired stored response may serve. */
enum next_upstream {
    NEXT_ERROR = 1 << 0,
    NEXT_TIMEOUT = 1 << 1,
    NEXT_INVALID_HEADER = 1 << 2,
    NEXT_NON_IDEMPOTENT = 1 << 3,
    NEXT_UPDATING = 1 << 4,
    NEXT_OFF = 1 << 5,
    NEXT_NOT_FOUND = 1 << 6, /* memcached */
    NEXT_DENIED = 1 << 7,
    NEXT_403 = 1 << 8,
    NEXT_404 = 1 << 9,
    NEXT_429 = 1 << 10,
    NEXT_500 = 1 << 11,
    NEXT_502 = 1 << 12,
    NEXT_503 = 1 << 13,
    NEXT_504 = 1 << 14,
};

/* Fields of an answer that are not to be acted on; *_ignore_headers. */
enum ignored_field {
    IGNORE_X_ACCEL_REDIRECT = 1 << 0,
    IGNORE_X_ACCEL_EXPIRES = 1 << 1,
    IGNORE_X_ACCEL_LIMIT_RATE = 1 << 2,
    IGNORE_X_ACCEL_BUFFERING = 1 << 3,
    IGNORE_X_ACCEL_CHARSET = 1 << 4,
    IGNORE_EXPIRES = 1 << 5,
    IGNORE_CACHE_CONTROL = 1 << 6,
    IGNORE_SET_COOKIE = 1 << 7,
    IGNORE_VARY = 1 << 8,
};

/* *_bind: where connections come from. */
struct bind_settings {
    struct template *address; /* IP or IP:port, may hold variables */
    bool is_transparent;      /* the address need not be ours (IP_TRANSPARENT) */
};

/*
 * *_cache_purge: which requests remove a stored answer. Either predicates (nginx Plus: any of them true), or a
 * method from some addresses, or a place of its own that names zone and key (both of cache_purge).
 */
struct purge_settings {
    struct vec predicates; /* struct template * */
    struct str method;     /* else: requests with this method; empty = none of this form */
    struct vec allowed;    /* struct cidr: … from here; none = from anywhere */
    struct cache *cache;   /* else: this zone's entry of the key below; NULL = none of this form */
    struct template *key;  /* of the entry */
};

/* One code of a `*_cache_valid` use. */
struct cache_valid {
    unsigned status;  /* 0 = any */
    uint64_t seconds; /* how long such an answer is fresh */
};

/* TLS towards backends: *_ssl_…. */
struct exchange_tls {
    /* As written. */
    struct template *certificate, *certificate_key;  /* ours; NULL = none */
    struct vec passwords;                            /* struct str: of the key */
    struct tls_certificate_cache *certificate_cache; /* of those with variables; NULL = off */
    unsigned protocols;                              /* enum tls_protocol bits */
    struct str ciphers;                              /* of TLS 1.2 and before */
    struct vec commands;                             /* struct str pairs */
    struct template *name;                           /* whom we expect; NULL = the host of *_pass */
    bool server_name;                                /* it is sent */
    bool session_reuse;             /* sessions of former connections are resumed */
    bool verify;                    /* the certificate must be trusted, and be for the name */
    int64_t verify_depth;           /* certificates in a chain at most */
    struct str trusted_certificate; /* full path, or empty */
    struct str crl;                 /* likewise */
    struct log_file *key_log;       /* gets the secrets of connections; NULL = none */

    /* Derived. */
    bool is_needed;              /* a *_pass here leads, or may lead, to TLS */
    bool is_certificate_late;    /* has variables: it is loaded for each handshake */
    struct tls_context *context; /* NULL unless needed */
};

/* All options at one place. Members after the first group are not used by protocols that lack their
 * rows (memcached, tunnel). */
struct exchange_settings {
    /* Connections and tries. */
    const struct bind_settings *bind; /* NULL = any */
    uint64_t connect_timeout_ms, send_timeout_ms,
        read_timeout_ms;                   /* for the whole; between two writes or reads */
    uint64_t buffer_size;                  /* bytes of the answer's head at most, and of one read */
    unsigned next_upstream;                /* enum next_upstream bits */
    uint64_t next_upstream_timeout_ms;     /* in which peers may be tried; 0 = no limit */
    int64_t next_upstream_tries;           /* peers at most; 0 = no limit */
    bool socket_keepalive;                 /* SO_KEEPALIVE */
    uint64_t socket_sndbuf, socket_rcvbuf; /* 0 = as it is */
    uint64_t send_lowat;                   /* SO_SNDLOWAT; Linux has none */

    /* The request's body and the answer's way. */
    bool pass_request_headers, pass_request_body;
    bool request_buffering;        /* the body is read whole before a peer is asked */
    bool ignore_client_abort;      /* the exchange goes on when the client has left */
    bool intercept_errors;         /* answers from 300 on go to error_page */
    bool buffering;                /* the backend does not wait for the client */
    struct buffers buffers;        /* memory for what the client has not taken */
    uint64_t busy_buffers_size;    /* … of which so much may wait to be sent */
    uint64_t max_temp_file_size;   /* then a temporary file; 0 = none */
    uint64_t temp_file_write_size; /* understood: bytes go to the file as they come */
    struct wanted_path *temp_path; /* where temporary files are made */
    struct template *limit_rate;   /* bytes per second read from the backend; 0 = none */
    bool force_ranges;             /* ranges are served whatever the answer says of them */

    /* Fields of the answer. */
    unsigned ignore_headers;               /* enum ignored_field bits */
    struct vec hide_headers, pass_headers; /* struct str */
    struct map *hidden;  /* derived: names that are not passed to clients, in any case; */
    uint64_t hidden_ids; /* … those with a number: bit n is field number n */
    uint64_t passed_ids; /* derived: those that *_pass_header names */

    /* The cache. */
    struct cache *cache;               /* NULL = off, or a name with variables: */
    struct template *cache_name;       /* of the zone; NULL = none */
    struct template *cache_key;        /* NULL: none was given (the module may have a default) */
    int64_t cache_min_uses;            /* requests before an answer is stored */
    int64_t cache_max_range_offset;    /* INT64_MAX = none */
    unsigned cache_methods;            /* enum http_method bits */
    unsigned cache_use_stale;          /* enum next_upstream bits */
    struct vec cache_valid;            /* struct cache_valid */
    struct vec cache_bypass, no_cache; /* struct template * */
    bool cache_lock;                   /* one request fetches, others wait for what it stores */
    uint64_t cache_lock_timeout_ms,
        cache_lock_age_ms; /* the others' longest wait; after the second another one fetches as well */
    bool cache_revalidate;              /* expired answers are asked for with conditions */
    bool cache_background_update;       /* the client gets the expired one at once */
    bool cache_convert_head;            /* HEAD is asked as GET, so that it can be stored */
    struct purge_settings *cache_purge; /* NULL = off */

    /* *_store. */
    bool stores;
    struct template *store_path; /* NULL: the file that the URI maps to */
    unsigned store_access;       /* file mode */

    struct exchange_tls tls; /* of protocols that can */

    const char *prefix;         /* "proxy": for messages; set by the family's finish */
    bool is_busy_size_written;  /* … else it follows from the buffers of each place */
    bool is_write_size_written; /* the same of temp_file_write_size */
};

extern const struct directive_word next_upstream_words[];
extern const struct directive_word memcached_next_upstream_words[];
extern const struct directive_word tunnel_next_upstream_words[];
extern const struct directive_word fastcgi_next_upstream_words[]; /* without 502 and 504 */
extern const struct directive_word cache_use_stale_words[];
extern const struct directive_word fastcgi_cache_use_stale_words[]; /* without 502 and 504 */
extern const struct directive_word ignore_headers_words[];
extern const struct directive_word cache_methods_words[];

/* Apply functions of the family (rows.c). */
typedef bool exchange_row_apply(struct conf_scope *scope, const struct directive *row,
                                struct conf_node *node, void *settings);
exchange_row_apply exchange_bind_apply, exchange_temp_path_apply, exchange_store_apply,
    exchange_store_access_apply, exchange_cache_apply, exchange_cache_valid_apply,
    exchange_cache_purge_apply, exchange_max_temp_file_size_apply;

/* The rows of TLS (tls_rows.c). */
exchange_row_apply exchange_password_file_apply, exchange_conf_command_apply,
    exchange_certificate_cache_apply, exchange_key_log_apply;
/* Makes the context, where one is needed; of exchange_settings_finish. False after conf_error. */
bool exchange_tls_finish(struct conf_scope *scope, struct exchange_settings *own);
/* A *_pass at this place leads to TLS, or not. To be called by its apply, and by what undoes it. */
void exchange_needs_tls(const struct conf_scope *scope, const struct directive_table *family,
                        bool is_needed);

/* Cross checks and derived values; finish of the family's tables (finish.c). The settings of such a table
 * are a struct exchange_settings and nothing else; its first row is PREFIX_bind. */
bool exchange_settings_finish(struct conf_scope *scope, void *settings);

/* The family's table that these settings of a scope belong to (rows.c). */
const struct directive_table *exchange_table_of(const struct conf_scope *scope,
                                                const void *settings);

#define EXCHANGE_S struct exchange_settings

/* Connections and tries: every protocol. NEXT is the list of words of *_next_upstream. */
#define EXCHANGE_CONNECT_ROWS(PREFIX, NEXT)                                                        \
    {PREFIX "_bind",                                                                               \
     IN_HTTP_ALL,                                                                                  \
     CUSTOM_FIELD(EXCHANGE_S, bind, exchange_bind_apply),                                          \
     ARGS(1, 2),                                                                                   \
     .syntax = "address [transparent] | off",                                                      \
     .doc = "Local address that connections to backends come from."},                              \
        {PREFIX "_connect_timeout", IN_HTTP_ALL, MSEC(EXCHANGE_S, connect_timeout_ms),             \
         .initial = "60s", .doc = "Longest time for a connection to a backend to be made."},       \
        {PREFIX "_send_timeout", IN_HTTP_ALL, MSEC(EXCHANGE_S, send_timeout_ms), .initial = "60s", \
         .doc = "Longest time between two writes of a request to a backend."},                     \
        {PREFIX "_read_timeout", IN_HTTP_ALL, MSEC(EXCHANGE_S, read_timeout_ms), .initial = "60s", \
         .doc = "Longest time between two reads of an answer of a backend."},                      \
        {PREFIX "_buffer_size", IN_HTTP_ALL, SIZE(EXCHANGE_S, buffer_size), .initial = "4k",       \
         .doc = "Memory for the head of an answer; a larger head is an error."},                   \
        {PREFIX "_next_upstream",                                                                  \
         IN_HTTP_ALL,                                                                              \
         BITS(EXCHANGE_S, next_upstream, NEXT),                                                    \
         .initial = "error timeout",                                                               \
         .repeat = REPEAT_APPEND,                                                                  \
         .doc = "When the request goes to another peer of the group."},                            \
        {PREFIX "_next_upstream_timeout", IN_HTTP_ALL, MSEC(EXCHANGE_S, next_upstream_timeout_ms), \
         .initial = "0", .doc = "Time in which other peers may be tried; 0 is no limit."},         \
        {PREFIX "_next_upstream_tries", IN_HTTP_ALL, NUMBER(EXCHANGE_S, next_upstream_tries),      \
         .initial = "0", .doc = "How many peers may be tried; 0 is no limit."},                    \
    {                                                                                              \
        PREFIX "_socket_keepalive", IN_HTTP_ALL, FLAG(EXCHANGE_S, socket_keepalive),               \
            .initial = "off", .doc = "SO_KEEPALIVE on connections to backends."                    \
    }

/* Socket buffers; and with low-water marks. */
#define EXCHANGE_SOCKET_BUFFER_ROWS(PREFIX)                                                        \
    {PREFIX "_socket_sndbuf", IN_HTTP_ALL, SIZE(EXCHANGE_S, socket_sndbuf),                        \
     .doc = "SO_SNDBUF of connections to backends."},                                              \
    {                                                                                              \
        PREFIX "_socket_rcvbuf", IN_HTTP_ALL, SIZE(EXCHANGE_S, socket_rcvbuf),                     \
            .doc = "SO_RCVBUF of connections to backends."                                         \
    }
#define EXCHANGE_SOCKET_ROWS(PREFIX)                                                               \
    EXCHANGE_SOCKET_BUFFER_ROWS(PREFIX),                                                           \
    {                                                                                              \
        PREFIX "_send_lowat", IN_HTTP_ALL, SIZE(EXCHANGE_S, send_lowat),                           \
            .initial = "0", .doc = "SO_SNDLOWAT where the system has it; Linux has not."           \
    }

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

/* Bodies, fields, buffering, store: proxy, fastcgi, uwsgi, scgi. */
#define EXCHANGE_BODY_ROWS(PREFIX)                                                                 \
    {PREFIX "_pass_request_headers", IN_HTTP_ALL, FLAG(EXCHANGE_S, pass_request_headers),          \
     .initial = "on", .doc = "Are the client's header fields passed on?"},                         \
        {PREFIX "_pass_request_body", IN_HTTP_ALL, FLAG(EXCHANGE_S, pass_request_body),            \
         .initial = "on", .doc = "Is the client's body passed on?"},                               \
        {PREFIX "_request_buffering", IN_HTTP_ALL, FLAG(EXCHANGE_S, request_buffering),            \
         .initial = "on", .doc = "Is the body read whole before a backend is asked?"},             \
        {PREFIX "_ignore_client_abort", IN_HTTP_ALL, FLAG(EXCHANGE_S, ignore_client_abort),        \
         .initial = "off", .doc = "Does the backend go on when the client has left?"},             \
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
         .doc = "What is above the buffers goes to a file of this size at most; 0 is none."},      \
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
        {PREFIX "_hide_header",                                                                    \
         IN_HTTP_ALL,                                                                              \
         STRINGS(EXCHANGE_S, hide_headers),                                                        \
         ARGS(1, 1),                                                                               \
         .repeat = REPEAT_APPEND,                                                                  \
         .doc = "A field that is not passed to the client."},                                      \
        {PREFIX "_pass_header",                                                                    \
         IN_HTTP_ALL,                                                                              \
         STRINGS(EXCHANGE_S, pass_headers),                                                        \
         ARGS(1, 1),                                                                               \
         .repeat = REPEAT_APPEND,                                                                  \
         .doc = "A field that is passed though it is usually not."},                               \
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

/* The cache: proxy, fastcgi, uwsgi, scgi. */
#define EXCHANGE_CACHE_ROWS(PREFIX, STALE)                                                         \
    {PREFIX "_cache",                                                                              \
     IN_HTTP_ALL,                                                                                  \
     CUSTOM_FIELD(EXCHANGE_S, cache, exchange_cache_apply),                                        \
     ARGS(1, 1),                                                                                   \
     .initial = "off",                                                                             \
     .syntax = "zone | off",                                                                       \
     .doc = "The zone in which answers are kept."},                                                \
        {PREFIX "_cache_path",                                                                     \
         IN_HTTP,                                                                                  \
         CUSTOM(cache_path_apply),                                                                 \
         ARGS(2, ARGS_ANY),                                                                        \
         .repeat = REPEAT_CUSTOM,                                                                  \
         .syntax = "path [levels=levels] [use_temp_path=on|off] keys_zone=name:size "              \
                   "[inactive=time] [max_size=size] [min_free=size] [manager_files=number] "       \
                   "[manager_sleep=time] [manager_threshold=time] [loader_files=number] "          \
                   "[loader_sleep=time] [loader_threshold=time] [purger=on|off]",                  \
         .doc = "A directory for kept answers, and the zone of its index."},                       \
        {PREFIX "_cache_key", IN_HTTP_ALL, TEMPLATE(EXCHANGE_S, cache_key),                        \
         .doc = "What tells kept answers apart."},                                                 \
        {PREFIX "_cache_min_uses", IN_HTTP_ALL, NUMBER(EXCHANGE_S, cache_min_uses),                \
         .initial = "1", .doc = "An answer is kept from this request for it on."},                 \
        {PREFIX "_cache_max_range_offset", IN_HTTP_ALL,                                            \
         OFFSET(EXCHANGE_S, cache_max_range_offset), .initial = "9223372036854775807",             \
         .doc = "Ranges that begin beyond it go past the cache."},                                 \
        {PREFIX "_cache_methods",                                                                  \
         IN_HTTP_ALL,                                                                              \
         BITS(EXCHANGE_S, cache_methods, cache_methods_words),                                     \
         .initial = "GET HEAD",                                                                    \
         .repeat = REPEAT_APPEND,                                                                  \
         .doc = "Methods whose answers are kept, besides GET and HEAD."},                          \
        {PREFIX "_cache_use_stale",                                                                \
         IN_HTTP_ALL,                                                                              \
         BITS(EXCHANGE_S, cache_use_stale, STALE),                                                 \
         .initial = "off",                                                                         \
         .repeat = REPEAT_APPEND,                                                                  \
         .doc = "When an expired answer may be given."},                                           \
        {PREFIX "_cache_valid",                                                                    \
         IN_HTTP_ALL,                                                                              \
         CUSTOM_FIELD(EXCHANGE_S, cache_valid, exchange_cache_valid_apply),                        \
         ARGS(1, ARGS_ANY),                                                                        \
         .repeat = REPEAT_APPEND,                                                                  \
         .syntax = "[code ...] time",                                                              \
         .doc = "How long answers are fresh that do not tell it themselves."},                     \
        {PREFIX "_cache_bypass", IN_HTTP_ALL, TEMPLATES(EXCHANGE_S, cache_bypass),                 \
         .repeat = REPEAT_APPEND,                                                                  \
         .doc = "The answer is not taken from the cache when one of these is true."},              \
        {PREFIX "_no_cache", IN_HTTP_ALL, TEMPLATES(EXCHANGE_S, no_cache),                         \
         .repeat = REPEAT_APPEND, .doc = "The answer is not kept when one of these is true."},     \
        {PREFIX "_cache_lock", IN_HTTP_ALL, FLAG(EXCHANGE_S, cache_lock), .initial = "off",        \
         .doc = "One request at a time fetches a missing answer; others wait."},                   \
        {PREFIX "_cache_lock_timeout", IN_HTTP_ALL, MSEC(EXCHANGE_S, cache_lock_timeout_ms),       \
         .initial = "5s", .doc = "How long they wait before they ask for themselves."},            \
        {PREFIX "_cache_lock_age", IN_HTTP_ALL, MSEC(EXCHANGE_S, cache_lock_age_ms),               \
         .initial = "5s", .doc = "After this time one more may fetch it."},                        \
        {PREFIX "_cache_revalidate", IN_HTTP_ALL, FLAG(EXCHANGE_S, cache_revalidate),              \
         .initial = "off", .doc = "Are expired answers renewed by conditional requests?"},         \
        {PREFIX "_cache_background_update", IN_HTTP_ALL,                                           \
         FLAG(EXCHANGE_S, cache_background_update), .initial = "off",                              \
         .doc = "Is an expired answer fetched anew while the client is given the old one?"},       \
    {                                                                                              \
        PREFIX "_cache_purge", IN_HTTP_ALL,                                                        \
            CUSTOM_FIELD(EXCHANGE_S, cache_purge, exchange_cache_purge_apply), ARGS(1, ARGS_ANY),  \
            .syntax = "string ... | on | off | method [from all | address ...] | zone key",        \
            .doc = "Requests that remove kept answers: when one of the strings is true (nginx "    \
                   "Plus), or as the module cache_purge has it."                                   \
    }

/* TLS: proxy, uwsgi, grpc. */
#define EXCHANGE_TLS_ROWS(PREFIX)                                                                  \
    {PREFIX "_ssl_certificate", IN_HTTP_ALL, TEMPLATE(EXCHANGE_S, tls.certificate),                \
     .doc = "Our certificate for backends that ask for one: a PEM file, or data:text; variables "  \
            "are looked at for each handshake."},                                                  \
        {PREFIX "_ssl_certificate_key", IN_HTTP_ALL, TEMPLATE(EXCHANGE_S, tls.certificate_key),    \
         .doc = "Its key: a PEM file, data:text, engine:name:id or store:URI."},                   \
        {PREFIX "_ssl_certificate_cache",                                                          \
         IN_HTTP_ALL,                                                                              \
         CUSTOM_FIELD(EXCHANGE_S, tls.certificate_cache, exchange_certificate_cache_apply),        \
         ARGS(1, 3),                                                                               \
         .initial = "off",                                                                         \
         .syntax = "off | max=N [inactive=time] [valid=time]",                                     \
         .doc = "Keeps certificates and keys that were loaded by names with variables."},          \
        {PREFIX "_ssl_password_file",                                                              \
         IN_HTTP_ALL,                                                                              \
         CUSTOM_FIELD(EXCHANGE_S, tls.passwords, exchange_password_file_apply),                    \
         ARGS(1, 1),                                                                               \
         .syntax = "file",                                                                         \
         .doc = "Pass phrases of keys, one a line; they are tried in turn."},                      \
        {PREFIX "_ssl_protocols",                                                                  \
         IN_HTTP_ALL,                                                                              \
         BITS(EXCHANGE_S, tls.protocols, tls_protocol_words),                                      \
         .initial = "TLSv1.2 TLSv1.3",                                                             \
         .repeat = REPEAT_APPEND,                                                                  \
         .doc = "Versions of TLS that backends are spoken to in."},                                \
        {PREFIX "_ssl_ciphers", IN_HTTP_ALL, STRING(EXCHANGE_S, tls.ciphers),                      \
         .initial = "DEFAULT", .doc = "Ciphers up to TLS 1.2, in OpenSSL's words."},               \
        {PREFIX "_ssl_conf_command",                                                               \
         IN_HTTP_ALL,                                                                              \
         CUSTOM_FIELD(EXCHANGE_S, tls.commands, exchange_conf_command_apply),                      \
         ARGS(2, 2),                                                                               \
         .repeat = REPEAT_APPEND,                                                                  \
         .syntax = "name value",                                                                   \
         .doc = "A command of OpenSSL's SSL_CONF_cmd()."},                                         \
        {PREFIX "_ssl_name", IN_HTTP_ALL, TEMPLATE(EXCHANGE_S, tls.name),                          \
         .doc = "The name that the backend's certificate must have, and that is sent to it; by "   \
                "default the host of " PREFIX "_pass."},                                           \
        {PREFIX "_ssl_server_name", IN_HTTP_ALL, FLAG(EXCHANGE_S, tls.server_name),                \
         .initial = "off", .doc = "Is the name sent (SNI, RFC 6066)?"},                            \
        {PREFIX "_ssl_session_reuse", IN_HTTP_ALL, FLAG(EXCHANGE_S, tls.session_reuse),            \
         .initial = "on", .doc = "Are sessions of former connections resumed?"},                   \
        {PREFIX "_ssl_verify", IN_HTTP_ALL, FLAG(EXCHANGE_S, tls.verify), .initial = "off",        \
         .doc = "Must the backend's certificate be trusted, and be for the name?"},                \
        {PREFIX "_ssl_verify_depth",                                                               \
         IN_HTTP_ALL,                                                                              \
         NUMBER(EXCHANGE_S, tls.verify_depth),                                                     \
         .initial = "1",                                                                           \
         .max = INT32_MAX,                                                                         \
         .doc = "Longest chain of certificates."},                                                 \
        {PREFIX "_ssl_trusted_certificate", IN_HTTP_ALL,                                           \
         CONF_PATH(EXCHANGE_S, tls.trusted_certificate),                                           \
         .doc = "PEM file of authorities that are trusted."},                                      \
        {PREFIX "_ssl_key_log",                                                                    \
         IN_HTTP_ALL,                                                                              \
         CUSTOM_FIELD(EXCHANGE_S, tls.key_log, exchange_key_log_apply),                            \
         ARGS(1, 1),                                                                               \
         .syntax = "file",                                                                         \
         .doc = "Log of the secrets of connections in NSS's format; made for its owner alone."},   \
    {                                                                                              \
        PREFIX "_ssl_crl", IN_HTTP_ALL, CONF_PATH(EXCHANGE_S, tls.crl),                            \
            .doc = "PEM file of revoked certificates."                                             \
    }

#endif
