/* Fuzz target: a client's name in a search filter: nothing of it ends the assertion that it stands
 * in. */
#include <stdlib.h>

#include "base/text.h"
#include "http/modules/access/auth_ldap/filter.c"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str text = {(const char *) data, size};
    char *room = malloc(3 * size + 1);
    char *end = ldap_filter_escape(room, text);
    size_t at = 0;

    for (char *c = room; c < end; c++, at++) {
        unsigned char byte = (unsigned char) *c;
        if (*c == '\\') {
            if (end - c < 3 || hex_value[(unsigned char) c[1]] < 0 ||
                hex_value[(unsigned char) c[2]] < 0) {
                abort();
            }
            byte = (unsigned char) (hex_value[(unsigned char) c[1]] << 4 |
                                    hex_value[(unsigned char) c[2]]);
            c += 2;
        } else if (*c == '*' || *c == '(' || *c == ')' || *c == '\0') {
            abort();
        }
        if (at >= size || byte != data[at]) {
            abort();
        }
    }
    if (at != size) {
        abort();
    }
    ldap_is_attribute(text);
    free(room);
    return 0;
}
