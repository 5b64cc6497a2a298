/* Shared by the files of ngx_http_ssl_module. */
#ifndef HTTP_MODULES_CLIENTS_SSL_SSL_H
#define HTTP_MODULES_CLIENTS_SSL_SSL_H

#include "conf/directive.h"
#include "http/client/connection.h"
#include "http/routing/settings.h"
#include "shared/tls/server.h"

/* Settings of a server. */
struct ssl_settings {
    struct tls_server_settings tls; /* must be first: its rows get a pointer to this struct */
    bool ssl;                       /* the directive `ssl`: all addresses of the server have TLS */
    bool has_exceptions; /* derived: some location accepts clients without a certificate */
};

/* Settings of a location. */
struct ssl_location_settings {
    bool is_exempt; /* from the server's ssl_verify_client */
};

extern struct settings_key ssl_key;
extern struct settings_key ssl_location_key;

static inline const struct ssl_settings *ssl_settings_of(const struct http_server *server)
{
    return server_settings(server, &ssl_key);
}

static inline const struct ssl_location_settings *ssl_location_settings_of(
    const struct http_location *location)
{
    return location_settings(location, &ssl_location_key);
}

/* handshake.c: TLS of accepted connections. */
extern const struct http_handshake ssl_handshake;

/* context.c: makes the server's context after its block was read; false after conf_error. */
bool ssl_finish(struct conf_scope *scope, void *settings);
/* Called after a location was read; marks its server if the location is exempt. */
bool ssl_location_finish(struct conf_scope *scope, void *settings);
/* Called after all servers were read: checks the listeners with TLS. */
bool ssl_end(struct conf *conf, struct http_main *main);

/* variables.c */
extern const struct variable ssl_variables[];

/* A client's connection during its handshake, before there is a request: a subject of variables. On
 * the stack. */
struct handshake {
    struct variable_env env;
    struct arena arena; /* for values of variables */
    struct log log;
    struct http_connection *connection;
};
void handshake_begin(struct handshake *handshake, struct http_connection *connection);
void handshake_end(struct handshake *handshake);
/* The server of such a subject; NULL: the subject is of another kind. */
const struct http_server *handshake_server(struct variable_env *env);

/* check.c: may the request use this connection? Called for every request. */
enum handler_result ssl_check(struct request *request);
/* Checks the client's certificate for each location that a request reaches, if some are exempt. */
enum handler_result ssl_check_location(struct request *request);

#endif
