/* Lists in a shared dictionary. */
#include "base/clock.h"
#include "lua/dict/table.h"
#include "lua/dict/values.h"

static struct dict_list list_get(struct dict_item *item)
{
    struct dict_list list;

    memcpy(&list, dict_value_of(item), sizeof(list));
    return list;
}

static void list_put(struct dict_item *item, const struct dict_list *list)
{
    memcpy(dict_value_of(item), list, sizeof(*list));
}

static struct dict_node *node_at(const struct dict_table *table, dict_ref ref)
{
    return dict_at(table, ref);
}

void dict_list_clear(struct dict_table *table, struct dict_item *item)
{
    struct dict_list list = list_get(item);

    while (list.first != 0) {
        struct dict_node *node = node_at(table, list.first);

        list.first = node->next;
        list_put(item, &list);
        slab_free(table->slab, node);
    }
}

bool dict_list_mend(struct dict_table *table, struct dict_item *item, unsigned char *marks)
{
    struct dict_list list = list_get(item);

    list.last = 0;
    list.count = 0;
    for (dict_ref ref = list.first; ref != 0; ref = node_at(table, ref)->next) {
        node_at(table, ref)->previous = list.last;
        list.last = ref;
        list.count++;
        dict_mark(marks, ref);
    }
    list_put(item, &list);
    return list.count != 0;
}

/* The list of a key; one that has expired is emptied. A new one where there is none. NULL: *result
 * says why. */
static struct dict_item *list_open(struct dict_table *table, struct str key, int *result)
{
    uint32_t hash = dict_hash(key);
    struct dict_item *item = dict_find(table, key, hash);

    if (item != NULL && dict_has_expired(item, clock_now.now_ms)) {
        dict_item_remove(table, item);
        item = NULL;
    }
    if (item != NULL) {
        dict_touch(table, item);
        *result = item->type == DICT_LIST ? DICT_OK : DICT_NOT_LIST;
        return item->type == DICT_LIST ? item : NULL;
    }
    item = dict_item_make(table, key, hash, sizeof(struct dict_list), NULL);
    *result = item != NULL ? DICT_OK : DICT_NO_MEMORY;
    if (item != NULL) {
        list_put(item, &(struct dict_list){0});
        item->type = DICT_LIST;
        dict_item_add(table, item);
    }
    return item;
}

/* A node with the value, in no list. NULL: no memory. */
static struct dict_node *node_new(struct dict_table *table, const struct script_dict_value *value)
{
    size_t len = value->type == DICT_NUMBER ? sizeof(double) : (size_t) value->len;
    const void *from = value->type == DICT_NUMBER ? (const void *) &value->number : value->data;
    struct dict_node *node = slab_alloc(table->slab, offsetof(struct dict_node, data) + len);

    if (node != NULL) {
        node->len = (uint32_t) len;
        node->type = (uint32_t) value->type;
        if (len != 0) {
            memcpy(node->data, from, len);
        }
    }
    return node;
}

static void list_link(struct dict_table *table, struct dict_item *item, struct dict_node *node,
                      bool is_left)
{
    struct dict_list list = list_get(item);
    dict_ref ref = dict_ref_of(table, node);

    if (is_left) {
        node->next = list.first;
        *(list.first == 0 ? &list.last : &node_at(table, list.first)->previous) = ref;
        list.first = ref;
    } else {
        node->previous = list.last;
        *(list.last == 0 ? &list.first : &node_at(table, list.last)->next) = ref;
        list.last = ref;
    }
    list.count++;
    list_put(item, &list);
}

static void list_unlink(struct dict_table *table, struct dict_item *item,
                        const struct dict_node *node)
{
    struct dict_list list = list_get(item);

    *(node->next == 0 ? &list.last : &node_at(table, node->next)->previous) = node->previous;
    *(node->previous == 0 ? &list.first : &node_at(table, node->previous)->next) = node->next;
    list.count--;
    list_put(item, &list);
}

int script_ffi_dict_push(struct script_dict *dict, const char *key, size_t key_len, int is_left,
                         struct script_dict_value *value)
{
    struct dict_table *table = dict->table;
    int result;

    dict_lock(table);
    dict_drop_expired(table, 2);
    struct dict_item *item = list_open(table, (struct str){key, key_len}, &result);
    value->has_entry = item != NULL;
    if (item != NULL) {
        struct dict_node *node = node_new(table, value);

        if (node != NULL) {
            list_link(table, item, node, is_left != 0);
        } else {
            result = DICT_NO_MEMORY;
        }
        value->number = list_get(item).count;
        if (list_get(item).count == 0) {
            dict_item_remove(table, item);
        }
    }
    dict_unlock(table);
    return result;
}

int script_ffi_dict_pop(struct script_dict *dict, const char *key, size_t key_len, int is_left,
                        struct script_dict_value *out)
{
    struct dict_table *table = dict->table;
    struct str name = {key, key_len};
    int result = DICT_NOT_FOUND;

    out->type = DICT_NONE;
    dict_lock(table);
    struct dict_item *item = dict_find(table, name, dict_hash(name));
    if (item != NULL && !dict_has_expired(item, clock_now.now_ms)) {
        result = item->type == DICT_LIST ? DICT_OK : DICT_NOT_LIST;
    }
    if (result == DICT_OK) {
        struct dict_list list = list_get(item);
        struct dict_node *node = node_at(table, is_left ? list.first : list.last);

        dict_touch(table, item);
        if (dict_copy_out(out, node->type, node->data, node->len)) {
            list_unlink(table, item, node);
            slab_free(table->slab, node);
        }
        if (list_get(item).count == 0) {
            dict_item_remove(table, item);
        }
    }
    dict_unlock(table);
    return result;
}

int script_ffi_dict_length(struct script_dict *dict, const char *key, size_t key_len,
                           struct script_dict_value *out)
{
    struct dict_table *table = dict->table;
    struct str name = {key, key_len};
    int result = DICT_OK;

    out->number = 0;
    dict_lock(table);
    struct dict_item *item = dict_find(table, name, dict_hash(name));
    if (item != NULL && !dict_has_expired(item, clock_now.now_ms)) {
        if (item->type == DICT_LIST) {
            dict_touch(table, item);
            out->number = list_get(item).count;
        } else {
            result = DICT_NOT_LIST;
        }
    }
    dict_unlock(table);
    return result;
}
