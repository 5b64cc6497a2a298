/* ngx_http_auth_ldap_module: access by user name and password, verified by an LDAP server. */
#include <ldap.h>

#include "base/parse.h"
#include "http/modules/access/auth_ldap/auth_ldap.h"
#include "http/modules/access/auth_ldap/filter.h"
#include "http/request/offload.h"
#include "http/request/request.h"
#include "http/routing/hooks.h"
#include "http/variables/variables.h"
#include "server/module.h"

struct ldap_settings {
    struct template *realm; /* "off" = no authentication */
    struct vec names;       /* struct str: names of the servers, in order */
    struct vec servers; /* struct ldap_server *: these servers, resolved after the configuration was
                           read */
};

static struct settings_key ldap_key;

static struct offload_shares ldap_shares;
static const struct offload_pool ldap_pool = {.name = STR_INIT("auth_ldap"),
                                              .waiting = "requests wait for LDAP",
                                              .threads = 4,
                                              .queue = 128,
                                              .shares = &ldap_shares,
                                              .may_stall = true};

TYPED_SETTINGS(auth_ldap_settings_at, struct ldap_settings, ldap_key, struct http_location)

/* ---- authentication ---- */

/* Makes "(&FILTER(ATTRIBUTE=USER))". */
static const char *make_filter(struct arena *arena, const struct ldap_server *server,
                               struct str user)
{
    struct str filter = str_of(server->filter);
    struct str attribute = str_of(server->attribute);
    char *text = arena_text(arena, filter.len + attribute.len + 3 * user.len + 8);
    char *at = STR_PUT(text, "(&");

    at = str_put(at, filter);
    at = STR_PUT(at, "(");
    at = str_put(at, attribute);
    at = STR_PUT(at, "=");
    at = ldap_filter_escape(at, user);
    at = STR_PUT(at, "))");
    *at = '\0';
    return text;
}

static const char *const *require_values(struct request *request, const struct ldap_server *server)
{
    const char **values = arena_array(&request->arena, server->requires.count + 1, sizeof(*values));
    const char **at = values;

    vec_each(const struct ldap_require, require, &server->requires) {
        *at++ = require->value == NULL
                    ? NULL
                    : arena_cstr(&request->arena, template_text(require->value, &request->env));
    }
    return values;
}

static void log_answer(struct request *request, const struct ldap_question *question)
{
    const struct log *log = &request->log;
    struct str name = question->server->name;

    switch (question->answer) {
    case LDAP_YES:
        break;
    case LDAP_NOT_FOUND:
        log_error(log, 0, "user \"%s\" was not found on LDAP server \"%.*s\"", question->user,
                  STR_ARG(name));
        break;
    case LDAP_WRONG_PASSWORD:
        log_error(log, 0, "user \"%s\": password mismatch on LDAP server \"%.*s\"", question->user,
                  STR_ARG(name));
        break;
    case LDAP_NOT_ALLOWED:
        log_error(log, 0, "user \"%s\" does not meet the requirements of LDAP server \"%.*s\"",
                  question->user, STR_ARG(name));
        break;
    case LDAP_BROKEN:
        log_error(log, 0, "LDAP server \"%.*s\": %s", STR_ARG(name), question->reason);
        break;
    }
}

/* Asks the servers in order until one accepts the user. HANDLER_ALLOW; HANDLER_NEXT: rejected; or
 * another result of the phase. MAY WAIT. */
static enum handler_result ask_servers(struct request *request, const struct credentials *given)
{
    bool is_one_broken = false;

