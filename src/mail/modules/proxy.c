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
     .doc = "Accepted and ignored: a session always goes to the backend that the authentication "
            "server names, as with nginx."},
    {"proxy_buffer", IN_MAIL_ALL, SIZE(S, buffer), .initial = "4k", .min = 64, .max = 1 << 20,
     .doc = "Bytes of a line of a backend at most, and of a piece that is carried."},
    {"proxy_timeout", IN_MAIL_ALL, MSEC(S, timeout_ms), .initial = "24h",
     .doc = "A session ends when neither side has sent anything for so long."},
    {"proxy_pass_error_message", IN_MAIL_ALL, FLAG(S, pass_error_message), .initial = "off",
     .doc = "Passes the error message of a backend to clients."},
    {"proxy_protocol", IN_MAIL_ALL, ENUM(S, protocol, protocol_words), .initial = "off",
     .doc =
         "Connections to backends begin with a header of the PROXY protocol, of version 1 or 2."},
    {"proxy_smtp_auth", IN_MAIL_ALL, FLAG(S, smtp_auth), .initial = "off",
     .doc = "Logs in to SMTP backends with what the client logged in with."},
    {"xclient", IN_MAIL_ALL, FLAG(S, xclient), .initial = "on",
     .doc = "Sends the client's address and login to SMTP backends by XCLIENT."},
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
