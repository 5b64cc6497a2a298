/* Variables about the client's connection and its two ends. */
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "http/client/connection.h"
#include "http/variables/variables_get.h"

static bool give_address(struct variable_env *env, const struct addr *addr, struct str *out)
{
    char *text = arena_text(env->arena, ADDR_TEXT_MAX);

    *out = (struct str){text, addr_format(addr, false, text)};
    return true;
}

/* A unix socket has no port: the value is there, and empty. */
static bool give_port(struct variable_env *env, const struct addr *addr, struct str *out)
{
    uint16_t port = addr_port(addr);

    *out = STR("");
    return port == 0 || variable_give_number(env, out, port);
}

VARIABLE_GET(get_binary_remote_addr)
{
    struct addr peer;

    request_client(variable_request(env), &peer);
    if (peer.len != 0 && peer.any.sa_family == AF_INET6) {
        *out = (struct str){(const char *) &peer.v6.sin6_addr, sizeof(peer.v6.sin6_addr)};
    } else if (peer.len != 0 && peer.any.sa_family == AF_INET) {
        *out = (struct str){(const char *) &peer.v4.sin_addr, sizeof(peer.v4.sin_addr)};
    } else {
        *out = request_client_text(variable_request(env));
    }
    *out = arena_dup(env->arena, *out);
    return true;
}

VARIABLE_GET(get_remote_addr)
{
    return variable_give(out, request_client_text(variable_request(env)));
}

VARIABLE_GET(get_remote_port)
{
    struct addr peer;

    request_client(variable_request(env), &peer);
    return give_port(env, &peer, out);
}

VARIABLE_GET(get_server_addr)
{
    return give_address(env, connection_local(variable_request(env)->http), out);
}

VARIABLE_GET(get_server_port)
{
    return give_port(env, connection_local(variable_request(env)->http), out);
}

VARIABLE_GET(get_connection)
{
    return variable_give_number(env, out, conn_number(variable_request(env)->conn));
}

/*
 * The number of this request on its connection. Pipelined ones that began after it are counted in
 * the connection already; they stand after it on the list, or are all of it once this one was
 * sent.
 */
VARIABLE_GET(get_connection_requests)
{
    const struct request *request = variable_request(env)->main;
    const struct http_connection *http = request->http;
    const struct list *head = &http->unfinished;
    const struct list *link = list_is_empty(&request->link) ? head : &request->link;
    uint64_t number = http->requests;

    for (link = link->next; link != head && number > 1; link = link->next) {
        number--;
    }
    return variable_give_number(env, out, number);
}

VARIABLE_GET(get_connection_time)
{
    return variable_give_seconds(env, out,
                                 clock_now.now_ms - variable_request(env)->http->start_ms);
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

static const struct proxy_header *proxy_of(struct variable_env *env)
{
    const struct connection_details *details = variable_request(env)->http->details;

    return details == NULL ? NULL : details->proxy;
}

/* One of the two ends that the header tells; NULL when it tells none. */
static const struct addr *proxy_end(struct variable_env *env, const struct variable *variable)
{
    const struct proxy_header *proxy = proxy_of(env);

    if (proxy == NULL) {
        return NULL;
    }
    const struct addr *end = variable->data != 0 ? &proxy->destination : &proxy->source;
    return end->len == 0 ? NULL : end;
}

VARIABLE_GET(get_proxy_address)
{
    const struct addr *end = proxy_end(env, variable);

    return end != NULL && give_address(env, end, out);
}

VARIABLE_GET(get_proxy_port)
{
    const struct addr *end = proxy_end(env, variable);

    return end != NULL && give_port(env, end, out);
}

VARIABLE_GET(get_proxy_tlv)
{
    const struct proxy_header *proxy = proxy_of(env);

    return proxy != NULL && proxy_header_tlv(proxy, variable->rest, out);
}

/* ---- the kernel's view ---- */

VARIABLE_GET(get_tcp_info)
{
    struct tcp_info info;
    socklen_t size = sizeof(info);
    uint64_t number = 0;

    if (getsockopt(variable_request(env)->conn->source.fd, IPPROTO_TCP, TCP_INFO, &info, &size) ==
        -1) {
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
