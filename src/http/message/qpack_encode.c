/* QPACK's encoder: field sections, its table, and the peer's decoder stream. */
#include <stdlib.h>

#include "base/fatal.h"
#include "base/parse.h"
#include "http/message/prefixed.h"
#include "http/message/qpack.h"
#include "http/message/qpack_static.h"

#define SEEN_SIZE 128           /* slots, by hash; a newer field replaces an older one */
#define NAME_LONGEST 64         /* most bytes of a name that is inserted */
#define QPACK_STATIC_LENGTH_0 4 /* "content-length: 0" of the static table */
#define STATUS_SPAN 600         /* greater than all statuses of the static table */
#define ENTRY_SHARE 4           /* an entry may use at most this fraction of the table */

#define RECENT_SETS 32 /* sets, by hash */
/* Fields per set, so that two fields of a response do not replace each other. */
#define RECENT_WAYS 2
#define RECENT_LONGEST 96 /* most bytes of name and value together */
#define CODED_OVERHEAD 8  /* bytes of an encoded field in addition to these */

/* A cache of encoded forms of fields that this process has sent recently, as they are without a
 * dynamic table. Most responses repeat fields of others. Shared by all connections; fields that
 * must not be in tables are never in it. */
static struct recent {
    uint32_t hash;
    uint8_t name_len, value_len;
    uint8_t static_index; /* of an entry with the same name, or QPACK_STATIC_COUNT */
    bool is_static;       /* the encoded form is a reference to the static table */
    uint8_t coded_len;
    uint64_t encoder; /* serial of the encoder that last referred to an entry for it; 0 = none */
    uint64_t number;  /* number of that entry */
    char text[RECENT_LONGEST];  /* name, as it was passed, and value */
    char lower[RECENT_LONGEST]; /* the name in lower case */
    char coded[RECENT_LONGEST + CODED_OVERHEAD];
} recent_fields[RECENT_SETS][RECENT_WAYS];
static uint8_t recent_next[RECENT_SETS]; /* the one to replace next */

/* A field that was sent before. */
struct qpack_seen {
    uint16_t hash;   /* upper half of the hash */
    uint16_t number; /* 1 + number of its entry, modulo 2^16; 0 = not inserted */
};

/* A section with references that is not acknowledged. */
struct qpack_sent {
    uint64_t stream;
    uint64_t required;
    uint64_t lowest;
};

static void *encoder_allocate(size_t count, size_t size)
{
    void *memory = calloc(count, size);

    if (memory == NULL) {
        fatal_no_memory(count * size);
    }
    return memory;
}

void qpack_encoder_init(struct qpack_encoder *encoder)
{
    static uint64_t serial;

    *encoder = (struct qpack_encoder){.serial = ++serial};
    field_table_init(&encoder->table, QPACK_TABLE_DEFAULT);
}

void qpack_encoder_free(struct qpack_encoder *encoder)
{
    field_table_free(&encoder->table);
    free(encoder->seen);
    free(encoder->sent);
    free(encoder->instructions);
}

void qpack_encoder_allow(struct qpack_encoder *encoder, uint64_t capacity)
{
    encoder->peer_capacity = capacity;
}

/* ---- the peer's decoder stream ---- */

/* Acknowledges the oldest section of the stream. False: there is none. */
static bool acknowledge_section(struct qpack_encoder *encoder, uint64_t stream)
{
    for (unsigned i = 0; i < encoder->sent_count; i++) {
        if (encoder->sent[i].stream != stream) {
            continue;
        }
        if (encoder->sent[i].required > encoder->known) {
            encoder->known = encoder->sent[i].required;
        }
        encoder->sent_count--;
        memmove(&encoder->sent[i], &encoder->sent[i + 1],
                (encoder->sent_count - i) * sizeof(encoder->sent[0]));
        return true;
    }
    return false;
}

/* Nothing of this stream will be acknowledged any more. */
static void forget_stream(struct qpack_encoder *encoder, uint64_t stream)
{
    unsigned kept = 0;

    for (unsigned i = 0; i < encoder->sent_count; i++) {
        if (encoder->sent[i].stream != stream) {
            encoder->sent[kept++] = encoder->sent[i];
        }
    }
    encoder->sent_count = kept;
}

