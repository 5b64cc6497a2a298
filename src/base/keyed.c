/* Data by key, in a list, since there are few entries. */
#include "base/keyed.h"

struct keyed_data {
    struct keyed_data *next;
    const void *key;
    _Alignas(16) char value[]; /* owned by the code that has the key */
};

void *keyed_data(struct keyed_data **list, struct arena *arena, const void *key, size_t size)
{
    struct keyed_data *data = *list;

    while (data != NULL && data->key != key) {
        data = data->next;
    }
    if (data != NULL) {
        return data->value;
    }
    if (size == 0) {
        return NULL;
    }
    data = arena_zalloc(arena, sizeof(*data) + size);
    data->key = key;
    data->next = *list;
    *list = data;
    return data->value;
}
