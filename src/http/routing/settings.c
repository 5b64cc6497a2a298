/* Settings of http and of servers: storage, and `server_name`. */
#include "http/routing/settings.h"

struct settings_key http_main_key;
struct settings_key http_server_key;

bool server_name_apply(struct conf_scope *scope, const struct directive *row,
                       struct conf_node *node, void *settings)
{
    struct http_server *server = settings;
    const struct server_name owner = {.owner = server, .block = server->node};

    if (!server_names_read(scope->conf, node, server->main->hostname, &owner, &server->names)) {
        return false;
    }
    const struct server_name *first = vec_at(&server->names, struct server_name, 0);
    server->name = first->kind == NAME_BOTH ? first->name : first->written;
    return true;
}

/* ---- main settings of a configuration ---- */

static struct http_main **kept(struct conf *conf)
{
    return conf_state(conf, "http", sizeof(struct http_main *));
}

struct http_main *http_main_of(struct conf *conf)
{
    return *kept(conf);
}

void http_main_set(struct conf *conf, struct http_main *main)
{
    *kept(conf) = main;
}
