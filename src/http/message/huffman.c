/* The Huffman code of HPACK (RFC 7541, 5.2 and appendix B): encoding and decoding by tables, which
 * are computed from the lengths of the codes at first use. */
#include "http/message/frame.h"
#include "http/message/hpack.h"

#define SYMBOLS 257
#define END_OF_STRING 256
#define LONGEST 30
#define LOOKUP_BITS 12 /* sufficient for two common codes, or a longer one */

/* Length in bits of each symbol's code. The code is canonical: codes of one length are consecutive,
 * in the order of their symbols, after all shorter ones; so the lengths define the code (the result
 * equals appendix B). */
static const uint8_t code_bits[SYMBOLS] = {
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, /* 0 */
    28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28, /* 16 */
    6,  10, 10, 12, 13, 6,  8,  11, 10, 10, 8,  11, 8,  6,  6,  6,  /* ' ' */
    5,  5,  5,  6,  6,  6,  6,  6,  6,  6,  7,  8,  15, 6,  12, 10, /* '0' */
    13, 6,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,  /* '@' */
    7,  7,  7,  7,  7,  7,  7,  7,  8,  7,  8,  13, 19, 13, 14, 6,  /* 'P' */
    15, 5,  6,  5,  6,  5,  6,  6,  6,  5,  7,  7,  6,  6,  6,  5,  /* '`' */
    6,  7,  6,  5,  5,  6,  7,  7,  7,  7,  7,  15, 11, 14, 13, 28, /* 'p' */
    20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23, /* 128 */
    24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24, /* 144 */
    22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, /* 160 */
    21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23, /* 176 */
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, /* 192 */
    19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27, /* 208 */
    20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23, /* 224 */
    26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26, /* 240 */
    30,
};

/* Computed from the lengths. */
static struct {
    bool is_ready;
    uint32_t codes[SYMBOLS]; /* right-aligned */
    struct lookup {
        uint8_t symbols[2];
        uint8_t count; /* symbols whose complete codes are in the index; 0: the code is longer */
        uint8_t bits;  /* total bits of these symbols */
        uint8_t first; /* bits of the first symbol only */
    } lookup[1 << LOOKUP_BITS];
    uint32_t first[LONGEST + 2]; /* by length: its first code, left-aligned in 32 bits */
    uint16_t start[LONGEST + 2]; /* by length: index in `order` of its first symbol */
    uint16_t order[SYMBOLS];     /* symbols sorted by length, then by number */
} tables;

/* Adds a second symbol if the bits after the first one contain its complete code. */
static void lookup_pair(void)
{
    for (unsigned code = 0; code < 1u << LOOKUP_BITS; code++) {
        struct lookup *one = &tables.lookup[code];
        const struct lookup *next;

        if (one->count == 0) {
            continue;
        }
        next = &tables.lookup[code << one->first & ((1u << LOOKUP_BITS) - 1)];
        if (next->count != 0 && one->first + next->first <= LOOKUP_BITS) {
            one->symbols[1] = next->symbols[0];
            one->bits = (uint8_t) (one->first + next->first);
            one->count = 2;
        }
    }
}

static void tables_make(void)
{
    uint32_t code = 0;
    unsigned rank = 0;

    for (unsigned bits = 1; bits <= LONGEST; bits++) {
        code <<= 1;
        tables.first[bits] = code << (32 - bits);
        tables.start[bits] = (uint16_t) rank;
        for (unsigned symbol = 0; symbol < SYMBOLS; symbol++) {
            if (code_bits[symbol] != bits) {
                continue;
            }
            tables.codes[symbol] = code;
            tables.order[rank++] = (uint16_t) symbol;
            if (bits <= LOOKUP_BITS) {
                unsigned from = code << (LOOKUP_BITS - bits);
                for (unsigned i = 0; i < 1u << (LOOKUP_BITS - bits); i++) {
                    tables.lookup[from + i] =
                        (struct lookup){{(uint8_t) symbol}, 1, (uint8_t) bits, (uint8_t) bits};
                }
            }
            code++;
        }
    }
    lookup_pair();
    tables.is_ready = true;
}

/* The symbol of a code longer than LOOKUP_BITS, left-aligned in `window`. */
static unsigned decode_long(uint32_t window, unsigned *bits)
{
    unsigned length = LOOKUP_BITS + 1;

    while (length < LONGEST && window >= tables.first[length + 1]) {
        length++;
    }
    /* Lengths without codes have the first code of the next length. */
    while (length > LOOKUP_BITS && tables.start[length] == tables.start[length + 1] &&
           length < LONGEST) {
        length--;
    }
    *bits = length;
    return tables.order[tables.start[length] + ((window - tables.first[length]) >> (32 - length))];
}

ptrdiff_t huffman_decode(struct str in, char *out, size_t capacity)
{
    const unsigned char *at = (const unsigned char *) in.data;
    const unsigned char *end = at + in.len;
    uint64_t held = 0;  /* unused bits, left-aligned */
    unsigned count = 0; /* number of these bits */
    size_t size = 0;

    if (!tables.is_ready) {
        tables_make();
    }
    for (;;) {
        if (count < LONGEST && end - at >= 4) {
            held |= (uint64_t) get_u32((const char *) at) << (32 - count);
            count += 32;
            at += 4;
        }
        while (count < LONGEST && at < end) {
            held |= (uint64_t) *at++ << (56 - count);
            count += 8;
        }
        while (count >= LOOKUP_BITS && size + 2 <= capacity) { /* most symbols, up to two at once */
            const struct lookup *found = &tables.lookup[held >> (64 - LOOKUP_BITS)];

            if (found->count == 0) {
                break;
            }
            memcpy(out + size, found->symbols, sizeof(found->symbols));
            size += found->count;
            held <<= found->bits;
            count -= found->bits;
        }
        if (count < LONGEST && at < end) {
            continue;
        }
        uint32_t window = (uint32_t) (held >> 32);
        unsigned bits = tables.lookup[window >> (32 - LOOKUP_BITS)].first;
        unsigned symbol = tables.lookup[window >> (32 - LOOKUP_BITS)].symbols[0];
        if (bits == 0) {
            symbol = decode_long(window, &bits);
        }
        if (bits > count) {
            break; /* the remaining bits are padding */
        }
        if (symbol == END_OF_STRING || size == capacity) {
            return -1;
        }
        out[size++] = (char) symbol;
        held <<= bits;
        count -= bits;
    }
    /* Padding: fewer than 8 bits, all ones (5.2). */
    if (count > 7 || (count != 0 && held >> (64 - count) != (1u << count) - 1)) {
        return -1;
    }
    return (ptrdiff_t) size;
}

size_t huffman_size(struct str text)
{
    size_t bits = 0;

    for (size_t i = 0; i < text.len; i++) {
        bits += code_bits[(unsigned char) text.data[i]];
    }
    return (bits + 7) / 8;
}

char *huffman_encode(char *at, struct str text)
{
    uint64_t held = 0;
    unsigned count = 0;

    if (!tables.is_ready) {
        tables_make();
    }
    for (size_t i = 0; i < text.len; i++) {
        unsigned char symbol = (unsigned char) text.data[i];

        held = held << code_bits[symbol] | tables.codes[symbol];
        count += code_bits[symbol];
        if (count >= 32) {
            count -= 32;
            put_u32(at, (uint32_t) (held >> count));
            at += 4;
        }
    }
    for (; count >= 8; *at++ = (char) (held >> count)) {
        count -= 8;
    }
    if (count != 0) {
        *at++ = (char) (held << (8 - count) | (0xffu >> count));
    }
    return at;
}
