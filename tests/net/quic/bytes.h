/* Bytes from hexadecimal digits, as RFCs print them. */
#ifndef TESTS_NET_QUIC_BYTES_H
#define TESTS_NET_QUIC_BYTES_H

#include "base/unit.h"

struct bytes {
    unsigned char at[2048];
    size_t len;
};

static inline struct bytes from_hex(const char *digits)
{
    struct bytes out = {.len = 0};
    unsigned value;

    while (sscanf(digits, "%2x", &value) == 1) {
        assert_true(out.len < sizeof(out.at));
        out.at[out.len++] = (unsigned char) value;
        digits += 2;
    }
    return out;
}

static inline struct str as_str(const struct bytes *bytes)
{
    return (struct str){(const char *) bytes->at, bytes->len};
}

#define assert_hex(pointer, size, digits)                                                          \
    do {                                                                                           \
        struct bytes expected_ = from_hex(digits);                                                 \
        assert_int_equal(size, expected_.len);                                                     \
        assert_memory_equal(pointer, expected_.at, expected_.len);                                 \
    } while (0)

#endif