    if (given->password.len ==
        0) { /* a bind with an empty password succeeds for anybody (RFC 4513, 5.1.2) */
        log_error(&request->log, 0, "user \"%.*s\" gave an empty password", STR_ARG(given->user));
        return HANDLER_NEXT;
    }
    vec_each(struct ldap_server *, server, &auth_ldap_settings_at(request->location)->servers) {
        struct ldap_question *question = arena_new(&request->arena, struct ldap_question);

        *question = (struct ldap_question){
            .server = *server,
            .user = arena_cstr(&request->arena, given->user),
            .password = arena_cstr(&request->arena, given->password),
            .filter = make_filter(&request->arena, *server, given->user),
            .values = require_values(request, *server),
            .answer = LDAP_BROKEN,
        };
        enum thread_called called =
            offload_run_for(&ldap_pool, request, (*server)->uri, ldap_ask, question);
        enum handler_result result = offload_result(request, called);
        if (result != HANDLER_NEXT || fiber_is_cancelled()) {
            return result;
        }
        log_answer(request, question);
        if (question->answer == LDAP_YES) {
            return HANDLER_ALLOW;
        }
        is_one_broken = is_one_broken || question->answer == LDAP_BROKEN;
    }
    return is_one_broken ? request_fail(request, 500) : HANDLER_NEXT;
}

/* MAY WAIT. */
static enum handler_result auth_ldap_check(struct request *request)
{
    return request_check_credentials(request, auth_ldap_settings_at(request->location)->realm,
                                     ask_servers);
}

static bool auth_ldap_is_active(const struct http_location *location)
{
    return realm_may_be_on(auth_ldap_settings_at(location)->realm);
}

/* ---- ldap_server ---- */

/* A block while it is read. */
struct reading {
    struct conf_scope *scope;
    const struct conf_node *node; /* the current directive */
    struct ldap_server *server;
};

static bool bad_value(const struct reading *reading)
{
    return conf_error(reading->scope->conf, reading->node, "invalid value \"%.*s\" of \"%.*s\"",
                      STR_ARG(reading->node->args[1]), STR_ARG(reading->node->args[0]));
}

static const char *auth_ldap_keep(const struct reading *reading, struct str text)
{
    return arena_cstr(reading->scope->conf->arena, text);
}

/* Does the URL have a scope, between the second and the third question mark? */
static bool has_scope(struct str url)
{
    for (unsigned i = 0; i < 2; i++) {
        str_cut(&url, '?');
    }
    return url.data != NULL && str_cut(&url, '?').len != 0;
}

/* Parses "ldap://host/base?attribute?scope?(filter)" (RFC 4516); the default scope is `sub`. */
static bool read_url(struct reading *reading)
{
    struct ldap_server *server = reading->server;
    LDAPURLDesc *url = NULL;

    if (ldap_url_parse(auth_ldap_keep(reading, reading->node->args[1]), &url) != LDAP_URL_SUCCESS) {
        return bad_value(reading);
    }
    const char *attribute =
        url->lud_attrs != NULL && url->lud_attrs[0] != NULL ? url->lud_attrs[0] : "uid";
    const char *filter = url->lud_filter != NULL ? url->lud_filter : "(objectClass=*)";
    LDAPURLDesc address = {.lud_scheme = url->lud_scheme,
                           .lud_host = url->lud_host,
                           .lud_port = url->lud_port};
    char *text = ldap_url_desc2str(&address);
    bool is_sound = text != NULL && ldap_is_attribute(str_of(attribute));

    if (is_sound) {
        server->uri = auth_ldap_keep(reading, str_of(text));
        server->base = auth_ldap_keep(reading, str_of(url->lud_dn));
        server->attribute = auth_ldap_keep(reading, str_of(attribute));
        server->filter = *filter == '('
                             ? auth_ldap_keep(reading, str_of(filter))
                             : arena_printf(reading->scope->conf->arena, "(%s)", filter).data;
        server->scope = has_scope(reading->node->args[1]) ? url->lud_scope : LDAP_SCOPE_SUBTREE;
    }
    ldap_memfree(text);
    ldap_free_urldesc(url);
    return is_sound || bad_value(reading);
}

static bool read_require(struct reading *reading)
{
    const struct conf_node *node = reading->node;
    struct ldap_require require = {0};
    bool has_value = node->count == 3;

    if (str_is(node->args[1], "user") && has_value) {
        require.kind = REQUIRE_USER;
    } else if (str_is(node->args[1], "group") && has_value) {
        require.kind = REQUIRE_GROUP;
    } else if (!str_is(node->args[1], "valid_user") || has_value) {
        return bad_value(reading);
    }
    if (has_value && !conf_value_template(reading->scope, node, 2, &require.value)) {
        return false;
    }
    *vec_add(&reading->server->requires, reading->scope->conf->arena, struct ldap_require) =
        require;
    return true;
}

