/* The options that all protocols towards backends share, as one struct, and what a protocol tells
 * of itself for them. Their rows: rows.h. */
#ifndef HTTP_EXCHANGE_OPTIONS_SETTINGS_H
#define HTTP_EXCHANGE_OPTIONS_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "cache/cache.h"
#include "conf/directive.h"
#include "http/exchange/options/valid.h"
#include "http/message/fields.h"
#include "net/addr/addr.h"
#include "net/tls/tls.h"
#include "server/generation.h"
#include "shared/tls/client.h"
#include "shared/upstream/bind.h"

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

/* Fields of a response that are not to be acted on; *_ignore_headers. */
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

struct request;

/*
 * *_cache_purge: which requests remove a stored response. Either predicates (nginx Plus: any of
 * them true), or a method from some addresses, or a location of its own that names zone and key
 * (both of cache_purge).
 */
struct purge_settings {
    struct vec predicates; /* struct template * */
    struct str method;     /* else: requests with this method; empty = none of this form */
    struct vec allowed;    /* struct cidr: … from here; none = from anywhere */
    struct cache *cache;   /* else: this zone's entry of the key below; NULL = none of this form */
    struct template *key;  /* of the entry */
    /* what else is part of the key in a location; or NULL */
    struct str (*full_key)(struct request *request, struct str key);
};

struct exchange_cache_hook;
struct fetch_share;

/* Probes of QUIC that a backend leaves without an answer before it counts as gone: some 8 seconds
 * on a short way. */
#define HTTP3_PROBES_MOST 8
#define HTTP3_ONE_WAY_MAX 8 /* streams of one direction that a backend may have open */

/* HTTP/3 towards backends: *_http3_… and *_quic_… */
struct exchange_http3 {
    bool hq;                            /* HTTP/0.9 over QUIC */
    int64_t max_concurrent_streams;     /* requests on one connection at a time */
    uint64_t max_table_capacity;        /* bytes of QPACK's table for fields of responses */
    uint64_t stream_buffer_size;        /* bytes: the first window of a response */
    int64_t active_connection_id_limit; /* ids of the backend that are kept */
    bool gso;
    struct str host_key_file;
    struct str host_key; /* derived: what is in it */
    const struct upstream_connection_quic
        *quic; /* derived; NULL where no *_pass leads, or may lead, to TLS */
};

/* All options at one location. Members after the first group are not used by protocols that lack
 * their rows (memcached, tunnel). */
struct exchange_settings {
    /* Connections and tries. */
    const struct bind_settings *bind; /* NULL = any */
    bool bind_dynamic;    /* accepted: its address is found for each attempt in any case */
    bool request_dynamic; /* the request is made for each attempt, when its peer is known */
    uint64_t connect_timeout_ms, send_timeout_ms,
        read_timeout_ms;       /* for the whole; between two writes or reads */
    uint64_t buffer_size;      /* bytes of the response's head at most, and of one read */
    unsigned next_upstream;    /* enum next_upstream bits */
    struct vec allow_upstream; /* struct template *: all are true of peers that may be asked */
    uint64_t next_upstream_timeout_ms;     /* in which peers may be tried; 0 = no limit */
    int64_t next_upstream_tries;           /* peers at most; 0 = no limit */
    bool socket_keepalive;                 /* SO_KEEPALIVE */
    uint64_t socket_sndbuf, socket_rcvbuf; /* 0 = as it is */
    uint64_t send_lowat;                   /* SO_SNDLOWAT; Linux has none */

    /* The request's body and the response's way. */
    bool pass_request_headers, pass_request_body;
    bool request_buffering;        /* the body is read whole before a peer is asked */
    bool ignore_client_abort;      /* the exchange continues when the client has left */
    bool intercept_errors;         /* responses from 300 on go to error_page */
    bool buffering;                /* the backend does not wait for the client */
    struct buffers buffers;        /* memory for what the client has not taken */
    uint64_t busy_buffers_size;    /* validated only; without effect */
    uint64_t max_temp_file_size;   /* then a temporary file; 0 = none */
    uint64_t temp_file_write_size; /* validated only; bytes are written as they arrive */
    struct wanted_path *temp_path; /* where temporary files are made */
    struct template *limit_rate; /* bytes per second read from the backend; NULL or 0 = no limit */
    bool force_ranges;           /* ranges are served whatever the response says of them */

