/* `listen`: addresses, their options, and the servers after each. */
#include <sys/socket.h>
#include <unistd.h>

#include "http/client/tcp.h"
#include "http/client/listen.h"
#include "http/client/protocol.h"
#include "http/routing/settings.h"

/* What one line says beside its address. */
struct listen_line {
    struct listen_words words;         /* options that all protocols have */
    const struct http_protocol *asked; /* by its parameter, or NULL */
    bool allows_plain_http;
};

/* HTTP/2 is spoken in its place, where that is built in. */
static int replace_spdy(struct conf_scope *scope, const struct conf_node *node,
                        const struct http_main *main, struct str text, struct listen_line *line)
{
    const struct http_protocol *protocol = protocol_of_parameter(main, STR("http2"));

    conf_warn(
        scope->conf, node,
        "the \"%.*s\" parameter is obsolete: HTTP/2 is spoken in its place, say \"http2 on;\"",
        STR_ARG(text));
    if (protocol != NULL) {
        line->asked = protocol;
    }
    return 1;
}

/* Words without a value. 1 = taken, 0 = another parameter, -1 = error (logged). */
static int parse_word(struct conf_scope *scope, const struct conf_node *node,
                      const struct http_main *main, struct str text, struct listen_line *line)
{
    static const char *const missing[][2] = {
        {"quic", "ngx_http_v3_module"},
        {"http2", "ngx_http_v2_module"},
    };
    const struct http_protocol *protocol = protocol_of_parameter(main, text);

    if (str_is(text, "spdy") || str_is(text, "spdy_detect")) {
        return replace_spdy(scope, node, main, text, line);
    }
    if (str_is(text, "default")) {
        line->words.is_default = true;
        return 1;
    }
    if (protocol != NULL) {
        if (line->asked != NULL && line->asked != protocol &&
            (line->asked->is_quic || protocol->is_quic)) {
            conf_error(scope->conf, node, "\"%.*s\" parameter is incompatible with \"%s\"",
                       STR_ARG(text), line->asked->parameter);
            return -1;
        }
        if (protocol->has_directive) {
            conf_warn(scope->conf, node,
                      "the \"listen ... %s\" directive is deprecated, use the \"%s\" directive "
                      "instead",
                      protocol->parameter, protocol->parameter);
        }
        line->asked = protocol;
        return 1;
    }
    if (str_is(text, "ssl") || str_is(text, "https_allow_http")) {
        if (main->handshake == NULL) {
            conf_error(scope->conf, node, "the \"%.*s\" parameter requires ngx_http_ssl_module",
                       STR_ARG(text));
            return -1;
        }
        line->words.is_ssl |= str_is(text, "ssl");
        line->allows_plain_http |= str_is(text, "https_allow_http");
        return 1;
    }
    for (size_t i = 0; i < sizeof(missing) / sizeof(missing[0]); i++) {
        if (str_is(text, missing[i][0])) {
            conf_error(scope->conf, node, "the \"%s\" parameter requires %s", missing[i][0],
                       missing[i][1]);
            return -1;
        }
    }
    return 0;
}

/* QUIC brings TLS of its own and has no TCP socket: parameters that are about either are refused.
 */
static bool check_quic(struct conf_scope *scope, const struct conf_node *node,
                       const struct http_main *main, struct listen_line *line)
{
    const char *wrong = line->words.is_ssl                   ? "ssl"
                        : line->words.is_proxy_protocol      ? "proxy_protocol"
                        : line->words.options.is_deferred    ? "deferred"
                        : line->words.options.fastopen >= 0  ? "fastopen"
                        : line->words.options.is_multipath   ? "multipath"
                        : line->words.options.keepalive != 0 ? "so_keepalive"
                                                             : NULL;

    if (wrong != NULL) {
        return conf_error(scope->conf, node, "\"%s\" parameter is incompatible with \"quic\"",
                          wrong);
    }
    if (str_starts(node->args[1], STR("unix:"))) {
        return conf_error(scope->conf, node,
                          "the \"quic\" parameter is not possible on a unix socket");
    }
    if (main->handshake == NULL) {
        return conf_error(scope->conf, node, "the \"quic\" parameter requires ngx_http_ssl_module");
    }
    line->words.is_ssl = true;
    return true;
}

static bool parse_line(struct conf_scope *scope, const struct conf_node *node,
                       const struct http_main *main, struct listen_line *line)
{
    *line = (struct listen_line){0};
    listen_words_init(&line->words);
    for (unsigned i = 2; i < node->count; i++) {
        struct str word = node->args[i];
        int taken = parse_word(scope, node, main, word, line);

        if (taken < 0) {
            return false;
        }
        if (taken > 0) {
            continue;
        }
        switch (listen_word_read(scope->conf, node, word, &line->words)) {
        case LISTEN_WORD_TAKEN:
            break;
        case LISTEN_WORD_OTHER:
            return listen_word_refuse(scope->conf, node, word);
        case LISTEN_WORD_WRONG:
            return false;
        }
    }
    return line->asked == NULL || !line->asked->is_quic || check_quic(scope, node, main, line);
}

/* ---- addresses ---- */

/* QUIC and TCP on one address and port are two. */
static struct http_listen *find_listen(struct http_main *main, const struct addr *addr,
                                       bool is_quic)
{
    vec_each(struct http_listen *, listen, &main->listens) {
        if ((*listen)->address.is_datagram == is_quic &&
            addr_equal(&(*listen)->address.listener->addr, addr)) {
            return *listen;
        }
    }
    return NULL;
}

