/* The rows of the cache, for protocols whose responses may be kept: proxy, fastcgi, uwsgi, scgi. */
#ifndef HTTP_EXCHANGE_CACHE_ROWS_H
#define HTTP_EXCHANGE_CACHE_ROWS_H

#include "http/exchange/options/cache_hook.h"
#include "http/exchange/options/rows.h"

/* The cache hook of these families: exchange_family.cache_hook. */
extern const struct exchange_cache_hook response_cache_hook;

/* Words of *_cache_use_stale; the CGI kinds lack 502 and 504. */
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
     .doc = "The zone in which answers are kept."},                                                \
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
         .doc = "A directory for kept answers, and the zone of its index. With `sync` purges "     \
                "reach all nodes that share a redis_store."},                                      \
        {PREFIX "_cache_key", IN_HTTP_ALL, TEMPLATE(EXCHANGE_S, cache_key),                        \
         .doc = "Key of a cached response."},                                                      \
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
         .doc = "Methods whose responses are stored, in addition to GET and HEAD."},               \
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
         .doc = "How long responses are fresh that do not define it themselves."},                 \
        {PREFIX "_cache_bypass", IN_HTTP_ALL, TEMPLATES(EXCHANGE_S, cache_bypass),                 \
         .repeat = REPEAT_APPEND,                                                                  \
         .doc = "The answer is not taken from the cache when one of these is true."},              \
        {PREFIX "_no_cache", IN_HTTP_ALL, TEMPLATES(EXCHANGE_S, no_cache),                         \
         .repeat = REPEAT_APPEND, .doc = "The answer is not kept when one of these is true."},     \
        {PREFIX "_cache_lock",                                                                     \
         IN_HTTP_ALL,                                                                              \
         CUSTOM_FIELD(EXCHANGE_S, cache_lock, exchange_cache_lock_apply),                          \
         ARGS(1, 3),                                                                               \
         .initial = "off",                                                                         \
         .syntax = "on | off | on sync[=store] [sync_max_size=size]",                              \
         .doc = "One request at a time fetches a missing answer; others wait. With `sync` one "    \
                "of all nodes that share a redis_store does, and they get the response from the "  \
                "store if it has at most `sync_max_size` (256k)."},                                \
        {PREFIX "_cache_lock_timeout", IN_HTTP_ALL, MSEC(EXCHANGE_S, cache_lock_timeout_ms),       \
         .initial = "5s", .doc = "How long they wait before they ask for themselves."},            \
        {PREFIX "_cache_lock_age", IN_HTTP_ALL, MSEC(EXCHANGE_S, cache_lock_age_ms),               \
         .initial = "5s", .doc = "After this time one more may fetch it."},                        \
        {PREFIX "_cache_revalidate", IN_HTTP_ALL, FLAG(EXCHANGE_S, cache_revalidate),              \
         .initial = "off", .doc = "Are expired answers renewed by conditional requests?"},         \
        {PREFIX "_cache_background_update", IN_HTTP_ALL,                                           \
         FLAG(EXCHANGE_S, cache_background_update), .initial = "off",                              \
         .doc =                                                                                    \
             "Whether an expired response is fetched in the background while the client gets the " \
             "old one."},                                                                          \
    {                                                                                              \
        PREFIX "_cache_purge", IN_HTTP_ALL,                                                        \
            CUSTOM_FIELD(EXCHANGE_S, cache_purge, exchange_cache_purge_apply), ARGS(1, ARGS_ANY),  \
            .syntax = "string ... | on | off | method [from all | address ...] | zone key",        \
            .doc = "Requests that remove kept answers: when one of the strings is true (nginx "    \
                   "Plus), or as the module cache_purge has it."                                   \
    }

#endif
