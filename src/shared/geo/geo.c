/* The geo block: variables whose values depend on an address. */
#include "shared/geo/geo.h"

#include "shared/access/access.h"
#include "shared/geo/networks.h"
#include "shared/geo/ranges.h"

/* A `geo` block. */
struct geo {
    const struct variable *address; /* has the address; NULL = the client's */
    const struct geo_clients *clients;
    struct forwarded forwarded; /* `proxy`: trusted proxies */
    struct geo_tree v4;
    struct geo_tree v6;
    struct str *values; /* by number; 0 = the value of addresses that no line has */
};

/* ---- at run time ---- */

/* Used in place of anything that is not an internet address, such as a unix socket. */
#define NO_ADDRESS UINT32_MAX

static uint32_t geo_find(const struct geo *geo, const struct addr *addr)
{
    if (addr->len != 0 && addr->any.sa_family == AF_INET) {
        return geo_tree_find_v4(&geo->v4, ntohl(addr->v4.sin_addr.s_addr));
    }
    if (addr->len == 0 || addr->any.sa_family != AF_INET6) {
        return geo_tree_find_v4(&geo->v4, NO_ADDRESS);
    }
    const unsigned char *bytes = addr->v6.sin6_addr.s6_addr;
    if (IN6_IS_ADDR_V4MAPPED(&addr->v6.sin6_addr)) {
        return geo_tree_find_v4(&geo->v4, (uint32_t) geo_address_of(bytes + 12, 4).low);
    }
    return geo_tree_find_v6(&geo->v6, geo_address_of(bytes, 16));
}

static bool geo_variable_get(struct variable_env *env, const struct variable *variable,
                             struct str *out)
{
    const struct geo *geo = (const struct geo *) variable->data;
    struct addr addr = {.len = 0};
    struct str text;

    if (geo->address == NULL) {
        geo->clients->find(env, &addr);
    } else if (variable_get(env, geo->address, &text) && text.len != 0 && *text.data != '[') {
        addr_parse_ip(text, &addr);
    }
    if (geo->forwarded.trusted.count != 0) {
        geo->clients->follow(env, &geo->forwarded, &addr);
    }
    *out = geo->values[geo_find(geo, &addr)];
    return true;
}

/* ---- while the configuration is read ---- */

/* A block that is being read. */
struct reading {
    struct conf *conf;
    struct geo *geo;
    struct arena arena; /* temporary memory for reading */
    struct vec values;  /* struct str: by number */
    struct map numbers; /* text of a value -> its number as a pointer; without number 0 */
    bool is_ranges;
    bool has_lines;   /* `ranges` is not allowed any more */
    bool has_default; /* with `ranges` */
    bool is_volatile;
    struct geo_ranges ranges;
    struct geo_networks v4;
    struct geo_networks v6;
};

static uint32_t value_number(struct reading *reading, struct str text)
{
    struct str key = text.len == 0 ? STR("") : text;
    uintptr_t number = (uintptr_t) map_get(&reading->numbers, key);

    if (number == 0) {
        number = reading->values.count;
        *vec_add(&reading->values, &reading->arena, struct str) = key;
        map_put(&reading->numbers, &reading->arena, key, (void *) number);
    }
    return (uint32_t) number;
}

static struct str value_text(const struct reading *reading, uint32_t number)
{
    return *vec_at(&reading->values, struct str, number);
}

static uint8_t prefix_bits(const struct cidr *cidr, size_t size)
{
    unsigned bits = 0;

    for (size_t i = 0; i < size; i++) {
        bits += (unsigned) __builtin_popcount(cidr->mask[i]);
    }
    return (uint8_t) bits;
}

