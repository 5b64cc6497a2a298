/* Datagrams that are kept for later. */
#include "net/datagram/kept.h"

#include <stdlib.h>
#include <string.h>

#include "base/fatal.h"

#define KEPT_MOST 64u
#define KEPT_BYTES_MOST (256u * 1024)

bool kept_add(struct kept_datagrams *kept, struct str datagram)
{
    if (kept->count == KEPT_MOST || kept->size + datagram.len > KEPT_BYTES_MOST) {
        return false;
    }
    struct kept_datagram *one = malloc(sizeof(*one) + datagram.len);
    if (one == NULL) {
        fatal_no_memory(sizeof(*one) + datagram.len);
    }
    one->next = NULL;
    one->len = datagram.len;
    if (datagram.len != 0) {
        memcpy(one->bytes, datagram.data, datagram.len);
    }
    if (kept->last == NULL) {
        kept->first = one;
    } else {
        kept->last->next = one;
    }
    kept->last = one;
    kept->count++;
    kept->size += datagram.len;
    return true;
}

struct str kept_first(const struct kept_datagrams *kept)
{
    return kept->first == NULL ? STR_NONE : (struct str){kept->first->bytes, kept->first->len};
}

struct kept_datagram *kept_take(struct kept_datagrams *kept)
{
    struct kept_datagram *one = kept->first;

    if (one != NULL) {
        kept->first = one->next;
        kept->last = one->next == NULL ? NULL : kept->last;
        kept->count--;
        kept->size -= one->len;
    }
    return one;
}

void kept_free(struct kept_datagrams *kept)
{
    for (struct kept_datagram *one; (one = kept_take(kept)) != NULL;) {
        free(one);
    }
}
