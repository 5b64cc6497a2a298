/* *_pass directives: what their address names, and the handler that they give to their location. */
#ifndef HTTP_EXCHANGE_OPTIONS_PASS_H
#define HTTP_EXCHANGE_OPTIONS_PASS_H

#include "conf/directive.h"
#include "conf/template.h"
#include "http/routing/settings.h"
#include "upstream/upstream.h"

/*
 * Fills group or target from the address part of a *_pass directive: host, host:port, unix:/path,
 * the name of a group, or text with variables. False after conf_error.
 */
struct pass_target {
    struct upstream_group *group; /* or */
    struct template *text;        /* with variables */
    uint16_t default_port;        /* where text has none */
    bool is_secure;               /* the module's: TLS */
};
bool pass_target_read(struct conf_scope *scope, const struct conf_node *node, struct str address,
                      uint16_t default_port, struct pass_target *out);

/* Gives this location's handler to the exchange's module: content.handler, content.carries,
 * redirects of "/a" to
 * "/a/". False after conf_error (`is duplicate`). */
bool pass_handler_set(struct conf_scope *scope, const struct conf_node *node,
                      request_handler handler);

/* A *_pass at this location leads to TLS, or not. To be called by its apply, and by what undoes it.
 */
void exchange_needs_tls(const struct conf_scope *scope, const struct settings_key *family,
                        bool is_needed);

#endif
