/* TLS towards a service of the operator's (a store, an engine of discovery), as blocks of the main
 * context have it. Implemented in settings/client_tls.c. */
#ifndef UPSTREAM_CLIENT_TLS_H
#define UPSTREAM_CLIENT_TLS_H

#include "conf/directive.h"
#include "net/tls/tls.h"

/* What the rows say; made by client_tls_finish. */
struct client_tls {
    bool verifies, sends_name;
    struct str name; /* that the certificate must have; empty: the server as written */
    struct str trusted, crl, certificate, certificate_key;
    struct tls_context *context;
};

/* After the block was read: makes the context. block: "redis_store", its name is node's argument.
 * False after conf_error. */
bool client_tls_finish(struct conf *conf, const struct conf_node *node, const char *block,
                       struct client_tls *own);

/* The rows; MEMBER of SETTINGS is a struct client_tls. NAME_DOC: the description of `ssl_name`. */
#define CLIENT_TLS_ROWS(CONTEXT, SETTINGS, MEMBER, NAME_DOC)                                       \
    {"ssl_name", CONTEXT, STRING(SETTINGS, MEMBER.name), .syntax = "name", .doc = NAME_DOC},       \
        {"ssl_server_name", CONTEXT, FLAG(SETTINGS, MEMBER.sends_name), .initial = "on",           \
         .doc = "Whether the name is sent in the TLS handshake (SNI, RFC 6066)."},                 \
        {"ssl_verify", CONTEXT, FLAG(SETTINGS, MEMBER.verifies), .initial = "on",                  \
         .doc = "Whether the server's certificate is verified, including its name."},              \
        {"ssl_trusted_certificate", CONTEXT, CONF_PATH(SETTINGS, MEMBER.trusted),                  \
         .doc = "PEM file with trusted CA certificates."},                                         \
        {"ssl_crl", CONTEXT, CONF_PATH(SETTINGS, MEMBER.crl),                                      \
         .doc = "PEM file with certificate revocation lists (CRL)."},                              \
        {"ssl_certificate", CONTEXT, CONF_PATH(SETTINGS, MEMBER.certificate),                      \
         .doc = "PEM file with the client certificate, for servers that request one."},            \
    {                                                                                              \
        "ssl_certificate_key", CONTEXT, CONF_PATH(SETTINGS, MEMBER.certificate_key),               \
            .doc = "PEM file with the key of the client certificate."                              \
    }

#endif