static enum prefixed take_feedback(struct qpack_encoder *encoder, struct str *from)
{
    unsigned char first = (unsigned char) from->data[0];
    unsigned bits = (first & 0x80) != 0 ? 7 : 6;
    uint64_t value;
    enum prefixed result = prefixed_get(from, bits, &value);

    if (result != PREFIXED_WHOLE) {
        return result;
    }
    if ((first & 0x80) != 0) {
        return acknowledge_section(encoder, value) ? PREFIXED_WHOLE : PREFIXED_BAD;
    }
    if ((first & 0x40) != 0) {
        forget_stream(encoder, value);
        encoder->cancelled++;
        return PREFIXED_WHOLE;
    }
    if (value == 0 || value > encoder->table.inserted - encoder->known) {
        return PREFIXED_BAD;
    }
    encoder->known += value;
    return PREFIXED_WHOLE;
}

bool qpack_encoder_feed(struct qpack_encoder *encoder, struct str bytes)
{
    while (bytes.len != 0) {
        size_t more = sizeof(encoder->partial) - encoder->partial_size;
        size_t before = encoder->partial_size;

        more = more < bytes.len ? more : bytes.len;
        memcpy(encoder->partial + before, bytes.data, more);
        struct str whole = {encoder->partial, before + more};
        struct str rest = whole;
        switch (take_feedback(encoder, &rest)) {
        case PREFIXED_WHOLE:
            bytes = str_skip(bytes, whole.len - rest.len - before);
            encoder->partial_size = 0;
            break;
        case PREFIXED_PART:
            encoder->partial_size = (uint8_t) whole.len;
            return true; /* a longer integer than this buffer is malformed */
        case PREFIXED_BAD:
            return false;
        }
    }
    return true;
}

/* ---- the table ---- */

/* Does the peer allow a table? */
static bool table_is_allowed(const struct qpack_encoder *encoder)
{
    return encoder->table.capacity != 0 ||
           encoder->peer_capacity >= FIELD_TABLE_OVERHEAD * ENTRY_SHARE;
}

/* Begins to use the table before the first insertion: sends its capacity. False: the peer allows
 * none. */
static bool table_begin(struct qpack_encoder *encoder)
{
    if (encoder->table.capacity != 0) {
        return true;
    }
    uint64_t capacity = encoder->peer_capacity;
    capacity = capacity < encoder->table.limit ? capacity : encoder->table.limit;
    if (capacity < FIELD_TABLE_OVERHEAD * ENTRY_SHARE) {
        return false;
    }
    field_table_set_capacity(&encoder->table, (size_t) capacity);
    encoder->instructions = encoder_allocate(1, QPACK_INSTRUCTIONS_SIZE);
    encoder->sent = encoder_allocate(QPACK_SECTIONS_MAX, sizeof(*encoder->sent));
    char *end = prefixed_put(encoder->instructions, 0x20, 5, capacity);
    encoder->instructions_size = (size_t) (end - encoder->instructions);
    return true;
}

/* The oldest entry that must not be evicted: it is referenced, or the peer may not have it yet. */
static uint64_t oldest_needed(const struct qpack_writer *writer)
{
    const struct qpack_encoder *encoder = writer->encoder;
    uint64_t needed = encoder->known;

    for (unsigned i = 0; i < encoder->sent_count; i++) {
        needed = encoder->sent[i].lowest < needed ? encoder->sent[i].lowest : needed;
    }
    return writer->lowest < needed ? writer->lowest : needed;
}

/* Is there space for this many bytes without evicting entries that are needed (2.1.1)? */
static bool table_can_take(const struct qpack_writer *writer, size_t size)
{
    const struct field_table *table = &writer->encoder->table;
    size_t free_size = table->capacity - table->size;
    uint64_t oldest = table->inserted - table->count;

    if (size <= free_size) {
        return true;
    }
    for (uint64_t end = oldest_needed(writer); oldest < end && free_size < size; oldest++) {
        const struct field_entry *entry = field_table_get(table, oldest);
        free_size += field_entry_size(entry->name_len, entry->value_len);
    }
    return size <= free_size;
}

/* May an entry for this field be inserted now? */
static bool table_may_insert(const struct qpack_writer *writer, struct str name, struct str value)
{
    const struct qpack_encoder *encoder = writer->encoder;
    size_t size = field_entry_size(name.len, value.len);

    return size <= encoder->table.capacity / ENTRY_SHARE &&
           qpack_field_room(name, value) <= QPACK_INSTRUCTIONS_SIZE - encoder->instructions_size &&
           table_can_take(writer, size);
}

