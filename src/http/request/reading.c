/* What http keeps while a configuration is read: where its main settings are. */
#include "http/routing/settings.h"

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
