/* QPACK's decoder: the peer's encoder stream, and field sections. */
#include <stdlib.h>

#include "base/fatal.h"
#include "http/message/prefixed.h"
#include "http/message/qpack.h"
#include "http/message/qpack_static.h"

void qpack_decoder_init(struct qpack_decoder *decoder, size_t limit)
{
    *decoder = (struct qpack_decoder){.max_string = limit};
    field_table_init(&decoder->table, limit);
}

void qpack_decoder_free(struct qpack_decoder *decoder)
{
    field_table_free(&decoder->table);
    free(decoder->partial);
    decoder->partial = NULL;
}

/* ---- the encoder stream ---- */

/* Name and value of the entry to insert. */
struct insertion {
    struct str name, value;
    uint8_t static_index; /* of the name, as in struct coded_field */
    char *scratch; /* for decoded strings; as large as the table's limit; from malloc, or NULL */
};

/* The text of a string, decoded into `scratch` if necessary. False: malformed, or too long. */
static bool unpack_string(const struct qpack_decoder *decoder, struct insertion *insertion,
                          size_t from, const struct prefixed_string *string, struct str *out)
{
    size_t limit = decoder->table.limit;

    if (!string->is_packed) {
        *out = string->coded;
        return string->coded.len <= decoder->max_string;
    }
    if (insertion->scratch == NULL && (insertion->scratch = malloc(limit)) == NULL) {
        fatal_no_memory(limit);
    }
    ptrdiff_t size = prefixed_unpack(string->coded, insertion->scratch + from, limit - from);
    *out = (struct str){insertion->scratch + from, size < 0 ? 0 : (size_t) size};
    return size >= 0 && (size_t) size <= decoder->max_string;
}

/* An encoded string may be longer than its text, but only up to this length. */
static size_t longest_coded(const struct qpack_decoder *decoder)
{
    return decoder->table.limit * 2;
}

static bool refer_to_static(uint64_t index, struct insertion *insertion)
{
    const struct qpack_static *entry = qpack_static_get(index);

    if (entry == NULL) {
        return false;
    }
    insertion->name = entry->name;
    insertion->value = entry->value;
    insertion->static_index = (uint8_t) (index + 1);
    return true;
}

/* The entry with this index, relative to the newest. */
static bool refer_to_dynamic(const struct qpack_decoder *decoder, uint64_t index,
                             struct insertion *insertion)
{
    const struct field_table *table = &decoder->table;

    if (index >= table->count) {
        return false;
    }
    const struct field_entry *entry = field_table_get(table, table->inserted - 1 - index);
    insertion->name = field_entry_name(table, entry);
    insertion->value = field_entry_value(table, entry);
    insertion->static_index = entry->static_index;
    return true;
}

static enum prefixed take_value(const struct qpack_decoder *decoder, struct str *from,
                                struct insertion *insertion, size_t name_size)
{
    struct prefixed_string value;
    enum prefixed result = prefixed_get_string(from, 7, longest_coded(decoder), &value);

    if (result == PREFIXED_WHOLE &&
        !unpack_string(decoder, insertion, name_size, &value, &insertion->value)) {
        return PREFIXED_BAD;
    }
    return result;
}

static enum prefixed insert_with_reference(struct qpack_decoder *decoder, struct str *from,
                                           struct insertion *insertion)
{
    bool is_static = ((unsigned char) from->data[0] & 0x40) != 0;
    uint64_t index;
    enum prefixed result = prefixed_get(from, 6, &index);

    if (result != PREFIXED_WHOLE) {
        return result;
    }
    if (!(is_static ? refer_to_static(index, insertion)
                    : refer_to_dynamic(decoder, index, insertion))) {
        return PREFIXED_BAD;
    }
    return take_value(decoder, from, insertion, 0);
}

static enum prefixed insert_with_name(struct qpack_decoder *decoder, struct str *from,
                                      struct insertion *insertion)
{
    struct prefixed_string name;
    enum prefixed result = prefixed_get_string(from, 5, longest_coded(decoder), &name);

    if (result != PREFIXED_WHOLE) {
        return result;
    }
    struct str rest = *from;
    struct prefixed_string value;
    result = prefixed_get_string(&rest, 7, longest_coded(decoder), &value);
    if (result != PREFIXED_WHOLE) {
        return result; /* so that the name is not decoded in vain */
    }
    if (!unpack_string(decoder, insertion, 0, &name, &insertion->name)) {
        return PREFIXED_BAD;
    }
    insertion->static_index = 0;
    return take_value(decoder, from, insertion, name.is_packed ? insertion->name.len : 0);
}

static enum prefixed duplicate(struct qpack_decoder *decoder, struct str *from,
                               struct insertion *insertion)
{
    uint64_t index;
    enum prefixed result = prefixed_get(from, 5, &index);

