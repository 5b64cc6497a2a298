/* The rows of the cache: proxy, fastcgi, uwsgi, scgi. */
#ifndef HTTP_EXCHANGE_CACHE_ROWS_H
#define HTTP_EXCHANGE_CACHE_ROWS_H

#include "http/exchange/options/cache_hook.h"
#include "http/exchange/options/rows.h"

/* The cache hook of these families: exchange_family.cache_hook. */
extern const struct exchange_cache_hook response_cache_hook;

/* Parameters of *_cache_use_stale; FastCGI, SCGI and uwsgi lack 502 and 504. */
extern const struct directive_word cache_use_stale_words[];
extern const struct directive_word cgi_cache_use_stale_words[];
extern const struct directive_word cache_methods_words[];

exchange_row_apply exchange_cache_apply, exchange_cache_valid_apply, exchange_cache_lock_apply,
    exchange_cache_purge_apply;

/* The cache: proxy, fastcgi, uwsgi, scgi. */
#define EXCHANGE_CACHE_ROWS(PREFIX, STALE)                                                         \
    {PREFIX "_cache",                                                                              \
     IN_HTTP_ALL,                                                                                  \
     CUSTOM_FIELD(EXCHANGE_S, cache, exchange_cache_apply),                                        \
     ARGS(1, 1),                                                                                   \
     .initial = "off",                                                                             \
     .syntax = "zone | off",                                                                       \
     .doc = "Shared memory zone of the cache, or `off`. The zone is defined by " PREFIX            \
            "_cache_path."},                                                                       \
        {PREFIX "_cache_path",                                                                     \
         IN_HTTP,                                                                                  \
         CUSTOM(cache_path_apply),                                                                 \
         ARGS(2, ARGS_ANY),                                                                        \
         .repeat = REPEAT_CUSTOM,                                                                  \
         .syntax = "path [levels=levels] [use_temp_path=on|off] keys_zone=name:size "              \
                   "[inactive=time] [max_size=size] [min_free=size] [manager_files=number] "       \
                   "[manager_sleep=time] [manager_threshold=time] [loader_files=number] "          \
                   "[loader_sleep=time] [loader_threshold=time] [purger=on|off] "                  \
                   "[sync[=store]] [sync_interval=time]",                                          \
         .doc = "Directory of a cache and the shared memory zone of its index. With `sync` a "     \
                "purge reaches all nodes that share a `redis_store`."},                            \
        {PREFIX "_cache_key", IN_HTTP_ALL, TEMPLATE(EXCHANGE_S, cache_key),                        \
         .doc = "Key under which a response is cached."},                                          \
        {PREFIX "_cache_min_uses", IN_HTTP_ALL, NUMBER(EXCHANGE_S, cache_min_uses),                \
         .initial = "1", .doc = "Number of requests for a response after which it is cached."},    \
        {PREFIX "_cache_max_range_offset", IN_HTTP_ALL,                                            \
         OFFSET(EXCHANGE_S, cache_max_range_offset), .initial = "9223372036854775807",             \
         .doc = "Offset from which ranges are not cached: a request for a range that begins "      \
                "there or later, or that is counted from the end, is passed to the backend with "  \
                "its Range field and its response is not saved. A response that is in the cache "  \
                "is used nevertheless."},                                                          \
        {PREFIX "_cache_methods",                                                                  \
         IN_HTTP_ALL,                                                                              \
         BITS(EXCHANGE_S, cache_methods, cache_methods_words),                                     \
         .initial = "GET HEAD",                                                                    \
         .repeat = REPEAT_APPEND,                                                                  \
         .doc = "Methods whose responses are stored, in addition to GET and HEAD."},               \
        {PREFIX "_cache_use_stale",                                                                \
         IN_HTTP_ALL,                                                                              \
         BITS(EXCHANGE_S, cache_use_stale, STALE),                                                 \
         .initial = "off",                                                                         \
         .repeat = REPEAT_APPEND,                                                                  \
         .doc = "Conditions under which an expired response may be sent."},                        \
        {PREFIX "_cache_valid",                                                                    \
         IN_HTTP_ALL,                                                                              \
         CUSTOM_FIELD(EXCHANGE_S, cache_valid, exchange_cache_valid_apply),                        \
         ARGS(1, ARGS_ANY),                                                                        \
         .repeat = REPEAT_APPEND,                                                                  \
         .syntax = "[code ...] time",                                                              \
         .doc = "Time for which responses that define no lifetime themselves are fresh."},         \
        {PREFIX "_cache_bypass", IN_HTTP_ALL, TEMPLATES(EXCHANGE_S, cache_bypass),                 \
         .repeat = REPEAT_APPEND,                                                                  \
         .doc = "Conditions under which the response is not taken from the cache: at least one "   \
                "of the strings is neither empty nor \"0\"."},                                     \
        {PREFIX "_no_cache", IN_HTTP_ALL, TEMPLATES(EXCHANGE_S, no_cache),                         \
         .repeat = REPEAT_APPEND,                                                                  \
         .doc = "Conditions under which the response is not saved to the cache: at least one of "  \
                "the strings is neither empty nor \"0\"."},                                        \
        {PREFIX "_cache_lock",                                                                     \
         IN_HTTP_ALL,                                                                              \
         CUSTOM_FIELD(EXCHANGE_S, cache_lock, exchange_cache_lock_apply),                          \
         ARGS(1, 3),                                                                               \
         .initial = "off",                                                                         \
         .syntax = "on | off | on sync[=store] [sync_max_size=size]",                              \
         .doc = "Allows only one request at a time to fetch a response that is not in the "        \
                "cache; other requests for it wait. With `sync` this holds for all nodes that "    \
                "share a `redis_store`: the other nodes get the response from the store if its "   \
                "size is at most `sync_max_size` (256k by default)."},                             \
        {PREFIX "_cache_lock_timeout", IN_HTTP_ALL, MSEC(EXCHANGE_S, cache_lock_timeout_ms),       \
         .initial = "5s",                                                                          \
         .doc = "Time after which a request that waits for " PREFIX                                \
                "_cache_lock is passed to the backend itself; its response is not cached then."},  \
        {PREFIX "_cache_lock_age", IN_HTTP_ALL, MSEC(EXCHANGE_S, cache_lock_age_ms),               \
         .initial = "5s",                                                                          \
         .doc = "Time after which one more request may be passed to the backend if the request "   \
                "that holds " PREFIX "_cache_lock has not completed."},                            \
        {PREFIX "_cache_revalidate", IN_HTTP_ALL, FLAG(EXCHANGE_S, cache_revalidate),              \
         .initial = "off",                                                                         \
         .doc = "Whether expired responses are revalidated by conditional requests, with "         \
                "If-Modified-Since and If-None-Match."},                                           \
        {PREFIX "_cache_background_update", IN_HTTP_ALL,                                           \
         FLAG(EXCHANGE_S, cache_background_update), .initial = "off",                              \
         .doc = "Whether an expired response is updated in the background while the client "       \
                "receives the old one."},                                                          \
    {                                                                                              \
        PREFIX "_cache_purge", IN_HTTP_ALL,                                                        \
            CUSTOM_FIELD(EXCHANGE_S, cache_purge, exchange_cache_purge_apply), ARGS(1, ARGS_ANY),  \
            .syntax = "string ... | on | off | method [from all | address ...] | zone key",        \
            .doc = "Requests that remove responses from the cache: requests for which one of the " \
                   "strings is neither empty nor \"0\" (as in NGINX Plus), or requests with a "    \
                   "method, or for a location, as in the cache_purge module."                      \
    }

#endif