/* NULL after conf_error. */
static struct http_listen *new_listen(struct conf *conf, const struct conf_node *node,
                                      struct http_main *main, const struct addr *addr, bool is_quic)
{
    struct http_listen *listen = arena_new(conf->arena, struct http_listen);
    listen->address.is_datagram = is_quic;
    struct listener *listener = listen_address_open(conf, node, addr, &listen->address);

    if (listener == NULL) {
        return NULL;
    }
    listener->log = &listen->log;
    if (!is_quic) {
        listener->accepted = http_accepted;
        listener->passed = http_passed;
        listener->handed_over = http_handed_over;
    }
    listener->user = listen;
    listen->protocol = *vec_at(&main->protocols, const struct http_protocol *, 0);
    *vec_add(&main->listens, conf->arena, struct http_listen *) = listen;
    return listen;
}

/* A line without any protocol only says that the server is to be found there, too: the address has
 * what others say. */
static void warn_of_protocols(struct conf *conf, const struct conf_node *node,
                              const struct http_listen *listen, const struct listen_line *line)
{
    const struct listen_address *address = &listen->address;
    const struct listen_words *words = &line->words;
    bool are_known = address->is_ssl || listen->asked != NULL || address->is_proxy_protocol;
    bool are_said = words->is_ssl || line->asked != NULL || words->is_proxy_protocol;

    if (node != NULL && are_known && are_said &&
        (address->is_ssl != words->is_ssl || listen->asked != line->asked ||
         address->is_proxy_protocol != words->is_proxy_protocol)) {
        conf_warn(conf, node, "protocol options redefined for %.*s",
                  STR_ARG(address->listener->text));
    }
}

/* One address of a line: a new one, or another server on one that is known. */
static bool add_address(struct conf_scope *scope, const struct conf_node *node,
                        struct http_server *server, const struct addr *addr,
                        const struct listen_line *line)
{
    struct conf *conf = scope->conf;
    bool is_quic = line->asked != NULL && line->asked->is_quic;
    struct http_listen *listen = find_listen(server->main, addr, is_quic);

    if (listen != NULL) {
        warn_of_protocols(conf, node, listen, line);
    } else if ((listen = new_listen(conf, node, server->main, addr, is_quic)) == NULL) {
        return false;
    }
    if (line->asked != NULL) {
        listen->asked = line->asked;
    }
    listen->allows_plain_http |= line->allows_plain_http;
    vec_each(struct http_server *, other, &listen->servers) {
        if (*other == server) {
            return conf_error(conf, node, "a duplicate listen %.*s",
                              STR_ARG(listen->address.listener->text));
        }
    }
    if (!listen_address_add(conf, node, &line->words, &listen->address)) {
        return false;
    }
    if (line->words.is_default) {
        listen->default_server = server;
    }
    if (listen->default_server == NULL) {
        listen->default_server = server;
    }
    *vec_add(&listen->servers, conf->arena, struct http_server *) = server;
    *vec_add(&server->listens, conf->arena, struct http_listen *) = listen;
    return true;
}

static uint16_t default_port(void)
{
    return geteuid() == 0 ? 80 : 8000;
}

bool listen_apply(struct conf_scope *scope, const struct directive *row, struct conf_node *node,
                  void *settings)
{
    struct http_server *server = settings;
    struct addr_list addresses;
    struct listen_line line;

    server->has_listen = true;
    if (!addr_parse(scope->conf->arena, node->args[1], 80, true, &addresses)) {
        return conf_error(scope->conf, node, "%s in \"%.*s\" of the \"listen\" directive",
                          addresses.error, STR_ARG(node->args[1]));
    }
    if (!parse_line(scope, node, server->main, &line)) {
        return false;
    }
    for (size_t i = 0; i < addresses.count; i++) {
        if (!add_address(scope, node, server, &addresses.items[i], &line)) {
            return false;
        }
    }
    return true;
}

bool listen_default(struct conf_scope *scope, struct http_server *server)
{
    struct addr addr = {.len = sizeof(struct sockaddr_in)};
    struct listen_line line = {.asked = NULL};

    addr.v4 = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(default_port())};
    return add_address(scope, NULL, server, &addr, &line);
}

/* ---- when all servers are read ---- */

static bool finish_one(struct conf *conf, struct http_listen *listen)
{
    bool is_alone = listen->servers.count <= 1;
    bool is_good = true;

    vec_each(struct http_server *, server, &listen->servers) {
        is_good &= server_names_add(&listen->names, conf, &(*server)->names,
                                    listen->address.listener->text, is_alone);
    }
    server_names_finish(&listen->names, conf);
    listen->has_names = !is_alone || listen->names.regexes != NULL;
    return is_good;
}

bool listens_finish(struct conf *conf, struct http_main *main)
{
    bool is_good = true;

    vec_each(struct http_listen *, listen, &main->listens) {
        is_good &= finish_one(conf, *listen);
    }
    return is_good;
}

void listens_set_stages(struct conf *conf, struct http_main *main)
{
    protocols_finish(main, conf->arena);
    vec_each(struct http_listen *, listen, &main->listens) {
        (*listen)->stage = (*listen)->address.is_ssl         ? STAGE_HANDSHAKE
                           : protocols_have_preface(*listen) ? STAGE_DETECTION
                                                             : STAGE_SERVING;
        (*listen)->address.listener->opening =
            (uint32_t) (*listen)->address.is_ssl << 1 | (*listen)->address.is_proxy_protocol;
    }
}
