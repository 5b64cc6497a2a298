/* The walk through lists of forwarded addresses: see forwarded.h. */
#include "shared/access/forwarded.h"

#include "shared/access/access.h"

bool forwarded_is_trusted(const struct forwarded *forwarded, const struct addr *addr)
{
    static const struct addr unix_addr = {.len = sizeof(unix_addr.any.sa_family),
                                          .any.sa_family = AF_UNIX};

    vec_each(const struct cidr, network, &forwarded->trusted) {
        /* The peer of a unix socket has no name. */
        if (cidr_contains(network, addr->len != 0 ? addr : &unix_addr)) {
            return true;
        }
    }
    return false;
}

/* Parses "1.2.3.4", "1.2.3.4:80", "::1" or "[::1]:80"; without a port it is 0. */
static bool parse_address(struct str text, struct addr *out)
{
    uint16_t port;
    struct str host;

    if (text.len == 0) {
        return false;
    }
    if (text.data[0] != '[' && addr_parse_ip(text, out)) {
        return true;
    }
    if (!addr_split_port(text, &host, &port) || host.len == text.len) {
        return false; /* an address that begins with '[' needs a port */
    }
    if (host.len >= 2 && host.data[0] == '[' && host.data[host.len - 1] == ']') {
        host = (struct str){host.data + 1, host.len - 2};
    } else if (str_find_char(host, ':') != NULL) {
        return false;
    }
    if (!addr_parse_ip(host, out)) {
        return false;
    }
    addr_set_port(out, port);
    return true;
}

/* Takes the last address off a list that is separated by commas and spaces. */
static struct str cut_last(struct str *list)
{
    size_t end = list->len;

    while (end > 0 && (list->data[end - 1] == ',' || list->data[end - 1] == ' ')) {
        end--;
    }
    size_t start = end;
    while (start > 0 && list->data[start - 1] != ',' && list->data[start - 1] != ' ') {
        start--;
    }
    struct str last = str_from(list->data + start, list->data + end);
    while (start > 0 && (list->data[start - 1] == ',' || list->data[start - 1] == ' ')) {
        start--;
    }
    *list = str_head(*list, start);
    return last;
}

bool forwarded_follow(const struct forwarded *forwarded, struct str list, struct addr *client)
{
    do {
        struct addr said = {.len = 0};

        if (!forwarded_is_trusted(forwarded, client) || !parse_address(cut_last(&list), &said)) {
            return false;
        }
        *client = said;
    } while (forwarded->is_recursive && list.len != 0);
    return forwarded->is_recursive;
}

/* ---- while the configuration is read ---- */

static bool trust(struct conf *conf, const struct conf_node *node, struct forwarded *forwarded,
                  struct str text)
{
    struct cidr network;

    if (!cidr_parse(text, &network)) {
        return conf_error(conf, node, "host not found in set_real_ip_from \"%.*s\"",
                          STR_ARG(node->args[1]));
    }
    if (network.has_low_bits) {
        conf_warn(conf, node, "low address bits of %.*s are meaningless", STR_ARG(text));
    }
    *vec_add(&forwarded->trusted, conf->arena, struct cidr) = network;
    return true;
}

/* Trusts all addresses that a host name has while the configuration is read. */
static bool trust_host(struct conf *conf, const struct conf_node *node, struct forwarded *forwarded,
                       struct str name)
{
    struct addr_list found = {.count = 0};

    if (name.len == 0 || strcspn(arena_cstr(conf->arena, name), ":/[*") != name.len ||
        !addr_parse(conf->arena, name, 80, false, &found)) {
        return conf_error(conf, node, "host not found in set_real_ip_from \"%.*s\"", STR_ARG(name));
    }
    for (size_t i = 0; i < found.count; i++) {
        char text[ADDR_TEXT_MAX];
        size_t length = addr_format(&found.items[i], false, text);

        if (!trust(conf, node, forwarded, (struct str){text, length})) {
            return false;
        }
    }
    return true;
}

bool forwarded_trust(struct conf *conf, const struct conf_node *node, struct forwarded *forwarded)
{
    struct str text = node->args[1];
    struct cidr network;

    if (text.len == 0 || text.data[0] == '[' || str_is(text, "all") ||
        !cidr_parse(text, &network)) {
        return trust_host(conf, node, forwarded, text);
    }
    return trust(conf, node, forwarded, text);
}

bool forwarded_trust_network(struct conf *conf, const struct conf_node *node,
                             struct forwarded *forwarded)
{
    struct cidr network;

    if (!network_read(conf, node, node->args[1], &network)) {
        return false;
    }
    *vec_add(&forwarded->trusted, conf->arena, struct cidr) = network;
    return true;
}
