/* The parameters of `resolver` and `resolver_file`: name servers by address, or out of a file like
 * /etc/resolv.conf. */
#include "upstream/settings/resolver_rows.h"

#include <errno.h>
#include <net/if.h>

#include "base/fs.h"
#include "base/parse.h"
#include "net/addr/addr.h"
#include "server/generation.h"

#define SYSTEM_FILE "/etc/resolv.conf"

enum {
    DNS_PORT = 53,
    FILE_LIMIT = 1 << 20, /* bytes of a resolv.conf */
    ZONE_SIZE = 32 << 10, /* bytes of shared memory for the counts of a `status_zone` */
};

/* The words of a line of resolv.conf, one after the other. */
static struct str next_word(struct str *line)
{
    size_t start = 0;

    while (start < line->len && (line->data[start] == ' ' || line->data[start] == '\t')) {
        start++;
    }
    size_t end = start;
    while (end < line->len && line->data[end] != ' ' && line->data[end] != '\t' &&
           line->data[end] != '\r') {
        end++;
    }
    struct str word = {line->data + start, end - start};
    *line = str_skip(*line, end);
    return word;
}

/* A bare address; a connection-local one may name its interface: "fe80::1%eth0". */
static bool read_address(struct arena *arena, struct str text, struct addr *out)
{
    const char *percent = str_find_char(text, '%');

    if (percent == NULL) {
        return addr_parse_ip(text, out);
    }
    struct str zone = str_from(percent + 1, text.data + text.len);
    if (!addr_parse_ip(str_from(text.data, percent), out) || out->any.sa_family != AF_INET6) {
        return false;
    }
    out->v6.sin6_scope_id = if_nametoindex(arena_cstr(arena, zone));
    return out->v6.sin6_scope_id != 0;
}

/* Appends the name servers of a resolv.conf; other lines have no meaning here. */
static bool resolver_rows_read_file(struct conf *conf, const struct conf_node *node,
                                    struct str path, struct resolver_settings *resolver)
{
    struct str rest;

    if (!fs_read_all(conf->arena, path.data, FILE_LIMIT, &rest)) {
        return conf_errno(conf, node, errno, "open() \"%.*s\" failed", STR_ARG(path));
    }
    while (rest.data != NULL) {
        struct str line = str_cut(&rest, '\n');
        struct addr server;

        if (!str_is(next_word(&line), "nameserver")) {
            continue;
        }
        struct str text = next_word(&line);
        if (!read_address(conf->arena, text, &server)) {
            conf_warn(conf, node, "invalid name server \"%.*s\" in \"%.*s\" is skipped",
                      STR_ARG(text), STR_ARG(path));
            continue;
        }
        addr_set_port(&server, DNS_PORT);
        *vec_add(&resolver->servers, conf->arena, struct addr) = server;
    }
    return resolver->servers.count != 0 || conf_error(conf, node, "no name servers defined");
}

/* "on" or "off" after the name; false when it is neither. */
static bool read_switch(struct str parameter, bool *out)
{
    struct str value = str_skip(parameter, 5);

    *out = str_is(value, "on");
    return *out || str_is(value, "off");
}

struct vec *resolver_zones_of(struct conf *conf)
{
    return conf_state(conf, "resolver zones", sizeof(struct vec));
}

static bool use_zone(struct conf *conf, const struct conf_node *node, struct str name,
                     struct resolver_settings *resolver)
{
    static const char user;
    struct vec *zones = resolver_zones_of(conf);

    if (name.len == 0) {
        return conf_error(conf, node, "invalid zone name \"\"");
    }
    struct zone *zone = generation_zone(conf->generation, (struct conf_node *) node,
                                        arena_printf(conf->arena, "resolver %.*s", STR_ARG(name)),
                                        ZONE_SIZE, &user);
    if (zone == NULL) {
        return false;
    }
    if (zone->root == NULL) {
        zone->root = slab_alloc(zone->slab, sizeof(struct resolver_counts));
    }
    resolver->counts = zone->root;
    vec_each(const struct resolver_zone, known, zones) {
        if (str_equal(known->name, name)) {
            return true;
        }
    }
    *vec_add(zones, conf->arena, struct resolver_zone) =
        (struct resolver_zone){name, resolver->counts};
    return true;
}

