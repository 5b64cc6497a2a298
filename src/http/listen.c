/* `listen`: addresses, their options, and the servers behind each. */
#include <sys/socket.h>
#include <unistd.h>

#include "base/parse.h"
#include "http/connection.h"
#include "http/settings.h"
#include "http/v2/v2.h"

/* What one line says beside its address. */
struct listen_line {
    struct listen_options options;
    bool has_options; /* options of the socket were written: once per address */
    bool is_default;
    bool is_proxy_protocol;
    bool is_ssl;
    bool is_http2;
    bool allows_plain_http;
};

static bool invalid_parameter(struct conf_scope *scope, const struct conf_node *node,
                              struct str text)
{
    return conf_error(scope->conf, node, "invalid parameter \"%.*s\"", STR_ARG(text));
}

/* The part behind "name=", or NULL data when the text is another parameter. */
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

/* Words without a value. 1 = taken, 0 = another parameter, -1 = error (told). */
static int parse_word(struct conf_scope *scope, const struct conf_node *node, struct str text,
                      struct listen_line *line)
{
    static const char *const later[][2] = {
        {"spdy", "ngx_http_spdy_module"},
        {"quic", "ngx_http_v3_module"},
    };

    if (str_is(text, "default_server") || str_is(text, "default")) {
        line->is_default = true;
        return 1;
    }
    if (str_is(text, "proxy_protocol")) {
        line->is_proxy_protocol = true;
        return 1;
    }
    if (str_is(text, "http2")) {
        if (v2_server_table.defaults == NULL) {
            conf_error(scope->conf, node, "the \"http2\" parameter requires ngx_http_v2_module");
            return -1;
        }
        conf_warn(scope->conf, node,
                  "the \"listen ... http2\" directive is deprecated, use the \"http2\" directive "
                  "instead");
        line->is_http2 = true;
        return 1;
    }
    if (str_is(text, "ssl") || str_is(text, "https_allow_http")) {
        if (http_secure_accepted == NULL) {
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
                       struct listen_line *line)
{
    *line = (struct listen_line){.options = {.backlog = -1,
                                             .rcvbuf = -1,
                                             .sndbuf = -1,
                                             .fastopen = -1,
                                             .is_ipv6only = true}};
    for (unsigned i = 2; i < node->count; i++) {
        int taken = parse_word(scope, node, node->args[i], line);
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
    listen->needs_local_address = addr_is_wildcard(addr);
    *(struct http_listen **) vec_push(&main->listens, conf->arena, sizeof(listen)) = listen;

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
    bool are_known = listen->is_ssl || listen->is_http2 || listen->is_proxy_protocol;
    bool are_said = line->is_ssl || line->is_http2 || line->is_proxy_protocol;

    if (node != NULL && are_known && are_said &&
        (listen->is_ssl != line->is_ssl || listen->is_http2 != line->is_http2 ||
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
    listen->is_http2 |= line->is_http2;
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
    *(struct http_server **) vec_push(&listen->servers, conf->arena, sizeof(server)) = server;
    *(struct http_listen **) vec_push(&server->listens, conf->arena, sizeof(listen)) = listen;
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
    const char *error = NULL;

    (void) row;
    server->has_listen = true;
    if (!addr_parse(scope->conf->arena, node->args[1], 80, true, &addresses, &error)) {
        return conf_error(scope->conf, node, "%s in \"%.*s\" of the \"listen\" directive", error,
                          STR_ARG(node->args[1]));
    }
    if (!parse_line(scope, node, &line)) {
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

/* A name that somebody has already is ignored; nobody asks for those of a server that is alone. */
static void say_conflict(struct conf *conf, const struct http_listen *listen,
                         const struct server_name *name, const struct server_name *first)
{
    const struct conf_node *block = name->server->node;
    const struct conf_node *other = first == NULL ? NULL : first->server->node;

    if (listen->servers.count <= 1) {
        return;
    }
    conf_warn(conf, NULL, "conflicting server name \"%.*s\" on %.*s, ignored",
              STR_ARG(name->written), STR_ARG(listen->listener->text));
    if (block != NULL && other != NULL && block->file != NULL && other->file != NULL) {
        conf_hint(conf, "the server in %.*s:%u has it already, that in %.*s:%u goes without",
                  STR_ARG(other->file->name), other->line, STR_ARG(block->file->name), block->line);
    }
}

/* Adds the name to one or two tables (the second may be NULL): to both or to none. */
static void add_name(struct conf *conf, struct http_listen *listen, struct server_name *name,
                     struct map *map, struct map *other)
{
    if (map_get(map, name->name) != NULL || (other != NULL && map_get(other, name->name) != NULL)) {
        const struct server_name *first = map_get(map, name->name);
        say_conflict(conf, listen, name, first != NULL ? first : map_get(other, name->name));
        return;
    }
    map_put(map, conf->arena, name->name, name);
    if (other != NULL) {
        map_put(other, conf->arena, name->name, name);
    }
}

static bool add_names(struct conf *conf, struct http_listen *listen, struct http_server *server,
                      struct vec *regexes)
{
    bool is_good = true;

    vec_each(struct server_name, name, &server->names) {
        if (listen->servers.count > 1 && !server_name_is_sound(name)) {
            is_good = conf_error(conf, NULL, "invalid server name or wildcard \"%.*s\" on %.*s",
                                 STR_ARG(name->written), STR_ARG(listen->listener->text));
            continue;
        }
        switch (name->kind) {
        case NAME_EXACT:
            add_name(conf, listen, name, &listen->exact, NULL);
            break;
        case NAME_HEAD:
            add_name(conf, listen, name, &listen->wildcard_head, NULL);
            break;
        case NAME_TAIL:
            add_name(conf, listen, name, &listen->wildcard_tail, NULL);
            break;
        case NAME_BOTH:
            add_name(conf, listen, name, &listen->exact, &listen->wildcard_head);
            break;
        case NAME_REGEX:
            *(struct server_name **) vec_push(regexes, conf->arena, sizeof(name)) = name;
            break;
        }
    }
    return is_good;
}

static bool finish_one(struct conf *conf, struct http_listen *listen)
{
    struct vec names = {0};
    bool is_good = true;

    vec_each(struct http_server *, server, &listen->servers) {
        is_good &= add_names(conf, listen, *server, &names);
    }
    if (names.count != 0) {
        struct regex **regexes = arena_array(conf->arena, names.count, sizeof(void *));
        for (size_t i = 0; i < names.count; i++) {
            regexes[i] = (*vec_at(&names, struct server_name *, i))->regex;
        }
        listen->regexes = regex_set_new(conf, regexes, (unsigned) names.count);
        listen->regex_names = names.items;
    }
    listen->has_names = listen->servers.count > 1 || names.count != 0;
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