    if (result != PREFIXED_WHOLE) {
        return result;
    }
    decoder->duplicated++;
    return refer_to_dynamic(decoder, index, insertion) ? PREFIXED_WHOLE : PREFIXED_BAD;
}

static enum prefixed set_capacity(struct qpack_decoder *decoder, struct str *from)
{
    uint64_t capacity;
    enum prefixed result = prefixed_get(from, 5, &capacity);

    if (result != PREFIXED_WHOLE) {
        return result;
    }
    if (capacity > decoder->table.limit) {
        return PREFIXED_BAD;
    }
    field_table_set_capacity(&decoder->table, (size_t) capacity);
    return PREFIXED_WHOLE;
}

/* Takes one instruction (4.3). */
static enum prefixed take_instruction(struct qpack_decoder *decoder, struct str *from,
                                      struct insertion *insertion)
{
    unsigned char first = (unsigned char) from->data[0];
    enum prefixed result;

    if ((first & 0x80) != 0) {
        result = insert_with_reference(decoder, from, insertion);
    } else if ((first & 0x40) != 0) {
        result = insert_with_name(decoder, from, insertion);
    } else if ((first & 0x20) != 0) {
        return set_capacity(decoder, from);
    } else {
        result = duplicate(decoder, from, insertion);
    }
    if (result == PREFIXED_WHOLE &&
        !field_table_insert(&decoder->table, insertion->name, insertion->value,
                            insertion->static_index)) {
        return PREFIXED_BAD;
    }
    return result;
}

/* Stores an incomplete instruction until more bytes arrive. */
static void keep_partial(struct qpack_decoder *decoder, struct str rest)
{
    char *kept = NULL;

    if (rest.len != 0 && (kept = malloc(rest.len)) == NULL) {
        fatal_no_memory(rest.len);
    }
    if (rest.len != 0) {
        memcpy(kept, rest.data, rest.len);
    }
    free(decoder->partial);
    decoder->partial = kept;
    decoder->partial_size = rest.len;
}

/* The stored bytes followed by the new ones. */
static struct str join_partial(struct qpack_decoder *decoder, struct str bytes)
{
    size_t size = decoder->partial_size + bytes.len;
    char *joined = realloc(decoder->partial, size);

    if (joined == NULL) {
        fatal_no_memory(size);
    }
    memcpy(joined + decoder->partial_size, bytes.data, bytes.len);
    decoder->partial = joined;
    return (struct str){joined, size};
}

bool qpack_decoder_feed(struct qpack_decoder *decoder, struct str bytes)
{
    struct insertion insertion = {.scratch = NULL};
    enum prefixed result = PREFIXED_WHOLE;

    if (bytes.len == 0) {
        return true;
    }
    struct str rest = decoder->partial_size != 0 ? join_partial(decoder, bytes) : bytes;
    while (rest.len != 0 && result == PREFIXED_WHOLE) {
        struct str before = rest;

        result = take_instruction(decoder, &rest, &insertion);
        if (result != PREFIXED_WHOLE) {
            rest = before;
        }
    }
    free(insertion.scratch);
    if (result != PREFIXED_BAD) {
        keep_partial(decoder, rest);
    }
    return result != PREFIXED_BAD;
}

/* ---- field sections ---- */

/* Decodes the required insert count, of which the prefix has the lowest part (4.5.1.1). False:
 * malformed. */
static bool decode_required(const struct qpack_decoder *decoder, uint64_t coded, uint64_t *required)
{
    uint64_t entries = decoder->table.limit / FIELD_TABLE_OVERHEAD;
    uint64_t range = 2 * entries;

    *required = 0;
    if (coded == 0) {
        return true;
    }
    if (coded > range) {
        return false;
    }
    uint64_t most = decoder->table.inserted + entries;
    *required = most / range * range + coded - 1;
    if (*required > most) {
        if (*required <= range) {
            return false;
        }
        *required -= range;
    }
    return *required != 0;
}

enum qpack_result qpack_section_begin(const struct qpack_decoder *decoder, struct str block,
                                      struct qpack_section *section)
{
    uint64_t coded, delta;

    if (prefixed_get(&block, 8, &coded) != PREFIXED_WHOLE ||
        !decode_required(decoder, coded, &section->required) || block.len == 0) {
        return QPACK_BAD;
    }
    bool is_negative = ((unsigned char) block.data[0] & 0x80) != 0;
    if (prefixed_get(&block, 7, &delta) != PREFIXED_WHOLE) {
        return QPACK_BAD;
    }
    if (is_negative && delta >= section->required) {
        return QPACK_BAD;
    }
    section->base = is_negative ? section->required - delta - 1 : section->required + delta;
    section->rest = block;
    return section->required > decoder->table.inserted ? QPACK_BLOCKED : QPACK_FIELD;
}

/* Parameters of decoding fields. */
struct section_reader {
    const struct qpack_decoder *decoder;
    struct qpack_section *section;
    struct arena *arena;
};

