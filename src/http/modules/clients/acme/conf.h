/* Reads the configuration of ngx_http_acme_module. */
#ifndef HTTP_MODULES_CLIENTS_ACME_CONF_H
#define HTTP_MODULES_CLIENTS_ACME_CONF_H

#include "http/modules/clients/acme/acme.h"

/* identifiers.c */

/* Parses "ecdsa[:256|384|521]", "rsa[:bits]". */
bool acme_key_type_parse(struct str text, struct acme_key_type *out);
/* Adds a name or an address unless it is in the list. False after conf_error. */
bool acme_identifier_add(struct conf *conf, const struct conf_node *node, struct vec *list,
                         struct str text);
/* The same for the names of a server: struct server_name. */
bool acme_identifiers_of_server(struct conf *conf, const struct conf_node *node, struct vec *list,
                                const struct vec *names);
struct str acme_certificate_name(struct arena *arena, const struct acme_certificate *certificate);

/* issuer.c */

extern const struct directive_table acme_issuer_table;
bool acme_issuer_enter(struct conf_scope *scope, const struct directive *row,
                       struct conf_node *node, void *settings);
/* Completes the issuer after the http block was read. False after conf_error. */
bool acme_issuer_finish(struct conf *conf, struct acme_issuer *issuer,
                        const struct http_location *root);

#endif
