/* Sets of media types: parsing and lookup. */
#include "http/message/type_set.h"

static void type_add(struct conf *conf, const struct conf_node *node, struct type_set *set,
                     struct str type)
{
    if (map_get_nocase(&set->types, type) != NULL) {
        char *lower = arena_text(conf->arena, type.len);
        for (size_t i = 0; i < type.len; i++) {
            lower[i] = (char) ascii_lower((unsigned char) type.data[i]);
        }
        conf_warn(conf, node, "duplicate MIME type \"%.*s\"", (int) type.len, lower);
        return;
    }
    map_put_nocase(&set->types, conf->arena, type, set);
}

/* The type that is in every set of the directive: the first of its default. */
static struct str first_type(const struct directive *row)
{
    struct str words = str_of(row->initial);

    return str_cut(&words, ' ');
}

bool type_set_apply(struct conf_scope *scope, const struct directive *row, struct conf_node *node,
                    void *settings)
{
    struct conf *conf = scope->conf;
    struct type_set **field = (struct type_set **) ((char *) settings + row->offset);
    bool is_default = scope->parent == NULL;

    if (is_default || *field == NULL || (*field)->level != scope->node) {
        *field = arena_new(conf->arena, struct type_set);
        (*field)->level = scope->node;
        map_put_nocase(&(*field)->types, conf->arena, first_type(row), *field);
    }
    for (unsigned i = is_default ? 2 : 1; i < node->count; i++) {
        if (str_is(node->args[i], "*")) {
            (*field)->has_all = true;
        } else {
            type_add(conf, node, *field, node->args[i]);
        }
    }
    return true;
}

bool type_set_has(const struct type_set *set, struct str content_type)
{
    struct str type = str_trim(str_cut(&content_type, ';'));

    return set->has_all || (type.len != 0 && map_get_nocase(&set->types, type) != NULL);
}
