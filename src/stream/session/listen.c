/* `listen` of stream: addresses, their options, and the servers of each. */
#include "stream/session/listen.h"

#include "stream/session/hooks.h"
#include "stream/session/story.h"

/* The parameters of one line. */
struct listen_line {
    struct listen_words words; /* parameters that all protocols have */
    bool is_udp;
};

/* Reads a parameter. False after conf_error. */
static bool stream_listen_read_word(struct conf_scope *scope, const struct conf_node *node,
                                    const struct stream_main *main, struct str word,
                                    struct listen_line *line)
{
    if (str_is(word, "ssl")) {
        if (main->handshake == NULL) {
            return conf_error(scope->conf, node,
                              "the \"ssl\" parameter requires ngx_stream_ssl_module");
        }
        line->words.is_ssl = true;
        return true;
    }
    if (str_is(word, "dtls")) {
        return conf_error(
            scope->conf, node,
            "the \"dtls\" parameter is not supported: datagrams of DTLS are passed on "
            "as they are, by \"udp\" and \"udp_flow_key dtls\"");
    }
    if (str_is(word, "udp")) {
        line->is_udp = true;
        return true;
    }
    switch (listen_word_read(scope->conf, node, word, &line->words)) {
    case LISTEN_WORD_TAKEN:
        return true;
    case LISTEN_WORD_WRONG:
        return false;
    case LISTEN_WORD_OTHER:
        break;
    }
    return conf_error(scope->conf, node, "the invalid \"%.*s\" parameter", STR_ARG(word));
}

/* Rejects parameters that have no meaning for UDP. False after conf_error. */
static bool suits_udp(struct conf *conf, const struct conf_node *node)
{
    static const char *const words[] = {"backlog",        "fastopen", "so_keepalive", "ssl",
                                        "proxy_protocol", "deferred", "multipath"};

    for (unsigned i = 2; i < node->count; i++) {
        struct str rest = node->args[i];
        struct str name = str_cut(&rest, '=');

        for (size_t j = 0; j < sizeof(words) / sizeof(words[0]); j++) {
            if (str_is(name, words[j])) {
                return conf_error(
                    conf, node,
                    "\"listen\" directive \"%s\" parameter is incompatible with \"udp\"", words[j]);
            }
        }
    }
    return true;
}

/* ---- addresses ---- */

static struct stream_listen *find_listen(struct stream_main *main, const struct addr *addr,
                                         bool is_udp)
{
    vec_each(struct stream_listen *, listen, &main->listens) {
        if ((*listen)->is_udp == is_udp && addr_equal(&(*listen)->address.listener->addr, addr)) {
            return *listen;
        }
    }
    return NULL;
}

/* NULL after conf_error. */
static struct stream_listen *new_listen(struct conf *conf, const struct conf_node *node,
                                        struct stream_main *main, const struct addr *addr,
                                        const struct listen_line *line)
{
    struct stream_listen *listen = arena_new(conf->arena, struct stream_listen);
    listen->is_udp = listen->address.is_datagram = line->is_udp;
    struct listener *listener = listen_address_open(conf, node, addr, &listen->address);

    if (listener == NULL) {
        return NULL;
    }
    listener->log = &listen->log;
    listener->accepted = line->is_udp ? NULL : stream_accepted;
    listener->began = line->is_udp ? stream_began : NULL;
    listener->passed = line->is_udp ? NULL : stream_passed;
    listener->user = listen;
    *vec_add(&main->listens, conf->arena, struct stream_listen *) = listen;
    return listen;
}

/* Adds one address of a line: a new one, or another server on a known one. */
static bool add_address(struct conf_scope *scope, const struct conf_node *node,
                        struct stream_server *server, const struct addr *addr,
                        const struct listen_line *line)
{
    struct conf *conf = scope->conf;
    struct stream_listen *listen = find_listen(server->main, addr, line->is_udp);

    if (listen == NULL && (listen = new_listen(conf, node, server->main, addr, line)) == NULL) {
        return false;
    }
    vec_each(struct stream_server *, other, &listen->servers) {
        if (*other == server) {
            return conf_error(conf, node, "a duplicate listen %.*s",
                              STR_ARG(listen->address.listener->text));
        }
    }
    if (!listen_address_add(conf, node, &line->words, &listen->address)) {
        return false;
    }
    if (line->words.is_default || listen->default_server == NULL) {
        listen->default_server = server;
    }
    *vec_add(&listen->servers, conf->arena, struct stream_server *) = server;
    *vec_add(&server->listens, conf->arena, struct stream_listen *) = listen;
    return true;
}

bool stream_listen_apply(struct conf_scope *scope, const struct directive *row,
                         struct conf_node *node, void *settings)
{
    struct stream_server *server = settings;
    struct listen_line line = {.is_udp = false};
    struct addr_list addresses;

    server->has_listen = true;
    if (!addr_parse(scope->conf->arena, node->args[1], 0, true, &addresses)) {
        return conf_error(scope->conf, node, "%s in \"%.*s\" of the \"listen\" directive",
                          addresses.error, STR_ARG(node->args[1]));
    }
    listen_words_init(&line.words);
    for (unsigned i = 2; i < node->count; i++) {
        if (!stream_listen_read_word(scope, node, server->main, node->args[i], &line)) {
            return false;
        }
    }
    if (line.is_udp && !suits_udp(scope->conf, node)) {
        return false;
    }
    for (size_t i = 0; i < addresses.count; i++) {
        if (!add_address(scope, node, server, &addresses.items[i], &line)) {
            return false;
        }
    }
    return true;
}

/* ---- after all servers were read ---- */

static bool finish_one(struct conf *conf, struct stream_listen *listen)
{
    bool is_alone = listen->servers.count <= 1;
    bool is_good = true;

    vec_each(struct stream_server *, server, &listen->servers) {
        is_good &= server_names_add(&listen->names, conf, &(*server)->names,
                                    listen->address.listener->text, is_alone);
    }
    server_names_finish(&listen->names, conf);
    if (listen->is_udp) {
        const struct stream_server *server = listen->default_server;
        struct listener *listener = listen->address.listener;

        listener->flow_ids = server->flow_ids;
        listener->flow_key = server->udp_flow_key->is_constant ? NULL : stream_flow_key;
    }
    return is_good;
}

bool stream_listens_finish(struct conf *conf, struct stream_main *main)
{
    bool is_good = true;

    vec_each(struct stream_listen *, listen, &main->listens) {
        is_good &= finish_one(conf, *listen);
    }
    return is_good;
}
