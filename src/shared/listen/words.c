/* The parameters of `listen` that all protocols have: options of the socket. */
#include "base/parse.h"
#include "shared/listen/address.h"

void listen_words_init(struct listen_words *words)
{
    *words = (struct listen_words){.options = LISTEN_OPTIONS_INIT};
}

bool listen_word_refuse(struct conf *conf, const struct conf_node *node, struct str word)
{
    return conf_error(conf, node, "invalid parameter \"%.*s\"", STR_ARG(word));
}

/* The part after "name=", or NULL data when the text is another parameter. */
static struct str value_of(struct str text, const char *name)
{
    struct str prefix = str_of(name);

    return str_starts(text, prefix) ? str_skip(text, prefix.len) : STR_NONE;
}

/* so_keepalive=on|off|[idle]:[interval]:[count] */
static bool parse_keepalive(struct str value, struct listen_options *options)
{
    struct str rest = value;
    uint64_t numbers[3] = {0, 0, 0};

    if (str_is(value, "on")) {
        options->keepalive = 1;
        return true;
    }
    if (str_is(value, "off")) {
        options->keepalive = 2;
        return true;
    }
    for (unsigned i = 0; i < 3; i++) {
        struct str part = str_cut(&rest, ':');
        if ((rest.data == NULL) != (i == 2)) {
            return false;
        }
        if (part.len == 0) {
            continue;
        }
        bool is_ok = i == 2 ? parse_uint(part, &numbers[i]) : parse_sec(part, &numbers[i]);
        if (!is_ok || numbers[i] == 0 || numbers[i] > INT32_MAX) {
            return false;
        }
    }
    options->keepalive = 1;
    options->keepidle_s = (int) numbers[0];
    options->keepintvl_s = (int) numbers[1];
    options->keepcnt = (int) numbers[2];
    return numbers[0] + numbers[1] + numbers[2] != 0;
}

/* Numbers: backlog and fastopen are at least 1; setfib, which Linux does not have, is refused as by
 * nginx on Linux. */
static bool parse_count(struct conf *conf, const struct conf_node *node, const char *name,
                        struct str value, int *out)
{
    uint64_t number;

    if (!parse_uint(value, &number) || number == 0 || number > INT32_MAX) {
        return conf_error(conf, node, "invalid %s \"%s=%.*s\"", name, name, STR_ARG(value));
    }
    *out = (int) number;
    return true;
}

static bool parse_buffer(struct conf *conf, const struct conf_node *node, const char *name,
                         struct str value, int *out)
{
    uint64_t number;

    if (!parse_size(value, &number) || number > INT32_MAX) {
        return conf_error(conf, node, "invalid %s \"%s=%.*s\"", name, name, STR_ARG(value));
    }
    *out = (int) number;
    return true;
}

/* Parameters without a value. */
static bool parse_flag(struct str word, struct listen_options *options)
{
    if (str_is(word, "deferred")) {
        options->is_deferred = true;
    } else if (str_is(word, "reuseport")) {
        options->is_reuseport = true;
    } else if (str_is(word, "multipath")) {
        options->is_multipath = true;
    } else if (!str_is(word, "bind")) { /* every address is bound separately */
        return false;
    }
    return true;
}

/* Parameters with a value. *is_good: false after conf_error. */
static bool parse_option(struct conf *conf, const struct conf_node *node, struct str word,
                         struct listen_options *options, bool *is_good)
{
    struct str value;

    *is_good = true;
    if ((value = value_of(word, "backlog=")).data != NULL) {
        *is_good = parse_count(conf, node, "backlog", value, &options->backlog);
    } else if ((value = value_of(word, "fastopen=")).data != NULL) {
        *is_good = parse_count(conf, node, "fastopen", value, &options->fastopen);
    } else if ((value = value_of(word, "rcvbuf=")).data != NULL) {
        *is_good = parse_buffer(conf, node, "rcvbuf", value, &options->rcvbuf);
    } else if ((value = value_of(word, "sndbuf=")).data != NULL) {
        *is_good = parse_buffer(conf, node, "sndbuf", value, &options->sndbuf);
    } else if (value_of(word, "accept_filter=").data != NULL) {
        conf_warn(conf, node, "accept filters \"%.*s\" are not supported on this platform, ignored",
                  STR_ARG(word));
    } else if ((value = value_of(word, "ipv6only=")).data != NULL) {
        options->is_ipv6only = str_is(value, "on");
        *is_good =
            options->is_ipv6only || str_is(value, "off") || listen_word_refuse(conf, node, word);
    } else if ((value = value_of(word, "so_keepalive=")).data != NULL) {
        *is_good = parse_keepalive(value, options) ||
                   conf_error(conf, node, "invalid so_keepalive value: \"%.*s\"", STR_ARG(value));
    } else {
        return false;
    }
    return true;
}

enum listen_word listen_word_read(struct conf *conf, const struct conf_node *node, struct str word,
                                  struct listen_words *words)
{
    bool is_good = true;

    if (str_is(word, "default_server")) {
        words->is_default = true;
        return LISTEN_WORD_TAKEN;
    }
    if (str_is(word, "proxy_protocol")) {
        words->is_proxy_protocol = true;
        return LISTEN_WORD_TAKEN;
    }
    if (!parse_flag(word, &words->options) &&
        !parse_option(conf, node, word, &words->options, &is_good)) {
        return LISTEN_WORD_OTHER;
    }
    words->has_options = true;
    return is_good ? LISTEN_WORD_TAKEN : LISTEN_WORD_WRONG;
}
