/* `listen`: addresses, their options, and the servers after each. */
#include <sys/socket.h>
#include <unistd.h>

#include "base/parse.h"
#include "http/client/connection.h"
#include "http/client/listen.h"
#include "http/client/protocol.h"
#include "http/routing/settings.h"

/* What one line says beside its address. */
struct listen_line {
    struct listen_options options;
    bool has_options; /* options of the socket were written: once per address */
    bool is_default;
    bool is_proxy_protocol;
    const struct http_protocol *asked; /* by its parameter, or NULL */
    bool is_ssl;
    bool allows_plain_http;
};

static bool invalid_parameter(struct conf_scope *scope, const struct conf_node *node,
                              struct str text)
{
    return conf_error(scope->conf, node, "invalid parameter \"%.*s\"", STR_ARG(text));
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

/* Words without a value. 1 = taken, 0 = another parameter, -1 = error (told). */
static int parse_word(struct conf_scope *scope, const struct conf_node *node,
                      const struct http_main *main, struct str text, struct listen_line *line)
{
    static const char *const later[][2] = {
        {"quic", "ngx_http_v3_module"},
        {"http2", "ngx_http_v2_module"},
    };
    const struct http_protocol *protocol = protocol_of_parameter(main, text);

    if (str_is(text, "spdy") || str_is(text, "spdy_detect")) {
        return replace_spdy(scope, node, main, text, line);
    }
    if (str_is(text, "default_server") || str_is(text, "default")) {
        line->is_default = true;
        return 1;
    }
    if (str_is(text, "proxy_protocol")) {
        line->is_proxy_protocol = true;
        return 1;
    }
    if (protocol != NULL) {
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
        line->is_ssl |= str_is(text, "ssl");
        line->allows_plain_http |= str_is(text, "https_allow_http");
        return 1;
    }
    for (size_t i = 0; i < sizeof(later) / sizeof(later[0]); i++) {
        if (str_is(text, later[i][0])) {
            conf_error(scope->conf, node, "the \"%s\" parameter requires %s", later[i][0],
                       later[i][1]);
            return -1;
        }
    }
    line->has_options = true;
    if (str_is(text, "bind")) {
        return 1; /* as each address has it */
    }
    if (str_is(text, "deferred")) {
        line->options.is_deferred = true;
    } else if (str_is(text, "reuseport")) {
        line->options.is_reuseport = true;
    } else if (str_is(text, "multipath")) {
        line->options.is_multipath = true;
    } else {
        line->has_options = false;
        return 0;
    }
    return 1;
}

/* Numbers: backlog and fastopen at least 1; setfib, which Linux has not, is refused as nginx does
 * there. */
static bool parse_count(struct conf_scope *scope, const struct conf_node *node, const char *name,
                        struct str value, int *out)
{
    uint64_t number;

    if (!parse_uint(value, &number) || number == 0 || number > INT32_MAX) {
        return conf_error(scope->conf, node, "invalid %s \"%s=%.*s\"", name, name, STR_ARG(value));
    }
    *out = (int) number;
    return true;
}

static bool parse_buffer(struct conf_scope *scope, const struct conf_node *node, const char *name,
                         struct str value, int *out)
{
    uint64_t number;

    if (!parse_size(value, &number) || number > INT32_MAX) {
        return conf_error(scope->conf, node, "invalid %s \"%s=%.*s\"", name, name, STR_ARG(value));
    }
    *out = (int) number;
    return true;
}

static bool parse_option(struct conf_scope *scope, const struct conf_node *node, struct str text,
                         struct listen_line *line)
{
    struct listen_options *options = &line->options;
    struct str value;