static bool auth_ldap_read_text(struct reading *reading, const char **out)
{
    *out = auth_ldap_keep(reading, reading->node->args[1]);
    return true;
}

static bool read_flag(struct reading *reading, bool *out)
{
    return conf_value_flag(reading->scope, reading->node, 1, out);
}

static bool read_time(struct reading *reading, uint64_t *out)
{
    return (parse_msec(reading->node->args[1], out) && *out != 0 && *out < INT32_MAX) ||
           bad_value(reading);
}

static bool auth_ldap_read_line(struct reading *reading)
{
    static const char *const understood[] = {"connections", "max_down_retries",
                                             "max_down_retries_count", "reconnect_timeout",
                                             "clean_on_timeout"};
    struct ldap_server *server = reading->server;
    struct str name = reading->node->args[0];
    struct str value = reading->node->args[1];
    bool is_dn = true;

    if (str_is(name, "url")) {
        return read_url(reading);
    } else if (str_is(name, "binddn")) {
        return auth_ldap_read_text(reading, &server->bind_name);
    } else if (str_is(name, "binddn_passwd")) {
        return auth_ldap_read_text(reading, &server->bind_password);
    } else if (str_is(name, "group_attribute")) {
        return ldap_is_attribute(value) ? auth_ldap_read_text(reading, &server->group_attribute)
                                        : bad_value(reading);
    } else if (str_is(name, "group_attribute_is_dn")) {
        bool is_sound = read_flag(reading, &is_dn);
        server->group_lists_names = !is_dn;
        return is_sound;
    } else if (str_is(name, "require")) {
        return read_require(reading);
    } else if (str_is(name, "satisfy")) {
        server->any_is_enough = str_is(value, "any");
        return server->any_is_enough || str_is(value, "all") || bad_value(reading);
    } else if (str_is(name, "ssl_check_cert")) {
        server->checks_certificate = !str_is(value, "off");
        return true;
    } else if (str_is(name, "ssl_ca_file")) {
        return auth_ldap_read_text(reading, &server->ca_file);
    } else if (str_is(name, "ssl_ca_dir")) {
        return auth_ldap_read_text(reading, &server->ca_directory);
    } else if (str_is(name, "referral")) {
        return read_flag(reading, &server->follows_referrals);
    } else if (str_is(name, "connect_timeout")) {
        return read_time(reading, &server->connect_ms);
    } else if (str_is(name, "bind_timeout")) {
        return read_time(reading, &server->bind_ms);
    } else if (str_is(name, "request_timeout")) {
        return read_time(reading, &server->request_ms);
    }
    for (unsigned i = 0; i < sizeof(understood) / sizeof(understood[0]); i++) {
        if (str_is(name, understood[i])) {
            return true;
        }
    }
    return conf_error(reading->scope->conf, reading->node,
                      "unknown line \"%.*s\" in \"ldap_server\"", STR_ARG(name));
}

/* The servers of this configuration: struct ldap_server *. */
static struct vec *servers_of(struct conf *conf)
{
    return conf_state(conf, "ldap_server", sizeof(struct vec));
}

static struct ldap_server *find_server(struct conf *conf, struct str name)
{
    vec_each(struct ldap_server *, server, servers_of(conf)) {
        if (str_equal((*server)->name, name)) {
            return *server;
        }
    }
    return NULL;
}

static bool server_apply(struct conf_scope *scope, const struct directive *row,
                         struct conf_node *node, void *settings)
{
    struct conf *conf = scope->conf;
    struct ldap_server *server = arena_new(conf->arena, struct ldap_server);
    bool is_sound = true;