static bool read_static(uint64_t index, struct coded_field *field)
{
    const struct qpack_static *entry = qpack_static_get(index);

    if (entry == NULL) {
        return false;
    }
    field->name = entry->name;
    field->value = entry->value;
    field->static_index = (uint8_t) (index + 1);
    return true;
}

/* Copies an entry, by its absolute number. */
static bool read_dynamic(const struct section_reader *reader, uint64_t number,
                         struct coded_field *field)
{
    const struct field_table *table = &reader->decoder->table;

    if (number >= reader->section->required || !field_table_has(table, number)) {
        return false;
    }
    const struct field_entry *entry = field_table_get(table, number);
    size_t size = (size_t) entry->name_len + entry->value_len;
    char *copy = arena_text(reader->arena, size);
    memcpy(copy, field_entry_name(table, entry).data, size); /* the value follows the name */
    field->name = (struct str){copy, entry->name_len};
    field->value = (struct str){copy + entry->name_len, entry->value_len};
    field->static_index = entry->static_index;
    return true;
}

/* An index relative to the base: before it, or after it (post-base). False: there is no such
 * entry. */
static bool read_reference(const struct section_reader *reader, unsigned bits, bool is_static,
                           bool is_post_base, struct coded_field *field)
{
    uint64_t base = reader->section->base;
    uint64_t index;

    if (prefixed_get(&reader->section->rest, bits, &index) != PREFIXED_WHOLE) {
        return false;
    }
    if (is_static) {
        return read_static(index, field);
    }
    if (is_post_base) {
        return index <= UINT64_MAX - base && read_dynamic(reader, base + index, field);
    }
    return index < base && read_dynamic(reader, base - 1 - index, field);
}

/* A string literal, in the arena if it must be decoded. */
static bool read_string(const struct section_reader *reader, unsigned bits,
                        struct coded_field *field, struct str *out)
{
    struct prefixed_string string;

    if (prefixed_get_string(&reader->section->rest, bits, reader->section->max_string, &string) !=
        PREFIXED_WHOLE) {
        return false;
    }
    if (string.coded.len > field->longest_coded) {
        field->longest_coded = (uint32_t) string.coded.len;
    }
    if (!string.is_packed) {
        *out = arena_dup(reader->arena, string.coded);
        return true;
    }
    size_t capacity = string.coded.len * 8 / 5 + 1;
    capacity = capacity < reader->section->max_string ? capacity : reader->section->max_string;
    char *at = arena_text(reader->arena, capacity);
    ptrdiff_t size = prefixed_unpack(string.coded, at, capacity);
    *out = (struct str){at, size < 0 ? 0 : (size_t) size};
    return size >= 0;
}

static bool qpack_decode_read_line(const struct section_reader *reader, struct coded_field *field)
{
    unsigned char first = (unsigned char) reader->section->rest.data[0];

    if ((first & 0x80) != 0) {
        return read_reference(reader, 6, (first & 0x40) != 0, false, field);
    }
    if ((first & 0xf0) == 0x10) {
        return read_reference(reader, 4, false, true, field);
    }
    if ((first & 0xc0) == 0x40) {
        field->never_indexed = (first & 0x20) != 0;
        return read_reference(reader, 4, (first & 0x10) != 0, false, field) &&
               read_string(reader, 7, field, &field->value);
    }
    if ((first & 0xe0) == 0x20) {
        field->never_indexed = (first & 0x10) != 0;
        return read_string(reader, 3, field, &field->name) &&
               read_string(reader, 7, field, &field->value);
    }
    field->never_indexed = (first & 0x08) != 0;
    return read_reference(reader, 3, false, true, field) &&
           read_string(reader, 7, field, &field->value);
}

enum qpack_result qpack_decode(const struct qpack_decoder *decoder, struct qpack_section *section,
                               struct arena *arena, struct coded_field *field)
{
    const struct section_reader reader = {decoder, section, arena};

    *field = (struct coded_field){.static_index = 0};
    if (section->rest.len == 0) {
        return QPACK_END;
    }
    return qpack_decode_read_line(&reader, field) ? QPACK_FIELD : QPACK_BAD;
}

/* ---- the decoder stream ---- */

char *qpack_put_acknowledgment(char *at, struct qpack_decoder *decoder,
                               const struct qpack_section *section, uint64_t stream)
{
    if (section->required == 0) {
        return at;
    }
    if (section->required > decoder->acknowledged) {
        decoder->acknowledged = section->required;
    }
    return prefixed_put(at, 0x80, 7, stream);
}

char *qpack_put_increment(char *at, struct qpack_decoder *decoder)
{
    uint64_t count = decoder->table.inserted - decoder->acknowledged;

    if (count == 0) {
        return at;
    }
    decoder->acknowledged = decoder->table.inserted;
    return prefixed_put(at, 0, 6, count);
}

char *qpack_put_cancellation(char *at, uint64_t stream)
{
    return prefixed_put(at, 0x40, 6, stream);
}