    line->has_options = true;
    if ((value = value_of(text, "backlog=")).data != NULL) {
        return parse_count(scope, node, "backlog", value, &options->backlog);
    }
    if ((value = value_of(text, "fastopen=")).data != NULL) {
        return parse_count(scope, node, "fastopen", value, &options->fastopen);
    }
    if ((value = value_of(text, "rcvbuf=")).data != NULL) {
        return parse_buffer(scope, node, "rcvbuf", value, &options->rcvbuf);
    }
    if ((value = value_of(text, "sndbuf=")).data != NULL) {
        return parse_buffer(scope, node, "sndbuf", value, &options->sndbuf);
    }
    if ((value = value_of(text, "accept_filter=")).data != NULL) {
        conf_warn(scope->conf, node,
                  "accept filters \"%.*s\" are not supported on this platform, ignored",
                  STR_ARG(text));
        return true;
    }
    if ((value = value_of(text, "ipv6only=")).data != NULL) {
        options->is_ipv6only = str_is(value, "on");
        if (!options->is_ipv6only && !str_is(value, "off")) {
            return invalid_parameter(scope, node, text);
        }
        return true;
    }
    if ((value = value_of(text, "so_keepalive=")).data != NULL) {
        return parse_keepalive(value, options) ||
               conf_error(scope->conf, node, "invalid so_keepalive value: \"%.*s\"",
                          STR_ARG(value));
    }
    return invalid_parameter(scope, node, text);
}

static bool parse_line(struct conf_scope *scope, const struct conf_node *node,
                       const struct http_main *main, struct listen_line *line)
{
    *line = (struct listen_line){.options = {.backlog = -1,
                                             .rcvbuf = -1,
                                             .sndbuf = -1,
                                             .fastopen = -1,
                                             .is_ipv6only = true}};
    for (unsigned i = 2; i < node->count; i++) {
        int taken = parse_word(scope, node, main, node->args[i], line);
        if (taken < 0 || (taken == 0 && !parse_option(scope, node, node->args[i], line))) {
            return false;
        }
    }
    return true;
}

/* ---- addresses ---- */

static struct http_listen *find_listen(struct http_main *main, const struct addr *addr)
{
    vec_each(struct http_listen *, listen, &main->listens) {
        if (addr_equal(&(*listen)->listener->addr, addr)) {
            return *listen;
        }
    }
    return NULL;
}

static struct http_listen *new_listen(struct conf *conf, struct http_main *main,
                                      const struct addr *addr)
{
    struct http_listen *listen = arena_new(conf->arena, struct http_listen);
    struct listener *listener = arena_new(conf->arena, struct listener);
    struct generation *generation = conf->generation;
    char text[ADDR_TEXT_MAX];

    listener->magic = LISTENER_MAGIC;
    listener->addr = *addr;
    listener->text = arena_dup(conf->arena, (struct str){text, addr_format(addr, true, text)});
    listener->log = &listen->log;
    listener->accepted = http_accepted;
    listener->handed_over = http_handed_over;
    listener->user = listen;
    listener->options = (struct listen_options){.backlog = -1,
                                                .rcvbuf = -1,
                                                .sndbuf = -1,
                                                .fastopen = -1,
                                                .is_ipv6only = true};
    listen->listener = listener;
    listen->protocol = *vec_at(&main->protocols, const struct http_protocol *, 0);
    listen->needs_local_address = addr_is_wildcard(addr);
    *vec_add(&main->listens, conf->arena, struct http_listen *) = listen;

    struct listener **last = &generation->listeners;
    while (*last != NULL) {
        last = &(*last)->next;
    }
    *last = listener;
    return listen;
}

/* A line without any protocol only says that the server is to be found there, too: the address has what others say. */
static void warn_of_protocols(struct conf *conf, const struct conf_node *node,
                              const struct http_listen *listen, const struct listen_line *line)
{
    bool are_known = listen->is_ssl || listen->asked != NULL || listen->is_proxy_protocol;
    bool are_said = line->is_ssl || line->asked != NULL || line->is_proxy_protocol;

    if (node != NULL && are_known && are_said &&
        (listen->is_ssl != line->is_ssl || listen->asked != line->asked ||
         listen->is_proxy_protocol != line->is_proxy_protocol)) {
        conf_warn(conf, node, "protocol options redefined for %.*s",
                  STR_ARG(listen->listener->text));
    }
}

/* One address of a line: a new one, or another server on one that is known. */
static bool add_address(struct conf_scope *scope, const struct conf_node *node,
                        struct http_server *server, const struct addr *addr,
                        const struct listen_line *line)
{
    struct conf *conf = scope->conf;
    struct http_listen *listen = find_listen(server->main, addr);

    if (listen == NULL) {
        listen = new_listen(conf, server->main, addr);
    } else {
        warn_of_protocols(conf, node, listen, line);
    }
    listen->is_proxy_protocol |= line->is_proxy_protocol;
    listen->is_ssl |= line->is_ssl;
    if (line->asked != NULL) {
        listen->asked = line->asked;
    }
    listen->allows_plain_http |= line->allows_plain_http;
    if (line->is_ssl && listen->ssl_node == NULL) {
        listen->ssl_node = node;
    }
    struct str text = listen->listener->text;
    vec_each(struct http_server *, other, &listen->servers) {
        if (*other == server) {
            return conf_error(conf, node, "a duplicate listen %.*s", STR_ARG(text));
        }
    }
    if (line->has_options) {
        bool is_only_reuseport =
            line->options.is_reuseport && listen->listener->options.is_reuseport;
        if (listen->has_options && !is_only_reuseport) {
            return conf_error(conf, node, "duplicate listen options for %.*s", STR_ARG(text));
        }
        listen->has_options = true;
        listen->listener->options = line->options;
    }
    if (line->is_default) {
        if (listen->is_default_explicit) {
            return conf_error(conf, node, "a duplicate default server for %.*s", STR_ARG(text));
        }
        listen->is_default_explicit = true;
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
    struct listen_line line = {0};

    addr.v4 = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(default_port())};
    return add_address(scope, NULL, server, &addr, &line);
}

/* ---- when all servers are read ---- */

static bool finish_one(struct conf *conf, struct http_listen *listen)
{
    bool is_alone = listen->servers.count <= 1;
    bool is_good = true;

    vec_each(struct http_server *, server, &listen->servers) {
        is_good &= server_names_add(&listen->names, conf, &(*server)->names, listen->listener->text,
                                    is_alone);
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
        (*listen)->stage = (*listen)->is_ssl                 ? STAGE_HANDSHAKE
                           : protocols_have_preface(*listen) ? STAGE_DETECTION
                                                             : STAGE_SERVING;
        (*listen)->listener->opening =
            (uint32_t) (*listen)->is_ssl << 1 | (*listen)->is_proxy_protocol;
    }
}
