/* ngx_mail_proxy_module: settings for backends and relayed sessions. */
#include "mail/backend/backend.h"
#include "server/module.h"

static const struct directive_word protocol_words[] = {
    {"off", MAIL_PROXY_OFF},
    {"on", MAIL_PROXY_V1},
    {"v2", MAIL_PROXY_V2},
    {NULL, 0},
};

#define S struct mail_proxy
static const struct directive rows[] = {
    {"proxy", IN_MAIL_ALL, FLAG(S, proxy), .initial = "off",
     .doc = "Accepted and ignored: a session is always proxied to the backend that the "
            "authentication server returns, as in nginx."},
    {"proxy_buffer", IN_MAIL_ALL, SIZE(S, buffer), .initial = "4k", .min = 64, .max = 1 << 20,
     .doc = "Size of the buffer for data from backends. It also limits the length of a backend's "
            "response line before login."},
    {"proxy_timeout", IN_MAIL_ALL, MSEC(S, timeout_ms), .initial = "24h",
     .doc = "Time after which a session ends if no data is transferred in either direction."},
    {"proxy_pass_error_message", IN_MAIL_ALL, FLAG(S, pass_error_message), .initial = "off",
     .doc = "Whether the error message of a backend is passed to the client."},
    {"proxy_protocol", IN_MAIL_ALL, ENUM(S, protocol, protocol_words), .initial = "off",
     .doc = "Starts each connection to a backend with a PROXY protocol header, of version 1 or 2."},
    {"proxy_smtp_auth", IN_MAIL_ALL, FLAG(S, smtp_auth), .initial = "off",
     .doc = "Whether the client's credentials are used to authenticate to SMTP backends."},
    {"xclient", IN_MAIL_ALL, FLAG(S, xclient), .initial = "on",
     .doc = "Whether the client's address and login are passed to SMTP backends by the XCLIENT "
            "command."},
    {0},
};
#undef S

const struct module ngx_mail_proxy_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_mail_proxy_module",
    .kind = MODULE_MAIL,
    .table = {.key = &mail_proxy_key,
              .rows = rows,
              .contexts = IN_MAIL_ALL,
              .size = sizeof(struct mail_proxy)},
};