    if (find_server(conf, node->args[1]) != NULL) {
        return conf_error(conf, node, "duplicate ldap_server \"%.*s\"", STR_ARG(node->args[1]));
    }
    *server = (struct ldap_server){
        .name = node->args[1],
        .group_attribute = "member",
        .checks_certificate = true,
        .connect_ms = 10000,
        .bind_ms = 5000,
        .request_ms = 10000,
    };
    *vec_add(servers_of(conf), conf->arena, struct ldap_server *) = server;
    for (struct conf_node *line = node->children; line != NULL; line = line->next) {
        struct reading reading = {.scope = scope, .node = line, .server = server};
        bool is_require = str_is(line->args[0], "require");

        if (line->is_block || line->count < 2 || line->count > (is_require ? 3 : 2)) {
            is_sound = conf_error(conf, line, "invalid number of arguments in \"%.*s\"",
                                  STR_ARG(line->args[0]));
        } else {
            is_sound = auth_ldap_read_line(&reading) && is_sound;
        }
    }
    return is_sound &&
           (server->uri != NULL ||
            conf_error(conf, node, "ldap_server \"%.*s\" has no \"url\"", STR_ARG(server->name)));
}

/* Resolves the names of the servers of this location. */
static bool ldap_finish(struct conf_scope *scope, void *arg)
{
    struct ldap_settings *settings = arg;
    bool is_on = realm_may_be_on(settings->realm);

    settings->servers = (struct vec){0};
    vec_each(const struct str, name, &settings->names) {
        struct ldap_server *server = find_server(scope->conf, *name);
        if (server == NULL) {
            return conf_error(scope->conf, scope->node, "ldap_server \"%.*s\" is not there",
                              STR_ARG(*name));
        }
        *vec_add(&settings->servers, scope->conf->arena, struct ldap_server *) = server;
    }
    if (is_on && settings->servers.count == 0 && scope->context != IN_HTTP &&
        scope->context != IN_SERVER) {
        return conf_error(scope->conf, scope->node, "\"auth_ldap\" without \"auth_ldap_servers\"");
    }
    return true;
}

#define IN_ALL IN_HTTP_ALL | IN_LIMIT_EXCEPT
#define UNDERSTOOD(name, words)                                                                    \
    {                                                                                              \
        name, IN_HTTP, OBSOLETE, ARGS(1, 1),                                                       \
            .syntax = words,                                                                       \
            .doc = "Accepted and ignored: the results of authentication are not cached."           \
    }
#define S struct ldap_settings
static const struct directive ldap_rows[] = {
    {"auth_ldap", IN_ALL, TEMPLATE(S, realm), .initial = "off", .syntax = "string | off",
     .doc = "Enables authentication of clients with a name and a password that are verified "
            "by an LDAP server. Other clients receive 401 with this realm. Requests to "
            "servers are made in threads; `thread_pool auth_ldap` sets, for each server, "
            "the number of threads (4) and of requests that may wait (128); further "
            "requests receive 503."},
    {"auth_ldap_servers", IN_ALL, STRINGS(S, names), .syntax = "name ...",
     .doc = "Names of the `ldap_server` blocks, which are tried in this order until one of "
            "them accepts the user."},
    {"ldap_server", IN_HTTP, FREE_FORM(server_apply), ARGS(1, 1), .repeat = REPEAT_CUSTOM,
     .syntax = "name",
     .doc = "Defines an LDAP server: `url` and the parameters described in "
            "[access](access.md#ldap)."},
    UNDERSTOOD("auth_ldap_cache_enabled", "on | off"),
    UNDERSTOOD("auth_ldap_cache_expiration_time", "milliseconds"),
    UNDERSTOOD("auth_ldap_cache_size", "number"),
    {0},
};
#undef S

static const struct phase_hook ldap_phases[] = {
    {.phase = PHASE_ACCESS,
     .name = "auth_ldap",
     .after = "auth_basic",
     .run = auth_ldap_check,
     .is_active = auth_ldap_is_active},
    {.run = NULL},
};
static const struct http_module ldap_hooks = {.phases = ldap_phases};

const struct module ngx_http_auth_ldap_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_auth_ldap_module",
    .kind = MODULE_HTTP,
    .table = {.key = &ldap_key,
              .rows = ldap_rows,
              .contexts = IN_HTTP_LOCATION_SETTINGS,
              .size = sizeof(struct ldap_settings),
              .finish = ldap_finish},
    .hooks = &ldap_hooks,
};
