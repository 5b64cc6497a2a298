/* HPACK (RFC 7541): the static table, dynamic tables, encoding and decoding of header blocks. */
#include "http/message/hpack.h"

#include <stdlib.h>

#include "base/fatal.h"
#include "http/message/field_table.h"

#define STATIC_COUNT 61
#define ENTRY_OVERHEAD 32 /* size of an entry in addition to its strings (4.1) */

/* Appendix A. */
static const struct {
    struct str name;
    struct str value;
} static_table[STATIC_COUNT + 1] = {
    {{NULL, 0}, {NULL, 0}},
    {STR_INIT(":authority"), STR_INIT("")},
    {STR_INIT(":method"), STR_INIT("GET")},
    {STR_INIT(":method"), STR_INIT("POST")},
    {STR_INIT(":path"), STR_INIT("/")},
    {STR_INIT(":path"), STR_INIT("/index.html")},
    {STR_INIT(":scheme"), STR_INIT("http")},
    {STR_INIT(":scheme"), STR_INIT("https")},
    {STR_INIT(":status"), STR_INIT("200")},
    {STR_INIT(":status"), STR_INIT("204")},
    {STR_INIT(":status"), STR_INIT("206")},
    {STR_INIT(":status"), STR_INIT("304")},
    {STR_INIT(":status"), STR_INIT("400")},
    {STR_INIT(":status"), STR_INIT("404")},
    {STR_INIT(":status"), STR_INIT("500")},
    {STR_INIT("accept-charset"), STR_INIT("")},
    {STR_INIT("accept-encoding"), STR_INIT("gzip, deflate")},
    {STR_INIT("accept-language"), STR_INIT("")},
    {STR_INIT("accept-ranges"), STR_INIT("")},
    {STR_INIT("accept"), STR_INIT("")},
    {STR_INIT("access-control-allow-origin"), STR_INIT("")},
    {STR_INIT("age"), STR_INIT("")},
    {STR_INIT("allow"), STR_INIT("")},
    {STR_INIT("authorization"), STR_INIT("")},
    {STR_INIT("cache-control"), STR_INIT("")},
    {STR_INIT("content-disposition"), STR_INIT("")},
    {STR_INIT("content-encoding"), STR_INIT("")},
    {STR_INIT("content-language"), STR_INIT("")},
    {STR_INIT("content-length"), STR_INIT("")},
    {STR_INIT("content-location"), STR_INIT("")},
    {STR_INIT("content-range"), STR_INIT("")},
    {STR_INIT("content-type"), STR_INIT("")},
    {STR_INIT("cookie"), STR_INIT("")},
    {STR_INIT("date"), STR_INIT("")},
    {STR_INIT("etag"), STR_INIT("")},
    {STR_INIT("expect"), STR_INIT("")},
    {STR_INIT("expires"), STR_INIT("")},
    {STR_INIT("from"), STR_INIT("")},
    {STR_INIT("host"), STR_INIT("")},
    {STR_INIT("if-match"), STR_INIT("")},
    {STR_INIT("if-modified-since"), STR_INIT("")},
    {STR_INIT("if-none-match"), STR_INIT("")},
    {STR_INIT("if-range"), STR_INIT("")},
    {STR_INIT("if-unmodified-since"), STR_INIT("")},
    {STR_INIT("last-modified"), STR_INIT("")},
    {STR_INIT("link"), STR_INIT("")},
    {STR_INIT("location"), STR_INIT("")},
    {STR_INIT("max-forwards"), STR_INIT("")},
    {STR_INIT("proxy-authenticate"), STR_INIT("")},
    {STR_INIT("proxy-authorization"), STR_INIT("")},
    {STR_INIT("range"), STR_INIT("")},
    {STR_INIT("referer"), STR_INIT("")},
    {STR_INIT("refresh"), STR_INIT("")},
    {STR_INIT("retry-after"), STR_INIT("")},
    {STR_INIT("server"), STR_INIT("")},
    {STR_INIT("set-cookie"), STR_INIT("")},
    {STR_INIT("strict-transport-security"), STR_INIT("")},
    {STR_INIT("transfer-encoding"), STR_INIT("")},
    {STR_INIT("user-agent"), STR_INIT("")},
    {STR_INIT("vary"), STR_INIT("")},
    {STR_INIT("via"), STR_INIT("")},
    {STR_INIT("www-authenticate"), STR_INIT("")},
};

/* An entry of a dynamic table; its value follows its name in the ring of bytes. */
struct hpack_entry {
    uint32_t at; /* offset in `bytes` */
    uint32_t name_len;
    uint32_t value_len;
    uint32_t hash;        /* encoder: hash of name and value */
    uint8_t static_index; /* of the name, or 0 */
};

