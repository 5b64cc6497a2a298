/* Directives of HTTP/3 that have a syntax of their own. */
#include <errno.h>

#include "base/fs.h"
#include "base/text.h"
#include "conf/directive.h"
#include "http/v3/v3.h"

#define CONFIG_MOST 6u /* 7 is an id without a server (draft-ietf-quic-load-balancers, 3) */
#define KEY_FILE_MOST 256u

/* Exactly `size` bytes of two digits each. */
static bool hex_read(struct str text, uint8_t *out, size_t size)
{
    return text.len == 2 * size && hex_decode(text, out);
}

static struct str without_line_end(struct str text)
{
    while (text.len != 0 && ascii_is_space(text.data[text.len - 1])) {
        text.len--;
    }
    return text;
}

static bool server_key_read(struct conf *conf, const struct conf_node *node, struct str path,
                            struct quic_server_id *server)
{
    const char *name = arena_cstr(conf->arena, conf_full_name(conf, path, true));
    uint8_t key[QUIC_SERVER_KEY_SIZE];
    struct str text;

    if (!fs_read_all(conf->arena, name, KEY_FILE_MOST, &text)) {
        return conf_errno(conf, node, errno, "cannot read \"%s\"", name);
    }
    if (!hex_read(without_line_end(text), key, sizeof(key))) {
        return conf_error(conf, node, "\"%s\" must have 32 hexadecimal digits", name);
    }
    if (!quic_server_id_set_key(server, conf->arena, key)) {
        return conf_error(conf, node, "the key in \"%s\" cannot be used", name);
    }
    return true;
}

static bool server_id_parameter(struct conf *conf, const struct conf_node *node, struct str text,
                                struct quic_server_id *server)
{
    struct str rest = text, name = str_cut(&rest, '=');

    if (str_equal(name, STR("config")) && rest.len == 1 && rest.data[0] >= '0' &&
        (unsigned) (rest.data[0] - '0') <= CONFIG_MOST) {
        server->config = (uint8_t) (rest.data[0] - '0');
        return true;
    }
    if (str_equal(name, STR("key")) && rest.len != 0) {
        return server_key_read(conf, node, rest, server);
    }
    return conf_error(conf, node, "invalid parameter \"%.*s\"", STR_ARG(text));
}

bool v3_server_id_apply(struct conf_scope *scope, const struct directive *row,
                        struct conf_node *node, void *settings)
{
    struct v3_settings *v3 = settings;
    struct quic_server_id *server;
    struct str id = node->args[1];

    if (str_equal(id, STR("off")) && node->count == 2) {
        v3->quic_server_id = NULL;
        return true;
    }
    server = arena_new(scope->conf->arena, struct quic_server_id);
    if (id.len / 2 < 1 || id.len / 2 > QUIC_SERVER_ID_MOST ||
        !hex_read(id, server->bytes, id.len / 2)) {
        return conf_error(
            scope->conf, node,
            "invalid server id \"%.*s\": it must be 1 to %u bytes in hexadecimal digits",
            STR_ARG(id), QUIC_SERVER_ID_MOST);
    }
    server->size = (uint8_t) (id.len / 2);
    for (size_t i = 2; i < node->count; i++) {
        if (!server_id_parameter(scope->conf, node, node->args[i], server)) {
            return false;
        }
    }
    v3->quic_server_id = server;
    return true;
}

/* ---- quic_preferred_address ---- */

static bool preferred_address_read(struct conf *conf, const struct conf_node *node, struct str text,
                                   struct quic_preferred *preferred)
{
    struct str host;
    uint16_t port = 0;
    struct addr addr;

    if (!addr_split_port(text, &host, &port) || port == 0 || !addr_parse_ip(host, &addr) ||
        addr_is_wildcard(&addr)) {
        return conf_error(conf, node,
                          "invalid address \"%.*s\": an IP address and a port are needed",
                          STR_ARG(text));
    }
    bool is_v6 = addr.any.sa_family == AF_INET6;
    if (is_v6 ? preferred->has_v6 : preferred->has_v4) {
        return conf_error(conf, node, "two addresses of one family in \"%.*s\"",
                          STR_ARG(node->args[0]));
    }
    addr_set_port(&addr, port);
    if (is_v6) {
        preferred->v6 = addr;
        preferred->has_v6 = true;
    } else {
        preferred->v4 = addr;
        preferred->has_v4 = true;
    }
    return true;
}

bool v3_preferred_address_apply(struct conf_scope *scope, const struct directive *row,
                                struct conf_node *node, void *settings)
{
    struct v3_settings *v3 = settings;

    if (str_equal(node->args[1], STR("off")) && node->count == 2) {
        v3->quic_preferred_address = NULL;
        return true;
    }
    v3->quic_preferred_address = arena_new(scope->conf->arena, struct quic_preferred);
    for (size_t i = 1; i < node->count; i++) {
        if (!preferred_address_read(scope->conf, node, node->args[i], v3->quic_preferred_address)) {
            return false;
        }
    }
    return true;
}
