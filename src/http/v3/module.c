/* ngx_http_v3_module: the directives of HTTP/3, $http3 and Alt-Svc. */
#include "http/routing/hooks.h"
#include "http/routing/connection_settings.h"
#include "http/v3/v3.h"
#include "http/variables/variables.h"
#include "net/shards/listener.h"
#include "server/module.h"
#include "shared/tls/options.h"

struct settings_key v3_server_key;

bool v3_is_on(const struct http_server *server)
{
    const struct v3_settings *settings = v3_settings_of(server);

    return settings != NULL && settings->http3;
}

static bool read_host_key(struct conf_scope *scope, const struct directive *row,
                          struct conf_node *node, void *settings)
{
    struct v3_settings *v3 = settings;

    return tls_option_quic_host_key(scope->conf, node, v3->quic_host_key, &v3->host_key);
}

static const struct directive_word congestion_words[] = {
    {"cubic", V3_CUBIC},
    {"bbr", V3_BBR},
    {NULL, 0},
};

static const struct directive_word alt_svc_words[] = {
    {"off", V3_ALT_SVC_OFF},
    {"auto", V3_ALT_SVC_AUTO},
    {NULL, 0},
};

#define V struct v3_settings
static const struct directive server_rows[] = {
    {"http3", IN_HTTP | IN_SERVER, FLAG(V, http3), .initial = "on",
     .doc = "Enables HTTP/3 on addresses with `listen ... quic`. A request to a server "
            "with `off` gets 421 if it arrives on an HTTP/3 connection of another server "
            "at the same address."},
    {"http3_hq", IN_HTTP | IN_SERVER, FLAG(V, http3_hq), .initial = "off",
     .doc = "Enables HTTP/0.9 over QUIC (ALPN hq-interop), which QUIC interoperability "
            "tests use."},
    {"http3_max_concurrent_streams", IN_HTTP | IN_SERVER, NUMBER(V, http3_max_concurrent_streams),
     .initial = "128", .min = 1, .max = 1 << 20,
     .doc = "Maximum number of concurrent requests in a connection."},
    {"http3_stream_buffer_size", IN_HTTP | IN_SERVER, SIZE(V, http3_stream_buffer_size),
     .initial = "64k", .min = 1024, .max = INT32_MAX,
     .doc = "Number of bytes of a request body that a client may send before the body is "
            "read: the initial flow control limit of a stream."},
    {"http3_alt_svc", IN_HTTP | IN_SERVER, ENUM(V, alt_svc, alt_svc_words), .initial = "off",
     .doc = "With `auto`, responses over TLS that are not HTTP/3 get `Alt-Svc: "
            "h3=\":port\"; ma=86400` with the port of the server's first `listen ... "
            "quic`, so that browsers use HTTP/3 for later requests."},
    {"quic_active_connection_id_limit", IN_HTTP | IN_SERVER,
     NUMBER(V, quic_active_connection_id_limit), .initial = "2", .min = 2, .max = 8,
     .doc = "Number of connection IDs from the client that are stored for each connection."},
    {"quic_congestion_control", IN_HTTP | IN_SERVER, ENUM(V, congestion, congestion_words),
     .initial = "cubic", .doc = "Congestion control algorithm: CUBIC (RFC 9438) or BBR."},
    {"quic_gso", IN_HTTP | IN_SERVER, FLAG(V, quic_gso), .initial = "off",
     .doc = "Whether several packets are sent with one system call (UDP segmentation "
            "offload)."},
    {"quic_host_key", IN_HTTP | IN_SERVER, CONF_PATH(V, quic_host_key), .syntax = "file",
     .apply = read_host_key,
     .doc = "File of at least 32 bytes from which the keys of address validation tokens "
            "and stateless resets are derived. Without it, random keys are used after each "
            "start and reload."},
    {"quic_preferred_address", IN_HTTP | IN_SERVER,
     CUSTOM_FIELD(V, quic_preferred_address, v3_preferred_address_apply), ARGS(1, 2),
     .initial = "off", .syntax = "off | address:port [address:port]",
     .doc = "Address to which clients are asked to migrate after the handshake (RFC 9000, "
            "section 9.6): one IPv4 address, one IPv6 address, or both. The same server "
            "needs a `listen ... quic` with this address. It is useful if handshakes use "
            "an anycast address."},
    {"quic_server_id", IN_HTTP | IN_SERVER, CUSTOM_FIELD(V, quic_server_id, v3_server_id_apply),
     ARGS(1, 3), .initial = "off", .syntax = "off | id [config=number] [key=file]",
     .doc = "Encodes this server ID, up to 7 bytes in hexadecimal, in connection IDs as "
            "specified in draft-ietf-quic-load-balancers, so that a load balancer sends "
            "each packet to the server that has the connection. `config` is the "
            "configuration ID, 0 to 6, and is 0 by default. `key` is a file with 32 "
            "hexadecimal digits; the ID is encrypted with it."},
    {"quic_retry", IN_HTTP | IN_SERVER, FLAG(V, quic_retry), .initial = "off",
     .doc = "Whether the addresses of new clients are validated with a Retry packet, which "
            "adds a round trip."},
    {0},
};
#undef V

static const struct directive_table v3_server_table = {.key = &v3_server_key,
                                                       .rows = server_rows,
                                                       .contexts = IN_HTTP | IN_SERVER,
                                                       .size = sizeof(struct v3_settings)};

/* Packets find their workers without it. */
struct quic_bpf_settings {
    bool quic_bpf;
};
static const struct directive bpf_rows[] = {
    {"quic_bpf", IN_MAIN, FLAG(struct quic_bpf_settings, quic_bpf), .initial = "off",
     .doc = "Accepted and ignored: packets are distributed to workers by connection ID "
            "without additional privileges."},
    {0},
};
static const struct directive_table bpf_table = {.rows = bpf_rows,
                                                 .contexts = IN_MAIN,
                                                 .size = sizeof(struct quic_bpf_settings),
                                                 .module_name = "ngx_quic_bpf_module"};