/* Inserts the field, for later sections. False: there is no space now. */
static bool table_insert(struct qpack_writer *writer, unsigned static_index, struct str name,
                         struct str value)
{
    struct qpack_encoder *encoder = writer->encoder;

    if (!table_begin(encoder) || !table_may_insert(writer, name, value)) {
        return false;
    }
    field_table_insert(&encoder->table, name, value, 0);
    char *at = encoder->instructions + encoder->instructions_size;
    at = static_index < QPACK_STATIC_COUNT ? prefixed_put(at, 0xc0, 6, static_index)
                                           : prefixed_put_string(at, 0x40, 5, name);
    at = prefixed_put_string(at, 0, 7, value);
    encoder->instructions_size = (size_t) (at - encoder->instructions);
    return true;
}

/* Is it one of the oldest entries, while there is little free space? It is no longer referenced,
 * since otherwise it could never be evicted (RFC 9204, 2.1.1.1). */
static bool is_draining(const struct field_table *table, uint64_t number)
{
    return table->capacity - table->size < table->capacity / ENTRY_SHARE &&
           number - (table->inserted - table->count) <= table->count / ENTRY_SHARE;
}

/* Duplicates an old entry. False: there is no space now. */
static bool table_duplicate(struct qpack_writer *writer, uint64_t number)
{
    struct qpack_encoder *encoder = writer->encoder;
    struct field_table *table = &encoder->table;
    const struct field_entry *entry = field_table_get(table, number);
    struct str name = field_entry_name(table, entry);
    struct str value = field_entry_value(table, entry);

    if (!table_may_insert(writer, name, value)) {
        return false;
    }
    char *at = encoder->instructions + encoder->instructions_size;
    at = prefixed_put(at, 0, 5, table->inserted - 1 - number);
    encoder->instructions_size = (size_t) (at - encoder->instructions);
    return field_table_insert(table, name, value, 0);
}

/* Is there an entry for this field that the peer has acknowledged? */
static bool table_find(const struct qpack_encoder *encoder, const struct qpack_seen *seen,
                       struct str name, struct str value, uint64_t *number)
{
    const struct field_table *table = &encoder->table;

    /* The lowest bits of the number are sufficient, because the table has far fewer entries. */
    uint16_t age = (uint16_t) (table->inserted - seen->number);
    if (seen->number == 0 || age >= table->count) {
        return false;
    }
    *number = table->inserted - 1 - age;
    const struct field_entry *entry = field_table_get(table, *number);
    return *number < encoder->known && str_equal(field_entry_name(table, entry), name) &&
           str_equal(field_entry_value(table, entry), value);
}

/* The number of an entry to refer to. False: encode the field as a literal; it may have been
 * inserted for later sections. */
static bool find_or_insert(struct qpack_writer *writer, uint32_t hash, unsigned static_index,
                           struct str name, struct str value, uint64_t *number)
{
    struct qpack_encoder *encoder = writer->encoder;

    if (!table_is_allowed(encoder)) {
        return false;
    }
    if (encoder->seen == NULL) {
        encoder->seen = encoder_allocate(SEEN_SIZE, sizeof(*encoder->seen));
    }
    struct qpack_seen *seen = &encoder->seen[hash % SEEN_SIZE];
    if (seen->hash != hash >> 16) {
        *seen = (struct qpack_seen){(uint16_t) (hash >> 16), 0};
        return false;
    }
    if (table_find(encoder, seen, name, value, number)) {
        if (!is_draining(&encoder->table, *number)) {
            return encoder->sent_count < QPACK_SECTIONS_MAX;
        }
        if (table_duplicate(writer, *number)) {
            seen->number = (uint16_t) encoder->table.inserted;
        }
        return false;
    }
    bool is_there = seen->number != 0 &&
                    (uint16_t) (encoder->table.inserted - seen->number) < encoder->table.count;
    if (!is_there && table_insert(writer, static_index, name, value)) {
        seen->number = (uint16_t) encoder->table.inserted;
    }
    return false;
}

/* ---- field sections ---- */

/* Has this encoder recently referred to an entry for this field, and may it do so again? Then no
 * lookup is needed. */
