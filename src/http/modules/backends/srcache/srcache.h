/* srcache: responses that other locations store and give, shared by the files of this folder.
 * Implemented in fetch.c, module.c and store.c. */
#ifndef HTTP_MODULES_BACKENDS_SRCACHE_SRCACHE_H
#define HTTP_MODULES_BACKENDS_SRCACHE_SRCACHE_H

#include "base/buf.h"
#include "http/request/request.h"
#include "http/request/subrequest.h"
#include "http/routing/hooks.h"

/* The subrequest that asks. */
struct srcache_call {
    struct str method;     /* empty: nobody */
    struct template *uri;  /* path, and arguments where `args` is NULL */
    struct template *args; /* or NULL */
};

struct srcache_settings {
    struct srcache_call fetch, store;
    struct vec fetch_skip, store_skip; /* struct template *: true ones skip it */
    unsigned methods;                  /* of requests that are looked at; bits */
    struct vec statuses;               /* unsigned: of responses that are stored */
    struct vec hidden, passed; /* struct str: fields that are not stored; that are, after all */
    uint64_t max_size;         /* bytes of a body that is stored; 0 = SRCACHE_MOST */
    uint64_t head_size, piece_size; /* bytes that are taken at once for a head, and for a body */
    uint64_t default_expire;        /* seconds, where a response says nothing */
    uint64_t max_expire;            /* longest lifetime in seconds; 0 = any */
    bool heeds_request, heeds_response; /* their Cache-Control */
    bool stores_private, stores_no_store,
        stores_no_cache; /* whether responses with these directives are stored all the same */
    bool stores_ranges;  /* 206, too */
    bool stores_codings; /* what has a Content-Encoding, too */
};

/* Bytes of the body of a stored response, where srcache_store_max_size does not say more. */
#define SRCACHE_MOST ((uint64_t) 4 * 1024 * 1024)

enum srcache_status { SRCACHE_BYPASS, SRCACHE_HIT, SRCACHE_MISS, SRCACHE_STORE };

/* What a request keeps. */
struct srcache_run {
    enum srcache_status fetched; /* BYPASS, HIT or MISS */
    enum srcache_status stored;  /* BYPASS or STORE */
};

extern struct settings_key srcache_key;

static inline const struct srcache_settings *srcache_at(const struct http_location *location)
{
    return location_settings(location, &srcache_key);
}

static inline struct srcache_run *srcache_run_of(struct request *request)
{
    return request_data(request, &srcache_key, sizeof(struct srcache_run));
}

/* Is it looked at? GET and HEAD are always. */
static inline bool srcache_covers(const struct srcache_settings *settings,
                                  const struct request *request)
{
    return ((settings->methods | METHOD_GET | METHOD_HEAD) & request->method) != 0;
}

uint64_t srcache_most(const struct srcache_settings *settings);
/* Aims a subrequest. False: the URI is unsafe; logged. */
bool srcache_aim(struct request *request, const struct srcache_call *call, struct subrequest *sub);

/* The phase hook, fetch.c. MAY WAIT. */
enum handler_result srcache_fetch(struct request *request);
/* The header filter, store.c. */
void srcache_store(struct request *request);
/* How long a response may be used, by its fields, in seconds; *is_storable: no field forbids it. */
uint64_t srcache_lifetime(const struct request *request, bool *is_storable);

#endif
