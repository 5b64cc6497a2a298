/* The variables of ngx_stream_core_module. */
#include "base/clock.h"
#include "net/conn/proxy_protocol.h"
#include "shared/variables/give.h"
#include "stream/session/story.h"

#define GETTER(name)                                                                               \
    static bool name(struct variable_env *env, const struct variable *variable, struct str *out)

/* ---- client and server ---- */

void variable_session_client(struct variable_env *env, struct addr *out)
{
    if (env->kind == &session_subject) {
        session_client(variable_session(env), out);
    }
}

GETTER(get_binary_remote_addr)
{
    struct session *session = variable_session(env);
    struct addr client;

    session_client(session, &client);
    return variable_give_binary_address(env, out, &client) ||
           variable_give(out, session_client_text(session));
}

GETTER(get_remote_addr)
{
    return variable_give(out, session_client_text(variable_session(env)));
}

GETTER(get_remote_port)
{
    struct addr client;

    session_client(variable_session(env), &client);
    return variable_give_port(env, out, &client);
}

GETTER(get_server_addr)
{
    struct addr local;

    return session_local(variable_session(env), &local) && variable_give_address(env, out, &local);
}

GETTER(get_server_port)
{
    struct addr local;

    return session_local(variable_session(env), &local) && variable_give_port(env, out, &local);
}

/* .data of these rows: 0 = the client's address in the PROXY header, 1 = the server's. */
GETTER(get_proxy_address)
{
    return variable_give_proxy_address(env, out, variable_session(env)->proxy, variable->data != 0);
}

GETTER(get_proxy_port)
{
    return variable_give_proxy_port(env, out, variable_session(env)->proxy, variable->data != 0);
}

/* variable->rest: what follows "proxy_protocol_tlv_" in the name. */
GETTER(get_proxy_tlv)
{
    const struct proxy_header *proxy = variable_session(env)->proxy;

    return proxy != NULL && proxy_header_tlv(proxy, variable->rest, out);
}

/* ---- the session ---- */

GETTER(get_bytes)
{
    uint64_t counts[2];

    session_count(variable_session(env), &counts[0], &counts[1]);
    return variable_give_number(env, out, counts[variable->data]);
}

GETTER(get_connection)
{
    return variable_give_number(env, out, session_number(variable_session(env)));
}

GETTER(get_session_time)
{
    return variable_give_seconds(env, out, clock_now.now_ms - variable_session(env)->start_ms);
}

GETTER(get_status)
{
    *out = arena_printf(env->arena, "%03u", variable_session(env)->status);
    return true;
}

GETTER(get_protocol)
{
    return variable_give(out, variable_session(env)->listen->is_udp ? STR("UDP") : STR("TCP"));
}

GETTER(get_server_name)
{
    return variable_give(out, variable_session(env)->server->name);
}

GETTER(get_hostname)
{
    return variable_give(out, variable_session(env)->server->main->hostname);
}

#define NAMED(text) .name = STR_INIT(text)
#define ANY .kind = &any_subject
#define VOLATILE .flags = VARIABLE_VOLATILE

const struct variable session_variables[] = {
    {NAMED("binary_remote_addr"),
     .doc = "Address of the client in binary form: 4 bytes for IPv4, 16 for IPv6.",
     .get = get_binary_remote_addr},
    {NAMED("remote_addr"), .doc = "Address of the client.", .get = get_remote_addr},
    {NAMED("remote_port"), .doc = "Port of the client.", .get = get_remote_port},
    {NAMED("server_addr"), .doc = "Local address of the connection.", .get = get_server_addr},
    {NAMED("server_port"), .doc = "Local port of the connection.", .get = get_server_port},
    {NAMED("proxy_protocol_addr"), .doc = "Address of the client in the PROXY protocol header.",
     .get = get_proxy_address},
    {NAMED("proxy_protocol_port"), .doc = "Port of the client in the PROXY protocol header.",
     .get = get_proxy_port},
    {NAMED("proxy_protocol_server_addr"),
     .doc = "Address of the server in the PROXY protocol header.", .get = get_proxy_address,
     .data = 1},
    {NAMED("proxy_protocol_server_port"), .doc = "Port of the server in the PROXY protocol header.",
     .get = get_proxy_port, .data = 1},
    {NAMED("proxy_protocol_tlv_"),
     .doc = "Value of the TLV in the PROXY protocol header with this name, or with this type, "
            "written as 0x and a number.",
     .get = get_proxy_tlv, .flags = VARIABLE_PREFIX},
    {NAMED("bytes_received"), .doc = "Number of bytes received from the client.", .get = get_bytes,
     .data = 0},
    {NAMED("bytes_sent"), .doc = "Number of bytes sent to the client.", .get = get_bytes,
     .data = 1},
    {NAMED("connection"), .doc = "Serial number of the connection.", .get = get_connection},
    {NAMED("session_time"), .doc = "Duration of the session, in seconds with milliseconds.",
     .get = get_session_time, VOLATILE},
    {NAMED("status"), .doc = "Result of the session: 200, 400, 403, 500, 502 or 503.",
     .get = get_status, VOLATILE},
    {NAMED("protocol"), .doc = "TCP or UDP.", .get = get_protocol},
    {NAMED("server_name"), .doc = "First name of the server that handles the session.",
     .get = get_server_name},
    {NAMED("hostname"), .doc = "Host name.", .get = get_hostname},
    {NAMED("pid"), .doc = "Process id of the worker.", .get = variable_get_pid, ANY},
    {NAMED("nginx_version"), .doc = "Version of nginx that this server is compatible with.",
     .get = variable_get_nginx_version, ANY},
    {NAMED("msec"), .doc = "Current time in seconds, with milliseconds.", .get = variable_get_msec,
     ANY, VOLATILE},
    {NAMED("time_local"), .doc = "Local time in the format of access logs.",
     .get = variable_get_time_local, ANY, VOLATILE},
    {NAMED("time_iso8601"), .doc = "Local time in ISO 8601 format.",
     .get = variable_get_time_iso8601, ANY, VOLATILE},
    {NAMED("time_iso8601_ms"), .doc = "Local time in ISO 8601 format, with milliseconds.",
     .get = variable_get_time_iso8601_ms, ANY, VOLATILE},
    {.name = {NULL, 0}},
};
