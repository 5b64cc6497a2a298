/* Output of body filters that give small parts: gathered, and passed on in larger pieces. */
#include "http/request/gather.h"

#include <stdlib.h>

#include "base/fatal.h"

static void free_data(void *arg)
{
    free(((struct gather *) arg)->data);
}

bool gather_give(struct gather *gather, struct request *request, bool is_flush, bool is_last)
{
    struct body_piece piece = {.bytes = {gather->data, gather->len},
                               .fd = -1,
                               .is_volatile = true,
                               .is_flush = is_flush};

    gather->len = 0;
    return body_filter_next(gather->filter, request,
                            piece.bytes.len == 0 && !is_flush ? NULL : &piece, is_last);
}

bool gather_put(struct gather *gather, struct request *request, struct str bytes)
{
    if (gather->data == NULL && bytes.len != 0) {
        gather->data = malloc(GATHER_SIZE);
        if (gather->data == NULL) {
            fatal_no_memory(GATHER_SIZE);
        }
        arena_on_free(&request->arena, free_data, gather);
    }
    while (bytes.len != 0) {
        struct str part = str_head(bytes, GATHER_SIZE - gather->len);

        memcpy(gather->data + gather->len, part.data, part.len);
        gather->len += part.len;
        bytes = str_skip(bytes, part.len);
        if (gather->len == GATHER_SIZE && !gather_give(gather, request, false, false)) {
            return false;
        }
    }
    return true;
}