static bool recent_has_entry(const struct qpack_encoder *encoder, const struct recent *recent)
{
    const struct field_table *table = &encoder->table;

    return recent->encoder == encoder->serial && field_table_has(table, recent->number) &&
           !is_draining(table, recent->number) && encoder->sent_count < QPACK_SECTIONS_MAX;
}

void qpack_begin(struct qpack_writer *writer, struct qpack_encoder *encoder, uint64_t stream,
                 char *start)
{
    *writer = (struct qpack_writer){.encoder = encoder,
                                    .stream = stream,
                                    .lowest = UINT64_MAX,
                                    .start = start,
                                    .at = start + QPACK_PREFIX_ROOM};
}

/* The base is the number of acknowledged insertions. */
static void put_reference(struct qpack_writer *writer, uint64_t number)
{
    if (number + 1 > writer->required) {
        writer->required = number + 1;
    }
    if (number < writer->lowest) {
        writer->lowest = number;
    }
    writer->at = prefixed_put(writer->at, 0x80, 6, writer->encoder->known - 1 - number);
}

static char *put_literal(char *at, unsigned static_index, struct str name, struct str value)
{
    at = static_index < QPACK_STATIC_COUNT ? prefixed_put(at, 0x50, 4, static_index)
                                           : prefixed_put_string(at, 0x20, 3, name);
    return prefixed_put_string(at, 0, 7, value);
}

static void put_lower(char *to, struct str name)
{
    for (size_t i = 0; i < name.len; i++) {
        to[i] = (char) ascii_lower((unsigned char) name.data[i]);
    }
}

/* Writes a long name as a literal, in lower case. */
static void put_long_name(struct qpack_writer *writer, struct str name, struct str value)
{
    char *at = prefixed_put(writer->at, 0x20, 3, name.len);

    for (size_t i = 0; i < name.len; i++) {
        *at++ = (char) ascii_lower((unsigned char) name.data[i]);
    }
    writer->at = prefixed_put_string(at, 0, 7, value);
}

static void recent_make(struct recent *recent, uint32_t hash, struct str name, struct str value)
{
    char *end = recent->coded;
    unsigned index;

    recent->hash = hash;
    recent->encoder = 0;
    recent->name_len = (uint8_t) name.len;
    recent->value_len = (uint8_t) value.len;
    str_put(str_put(recent->text, name), value);
    put_lower(recent->lower, name);
    name.data = recent->lower;
    recent->is_static = qpack_static_find(name, value, &index);
    recent->static_index = (uint8_t) index;
    end = recent->is_static ? prefixed_put(end, 0xc0, 6, index)
                            : put_literal(end, index, name, value);
    recent->coded_len = (uint8_t) (end - recent->coded);
}

/* Uses the lengths and the last bytes: strings with the same beginning are more common than with
 * the same end. */
static uint32_t recent_hash(struct str name, struct str value)
{
    uint64_t hash = name.len * 0x9e3779b97f4a7c15u + value.len;
    uint64_t word = 0;

    hash = (hash ^ (unsigned char) name.data[0]) * 31 + (unsigned char) name.data[name.len - 1];
    if (value.len >= 8) {
        memcpy(&word, value.data + value.len - 8, 8);
    } else {
        memcpy(&word, value.data, value.len);
    }
    hash = (hash ^ word) * 0xff51afd7ed558ccdu;
    return (uint32_t) (hash ^ hash >> 32);
}

static bool recent_is(const struct recent *recent, uint32_t hash, struct str name, struct str value)
{
    return recent->hash == hash && recent->name_len == name.len && recent->value_len == value.len &&
           memcmp(recent->text, name.data, name.len) == 0 &&
           memcmp(recent->text + name.len, value.data, value.len) == 0;
}

static struct recent *recent_of(uint32_t hash, struct str name, struct str value)
{
    unsigned set = hash % RECENT_SETS;

    for (unsigned i = 0; i < RECENT_WAYS; i++) {
        if (recent_is(&recent_fields[set][i], hash, name, value)) {
            return &recent_fields[set][i];
        }
    }
    unsigned way = recent_next[set];
    recent_next[set] = (uint8_t) ((way + 1) % RECENT_WAYS);
    recent_make(&recent_fields[set][way], hash, name, value);
    return &recent_fields[set][way];
}

