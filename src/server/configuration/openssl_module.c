/* ngx_openssl_module and ngx_openssl_cache_module: engines, and whether a reload reuses the loaded
 * certificates and keys. */
#include "config.h"

#ifdef HAVE_OPENSSL
#include "net/tls/tls.h"
#include "server/module.h"

/* ---- ssl_engine ---- */

static bool apply_engine(struct conf_scope *scope, const struct directive *row,
                         struct conf_node *node, void *settings)
{
    struct conf *conf = scope->conf;
    struct str error;

    return tls_use_engine(node->args[1], conf->arena, &error) ||
           conf_error(conf, node, "%.*s", STR_ARG(error));
}

static const struct directive engine_rows[] = {
    {"ssl_engine", IN_MAIN, CUSTOM(apply_engine), ARGS(1, 1), .syntax = "device",
     .doc = "Name of the OpenSSL engine to use."},
    {0},
};

const struct module ngx_openssl_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_openssl_module",
    .kind = MODULE_CORE,
    .table = {.rows = engine_rows, .contexts = IN_MAIN},
};

/* ---- ssl_object_cache_inheritable ---- */

struct cache_settings {
    bool inherits;
};

/* Runs before any block is read that loads a certificate or key. */
static bool cache_finish(struct conf_scope *scope, void *settings)
{
    tls_objects_begin(scope->conf->arena, ((struct cache_settings *) settings)->inherits);
    return true;
}

static const struct directive cache_rows[] = {
    {"ssl_object_cache_inheritable", IN_MAIN, FLAG(struct cache_settings, inherits),
     .initial = "on",
     .doc = "Whether a reload reuses certificates, keys and revocation lists whose files have "
            "not changed."},
    {0},
};

const struct module ngx_openssl_cache_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_openssl_cache_module",
    .kind = MODULE_CORE,
    .table = {.rows = cache_rows,
              .contexts = IN_MAIN,
              .size = sizeof(struct cache_settings),
              .finish = cache_finish},
};
#endif
