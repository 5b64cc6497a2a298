/* Datagrams that are kept for later. */
#include "net/datagram/list.h"

#include <stdlib.h>
#include <string.h>

#include "base/fatal.h"

#define KEPT_MOST 64u
#define KEPT_BYTES_MOST (256u * 1024)

bool datagram_list_add(struct datagram_list *list, struct str datagram)
{
    if (list->count == KEPT_MOST || list->size + datagram.len > KEPT_BYTES_MOST) {
        return false;
    }
    struct datagram_node *one = malloc(sizeof(*one) + datagram.len);
    if (one == NULL) {
        fatal_no_memory(sizeof(*one) + datagram.len);
    }
    one->next = NULL;
    one->len = datagram.len;
    if (datagram.len != 0) {
        memcpy(one->bytes, datagram.data, datagram.len);
    }
    if (list->last == NULL) {
        list->first = one;
    } else {
        list->last->next = one;
    }
    list->last = one;
    list->count++;
    list->size += datagram.len;
    return true;
}

struct str datagram_list_first(const struct datagram_list *list)
{
    return list->first == NULL ? STR_NONE : (struct str){list->first->bytes, list->first->len};
}

struct datagram_node *datagram_list_take(struct datagram_list *list)
{
    struct datagram_node *one = list->first;

    if (one != NULL) {
        list->first = one->next;
        list->last = one->next == NULL ? NULL : list->last;
        list->count--;
        list->size -= one->len;
    }
    return one;
}

void datagram_list_free(struct datagram_list *list)
{
    for (struct datagram_node *one; (one = datagram_list_take(list)) != NULL;) {
        free(one);
    }
}