static void put_recent(struct qpack_writer *writer, struct str name, struct str value)
{
    struct recent *recent = recent_of(recent_hash(name, value), name, value);
    uint64_t number;

    name.data = recent->lower;
    if (recent_has_entry(writer->encoder, recent)) {
        put_reference(writer, recent->number);
    } else if (!recent->is_static &&
               find_or_insert(writer, recent->hash, recent->static_index, name, value, &number)) {
        recent->encoder = writer->encoder->serial;
        recent->number = number;
        put_reference(writer, number);
    } else {
        writer->at = str_put(writer->at, (struct str){recent->coded, recent->coded_len});
    }
}

/* Encodes a field that is not in the cache of encoded forms. */
static void put_other(struct qpack_writer *writer, struct str name, struct str value,
                      bool stays_out)
{
    char lower[NAME_LONGEST];
    unsigned index;
    uint64_t number;

    if (name.len > sizeof(lower)) {
        put_long_name(writer, name, value);
        return;
    }
    put_lower(lower, name);
    name.data = lower;
    if (qpack_static_find(name, value, &index)) {
        writer->at = prefixed_put(writer->at, 0xc0, 6, index);
    } else if (!stays_out &&
               find_or_insert(writer, field_hash(name, value), index, name, value, &number)) {
        put_reference(writer, number);
    } else {
        writer->at = put_literal(writer->at, index, name, value);
    }
}

void qpack_put_field(struct qpack_writer *writer, struct str name, struct str value, bool stays_out)
{
    if (!stays_out && name.len != 0 && value.len != 0 && name.len + value.len <= RECENT_LONGEST) {
        put_recent(writer, name, value);
    } else {
        put_other(writer, name, value, stays_out);
    }
}

void qpack_put_length(struct qpack_writer *writer, struct str digits)
{
    if (str_is(digits, "0")) {
        writer->at = prefixed_put(writer->at, 0xc0, 6, QPACK_STATIC_LENGTH_0);
    } else {
        writer->at = put_literal(writer->at, QPACK_STATIC_LENGTH_0, STR_NONE, digits);
    }
}

/* The entry of the static table with this status, or QPACK_STATIC_COUNT. */
static unsigned static_of_status(unsigned status)
{
    static uint8_t entries[STATUS_SPAN]; /* 1 + index; 0 = none */
    static bool is_ready;

    if (!is_ready) {
        for (unsigned i = 0; i < QPACK_STATIC_COUNT; i++) {
            const struct qpack_static *entry = qpack_static_get(i);
            uint64_t known;

            if (str_is(entry->name, ":status") && parse_uint(entry->value, &known) &&
                known < STATUS_SPAN) {
                entries[known] = (uint8_t) (i + 1);
            }
        }
        is_ready = true;
    }
    return status < STATUS_SPAN && entries[status] != 0 ? entries[status] - 1u : QPACK_STATIC_COUNT;
}

void qpack_put_status(struct qpack_writer *writer, unsigned status)
{
    unsigned index = static_of_status(status);

    if (index < QPACK_STATIC_COUNT) {
        writer->at = prefixed_put(writer->at, 0xc0, 6, index);
        return;
    }
    char digits[3] = {(char) ('0' + status / 100 % 10), (char) ('0' + status / 10 % 10),
                      (char) ('0' + status % 10)};

    qpack_put_field(writer, STR(":status"), (struct str){digits, sizeof(digits)}, true);
}

/* Stores which entries the section refers to. */
static void note_sent(const struct qpack_writer *writer)
{
    struct qpack_encoder *encoder = writer->encoder;

    encoder->sent[encoder->sent_count++] =
        (struct qpack_sent){writer->stream, writer->required, writer->lowest};
}

struct str qpack_finish(struct qpack_writer *writer)
{
    const struct qpack_encoder *encoder = writer->encoder;
    char prefix[QPACK_PREFIX_ROOM];
    char *at = prefix;

    if (writer->required == 0) {
        *at++ = 0;
        *at++ = 0;
    } else {
        uint64_t range = 2 * (encoder->peer_capacity / FIELD_TABLE_OVERHEAD);
        at = prefixed_put(at, 0, 8, writer->required % range + 1);
        at = prefixed_put(at, 0, 7, encoder->known - writer->required);
        note_sent(writer);
    }
    size_t size = (size_t) (at - prefix);
    char *start = writer->start + QPACK_PREFIX_ROOM - size;
    memcpy(start, prefix, size);
    return str_from(start, writer->at);
}