static const struct directive_table *const v3_tables[] = {&v3_server_table, &bpf_table, NULL};

/* ---- addresses ---- */

static struct quic_settings transport_settings(const struct http_server *server)
{
    const struct v3_settings *settings = v3_settings_of(server);

    return (struct quic_settings){
        .max_streams_bidi = (uint64_t) settings->http3_max_concurrent_streams,
        .max_streams_uni = V3_ONE_WAY_MAX,
        .stream_window = settings->http3_stream_buffer_size,
        .idle_timeout_ms = server->root->connections->keepalive_timeout_ms,
        .handshake_timeout_ms = server->client_header_timeout_ms,
        .active_connection_id_limit = (unsigned) settings->quic_active_connection_id_limit,
        .retries = settings->quic_retry,
        .uses_gso = settings->quic_gso,
        .uses_bbr = settings->congestion == V3_BBR,
        .host_key = settings->host_key,
        .preferred = settings->quic_preferred_address,
        .server_id = settings->quic_server_id,
        .file_error = H3_INTERNAL_ERROR,
    };
}

static const struct quic_settings *chosen_settings(struct listener *listener,
                                                   struct quic_connection *quic)
{
    const struct v3_connection *c = quic_user(quic);
    const struct http_server *server = connection_server(c->connection);

    return server == c->connection->listen->default_server ? &listener->quic->settings
                                                           : v3_settings_of(server)->transport;
}

static void count_limited(struct listener *listener, uint64_t count)
{
    counters_mine->limited += count;
}

/* NULL: OpenSSL failed. */
static const struct quic_service *service_make(struct conf *conf, const struct http_listen *listen)
{
    const struct http_server *server = listen->default_server;
    struct quic_service *service = arena_new(conf->arena, struct quic_service);

    service->settings = *v3_settings_of(server)->transport;
    service->context = server->main->handshake->context(server);
    service->selector = *server->main->handshake->selector;
    service->began = v3_began;
    service->accepted = v3_accepted;
    service->chosen = chosen_settings;
    service->limited = count_limited;
    return quic_service_init(service, conf->arena) ? service : NULL;
}

static bool v3_end(struct conf *conf, struct http_main *main)
{
    bool is_good = true;

    vec_each(struct http_server *, server, &main->servers) {
        struct quic_settings *transport = arena_new(conf->arena, struct quic_settings);

        *transport = transport_settings(*server);
        v3_settings_of(*server)->transport = transport;
    }
    vec_each(struct http_listen *, listen, &main->listens) {
        if (listen_is_quic(*listen)) {
            const struct quic_service *service = service_make(conf, *listen);

            is_good &= service != NULL;
            if (service != NULL) {
                quic_serve((*listen)->address.listener, service);
            }
        }
    }
    return is_good;
}

/* ---- Alt-Svc ---- */

static bool adds_alt_svc(const struct http_location *location)
{
    return location->server != NULL && v3_is_on(location->server) &&
           v3_settings_of(location->server)->alt_svc == V3_ALT_SVC_AUTO;
}

/* The port of the server's first address of QUIC; 0 = it has none. */
static unsigned quic_port(const struct http_server *server)
{
    vec_each(struct http_listen *, listen, &server->listens) {
        if (listen_is_quic(*listen)) {
            return addr_port(&(*listen)->address.listener->addr);
        }
    }
    return 0;
}

/* Tells clients of other versions where HTTP/3 is (RFC 7838, 3), unless the response says something
 * else. */
static void add_alt_svc(struct request *request)
{
    struct fields *fields = &request->response.fields;

    if (request != request->main || request->head.version == HTTP_3 ||
        !request_is_encrypted(request) || fields_find(fields, STR("Alt-Svc")) != NULL) {
        return;
    }
    unsigned port = quic_port(request->server);
    if (port != 0) {
        fields_add(fields, &request->arena, STR("Alt-Svc"),
                   arena_printf(&request->arena, "h3=\":%u\"; ma=86400", port));
    }
}

static const struct filter_hook v3_filters[] = {
    {.name = "alt_svc", .after = "headers", .run = add_alt_svc, .is_active = adds_alt_svc},
    {.run = NULL},
};

/* ---- variables ---- */

/* "h3" or "hq"; empty for the other versions. */
static bool get_http3(struct variable_env *env, const struct variable *variable, struct str *out)
{
    const struct request *request = variable_request(env)->main;

    return variable_give(out, request->wire == &v3_wire   ? STR("h3")
                              : request->wire == &hq_wire ? STR("hq")
                                                          : STR(""));
}

/* "quic" where it carries the request; else empty. */
static bool get_quic(struct variable_env *env, const struct variable *variable, struct str *out)
{
    const struct request *request = variable_request(env)->main;

    return variable_give(out, listen_is_quic(request->connection->listen) ? STR("quic") : STR(""));
}

static const struct variable v3_variables[] = {
    {.name = STR_INIT("http3"),
     .doc = "`h3` or `hq`, empty for other protocols.",
     .get = get_http3},
    {.name = STR_INIT("quic"),
     .doc = "`quic` if the request was received over QUIC, otherwise empty.",
     .get = get_quic},
    {.name = {NULL, 0}},
};

static const struct http_module v3_hooks = {
    .variables = v3_variables,
    .filters = v3_filters,
    .protocol = &v3_protocol,
    .end = v3_end,
};

const struct module ngx_http_v3_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_v3_module",
    .kind = MODULE_HTTP,
    .tables = v3_tables,
    .hooks = &v3_hooks,
};
