/* Names of hosts with wildcards: lookup of a host. */
#include "shared/names/host_map.h"

/* ---- lookup ---- */

/* "*.a.b": the longest part after a dot that the map has. */
static void *find_front(const struct map *map, struct str host)
{
    void *value;

    for (size_t i = 0; map->count != 0 && i + 1 < host.len; i++) {
        if (host.data[i] == '.' && (value = map_get_nocase(map, str_skip(host, i + 1))) != NULL) {
            return value;
        }
    }
    return NULL;
}

/* "a.b.*": the longest part before a dot that the map has. */
static void *find_back(const struct map *map, struct str host)
{
    void *value;

    for (size_t i = host.len; map->count != 0 && i > 1; i--) {
        if (host.data[i - 1] == '.' &&
            (value = map_get_nocase(map, str_head(host, i - 1))) != NULL) {
            return value;
        }
    }
    return NULL;
}

void *host_map_find(const struct host_map *hosts, struct str host)
{
    void *value = map_get_nocase(&hosts->exact, host.data == NULL ? STR("") : host);

    if (value == NULL) {
        value = find_front(&hosts->front, host);
    }
    return value != NULL ? value : find_back(&hosts->back, host);
}

/* ---- adding ---- */

/* A name that is being added; it must not exist yet. */
struct new_name {
    struct conf *conf;
    const struct conf_node *node;
    const struct host_name *as;
};

static bool name_put(const struct new_name *name, struct map *map, struct str key)
{
    if (map_put_nocase(map, name->conf->arena, key, name->as->value) != NULL) {
        return conf_error(name->conf, name->node, "conflicting parameter \"%.*s\"",
                          STR_ARG(name->as->written));
    }
    return true;
}

/* A name with at most one star, which must be its first or last part. */
static bool is_plain_name(struct str name)
{
    return str_find_char(name, '*') == NULL && str_find(name, STR("..")) == NULL &&
           (name.len == 0 || *name.data != '.');
}

bool host_map_put(struct host_map *hosts, struct conf *conf, const struct conf_node *node,
                  const struct host_name *as)
{
    const struct new_name name = {conf, node, as};
    struct str text = as->name;

    if (str_starts(text, STR("*.")) && text.len > 2 && is_plain_name(str_skip(text, 2))) {
        return name_put(&name, &hosts->front, str_skip(text, 2));
    }
    if (text.len > 1 && *text.data == '.' && is_plain_name(str_skip(text, 1))) {
        text = str_skip(text, 1);
        return name_put(&name, &hosts->exact, text) && name_put(&name, &hosts->front, text);
    }
    if (str_ends(text, STR(".*")) && text.len > 2 && is_plain_name(str_head(text, text.len - 2))) {
        return name_put(&name, &hosts->back, str_head(text, text.len - 2));
    }
    if (!is_plain_name(text)) {
        return conf_error(conf, node, "invalid hostname or wildcard \"%.*s\"",
                          STR_ARG(as->written));
    }
    return name_put(&name, &hosts->exact, text);
}
