/* ngx_mail_auth_http_module: the URL of the authentication server, and fields of the request. */
#include "mail/auth/auth.h"
#include "server/module.h"

#define S struct mail_auth

/* "[http://]host[:port][/path]" or "[http://]unix:/path[:/uri]". */
static bool auth_http_apply(struct conf_scope *scope, const struct directive *row,
                            struct conf_node *node, void *settings)
{
    struct mail_auth *auth = settings;
    struct conf *conf = scope->conf;
    struct str text = node->args[1];
    struct addr_list addresses;
    char peer[ADDR_TEXT_MAX];

    if (str_starts(text, STR("http://"))) {
        text = str_skip(text, 7);
    }
    bool is_unix = str_starts(text, STR("unix:"));
    struct str address = text;
    const char *end = is_unix ? str_find_char(str_skip(text, 5), ':') : str_find_char(text, '/');
    auth->uri = STR("/");
    if (end != NULL) {
        address = str_from(text.data, end);
        struct str uri = str_from(end + is_unix, text.data + text.len);
        auth->uri = uri.len != 0 ? arena_dup(conf->arena, uri) : auth->uri;
    }
    if (address.len == 0) {
        return conf_error(conf, node, "no host in auth_http \"%.*s\"", STR_ARG(text));
    }
    if (!addr_parse(conf->arena, address, 80, false, &addresses)) {
        return conf_error(conf, node, "%s in auth_http \"%.*s\"", addresses.error, STR_ARG(text));
    }
    auth->addr = addresses.items[0];
    auth->peer = arena_dup(conf->arena, (struct str){peer, addr_format(&auth->addr, true, peer)});
    auth->host = arena_dup(conf->arena, is_unix ? STR("localhost") : addresses.host);
    return true;
}

static bool header_apply(struct conf_scope *scope, const struct directive *row,
                         struct conf_node *node, void *settings)
{
    struct mail_auth *auth = settings;

    for (unsigned i = 1; i <= 2; i++) {
        if (str_find_char(node->args[i], '\n') != NULL ||
            str_find_char(node->args[i], '\r') != NULL) {
            return conf_error(scope->conf, node, "a line end in \"%.*s\"", STR_ARG(node->args[i]));
        }
    }
    if (!conf_is_set(scope, &mail_auth_key, "auth_http_header")) {
        auth->headers = STR_NONE;
    }
    auth->headers = arena_printf(scope->conf->arena, "%.*s%.*s: %.*s\r\n", STR_ARG(auth->headers),
                                 STR_ARG(node->args[1]), STR_ARG(node->args[2]));
    return true;
}

static const struct directive rows[] = {
    {"auth_http", IN_MAIL_ALL, CUSTOM(auth_http_apply), ARGS(1, 1), .repeat = REPEAT_CUSTOM,
     .syntax = "URL",
     .doc = "URL of the HTTP authentication server, which checks logins and selects the backend."},
    {"auth_http_timeout", IN_MAIL_ALL, MSEC(S, timeout_ms), .initial = "60s",
     .doc = "Timeout for the response of the authentication server, including the time to "
            "connect."},
    {"auth_http_header", IN_MAIL_ALL, CUSTOM(header_apply), ARGS(2, 2), .repeat = REPEAT_CUSTOM,
     .syntax = "name value",
     .doc = "Adds a header field to requests to the authentication server."},
    {"auth_http_pass_client_cert", IN_MAIL_ALL, FLAG(S, passes_client_cert), .initial = "off",
     .doc = "Whether the client's certificate is sent to the authentication server, in PEM "
            "format in the Auth-SSL-Cert field."},
    {0},
};
#undef S

static bool mail_auth_http_check(struct conf_scope *scope, struct mail_server *server)
{
    const struct mail_auth *auth = mail_settings(server, &mail_auth_key);

    return auth->addr.len != 0 ||
           conf_error(scope->conf, server->node, "no \"auth_http\" is defined for server");
}

static const struct mail_module hooks = {.check = mail_auth_http_check};

const struct module ngx_mail_auth_http_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_mail_auth_http_module",
    .kind = MODULE_MAIL,
    .table = {.key = &mail_auth_key,
              .rows = rows,
              .contexts = IN_MAIL_ALL,
              .size = sizeof(struct mail_auth)},
    .hooks = &hooks,
};
