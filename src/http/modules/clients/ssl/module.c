/* ngx_http_ssl_module: TLS for clients. */
#include "http/routing/hooks.h"
#include "http/modules/clients/ssl/ssl.h"
#include "server/module.h"
#include "shared/tls/server.h"

#define S struct ssl_settings
#define IN_SSL IN_HTTP | IN_SERVER
static const struct directive rows[] = {
    {"ssl", IN_SSL, FLAG(S, ssl), .initial = "off", .replaced_by = "listen ... ssl",
     .doc = "Old form of the `ssl` parameter of listen, for all addresses of the server."},
    TLS_SERVER_ROWS(IN_SSL),
    {0},
};

#define P struct ssl_location_settings
static const struct directive location_rows[] = {
    {"ssl_verify_client_exception", IN_LOCATION, FLAG(P, is_exempt), .initial = "off",
     .doc = "Whether requests for the location are accepted regardless of "
            "ssl_verify_client. From Tengine."},
    {0},
};

struct settings_key ssl_key;
static const struct directive_table ssl_table = {
    .key = &ssl_key,
    .rows = rows,
    .contexts = IN_SSL,
    .size = sizeof(struct ssl_settings),
    .finish = ssl_finish,
};
struct settings_key ssl_location_key;
static const struct directive_table ssl_location_table = {
    .key = &ssl_location_key,
    .rows = location_rows,
    .contexts = IN_HTTP_LOCATION_SETTINGS,
    .size = sizeof(struct ssl_location_settings),
    .finish = ssl_location_finish,
};
static const struct directive_table *const tables[] = {&ssl_table, &ssl_location_table, NULL};

/* ---- hooks ---- */

/* Does any address of the server have TLS, or is the directive `ssl` on? */
static bool ssl_is_active(const struct http_location *location)
{
    const struct http_server *server = location->server;

    if (ssl_settings_of(server)->ssl) {
        return true;
    }
    vec_each(struct http_listen *, listen, &server->listens) {
        if ((*listen)->address.is_ssl) {
            return true;
        }
    }
    return false;
}

/* Does the location belong to a server that verifies clients? The http block has no server. */
static bool verifies(const struct http_location *location)
{
    return location->server != NULL &&
           ssl_settings_of(location->server)->tls.verify != TLS_VERIFY_OFF;
}

static const struct phase_hook phases[] = {
    {.phase = PHASE_POST_READ, .name = "ssl", .run = ssl_check, .is_active = ssl_is_active},
    {.phase = PHASE_REWRITE, .name = "ssl", .run = ssl_check_location, .is_active = verifies},
    {.run = NULL},
};

static const struct http_module hooks = {
    .variables = ssl_variables,
    .phases = phases,
    .handshake = &ssl_handshake,
    .end = ssl_end,
};

static bool ssl_worker_start(struct generation *generation)
{
    return tls_worker_start(&generation->log);
}

static void ssl_worker_quit(struct generation *generation)
{
    tls_worker_quit();
}

static void ssl_worker_end(struct generation *generation)
{
    tls_worker_end();
}

const struct module ngx_http_ssl_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_ssl_module",
    .kind = MODULE_HTTP,
    .tables = tables,
    .hooks = &hooks,
    .worker_start = ssl_worker_start,
    .worker_quit = ssl_worker_quit,
    .worker_end = ssl_worker_end,
};
