/* Variables about the client's connection and its two addresses. */
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "http/client/connection.h"
#include "http/variables/variables.h"
#include "http/variables/variables_get.h"

VARIABLE_GET(get_binary_remote_addr)
{
    struct addr peer;

    request_client(variable_request(env), &peer);
    return variable_give_binary_address(env, out, &peer) ||
           variable_give(out, request_client_text(variable_request(env)));
}

VARIABLE_GET(get_remote_addr)
{
    return variable_give(out, request_client_text(variable_request(env)));
}

VARIABLE_GET(get_remote_port)
{
    struct addr peer;

    request_client(variable_request(env), &peer);
    return variable_give_port(env, out, &peer);
}

VARIABLE_GET(get_server_addr)
{
    return variable_give_address(env, out, connection_local(variable_request(env)->connection));
}

VARIABLE_GET(get_server_port)
{
    return variable_give_port(env, out, connection_local(variable_request(env)->connection));
}

VARIABLE_GET(get_connection)
{
    return variable_give_number(env, out, connection_number(variable_request(env)->connection));
}

VARIABLE_GET(get_connection_requests)
{
    return variable_give_number(env, out, variable_request(env)->main->ordinal);
}

VARIABLE_GET(get_connection_time)
{
    return variable_give_seconds(env, out,
                                 clock_now.now_ms - variable_request(env)->connection->start_ms);
}

VARIABLE_GET(get_pipe)
{
    return variable_give(out, variable_request(env)->is_pipelined ? STR("p") : STR("."));
}

VARIABLE_GET(get_scheme)
{
    return variable_give(out,
                         request_is_encrypted(variable_request(env)) ? STR("https") : STR("http"));
}

VARIABLE_GET(get_https)
{
    return variable_give(out, request_is_encrypted(variable_request(env)) ? STR("on") : STR(""));
}

/* ---- the PROXY protocol ---- */

const struct proxy_header *variable_proxy_header(struct variable_env *env)
{
    const struct connection_details *details = variable_request(env)->connection->details;

    return details == NULL ? NULL : details->proxy;
}

VARIABLE_GET(get_proxy_address)
{
    return variable_give_proxy_address(env, out, variable_proxy_header(env), variable->data != 0);
}

VARIABLE_GET(get_proxy_port)
{
    return variable_give_proxy_port(env, out, variable_proxy_header(env), variable->data != 0);
}

VARIABLE_GET(get_proxy_tlv)
{
    const struct proxy_header *proxy = variable_proxy_header(env);

    return proxy != NULL && proxy_header_tlv(proxy, variable->rest, out);
}

/* ---- data of the kernel ---- */

VARIABLE_GET(get_tcp_info)
{
    struct tcp_info info;
    socklen_t size = sizeof(info);
    uint64_t number = 0;

    if (getsockopt(connection_fd(variable_request(env)->connection), IPPROTO_TCP, TCP_INFO, &info,
                   &size) == -1) {
        return false;
    }
    switch ((enum tcp_info_part) variable->data) {
    case TCP_RTT:
        number = info.tcpi_rtt;
        break;
    case TCP_RTT_VARIANCE:
        number = info.tcpi_rttvar;
        break;
    case TCP_SEND_WINDOW:
        number = info.tcpi_snd_cwnd;
        break;
    case TCP_RECEIVE_SPACE:
        number = info.tcpi_rcv_space;
        break;
    }
    return variable_give_number(env, out, number);
}

/* ---- the client, for variables of any subject ---- */

void variable_client(struct variable_env *env, struct addr *out)
{
    struct str text;

    if (env->kind == &request_subject) {
        request_client(variable_request(env), out);
    } else if (variable_get_by_name(env, STR("remote_addr"), &text)) {
        addr_parse_ip(text, out);
    }
}

void variable_follow_client(struct variable_env *env, const struct forwarded *forwarded,
                            struct addr *client)
{
    if (forwarded->trusted.count == 0 || env->kind != &request_subject) {
        return; /* subjects that are not requests have no fields yet */
    }
    forwarded_follow_all(forwarded, &variable_request(env)->headers, client);
}