static bool resolver_rows_read_parameter(struct conf *conf, const struct conf_node *node,
                                         struct str parameter, struct resolver_settings *resolver,
                                         bool *is_parameter)
{
    bool is_good = true;

    *is_parameter = true;
    if (str_starts(parameter, STR("valid="))) {
        resolver->has_valid = true;
        is_good = parse_sec(str_skip(parameter, 6), &resolver->valid_s);
    } else if (str_starts(parameter, STR("ipv4="))) {
        is_good = read_switch(parameter, &resolver->uses_ipv4);
    } else if (str_starts(parameter, STR("ipv6="))) {
        is_good = read_switch(parameter, &resolver->uses_ipv6);
    } else if (str_starts(parameter, STR("status_zone="))) {
        return use_zone(conf, node, str_skip(parameter, sizeof("status_zone=") - 1), resolver);
    } else {
        *is_parameter = false;
    }
    return is_good || conf_error(conf, node, "invalid parameter: %.*s", STR_ARG(parameter));
}

static bool add_servers(struct conf *conf, const struct conf_node *node, struct str text,
                        struct resolver_settings *resolver)
{
    struct addr_list list = {.error = "invalid host"};

    if (str_starts_nocase(text, STR("unix:")) ||
        !addr_parse(conf->arena, text, DNS_PORT, false, &list)) {
        return conf_error(conf, node, "%s in resolver \"%.*s\"", list.error, STR_ARG(text));
    }
    for (size_t i = 0; i < list.count; i++) {
        *vec_add(&resolver->servers, conf->arena, struct addr) = list.items[i];
    }
    return true;
}

static struct resolver_settings *resolver_new(struct arena *arena)
{
    struct resolver_settings *resolver = arena_new(arena, struct resolver_settings);

    resolver->uses_ipv4 = true;
    resolver->uses_ipv6 = true;
    return resolver;
}

bool resolver_settings_read(struct conf *conf, const struct conf_node *node,
                            struct resolver_settings **out)
{
    struct resolver_settings *resolver = resolver_new(conf->arena);

    for (unsigned i = 1; i < node->count; i++) {
        bool is_parameter;

        if (!resolver_rows_read_parameter(conf, node, node->args[i], resolver, &is_parameter) ||
            (!is_parameter && !add_servers(conf, node, node->args[i], resolver))) {
            return false;
        }
    }
    if (!resolver->uses_ipv4 && !resolver->uses_ipv6) {
        return conf_error(conf, node, "\"ipv4\" and \"ipv6\" cannot both be \"off\"");
    }
    /* As with Tengine: options alone mean the machine's own name servers. */
    if (resolver->servers.count == 0 &&
        !resolver_rows_read_file(conf, node, STR(SYSTEM_FILE), resolver)) {
        return false;
    }
    *out = resolver;
    return true;
}

bool resolver_row_apply(struct conf_scope *scope, const struct directive *row,
                        struct conf_node *node, void *settings)
{
    /* The field of the row, which lies in settings of a module that are not known here. */
    const struct resolver_settings **own = (void *) ((char *) settings + row->offset);
    struct resolver_settings *resolver;

    if (!resolver_settings_read(scope->conf, node, &resolver)) {
        return false;
    }
    *own = resolver;
    return true;
}

bool resolver_or_off_row_apply(struct conf_scope *scope, const struct directive *row,
                               struct conf_node *node, void *settings)
{
    if (node->count == 2 && str_is(node->args[1], "off")) {
        *(const struct resolver_settings **) ((char *) settings + row->offset) = NULL;
        return true;
    }
    return resolver_row_apply(scope, row, node, settings);
}

bool resolver_settings_read_file(struct conf *conf, const struct conf_node *node,
                                 struct resolver_settings **out)
{
    struct resolver_settings *resolver = resolver_new(conf->arena);

    if (!resolver_rows_read_file(conf, node, conf_full_name(conf, node->args[1], true), resolver)) {
        return false;
    }
    *out = resolver;
    return true;
}
