/* Rules of `nginx -t --lint` about access, and the choice of a server. */
#include "http/config/lint.h"

/* ---- access */

/* Does it reject any client? */
static bool is_restricted(const struct conf_node *block)
{
    static const char *const access[] = {"deny",       "auth_basic",        "auth_request",
                                         "auth_jwt",   "auth_oidc",         "auth_require",
                                         "auth_pam",   "auth_ldap",         "access_by_lua_block",
                                         "internal",   "ssl_verify_client", "access_by_lua_file",
                                         "secure_link"};
    const struct conf_node *of;

    for (size_t i = 0; i < sizeof(access) / sizeof(access[0]); i++) {
        const struct conf_node *rule = lint_inherited(block, access[i], &of);

        if (rule != NULL && !lint_has_arg(rule, "off")) {
            return true;
        }
    }
    return false;
}

/* Does the server listen only on local addresses? */
static bool is_local(const struct conf_node *server)
{
    const struct conf_node *node = lint_next(server, NULL, "listen");

    for (; node != NULL && node->count > 1; node = lint_next(server, node, "listen")) {
        if (!str_starts(node->args[1], STR("127.")) && !str_starts(node->args[1], STR("unix:")) &&
            !str_starts(node->args[1], STR("[::1]")) &&
            !str_starts(node->args[1], STR("localhost"))) {
            return false;
        }
    }
    return lint_next(server, NULL, "listen") != NULL;
}

void lint_status(struct lint *lint, const struct conf_node *node)
{
    static const char *const pages[] = {"api",     "dyups_interface", "status",      "stub_status",
                                        "metrics", "dashboard",       "check_status"};
    const struct conf_node *server = lint_inside(node, "server");
    bool is_page = false;

    for (size_t i = 0; !node->is_block && i < sizeof(pages) / sizeof(pages[0]); i++) {
        is_page = is_page || lint_is_named(node, pages[i]);
    }
    if (!is_page || node->count > 2 || server == NULL || is_local(server) ||
        is_restricted(node->parent)) {
        return;
    }
    bool is_write = lint_has_arg(node, "write=on") || lint_is_named(node, "dyups_interface");
    lint_report(lint, node, "everybody can %s",
                is_write ? "change the servers of upstreams" : "see what the server does");
}

void lint_real_ip(struct lint *lint, const struct conf_node *node)
{
    if (lint_has_arg(node, "0.0.0.0/0") || lint_has_arg(node, "::/0")) {
        lint_report(lint, node,
                    "every client can choose the address that access rules, limits and logs use");
    }
}

/* ---- servers */

static bool is_default(const struct conf_node *listen)
{
    return lint_has_arg(listen, "default_server") || lint_has_arg(listen, "default");
}

/* The next `listen` with this address in another server, after `last`. */
static const struct conf_node *next_at(const struct conf_node *listen,
                                       const struct conf_node **server)
{
    while ((*server = lint_next(listen->parent->parent, *server, "server")) != NULL) {
        for (const struct conf_node *node = NULL;
             (node = lint_next(*server, node, "listen")) != NULL;) {
            if (node->count > 1 && str_equal(node->args[1], listen->args[1])) {
                return node;
            }
        }
    }
    return NULL;
}

/* Reports the first of several servers at an address, if none is marked as the default. */
void lint_default(struct lint *lint, const struct conf_node *node)
{
    const struct conf_node *server = NULL, *other;
    unsigned count = 0;

    if (node->count < 2 || lint_inside(node, "http") == NULL ||
        !lint_is_named(node->parent, "server")) {
        return;
    }
    while ((other = next_at(node, &server)) != NULL) {
        if (is_default(other) || (count++ == 0 && other != node)) {
            return;
        }
    }
    if (count > 1) {
        lint_report(lint, node,
                    "of %u servers at \"%.*s\" this one comes first: it answers for every name "
                    "that none of them has",
                    count, STR_ARG(node->args[1]));
    }
}

void lint_allow(struct lint *lint, const struct conf_node *node)
{
    const struct conf_node *block = node->parent;

    if (node->count != 2 || block == NULL || lint_next(block, NULL, "allow") != node ||
        lint_next(block, NULL, "deny") != NULL || lint_has_arg(node, "all") ||
        (lint_inside(node, "http") == NULL && lint_inside(node, "stream") == NULL)) {
        return;
    }
    lint_report(lint, node, "no address is refused");
}

void lint_return(struct lint *lint, const struct conf_node *node)
{
    static const char *const access[] = {"deny", "auth_basic", "auth_request", "auth_jwt",
                                         "auth_oidc"};
    const struct conf_node *block = node->parent;

    if (block == NULL || (!lint_is_named(block, "location") && !lint_is_named(block, "server")) ||
        lint_inside(node, "http") == NULL || lint_returns_refusal(block)) {
        return;
    }
    for (size_t i = 0; i < sizeof(access) / sizeof(access[0]); i++) {
        const struct conf_node *rule = lint_next(block, NULL, access[i]);

        if (rule != NULL && !lint_has_arg(rule, "off")) {
            lint_report(lint, node, "\"return\" answers before \"%s\" of line %u is asked",
                        access[i], rule->line);
            return;
        }
    }
}
