/* ngx_stream_pass_module: passes the client's connection to another listener of this service, as if
 * it had connected there. */
#include "base/parse.h"
#include "server/module.h"
#include "stream/session/hooks.h"
#include "stream/session/session.h"

/* A connection is passed on so often, at most. */
#define PASSES_MOST 10

struct pass_settings {
    struct template *address; /* never inherited */
    struct addr addr;         /* the address, if it has no variables; else len 0 */
};

static struct settings_key pass_key;

/* Finds the listener of this address; one with the address itself is preferred to the wildcard with
 * its port. */
static struct listener *find_listener(const struct addr *addr)
{
    struct listener *any = NULL;

    for (struct listener *l = generation_now->listeners; l != NULL; l = l->next) {
        if (l->passed == NULL) {
            continue;
        }
        if (addr_equal(&l->addr, addr)) {
            return l;
        }
        if (addr_is_wildcard(&l->addr) && l->addr.any.sa_family == addr->any.sa_family &&
            addr_port(&l->addr) == addr_port(addr)) {
            any = l;
        }
    }
    return any;
}

/* Parses an address that needs no resolver: IP and port, a port, a path. */
static bool read_address(struct session *session, struct str text, struct addr *out)
{
    struct str host = text;
    struct addr ip;
    struct addr_list list = {.error = "invalid host"};
    uint64_t port_alone;
    uint16_t port = 0;
    bool is_literal = str_starts_nocase(text, STR("unix:")) || parse_uint(text, &port_alone) ||
                      (addr_split_port(text, &host, &port) && addr_parse_ip(host, &ip));

    if (!is_literal || !addr_parse(&session->arena, text, 0, true, &list)) {
        log_error(&session->log, 0, "%s in \"%.*s\"", list.error, STR_ARG(text));
        return false;
    }
    *out = list.items[0];
    return true;
}

static enum session_step pass_on(struct session *session)
{
    static unsigned depth; /* nested calls: how often the current connection was passed on */
    const struct pass_settings *settings = stream_settings(session->server, &pass_key);
    struct str address = template_text(settings->address, &session->env);
    struct addr addr = settings->addr;

    session->log.action = "passing connection to port";
    if (!session_has_connection(session)) {
        log_error(&session->log, 0, "a udp session cannot be passed");
        return session_fail(session, SESSION_INTERNAL_ERROR);
    }
    if (addr.len == 0 && !read_address(session, address, &addr)) {
        return session_fail(session, SESSION_INTERNAL_ERROR);
    }
    struct listener *listener = find_listener(&addr);
    if (listener == NULL) {
        log_error(&session->log, 0, "nobody listens on \"%.*s\"", STR_ARG(address));
        return session_fail(session, SESSION_INTERNAL_ERROR);
    }
    if (session->is_secure && session_input(session).len != 0) {
        /* The input was read through TLS, for preread. As in nginx, it cannot be passed on. */
        log_error(&session->log, 0, "cannot pass buffered data");
        return session_fail(session, SESSION_INTERNAL_ERROR);
    }
    if (depth == PASSES_MOST) {
        counters_mine->limited++;
        log_error(&session->log, 0, "the connection was passed on %d times", PASSES_MOST);
        return session_fail(session, SESSION_INTERNAL_ERROR);
    }
    struct conn *conn = session_part(session);
    depth++;
    listener->passed(listener, conn);
    depth--;
    return SESSION_LEFT;
}

static bool pass_apply(struct conf_scope *scope, const struct directive *row,
                       struct conf_node *node, void *arg)
{
    struct pass_settings *settings = arg;
    struct addr_list list;

    settings->addr.len = 0;
    if (settings->address->is_constant) {
        if (!addr_parse(scope->conf->arena, settings->address->constant, 0, true, &list)) {
            return conf_error(scope->conf, node, "%s in \"%.*s\" of the \"pass\" directive",
                              list.error, STR_ARG(node->args[1]));
        }
        settings->addr = list.items[0];
    }
    scope_stream_server(scope)->content = pass_on;
    return true;
}

static const struct directive rows[] = {
    {"pass", IN_STREAM_SERVER, TEMPLATE(struct pass_settings, address), .apply = pass_apply,
     .inherit = INHERIT_NEVER, .syntax = "address",
     .doc = "Passes the connection, including the data already read, to the listening socket "
            "with this address in the same configuration: of an http, stream or mail server."},
    {0},
};

const struct module ngx_stream_pass_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_stream_pass_module",
    .kind = MODULE_STREAM,
    .table = {.key = &pass_key,
              .rows = rows,
              .contexts = IN_STREAM | IN_STREAM_SERVER,
              .size = sizeof(struct pass_settings)},
};
