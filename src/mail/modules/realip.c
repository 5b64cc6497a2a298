/* ngx_mail_realip_module: whose PROXY header is believed. */
#include "mail/session/session.h"
#include "server/module.h"

static bool trust_apply(struct conf_scope *scope, const struct directive *row,
                        struct conf_node *node, void *settings)
{
    return forwarded_trust(scope->conf, node, &((struct mail_realip *) settings)->forwarded);
}

static const struct directive rows[] = {
    {"set_real_ip_from", IN_MAIL_ALL, CUSTOM_FIELD(struct mail_realip, forwarded, trust_apply),
     ARGS(1, 1), .repeat = REPEAT_APPEND, .syntax = "address | CIDR | unix: | host",
     .doc = "PROXY headers from there are used for the client's address."},
    {0},
};

const struct module ngx_mail_realip_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_mail_realip_module",
    .kind = MODULE_MAIL,
    .table = {.key = &mail_realip_key,
              .rows = rows,
              .contexts = IN_MAIL_ALL,
              .size = sizeof(struct mail_realip)},
};
