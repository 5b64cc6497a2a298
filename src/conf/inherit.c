/* Lists that a block inherits, merges with its own, or drops. */
#include "conf/directive.h"

const struct directive_word list_inherit_words[] = {{"off", LIST_INHERIT_OFF},
                                                    {"on", LIST_INHERIT_ON},
                                                    {"merge", LIST_INHERIT_MERGE},
                                                    {NULL, 0}};

/* The name of an item. */
static const struct str *name_at(const struct vec *items, const struct inherited_list *list,
                                 size_t at)
{
    return (const struct str *) ((const char *) items->items + at * list->item_size);
}

static bool has_name(const struct vec *items, const struct inherited_list *list, struct str name)
{
    for (size_t i = 0; i < items->count; i++) {
        struct str other = *name_at(items, list, i);
        if (list->ignores_case ? str_equal_nocase(other, name) : str_equal(other, name)) {
            return true;
        }
    }
    return false;
}

static void add_items(struct vec *out, struct arena *arena, const struct vec *from,
                      const struct inherited_list *list, const struct vec *except)
{
    for (size_t i = 0; i < from->count; i++) {
        const struct str *item = name_at(from, list, i);
        if (except == NULL || !has_name(except, list, *item)) {
            memcpy(vec_push(out, arena, list->item_size), item, list->item_size);
        }
    }
}

void conf_list_inherit(const struct conf_scope *scope, const struct inherited_list *list,
                       enum list_inherit inherit)
{
    struct vec *own = (struct vec *) ((char *) conf_settings(scope, list->key) + list->offset);
    bool is_set = conf_is_set(scope, list->key, list->row);
    const void *outer = scope->parent == NULL ? NULL : conf_settings(scope->parent, list->key);

    if ((scope->context & IN_HTTP_ALL) == 0 || outer == NULL) {
        return;
    }
    if (inherit == LIST_INHERIT_OFF && !is_set) {
        *own = (struct vec){0};
    } else if (inherit == LIST_INHERIT_MERGE && is_set) {
        struct arena *arena = scope->conf->arena;
        struct vec both = {0};

        add_items(&both, arena, (const struct vec *) ((const char *) outer + list->offset), list,
                  own);
        add_items(&both, arena, own, list, NULL);
        *own = both;
    }
}
