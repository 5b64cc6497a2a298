/* Fuzzes the readers of ids of QUIC and DTLS: an id lies in its datagram, within bounds. */
#include <stdlib.h>
#include <string.h>

#include "net/datagram/ids.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void demand(bool is_so)
{
    if (!is_so) {
        abort();
    }
}

static void demand_inside(struct str id, const char *copy, size_t size, size_t most)
{
    demand(id.len == 0 || (id.len >= DATAGRAM_ID_LEAST && id.len <= most && id.data >= copy &&
                           id.data + id.len <= copy + size));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *copy = malloc(size == 0 ? 1 : size); /* so that a byte read too far is seen */

    demand(copy != NULL);
    if (size != 0) {
        memcpy(copy, data, size);
    }
    for (enum datagram_ids kind = DATAGRAM_IDS_NONE; kind <= DATAGRAM_IDS_DTLS; kind++) {
        const struct str datagram = {copy, size};
        bool is_open;

        demand_inside(datagram_id_given(kind, datagram), copy, size, DATAGRAM_ID_MOST);
        struct str borne = datagram_id_borne(kind, datagram, &is_open);
        demand_inside(borne, copy, size, is_open ? size : DATAGRAM_ID_MOST);
        demand(kind != DATAGRAM_IDS_NONE || borne.len == 0);
    }
    free(copy);
    return 0;
}