/* ---- dynamic tables ---- */

void hpack_table_init(struct hpack_table *table, size_t limit)
{
    *table = (struct hpack_table){.max_size = limit, .limit = limit, .least = limit};
}

void hpack_table_free(struct hpack_table *table)
{
    free(table->bytes);
    free(table->entries);
    free(table->seek);
    *table = (struct hpack_table){0};
}

static void *allocate(size_t count, size_t size)
{
    void *memory = calloc(count, size);

    if (memory == NULL) {
        fatal_no_memory(count * size);
    }
    return memory;
}

/* The ring has twice the limit, so that entries never wrap, and the live ones, which have at most
 * `limit` bytes, are never overwritten by a new one. */
static void make_rings(struct hpack_table *table)
{
    table->capacity = table->limit * 2;
    table->bytes = allocate(1, table->capacity);
    table->slots = 1;
    while (table->slots < table->limit / ENTRY_OVERHEAD + 1) {
        table->slots *= 2;
    }
    table->entries = allocate(table->slots, sizeof(*table->entries));
}

static inline struct hpack_entry *entry_of(const struct hpack_table *table, unsigned number)
{
    return &table->entries[number & (table->slots - 1)];
}

static inline size_t entry_size(const struct hpack_entry *entry)
{
    return (size_t) entry->name_len + entry->value_len + ENTRY_OVERHEAD;
}

/* Evicts the oldest entries until the size is at most `size` (4.3, 4.4). */
static void shrink(struct hpack_table *table, size_t size)
{
    while (table->size > size) {
        table->size -= entry_size(entry_of(table, table->first - table->count + 1));
        table->count--;
    }
}

/* Inserts an entry, whose strings must not be in this table; NULL: it is larger than the table,
 * which is now empty. */
static struct hpack_entry *entry_insert(struct hpack_table *table, struct str name,
                                        struct str value)
{
    size_t length = name.len + value.len;

    if (length + ENTRY_OVERHEAD > table->max_size) {
        shrink(table, 0);
        return NULL;
    }
    shrink(table, table->max_size - length - ENTRY_OVERHEAD);
    if (table->bytes == NULL) {
        make_rings(table);
    }
    if (table->tail + length > table->capacity) {
        table->tail = 0;
    }
    struct hpack_entry *entry = entry_of(table, ++table->first);
    entry->at = (uint32_t) table->tail;
    entry->name_len = (uint32_t) name.len;
    entry->value_len = (uint32_t) value.len;
    char *at = table->bytes + table->tail;
    if (name.len != 0) {
        memcpy(at, name.data, name.len);
    }
    if (value.len != 0) {
        memcpy(at + name.len, value.data, value.len);
    }
    table->tail += length;
    table->size += length + ENTRY_OVERHEAD;
    table->count++;
    return entry;
}

/* ---- decoding ---- */

/* Decodes an integer with a prefix of `bits` (5.1). False: it is incomplete, or exceeds 2^28. */
static bool get_integer(struct str *block, unsigned bits, uint32_t *out)
{
    uint32_t mask = (1u << bits) - 1;
    uint32_t value = (unsigned char) block->data[0] & mask;

    *block = str_skip(*block, 1);
    if (value == mask) {
        unsigned shift = 0;
        unsigned char byte;
        do {
            if (block->len == 0 || shift > 21) {
                return false;
            }
            byte = (unsigned char) block->data[0];
            *block = str_skip(*block, 1);
            value += (uint32_t) (byte & 0x7f) << shift;
            shift += 7;
        } while ((byte & 0x80) != 0);
    }
    *out = value;
    return true;
}

/* Decodes a string literal (5.2) into the arena. Returns its encoded length, -1 after an error. */
static ptrdiff_t get_string(const struct hpack_table *table, struct str *block, struct arena *arena,
                            size_t max, struct str *out)
{
    uint32_t length;

    if (block->len == 0) {
        return -1;
    }
    bool is_packed = (block->data[0] & 0x80) != 0;
    if (!get_integer(block, 7, &length) || length > block->len || length > max) {
        return -1;
    }
    struct str text = {block->data, length};
    *block = str_skip(*block, length);
    if (!is_packed) {
        *out = arena_dup(arena, text);
        return (ptrdiff_t) length;
    }
    size_t capacity = (size_t) length * 8 / 5 + 1;
    capacity = capacity < max ? capacity : max;
    char *at = arena_text(arena, capacity);
    ptrdiff_t size = huffman_decode(text, at, capacity);
    if (size < 0 && table->takes_long_padding && text.len != 0 &&
        (unsigned char) text.data[text.len - 1] == 0xff) {
        size = huffman_decode(str_head(text, text.len - 1), at, capacity);
    }
    *out = (struct str){at, (size_t) size};
    return size < 0 ? -1 : (ptrdiff_t) length;
}

