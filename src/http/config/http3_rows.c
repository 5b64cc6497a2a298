/* Directives of HTTP/3, for configurations that hold them and listen with no `quic`: their values are checked, and nothing follows from them. */
#include "http/config/http3_rows.h"

#include "http/routing/settings.h"

struct http3_settings {
    bool is_on;
    bool has_hq;
    bool has_gso;
    bool has_retry;
    int64_t streams;
    int64_t connection_ids;
    uint64_t buffer;
    struct str host_key;
};

static struct settings_key http3_key;

#define UNUSED " Accepted and ignored: no address listens with `quic`."
#define S struct http3_settings
static const struct directive http3_rows[] = {
    {"http3", IN_HTTP | IN_SERVER, FLAG(S, is_on), .initial = "on",
     .doc = "HTTP/3 on addresses with `quic`." UNUSED},
    {"http3_hq", IN_HTTP | IN_SERVER, FLAG(S, has_hq), .initial = "off",
     .doc = "HTTP/0.9 over QUIC, for tests." UNUSED},
    {"http3_max_concurrent_streams", IN_HTTP | IN_SERVER, NUMBER(S, streams), .initial = "128",
     .doc = "Requests of one connection at one time." UNUSED},
    {"http3_stream_buffer_size", IN_HTTP | IN_SERVER, SIZE(S, buffer), .initial = "64k",
     .doc = "Size of the buffers of a stream." UNUSED},
    {"quic_active_connection_id_limit", IN_HTTP | IN_SERVER, NUMBER(S, connection_ids),
     .initial = "2", .doc = "How many connection ids a client may have." UNUSED},
    {"quic_gso", IN_HTTP | IN_SERVER, FLAG(S, has_gso), .initial = "off",
     .doc = "Sends datagrams in batches (UDP segmentation)." UNUSED},
    {"quic_host_key", IN_HTTP | IN_SERVER, STRING(S, host_key), .syntax = "file",
     .doc = "The file with the secret of tokens and of stateless resets." UNUSED},
    {"quic_retry", IN_HTTP | IN_SERVER, FLAG(S, has_retry), .initial = "off",
     .doc = "Validates addresses of clients with a Retry packet." UNUSED},
    {0},
};
#undef S

const struct directive_table http3_table = {.key = &http3_key,
                                            .rows = http3_rows,
                                            .contexts = IN_HTTP | IN_SERVER,
                                            .size = sizeof(struct http3_settings),
                                            .module_name = "ngx_http_v3_module"};