/* "10.0.0.0/8 value", "delete 10.0.0.0/8" */
static bool add_network(struct reading *reading, const struct conf_node *node, bool is_deleted)
{
    struct cidr cidr;

    if (!network_read(reading->conf, node, node->args[is_deleted ? 1 : 0], &cidr)) {
        return false;
    }
    size_t size = cidr.family == AF_INET ? 4 : 16;
    struct geo_network line = {
        .first = geo_address_of(cidr.address, size),
        .node = node,
        .value = is_deleted ? 0 : value_number(reading, node->args[1]),
        .bits = prefix_bits(&cidr, size),
        .is_deleted = is_deleted,
    };
    geo_networks_add(size == 4 ? &reading->v4 : &reading->v6, &line);
    return true;
}

static bool parse_v4(struct str text, uint32_t *out)
{
    struct addr addr;

    if (text.len == 0 || *text.data == '[' || !addr_parse_ip(text, &addr) ||
        addr.any.sa_family != AF_INET) {
        return false;
    }
    *out = ntohl(addr.v4.sin_addr.s_addr);
    return true;
}

static struct str range_text(struct reading *reading, const struct geo_range *range)
{
    char text[32];
    char *at = text;
    uint32_t first = htonl(range->first);
    uint32_t last = htonl(range->last);

    at = addr_put_v4(at, (const unsigned char *) &first);
    *at++ = '-';
    at = addr_put_v4(at, (const unsigned char *) &last);
    return arena_dup(&reading->arena, str_from(text, at));
}

/* "10.0.0.0-10.0.0.255 value", "delete 10.0.0.0-10.0.0.255" */
static bool add_range(struct reading *reading, const struct conf_node *node, bool is_deleted)
{
    struct conf *conf = reading->conf;
    struct str written = node->args[is_deleted ? 1 : 0];
    struct str rest = written;
    struct str start = str_cut(&rest, '-');
    struct geo_range range;
    struct geo_range other;

    if (!parse_v4(start, &range.first) || !parse_v4(rest, &range.last) ||
        range.first > range.last) {
        return conf_error(conf, node, "invalid range \"%.*s\"", STR_ARG(written));
    }
    if (is_deleted) {
        if (!geo_ranges_delete(&reading->ranges, range.first, range.last)) {
            conf_warn(conf, node, "no address range \"%.*s\" to delete", STR_ARG(written));
        }
        return true;
    }
    range.value = value_number(reading, node->args[1]);
    switch (geo_ranges_put(&reading->ranges, range, &other)) {
    case GEO_PUT:
        break;
    case GEO_REPLACED:
        conf_warn(conf, node, "duplicate range \"%.*s\", value: \"%.*s\", old value: \"%.*s\"",
                  STR_ARG(written), STR_ARG(node->args[1]),
                  STR_ARG(value_text(reading, other.value)));
        break;
    case GEO_OVERLAPS:
        return conf_error(conf, node, "range \"%.*s\" overlaps \"%.*s\"", STR_ARG(written),
                          STR_ARG(range_text(reading, &other)));
    }
    return true;
}

/* With networks, the default is a network of all addresses, in both families. */
static bool set_default(struct reading *reading, const struct conf_node *node)
{
    struct str *value = vec_at(&reading->values, struct str, 0);

    if (reading->is_ranges) {
        if (reading->has_default) {
            conf_warn(reading->conf, node,
                      "duplicate default geo range value: \"%.*s\", old value: \"%.*s\"",
                      STR_ARG(node->args[1]), STR_ARG(*value));
        }
        reading->has_default = true;
        *value = node->args[1];
        return true;
    }
    struct geo_network line = {.node = node, .value = value_number(reading, node->args[1])};
    geo_networks_add(&reading->v4, &line);
    geo_networks_add(&reading->v6, &line);
    return true;
}

static bool add_proxy(struct reading *reading, const struct conf_node *node)
{
    return forwarded_trust_network(reading->conf, node, &reading->geo->forwarded);
}

static bool set_ranges(struct reading *reading, const struct conf_node *node)
{
    if (reading->has_lines && !reading->is_ranges) {
        return conf_error(
            reading->conf, node,
            "the \"ranges\" directive must be the first directive inside \"geo\" block");
    }
    reading->is_ranges = true;
    return true;
}