    /* Fields of the response. */
    unsigned ignore_headers;               /* enum ignored_field bits */
    struct vec hide_headers, pass_headers; /* struct str */
    unsigned hide_inherit, pass_inherit;   /* enum list_inherit: of these */
    struct map *hidden;  /* derived: names that are not passed to clients, in any case; */
    uint64_t hidden_ids; /* derived: hidden fields that have a number; bit n is field number n */
    uint64_t passed_ids; /* derived: those hidden at first that *_pass_header names */

    /* The cache. */
    struct cache *cache;                  /* NULL = off, or a name with variables: */
    struct template *cache_name;          /* of the zone; NULL = none */
    struct template *cache_key;           /* NULL: none was given (the module may have a default) */
    int64_t cache_min_uses;               /* requests before a response is stored */
    int64_t cache_max_range_offset;       /* INT64_MAX = none */
    unsigned cache_methods;               /* enum http_method bits */
    unsigned cache_use_stale;             /* enum next_upstream bits */
    struct vec cache_valid;               /* struct cache_valid */
    struct vec cache_bypass, no_cache;    /* struct template * */
    bool cache_lock;                      /* one request fetches, others wait for what it stores */
    struct fetch_share *cache_lock_share; /* one of all nodes does; NULL: of this one alone */
    uint64_t cache_lock_timeout_ms, cache_lock_age_ms; /* the others' longest wait; after the second
                                                          another one fetches as well */
    bool cache_revalidate;              /* expired responses are asked for with conditions */
    bool cache_background_update;       /* the client gets the expired one at once */
    bool cache_convert_head;            /* HEAD is asked as GET, so that it can be stored */
    struct purge_settings *cache_purge; /* NULL = off */

    /* *_store. */
    bool stores;
    struct template *store_path; /* NULL: the file that the URI maps to */
    unsigned store_access;       /* file mode */

    struct tls_client_settings tls; /* of protocols that can */
    struct exchange_http3 http3;    /* likewise */

    const struct exchange_cache_hook
        *cache_hook; /* derived: NULL = no cache, store or slices here */

    const struct exchange_family *family; /* derived: whose options they are */
    bool is_busy_size_written;  /* else the busy size follows from the buffers of each location */
    bool is_write_size_written; /* the same of temp_file_write_size */
};

/*
 * What a protocol tells of itself when the configuration is read: the part of struct protocol that
 * its options need. One constant for each prefix; the table goes into the module's list of tables.
 */
struct exchange_family {
    const char *prefix;            /* of its rows and in messages: "proxy" */
    struct directive_table table;  /* of a struct exchange_settings and nothing else */
    const char *pass;              /* NULL, or the directive that a nested location has not got */
    struct settings_key *pass_key; /* that table of the location where `pass` is written */
    struct str temp_path; /* of temporary files by default; empty = no *_buffers and no files */
    uint64_t hidden_ids;  /* bit n: field number n is hidden at first; 0 = no *_hide_header */
    bool has_cache_key;   /* protocol.default_cache_key: none has to be written */
    const struct exchange_cache_hook
        *cache_hook; /* of its responses; NULL = nothing of them is kept */
};

/* hidden_ids: what a proxied server says of itself is not the client's business; the CGI kinds tell
 * the status in a field. X-Accel-* is hidden for all. */
#define HIDDEN_OF_SERVERS (FIELD_BIT(FIELD_DATE) | FIELD_BIT(FIELD_SERVER) | FIELD_BIT(FIELD_X_PAD))
#define HIDDEN_OF_CGI FIELD_BIT(FIELD_STATUS)

/* The members of exchange_family.table. */
#define EXCHANGE_TABLE(its_key, its_rows, its_finish)                                              \
    {                                                                                              \
        .key = &(its_key), .rows = its_rows, .contexts = IN_HTTP_LOCATION_SETTINGS,                \
        .size = sizeof(struct exchange_settings), .finish = its_finish                             \
    }

/* Cross checks and derived values; finish of exchange_family.table (finish.c). */
bool exchange_settings_finish(struct conf_scope *scope, void *settings);
/* The same for protocols without heads (memcached): a failure that is a status alone gets our page,
 * and *_next_upstream knows not_found. */
bool exchange_bare_finish(struct conf_scope *scope, void *settings);

/* The family that these settings of a scope belong to (rows.c). */
const struct exchange_family *exchange_family_of(const struct conf_scope *scope,
                                                 const struct exchange_settings *settings);

/* Was a row of the same prefix set in this very block, by what stands after the prefix in its name
 * ("_cache")? */
bool exchange_is_set(struct conf_scope *scope, const struct exchange_settings *settings,
                     const struct directive *row, const char *suffix);

/* "proxy" of "proxy_bind". */
struct str exchange_row_prefix(const struct directive *row);

#endif
