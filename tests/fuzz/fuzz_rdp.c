/* Fuzzes the reader of connection requests of RDP: pieces say the same as the whole, a cookie is a
 * part of it. */
#include <stdlib.h>

#include "stream/modules/rdp_preread/request.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void demand(bool is_so)
{
    if (!is_so) {
        abort();
    }
}

/* In memory of its own size, so that a byte read too far is seen. */
static enum rdp_result read_copy(const uint8_t *data, size_t size, size_t *length)
{
    char *copy = malloc(size == 0 ? 1 : size);
    struct str cookie, value;

    demand(copy != NULL);
    if (size != 0) {
        memcpy(copy, data, size);
    }
    enum rdp_result result = rdp_request_read((struct str){copy, size}, &cookie);
    *length = cookie.len;
    demand(cookie.len == 0 || (result == RDP_DONE && cookie.data >= copy + 11 &&
                               cookie.data + cookie.len + 2 <= copy + size));
    demand(!rdp_cookie_value(cookie, STR("mstshash"), &value) || value.len + 9 == cookie.len);
    free(copy);
    return result;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t whole_length, length;
    enum rdp_result whole = read_copy(data, size, &whole_length);

    for (size_t seen = 0; seen < size && seen < 300; seen++) {
        enum rdp_result early = read_copy(data, seen, &length);

        demand(early == RDP_MORE || (early == whole && length == whole_length));
    }
    return 0;
}