static bool add_word(struct reading *reading, const struct conf_node *node)
{
    if (str_is(node->args[0], "ranges")) {
        return set_ranges(reading, node);
    }
    if (str_is(node->args[0], "proxy_recursive")) {
        reading->geo->forwarded.is_recursive = true;
        return true;
    }
    if (str_is(node->args[0], "volatile")) {
        reading->is_volatile = true;
        return true;
    }
    return conf_error(reading->conf, node, "invalid number of the geo parameters");
}

static bool shared_geo_add_line(struct reading *reading, const struct conf_node *node)
{
    if (node->count == 1) {
        return add_word(reading, node);
    }
    if (node->count != 2) {
        return conf_error(reading->conf, node, "invalid number of the geo parameters");
    }
    if (reading->geo->clients->follow != NULL && str_is(node->args[0], "proxy")) {
        return add_proxy(reading, node);
    }
    reading->has_lines = true;
    if (str_is(node->args[0], "default")) {
        return set_default(reading, node);
    }
    bool is_deleted = str_is(node->args[0], "delete");
    return reading->is_ranges ? add_range(reading, node, is_deleted)
                              : add_network(reading, node, is_deleted);
}

/* Builds the search trees from the lines. */
static void geo_finish(struct reading *reading)
{
    struct geo *geo = reading->geo;
    struct arena *arena = reading->conf->arena;
    const struct str *values = reading->values.items;
    struct geo_span *spans;
    size_t count;

    if (reading->is_ranges) {
        spans = geo_ranges_spans(&reading->ranges, 0, &count);
        geo_tree_make(&geo->v4, arena, spans, count, false);
    } else {
        spans = geo_networks_spans(&reading->v4, reading->conf, values, &count);
        geo_tree_make(&geo->v4, arena, spans, count, false);
        spans = geo_networks_spans(&reading->v6, reading->conf, values, &count);
        geo_tree_make(&geo->v6, arena, spans, count, true);
    }
    geo->values = vec_copy(&reading->values, arena, sizeof(struct str)).items;
}

static bool read_lines(struct reading *reading, const struct conf_node *block)
{
    bool is_good = true;

    arena_init(&reading->arena);
    reading->ranges.arena = reading->v4.arena = reading->v6.arena = &reading->arena;
    reading->v4.width = 32;
    reading->v6.width = 128;
    *vec_add(&reading->values, &reading->arena, struct str) = STR("");
    for (const struct conf_node *line = block->children; line != NULL; line = line->next) {
        is_good &= shared_geo_add_line(reading, line);
    }
    if (is_good) {
        geo_finish(reading);
    }
    arena_free(&reading->arena);
    return is_good;
}

/* The name of "$name", without the '$'. */
static bool variable_name(struct conf *conf, const struct conf_node *node, struct str text,
                          struct str *out)
{
    if (text.len < 2 || *text.data != '$') {
        return conf_error(conf, node, "invalid variable name \"%.*s\"", STR_ARG(text));
    }
    *out = str_skip(text, 1);
    return true;
}

bool geo_read(struct conf *conf, struct conf_node *node, const struct geo_clients *clients)
{
    struct variable_set *set = conf_variables(conf);
    struct geo *geo = arena_new(conf->arena, struct geo);
    struct reading reading = {.conf = conf, .geo = geo};
    struct str address;

    geo->clients = clients;
    if (node->count == 3) {
        if (!variable_name(conf, node, node->args[1], &address)) {
            return false;
        }
        geo->address = variable_use(conf, node, set, address);
        if (geo->address == NULL) {
            return false;
        }
    }
    struct variable *variable = variable_define_word(conf, node, node->args[node->count - 1]);
    if (variable == NULL || !read_lines(&reading, node)) {
        return false;
    }
    variable_compute(variable, geo_variable_get, geo);
    if (reading.is_volatile) {
        variable->flags |= VARIABLE_VOLATILE;
    }
    return true;
}