/* Copies an entry's name, and its value if wants_value. */
static bool get_indexed(const struct hpack_table *table, uint32_t index, struct arena *arena,
                        struct coded_field *field, bool wants_value)
{
    if (index == 0) {
        return false;
    }
    if (index <= STATIC_COUNT) {
        field->name = static_table[index].name;
        field->static_index = (uint8_t) index;
        if (wants_value) {
            field->value = static_table[index].value;
        }
        return true;
    }
    index -= STATIC_COUNT + 1;
    if (index >= table->count) {
        return false;
    }
    const struct hpack_entry *entry = entry_of(table, table->first - index);
    size_t length = entry->name_len + (wants_value ? entry->value_len : 0);
    char *copy = arena_text(arena, length);
    memcpy(copy, table->bytes + entry->at, length);
    field->name = (struct str){copy, entry->name_len};
    field->static_index = entry->static_index;
    if (wants_value) {
        field->value = (struct str){copy + entry->name_len, entry->value_len};
    }
    return true;
}

/* Dynamic table size updates at the beginning of a block (6.3). */
static bool take_updates(struct hpack_table *table, struct str *block)
{
    while (block->len != 0 && ((unsigned char) block->data[0] & 0xe0) == 0x20) {
        uint32_t size;

        if (table->is_in_block || !get_integer(block, 5, &size) || size > table->limit) {
            return false;
        }
        table->max_size = size;
        shrink(table, size);
    }
    return true;
}

enum hpack_result hpack_decode(struct hpack_table *table, struct str *block, struct arena *arena,
                               size_t max_string, struct coded_field *field)
{
    uint32_t index;
    ptrdiff_t name_coded = 0;

    if (!take_updates(table, block)) {
        return HPACK_BAD;
    }
    if (block->len == 0) {
        table->is_in_block = false;
        return HPACK_END;
    }
    table->is_in_block = true;
    unsigned char first = (unsigned char) block->data[0];
    field->never_indexed = false;
    field->longest_coded = 0;
    if ((first & 0x80) != 0) {
        return get_integer(block, 7, &index) && get_indexed(table, index, arena, field, true)
                   ? HPACK_FIELD
                   : HPACK_BAD;
    }
    bool is_inserted = (first & 0x40) != 0;
    field->never_indexed = (first & 0xf0) == 0x10;
    if (!get_integer(block, is_inserted ? 6 : 4, &index)) {
        return HPACK_BAD;
    }
    if (index != 0) {
        if (!get_indexed(table, index, arena, field, false)) {
            return HPACK_BAD;
        }
    } else {
        field->static_index = 0;
        name_coded = get_string(table, block, arena, max_string, &field->name);
        if (name_coded < 0) {
            return HPACK_BAD;
        }
    }
    ptrdiff_t value_coded = get_string(table, block, arena, max_string, &field->value);
    if (value_coded < 0) {
        return HPACK_BAD;
    }
    field->longest_coded = (uint32_t) (name_coded > value_coded ? name_coded : value_coded);
    if (is_inserted) {
        struct hpack_entry *entry = entry_insert(table, field->name, field->value);
        if (entry != NULL) {
            entry->static_index = field->static_index;
        }
    }
    return HPACK_FIELD;
}

/* ---- encoding ---- */

static char *put_integer(char *at, unsigned char first, unsigned bits, uint32_t value)
{
    uint32_t mask = (1u << bits) - 1;

    if (value < mask) {
        *at++ = (char) (first | value);
        return at;
    }
    *at++ = (char) (first | mask);
    value -= mask;
    while (value >= 128) {
        *at++ = (char) (value | 0x80);
        value >>= 7;
    }
    *at++ = (char) value;
    return at;
}

/* Writes the shorter of the plain and the Huffman form; always plain if table->is_plain. */
static char *put_string(char *at, const struct hpack_table *table, struct str text)
{
    size_t packed = table->is_plain ? text.len : huffman_size(text);

    if (packed < text.len) {
        return huffman_encode(put_integer(at, 0x80, 7, (uint32_t) packed), text);
    }
    at = put_integer(at, 0, 7, (uint32_t) text.len);
    if (text.len != 0) {
        memcpy(at, text.data, text.len);
    }
    return at + text.len;
}

#define SEEK_SIZE 256 /* slots, by hash; a newer entry replaces an older one */

