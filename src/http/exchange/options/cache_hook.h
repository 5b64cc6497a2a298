/* What the cache, `*_store` and slices (cache/) add around an exchange. They are in a package above
 * it: the exchange calls them through this struct, and only in locations where one of them is
 * configured. */
#ifndef HTTP_EXCHANGE_OPTIONS_CACHE_HOOK_H
#define HTTP_EXCHANGE_OPTIONS_CACHE_HOOK_H

#include "http/exchange/options/settings.h"
#include "http/message/handler_result.h"

struct request;

struct exchange;

struct exchange_cache_hook {
    /* When the configuration is read: is anything to be kept or cut at this location? */
    bool (*is_wanted)(const struct conf_scope *scope, const struct exchange_settings *own);
    /* Takes the place of exchange_fetch, which it calls as often as it needs to. MAY WAIT. */
    enum handler_result (*run)(struct exchange *x);
    /* A final response is there, whose status is of this kind (enum next_upstream, or 0). False:
     * *result is what came of it, for something else was given instead. MAY WAIT. */
    bool (*accept)(struct exchange *x, unsigned kind, enum handler_result *result);
    /* The response goes to the client: before its head is started, and after that. */
    void (*start)(struct exchange *x);
    void (*started)(struct exchange *x);
    /* A part of the body has come. */
    void (*write)(struct exchange *x, struct str bytes);
    /* The body has ended. False: it was not as long as it had to be (logged). */
    bool (*end)(struct exchange *x, bool is_whole);
    /* Something else goes to the client: the body is not read. */
    void (*drop)(struct exchange *x);
    /* No peer has answered; kind says why. True: *result is what came of it. MAY WAIT. */
    bool (*fail)(struct exchange *x, unsigned kind, enum handler_result *result);
};

#endif
