/* `ssl_certificate auto`: generates the directives for it. */
#include "http/modules/clients/acme/acme.h"

/* Inserts a directive at the beginning of the block. */
static void add_line(struct conf *conf, struct conf_node *block, const struct conf_node *like,
                     const struct str *words, unsigned count)
{
    struct conf_node *line = arena_new(conf->arena, struct conf_node);
    bool *quoted = arena_array(conf->arena, count, sizeof(*quoted));

    *line = *like; /* with its file, line and order */
    line->args = arena_array(conf->arena, count, sizeof(*line->args));
    memcpy(line->args, words, count * sizeof(*words));
    line->quoted = quoted;
    line->count = count;
    line->children = line->last_child = NULL;
    line->parent = block;
    line->next = block->children;
    block->children = line;
}

static struct conf_node *line_of(const struct conf_node *block, const char *name)
{
    struct conf_node *line = block->children;

    while (line != NULL && (line->count < 2 || !str_is(line->args[0], name))) {
        line = line->next;
    }
    return line;
}

static bool is_auto(const struct conf_node *line)
{
    return line != NULL && line->count == 2 && str_is(line->args[1], "auto") && !line->quoted[1];
}

static bool has_word(const struct conf_node *line, const char *word)
{
    for (unsigned i = 2; i < line->count; i++) {
        if (str_is(line->args[i], word)) {
            return true;
        }
    }
    return false;
}

/* Does any address of the server have TLS? */
static bool is_secure(const struct conf_node *server)
{
    for (const struct conf_node *line = server->children; line != NULL; line = line->next) {
        if (line->count >= 2 && str_is(line->args[0], "listen") &&
            (has_word(line, "ssl") || has_word(line, "quic"))) {
            return true;
        }
    }
    return false;
}

/* Replaces `ssl_certificate auto` by the variables, with a cache for parsed certificates. */
static void replace(struct conf *conf, struct conf_node *block, struct conf_node *line)
{
    const struct str key[] = {STR("ssl_certificate_key"), STR("$acme_certificate_key")};
    const struct str cache[] = {STR("ssl_certificate_cache"), STR("max=1000"), STR("inactive=1h")};

    line->args[1] = STR("$acme_certificate");
    add_line(conf, block, line, key, 2);
    if (line_of(block, "ssl_certificate_cache") == NULL) {
        add_line(conf, block, line, cache, 3);
    }
}

/* Every other certificate requires a key directive; this one has its own key. */
static bool has_no_key(struct conf *conf, const struct conf_node *block)
{
    const struct conf_node *key = line_of(block, "ssl_certificate_key");
    unsigned certificates = 0, keys = 0;

    for (const struct conf_node *line = block->children; line != NULL; line = line->next) {
        certificates += line->count >= 2 && str_is(line->args[0], "ssl_certificate");
        keys += line->count >= 2 && str_is(line->args[0], "ssl_certificate_key");
    }
    return keys < certificates ||
           conf_error(conf, key,
                      "\"ssl_certificate auto\" has a key of its own: remove "
                      "\"ssl_certificate_key\"");
}

static void name_issuer(struct conf *conf, struct conf_node *server, const struct conf_node *like,
                        struct str issuer)
{
    const struct str words[] = {STR("acme_certificate"), issuer};

    if (line_of(server, "acme_certificate") == NULL) {
        add_line(conf, server, like, words, 2);
    }
}

/* The single issuer of the configuration; empty after conf_error. */
static struct str only_issuer(struct conf *conf, const struct conf_node *http,
                              const struct conf_node *line)
{
    struct str found = STR("");
    unsigned count = 0;

    for (const struct conf_node *node = http->children; node != NULL; node = node->next) {
        if (node->is_block && node->count == 2 && str_is(node->args[0], "acme_issuer")) {
            found = node->args[1];
            count++;
        }
    }
    if (count != 1) {
        conf_error(conf, line,
                   count == 0
                       ? "\"ssl_certificate auto\" needs an \"acme_issuer\" in the http block"
                       : "\"ssl_certificate auto\" and several issuers: name one with "
                         "\"acme_certificate\"");
        return STR("");
    }
    return found;
}

static bool generate(struct conf *conf, struct conf_node *http)
{
    struct conf_node *common = line_of(http, "ssl_certificate");
    bool is_common = is_auto(common);
    bool is_good = true;

    for (struct conf_node *server = http->children; server != NULL; server = server->next) {
        if (!server->is_block || !str_is(server->args[0], "server")) {
            continue;
        }
        struct conf_node *line = line_of(server, "ssl_certificate");
        bool is_own = is_auto(line);
        if (!is_own && !(is_common && line == NULL && is_secure(server))) {
            continue;
        }
        if (line_of(server, "acme_certificate") == NULL) {
            struct str issuer = only_issuer(conf, http, is_own ? line : common);
            is_good = is_good && issuer.len != 0;
            name_issuer(conf, server, is_own ? line : common, issuer);
        }
        if (is_own) {
            is_good = has_no_key(conf, server) && is_good;
            replace(conf, server, line);
        }
    }
    if (is_common) {
        is_good = has_no_key(conf, http) && is_good;
        replace(conf, http, common);
    }
    return is_good;
}

/* In stream or mail, `auto` would be the name of a file. */
static bool refuse_elsewhere(struct conf *conf, const struct conf_node *block)
{
    const struct conf_node *line = line_of(block, "ssl_certificate");
    bool is_good = true;

    if (is_auto(line) && line_of(block, "ssl_certificate_key") == NULL) {
        is_good = conf_error(conf, line,
                             "\"ssl_certificate auto\" is for servers of http: name the file of a "
                             "certificate that one of these has");
    }
    for (const struct conf_node *node = block->children; node != NULL; node = node->next) {
        if (node->is_block && str_is(node->args[0], "server")) {
            is_good = refuse_elsewhere(conf, node) && is_good;
        }
    }
    return is_good;
}

bool acme_generate(struct conf *conf, struct http_main *main)
{
    bool is_good = true;

    for (struct conf_node *node = conf->root->children; node != NULL; node = node->next) {
        if (node->is_block && str_is(node->args[0], "http")) {
            is_good = generate(conf, node) && is_good;
        } else if (node->is_block &&
                   (str_is(node->args[0], "stream") || str_is(node->args[0], "mail"))) {
            is_good = refuse_elsewhere(conf, node) && is_good;
        }
    }
    return is_good;
}
