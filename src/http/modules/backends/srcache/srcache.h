/* Shared by the files of srcache. Implemented in fetch.c, module.c and store.c. */
#ifndef HTTP_MODULES_BACKENDS_SRCACHE_SRCACHE_H
#define HTTP_MODULES_BACKENDS_SRCACHE_SRCACHE_H

#include "base/buf.h"
#include "http/request/request.h"
#include "http/request/subrequest.h"
#include "http/routing/hooks.h"

/* A subrequest to the store. */
struct srcache_call {
    struct str method;     /* empty: none is made */
    struct template *uri;  /* path, with arguments if `args` is NULL */
    struct template *args; /* or NULL */
};

struct srcache_settings {
    struct srcache_call fetch, store;
    struct vec fetch_skip, store_skip; /* struct template *: if one is true, it is skipped */
    unsigned methods;                  /* request methods, as bits */
    struct vec statuses;               /* unsigned: status codes that are stored */
    struct vec hidden, passed;      /* struct str: fields that are not stored; those that are stored
                                       despite the defaults */
    uint64_t max_size;              /* most bytes of a stored body; 0 = SRCACHE_MOST */
    uint64_t head_size, piece_size; /* buffer sizes for a header, and for a body */
    uint64_t default_expire;        /* seconds, if a response has no lifetime */
    uint64_t max_expire;            /* longest lifetime in seconds; 0 = any */
    bool heeds_request, heeds_response; /* whether their Cache-Control is respected */
    bool stores_private, stores_no_store,
        stores_no_cache; /* whether responses with these directives are stored */
    bool stores_ranges;  /* also store 206 */
    bool stores_codings; /* also store responses with a Content-Encoding */
};

/* Most bytes of the body of a stored response, if srcache_store_max_size is 0. */
#define SRCACHE_MOST ((uint64_t) 4 * 1024 * 1024)

enum srcache_status { SRCACHE_BYPASS, SRCACHE_HIT, SRCACHE_MISS, SRCACHE_STORE };

/* State of a request. */
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

/* Does the configuration cover the method? GET and HEAD are always covered. */
static inline bool srcache_covers(const struct srcache_settings *settings,
                                  const struct request *request)
{
    return ((settings->methods | METHOD_GET | METHOD_HEAD) & request->method) != 0;
}

uint64_t srcache_most(const struct srcache_settings *settings);
/* Sets the target of a subrequest. False: the URI is unsafe; logged. */
bool srcache_aim(struct request *request, const struct srcache_call *call, struct subrequest *sub);

/* The phase hook (fetch.c). MAY WAIT. */
enum handler_result srcache_fetch(struct request *request);
/* The header filter (store.c). */
void srcache_store(struct request *request);
/* The lifetime of a response in seconds, from its fields; *is_storable: no field forbids
 * storing. */
uint64_t srcache_lifetime(const struct request *request, bool *is_storable);

#endif
