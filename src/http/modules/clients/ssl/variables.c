/* Variables of ngx_http_ssl_module, for requests and for connections in their handshake. */
#include "base/clock.h"
#include "http/client/connection.h"
#include "http/modules/clients/ssl/ssl.h"
#include "http/request/request.h"
#include "http/routing/file_settings.h"
#include "http/variables/variables.h"
#include "shared/tls/variables.h"

#define PREFIX 4 /* length of "ssl_" */

static bool get_ssl(struct variable_env *env, const struct variable *variable, struct str *out)
{
    const struct conn *tls = connection_tls(variable_request(env)->connection);

    return tls != NULL && tls_variable(tls, str_skip(variable->name, PREFIX), env->arena, out);
}

const struct variable ssl_variables[] = {TLS_VARIABLES(get_ssl), {.name = STR_INIT("")}};

/* ---- during a handshake ---- */

#define GETTER(name)                                                                               \
    static bool name(struct variable_env *env, const struct variable *variable, struct str *out)

static struct http_connection *subject_of(struct variable_env *env)
{
    return container_of(env, struct handshake, env)->connection;
}

GETTER(get_tls)
{
    const struct conn *tls = connection_tls(subject_of(env));

    return tls != NULL && tls_variable(tls, variable->rest, env->arena, out);
}

GETTER(get_client)
{
    return variable_give(out, connection_address(subject_of(env)));
}

GETTER(get_client_port)
{
    struct addr peer;

    connection_peer(subject_of(env), &peer);
    return variable_give_number(env, out, addr_port(&peer));
}

GETTER(get_binary_client)
{
    struct addr peer;

    connection_peer(subject_of(env), &peer);
    return variable_give_binary_address(env, out, &peer) || get_client(env, variable, out);
}

GETTER(get_server_addr)
{
    return variable_give_address(env, out, connection_local(subject_of(env)));
}

GETTER(get_server_port)
{
    return variable_give_number(env, out, addr_port(connection_local(subject_of(env))));
}

/* The server for the SNI name. */
static const struct http_server *server_of(struct variable_env *env)
{
    const struct http_connection *connection = subject_of(env);

    return connection_server(connection);
}

GETTER(get_server_name)
{
    return variable_give(out, server_of(env)->name);
}

/* The root of that server. */
GETTER(get_root)
{
    return variable_give(out, template_text(server_of(env)->root->files->root, env));
}

GETTER(get_connection)
{
    return variable_give_number(env, out, connection_number(subject_of(env)));
}

GETTER(get_connection_time)
{
    return variable_give_seconds(env, out, clock_now.now_ms - subject_of(env)->start_ms);
}

static const struct proxy_header *proxy_of(struct variable_env *env)
{
    const struct connection_details *details = subject_of(env)->details;

    return details == NULL ? NULL : details->proxy;
}

GETTER(get_proxy_address)
{
    return variable_give_proxy_address(env, out, proxy_of(env), variable->data != 0);
}

GETTER(get_proxy_port)
{
    return variable_give_proxy_port(env, out, proxy_of(env), variable->data != 0);
}

/* Constant during a handshake: there is no request or response. */
GETTER(get_text)
{
    return variable_give(out, str_of((const char *) variable->data));
}
#define TEXT(text) .get = get_text, .data = (uintptr_t) (text)

static const struct variable handshake_variables[] = {
    {.name = STR_INIT("ssl_"), .get = get_tls, .flags = VARIABLE_PREFIX},
    {.name = STR_INIT("remote_addr"), .get = get_client},
    {.name = STR_INIT("remote_port"), .get = get_client_port},
    {.name = STR_INIT("binary_remote_addr"), .get = get_binary_client},
    {.name = STR_INIT("realip_remote_addr"), .get = get_client},
    {.name = STR_INIT("realip_remote_port"), .get = get_client_port},
    {.name = STR_INIT("server_addr"), .get = get_server_addr},
    {.name = STR_INIT("server_port"), .get = get_server_port},
    {.name = STR_INIT("server_name"), .get = get_server_name},
    {.name = STR_INIT("host"), .get = get_server_name},
    {.name = STR_INIT("document_root"), .get = get_root},
    {.name = STR_INIT("request_filename"), .get = get_root},
    {.name = STR_INIT("connection"), .get = get_connection},
    {.name = STR_INIT("connection_requests"), TEXT("0")},
    {.name = STR_INIT("connection_time"), .get = get_connection_time},
    {.name = STR_INIT("proxy_protocol_addr"), .get = get_proxy_address},
    {.name = STR_INIT("proxy_protocol_port"), .get = get_proxy_port},
    {.name = STR_INIT("proxy_protocol_server_addr"), .get = get_proxy_address, .data = 1},
    {.name = STR_INIT("proxy_protocol_server_port"), .get = get_proxy_port, .data = 1},
    {.name = STR_INIT("scheme"), TEXT("https")},
    {.name = STR_INIT("https"), TEXT("on")},
    {.name = STR_INIT("pipe"), TEXT(".")},
    {.name = STR_INIT("status"), TEXT("000")},
    {.name = STR_INIT("bytes_sent"), TEXT("0")},
    {.name = STR_INIT("body_bytes_sent"), TEXT("0")},
    {.name = STR_INIT("request_length"), TEXT("0")},
    {.name = STR_INIT("request_time"), TEXT("0.000")},
    {.name = STR_INIT("limit_rate"), TEXT("0")},
    {.name = STR_NONE},
};

static const struct subject_kind handshake_subject = {.name = "handshake",
                                                      .variables = handshake_variables};

const struct http_server *handshake_server(struct variable_env *env)
{
    return env->kind == &handshake_subject ? server_of(env) : NULL;
}

void handshake_begin(struct handshake *handshake, struct http_connection *connection)
{
    arena_init(&handshake->arena);
    connection_log(connection, "SSL handshaking", &handshake->log);
    handshake->connection = connection;
    handshake->env = (struct variable_env){
        .kind = &handshake_subject,
        .set = &connection->listen->default_server->main->variables,
        .arena = &handshake->arena,
        .log = &handshake->log,
    };
}

void handshake_end(struct handshake *handshake)
{
    arena_free(&handshake->arena);
}