/* The index of an equal entry in the encoder's table, or 0. */
static uint32_t seek(const struct hpack_table *table, uint32_t hash, struct str name,
                     struct str value)
{
    if (table->seek == NULL) {
        return 0;
    }
    uint32_t number = table->seek[hash % SEEK_SIZE];
    uint32_t age = table->first - number;
    if (number == 0 || age >= table->count) {
        return 0;
    }
    const struct hpack_entry *entry = entry_of(table, number);
    const char *at = table->bytes + entry->at;
    if (entry->hash != hash || entry->name_len != name.len || entry->value_len != value.len ||
        memcmp(at, name.data, name.len) != 0 || memcmp(at + name.len, value.data, value.len) != 0) {
        return 0;
    }
    return STATIC_COUNT + 1 + age;
}

/* Inserts a field, and notes its number by its hash, so that seek finds it. */
static void remember(struct hpack_table *table, uint32_t hash, struct str name, struct str value)
{
    struct hpack_entry *entry = entry_insert(table, name, value);

    if (entry == NULL) {
        return;
    }
    if (table->seek == NULL) {
        table->seek = allocate(SEEK_SIZE, sizeof(*table->seek));
    }
    entry->hash = hash;
    table->seek[hash % SEEK_SIZE] = table->first;
}

char *hpack_put_status(char *at, struct hpack_table *table, unsigned status)
{
    static const uint16_t known[] = {200, 204, 206, 304, 400, 404, 500};

    for (unsigned i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        if (status == known[i]) {
            *at++ = (char) (0x80 | (8 + i));
            return at;
        }
    }
    char digits[3] = {(char) ('0' + status / 100 % 10), (char) ('0' + status / 10 % 10),
                      (char) ('0' + status % 10)};
    return hpack_put_field(at, table, (struct hpack_form){.static_index = 8}, STR(":status"),
                           (struct str){digits, 3});
}

/* Writes the name to `out` in lower case, as HTTP/2 requires. */
static struct str lower_name(struct str name, char *out)
{
    for (size_t i = 0; i < name.len; i++) {
        out[i] = (char) ascii_lower((unsigned char) name.data[i]);
    }
    return (struct str){out, name.len};
}

char *hpack_put_field(char *at, struct hpack_table *table, struct hpack_form form, struct str name,
                      struct str value)
{
    char lower[64];
    uint8_t static_index = form.static_index;
    bool may_index = !form.stays_out; /* and it is not larger than a quarter of the table */

    if (static_index != 0) {
        name = static_table[static_index].name;
    } else if (name.len <= sizeof(lower)) {
        name = lower_name(name, lower);
    } else {
        may_index = false;
    }
    if (may_index && name.len + value.len + ENTRY_OVERHEAD <= table->max_size / 4) {
        uint32_t hash = field_hash(name, value);
        uint32_t index = seek(table, hash, name, value);
        if (index != 0) {
            return put_integer(at, 0x80, 7, index);
        }
        remember(table, hash, name, value);
        at = put_integer(at, 0x40, 6, static_index);
    } else {
        at = put_integer(at, 0, 4, static_index);
    }
    if (static_index == 0) {
        if (name.len <= sizeof(lower)) {
            at = put_string(at, table, name);
        } else {
            at = put_integer(at, 0, 7, (uint32_t) name.len);
            at += lower_name(name, at).len;
        }
    }
    return put_string(at, table, value);
}

char *hpack_put_number(char *at, const struct hpack_table *table, unsigned number)
{
    unsigned age = table->first - number;

    if (number == 0 || age >= table->count) {
        return NULL;
    }
    return put_integer(at, 0x80, 7, STATIC_COUNT + 1 + age);
}

void hpack_encoder_limit(struct hpack_table *table, uint32_t limit)
{
    /* Limited to the default size, since each connection needs the memory. */
    size_t size = limit < HPACK_TABLE_DEFAULT ? limit : HPACK_TABLE_DEFAULT;

    if (size == table->max_size && !table->has_new_limit) {
        return;
    }
    if (!table->has_new_limit || size < table->least) {
        table->least = size;
    }
    table->has_new_limit = true;
    table->max_size = size;
    shrink(table, table->least < size ? table->least : size);
}

char *hpack_put_limit(char *at, struct hpack_table *table)
{
    if (!table->has_new_limit) {
        return at;
    }
    table->has_new_limit = false;
    if (table->least < table->max_size) {
        at = put_integer(at, 0x20, 5, (uint32_t) table->least);
    }
    return put_integer(at, 0x20, 5, (uint32_t) table->max_size);
}
