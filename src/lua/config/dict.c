/* lua_shared_dict: a zone of shared memory with a dictionary in it. */
#include "base/parse.h"
#include "lua/config/rows.h"
#include "lua/dict/dict.h"
#include "server/generation.h"

#define SIZE_LEAST 8192 /* bytes */

/* Whose a zone is: that of http and that of stream are two, and may not share a name. */
static const char tags[2];

bool script_dict_apply(struct conf_scope *scope, const struct directive *row,
                       struct conf_node *node, void *settings)
{
    struct script_dict **list = (void *) ((char *) settings + row->offset);
    struct conf *conf = scope->conf;
    struct str name = node->args[1];
    uint64_t size;

    if (name.len == 0) {
        return conf_error(conf, node, "invalid lua shared dict name \"%.*s\"", STR_ARG(name));
    }
    if (!parse_size(node->args[2], &size) || size < SIZE_LEAST) {
        return conf_error(conf, node, "invalid lua shared dict size \"%.*s\"",
                          STR_ARG(node->args[2]));
    }
    for (const struct script_dict *other = *list; other != NULL; other = other->next) {
        if (!str_equal(other->name, name)) {
            continue;
        }
        if (other->size != size) {
            return conf_error(conf, node,
                              "the size %llu of shared memory zone \"%.*s\" conflicts with already "
                              "declared size %llu",
                              (unsigned long long) size, STR_ARG(name),
                              (unsigned long long) other->size);
        }
        return conf_error(conf, node, "lua_shared_dict \"%.*s\" is already defined as \"%.*s\"",
                          STR_ARG(name), STR_ARG(name));
    }
    struct zone *zone = generation_zone(conf->generation, node, name, dict_zone_size(size),
                                        &tags[(row->contexts & IN_STREAM) != 0]);
    if (zone == NULL) {
        return false;
    }
    struct script_dict *dict = arena_new(conf->arena, struct script_dict);

    dict->name = zone->name;
    dict->size = size;
    dict->zone = zone;
    dict->table = dict_table_of(zone, size);
    dict->next = *list;
    *list = dict;
    return dict->table != NULL ||
           conf_error(conf, node, "zone \"%.*s\" is too small", STR_ARG(name));
}
