/* The parameters `sync` and `sync_interval` of zones. */
#include "base/parse.h"
#include "store/store.h"

#define INTERVAL_MAX_MS 60000

static bool read_name(struct conf *conf, const struct conf_node *node, struct str word,
                      bool allows_strict, struct store_sync_words *words)
{
    struct str rest = str_skip(word, sizeof("sync=") - 1);

    words->store = str_cut(&rest, ':');
    if (rest.data != NULL && !str_is(rest, "strict")) {
        return conf_error(conf, node, "invalid parameter \"%.*s\"", STR_ARG(word));
    }
    words->is_strict = rest.data != NULL || str_is(words->store, "strict");
    if (str_is(words->store, "strict")) {
        words->store = STR_NONE;
    } else if (words->store.len == 0) {
        return conf_error(conf, node, "invalid parameter \"%.*s\"", STR_ARG(word));
    }
    return allows_strict || !words->is_strict ||
           conf_error(conf, node, "invalid parameter \"%.*s\"", STR_ARG(word));
}

bool store_sync_read(struct conf *conf, const struct conf_node *node, struct str word,
                     bool allows_strict, struct store_sync_words *words, bool *is_one)
{
    bool is_plain = str_is(word, "sync"), is_named = str_starts(word, STR("sync="));
    bool is_interval = str_starts(word, STR("sync_interval="));

    *is_one = is_plain || is_named || is_interval;
    if (is_interval) {
        struct str value = str_skip(word, sizeof("sync_interval=") - 1);
        return (parse_msec(value, &words->interval_ms) && words->interval_ms >= 1 &&
                words->interval_ms <= INTERVAL_MAX_MS) ||
               conf_error(conf, node, "invalid parameter \"%.*s\"", STR_ARG(word));
    }
    if (*is_one && words->is_wanted) {
        return conf_error(conf, node, "duplicate parameter \"%.*s\"", STR_ARG(word));
    }
    words->is_wanted |= *is_one;
    return !is_named || read_name(conf, node, word, allows_strict, words);
}

bool store_sync_check(struct conf *conf, const struct conf_node *node,
                      const struct store_sync_words *words)
{
    return words->is_wanted || words->interval_ms == 0 ||
           conf_error(conf, node, "\"sync_interval\" needs \"sync\"");
}
