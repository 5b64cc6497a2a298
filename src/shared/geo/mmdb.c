/* Databases of MaxMind's format: see mmdb.h, and https://maxmind.github.io/MaxMind-DB/. */
#include "shared/geo/mmdb.h"

#include "base/parse.h"

enum {
    SEPARATOR = 16,           /* zero bytes between tree and data */
    METADATA_MAX = 128 << 10, /* the metadata begins within this many bytes before the end */
    POINTERS_MAX = 8,         /* pointers to pointers: the format does not allow them */
    STEPS_MAX = 100000,       /* values that one search skips at most */
};

#define METADATA_MARK STR("\xab\xcd\xefMaxMind.com")

/* ---- values ---- */

static uint64_t number_of(const unsigned char *bytes, size_t size)
{
    uint64_t number = 0;

    for (size_t i = 0; i < size; i++) {
        number = number << 8 | bytes[i];
    }
    return number;
}

/* Takes `size` bytes at *at, which moves past them; NULL when there are fewer. */
static const unsigned char *mmdb_take(struct str data, size_t *at, size_t size)
{
    if (*at > data.len || size > data.len - *at) {
        return NULL;
    }
    const unsigned char *bytes = (const unsigned char *) data.data + *at;
    *at += size;
    return bytes;
}

/* The target of a pointer whose first byte was read: its two middle bits are the number of bytes
   that follow. */
static bool read_pointer(struct str data, size_t *at, unsigned head, size_t *target)
{
    static const uint32_t offsets[] = {0, 2048, 526336, 0};
    unsigned size = head >> 3 & 3;
    const unsigned char *bytes = mmdb_take(data, at, size + 1);

    if (bytes == NULL) {
        return false;
    }
    uint64_t number = number_of(bytes, size + 1);
    if (size != 3) {
        number |= (uint64_t) (head & 7) << 8 * (size + 1);
    }
    *target = (size_t) (number + offsets[size]);
    return true;
}

/* The size in a head; large ones have up to three more bytes. */
static bool read_size(struct str data, size_t *at, unsigned head, uint32_t *size)
{
    static const uint32_t offsets[] = {29, 285, 65821};

    *size = head & 31;
    if (*size < 29) {
        return true;
    }
    unsigned more = *size - 28;
    const unsigned char *bytes = mmdb_take(data, at, more);
    if (bytes == NULL) {
        return false;
    }
    *size = (uint32_t) number_of(bytes, more) + offsets[more - 1];
    return true;
}

static bool read_integer(struct str bytes, size_t size_max, struct geo_value *out)
{
    const unsigned char *at = (const unsigned char *) bytes.data;

    if (bytes.len > size_max) {
        return false;
    }
    size_t high = bytes.len > 8 ? bytes.len - 8 : 0;
    out->number_high = number_of(at, high);
    out->number = number_of(at + high, bytes.len - high);
    if (out->kind == GEO_VALUE_INT32) {
        out->number = (uint64_t) (int64_t) (int32_t) out->number;
    }
    return true;
}

static bool read_real(struct str bytes, struct geo_value *out)
{
    const unsigned char *at = (const unsigned char *) bytes.data;

    if (out->kind == GEO_VALUE_DOUBLE && bytes.len == 8) {
        uint64_t bits = number_of(at, 8);
        memcpy(&out->real, &bits, sizeof(bits));
        return true;
    }
    if (out->kind == GEO_VALUE_FLOAT && bytes.len == 4) {
        uint32_t bits = (uint32_t) number_of(at, 4);
        float real;
        memcpy(&real, &bits, sizeof(bits));
        out->real = (double) real;
        return true;
    }
    return false;
}

/* Reads the contents of a value that is not a container. */
static bool read_contents(struct geo_value *out)
{
    switch (out->kind) {
    case GEO_VALUE_STRING:
    case GEO_VALUE_BYTES:
        return true;
    case GEO_VALUE_DOUBLE:
    case GEO_VALUE_FLOAT:
        return read_real(out->bytes, out);
    case GEO_VALUE_UINT16:
        return read_integer(out->bytes, 2, out);
    case GEO_VALUE_UINT32:
    case GEO_VALUE_INT32:
        return read_integer(out->bytes, 4, out);
    case GEO_VALUE_UINT64:
        return read_integer(out->bytes, 8, out);
    case GEO_VALUE_UINT128:
        return read_integer(out->bytes, 16, out);
    case GEO_VALUE_POINTER:
    case GEO_VALUE_MAP:
    case GEO_VALUE_ARRAY:
    case GEO_VALUE_BOOLEAN:
        break;
    }
    return false;
}

/* Reads the value at `at`. A pointer is not followed: `number` is its target. */
static bool mmdb_read_value(struct str data, size_t at, struct geo_value *out)
{
    const unsigned char *head = mmdb_take(data, &at, 1);
    uint32_t size;

    if (head == NULL) {
        return false;
    }
    *out = (struct geo_value){.kind = *head >> 5};
    if (out->kind == GEO_VALUE_POINTER) {
        size_t target;
        bool is_good = read_pointer(data, &at, *head, &target);
        out->number = is_good ? target : 0;
        out->next = at;
        return is_good;
    }
    if (out->kind == 0) {
        const unsigned char *kind = mmdb_take(data, &at, 1);
        if (kind == NULL) {
            return false;
        }
        out->kind = *kind + 7u;
    }
    if (!read_size(data, &at, *head, &size)) {
        return false;
    }
    out->next = at;
    if (out->kind == GEO_VALUE_MAP || out->kind == GEO_VALUE_ARRAY) {
        out->count = size;
        return true;
    }
    if (out->kind == GEO_VALUE_BOOLEAN) {
        out->number = size;
        return size <= 1;
    }
    const unsigned char *contents = mmdb_take(data, &out->next, size);
    out->bytes = (struct str){(const char *) contents, size};
    return contents != NULL && read_contents(out);
}

/* The same, but follows a pointer; *after is the position after the pointer. */
static bool read_target(struct str data, size_t at, struct geo_value *out, size_t *after)
{
    if (!mmdb_read_value(data, at, out)) {
        return false;
    }
    *after = out->next;
    for (unsigned i = 0; out->kind == GEO_VALUE_POINTER; i++) {
        if (i == POINTERS_MAX || !mmdb_read_value(data, (size_t) out->number, out)) {
            return false;
        }
    }
    return true;
}

/* Moves past `count` values. */
static bool pass_over(struct str data, size_t *at, uint64_t count, unsigned *steps)
{
    for (struct geo_value value; count > 0; count--) {
        if (++*steps > STEPS_MAX || !mmdb_read_value(data, *at, &value)) {
            return false;
        }
        *at = value.next;
        count += value.kind == GEO_VALUE_MAP ? (uint64_t) value.count * 2 : value.count;
    }
    return true;
}

/* The value of a key; *out is the map, and becomes the value. */
static bool enter_map(struct str data, struct str key, struct geo_value *out, unsigned *steps)
{
    size_t at = out->next;

    for (uint32_t left = out->count; left > 0; left--) {
        struct geo_value name;

        if (++*steps > STEPS_MAX || !read_target(data, at, &name, &at) ||
            name.kind != GEO_VALUE_STRING) {
            return false;
        }
        if (str_equal(name.bytes, key)) {
            return read_target(data, at, out, &at);
        }
        if (!pass_over(data, &at, 1, steps)) {
            return false;
        }
    }
    return false;
}

static bool enter_array(struct str data, struct str word, struct geo_value *out, unsigned *steps)
{
    size_t at = out->next;
    int64_t number;

    if (!parse_int(word, &number)) {
        return false;
    }
    number += number < 0 ? out->count : 0;
    return number >= 0 && number < out->count && pass_over(data, &at, (uint64_t) number, steps) &&
           read_target(data, at, out, &at);
}

static bool find_value(struct str data, size_t position, const struct str *path, size_t count,
                       struct geo_value *out)
{
    unsigned steps = 0;
    size_t after;

    if (!read_target(data, position, out, &after)) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        bool is_there = out->kind == GEO_VALUE_MAP     ? enter_map(data, path[i], out, &steps)
                        : out->kind == GEO_VALUE_ARRAY ? enter_array(data, path[i], out, &steps)
                                                       : false;
        if (!is_there) {
            return false;
        }
    }
    return true;
}

bool geo_mmdb_value(const struct geo_mmdb *db, size_t position, const struct str *path,
                    size_t count, struct geo_value *out)
{
    return find_value(db->data, position, path, count, out);
}

/* ---- the tree ---- */

static inline uint32_t four_bytes(const unsigned char *at)
{
    uint32_t word;

    memcpy(&word, at, sizeof(word));
    return ntohl(word);
}

/* A record of an existing node; reads no byte beyond the node. */
static inline uint32_t record_at(const unsigned char *node, unsigned size, unsigned branch)
{
    if (size == 24) {
        return four_bytes(node + 2 * branch) >> (8 - 8 * branch) & 0xffffff;
    }
    if (size == 28) {
        uint32_t word = four_bytes(node + 3 * branch);
        return branch != 0 ? word & 0xfffffff : (word & 0xf0) << 20 | word >> 8;
    }
    return four_bytes(node + 4 * branch);
}

/* Follows bits from a node until they are used up, or the record is not a node. `size`, of records,
 * is a constant: otherwise it would be tested for each bit of each lookup. */
static inline __attribute__((always_inline)) uint32_t follow_records(const struct geo_mmdb *db,
                                                                     uint32_t node,
                                                                     const unsigned char *bits,
                                                                     unsigned count, unsigned size)
{
    const unsigned char *tree = (const unsigned char *) db->tree.data;
    uint32_t nodes = db->node_count;

    for (unsigned i = 0; i < count && node < nodes; i++) {
        unsigned branch = bits[i / 8] >> (~i & 7) & 1;

        node = record_at(tree + (size_t) node * (size / 4), size, branch);
    }
    return node;
}

static uint32_t follow(const struct geo_mmdb *db, uint32_t node, const unsigned char *bits,
                       unsigned count)
{
    return db->record_size == 24   ? follow_records(db, node, bits, count, 24)
           : db->record_size == 28 ? follow_records(db, node, bits, count, 28)
                                   : follow_records(db, node, bits, count, 32);
}

bool geo_mmdb_find(const struct geo_mmdb *db, const struct addr *addr, size_t *offset)
{
    uint32_t record = db->node_count;

    if (addr->len != 0 && addr->any.sa_family == AF_INET) {
        record = follow(db, db->v4_node, (const unsigned char *) &addr->v4.sin_addr, 32);
    } else if (addr->len != 0 && addr->any.sa_family == AF_INET6) {
        const unsigned char *bits = addr->v6.sin6_addr.s6_addr;

        if (IN6_IS_ADDR_V4MAPPED(&addr->v6.sin6_addr)) {
            record = follow(db, db->v4_node, bits + 12, 32);
        } else if (db->is_v6) {
            record = follow(db, 0, bits, 128);
        }
    }
    if (record <= db->node_count || record - db->node_count < SEPARATOR) {
        return false;
    }
    *offset = record - db->node_count - SEPARATOR;
    return *offset < db->data.len;
}

/* ---- the whole file ---- */

/* The start of the metadata, after the last mark; 0 = there is none. */
static size_t find_metadata(struct str bytes)
{
    struct str mark = METADATA_MARK;
    size_t first = bytes.len > METADATA_MAX ? bytes.len - METADATA_MAX : 0;

    for (size_t at = bytes.len; at >= first + mark.len; at--) {
        if (memcmp(bytes.data + at - mark.len, mark.data, mark.len) == 0) {
            return at;
        }
    }
    return 0;
}

static bool metadata_number(struct str metadata, const char *key, uint64_t *out)
{
    struct str path = str_of(key);
    struct geo_value value;

    if (!find_value(metadata, 0, &path, 1, &value) ||
        (value.kind != GEO_VALUE_UINT16 && value.kind != GEO_VALUE_UINT32 &&
         value.kind != GEO_VALUE_UINT64)) {
        return false;
    }
    *out = value.number;
    return true;
}

const char *geo_mmdb_open(struct str bytes, struct geo_mmdb *out)
{
    static const unsigned char zeros[12];
    const char *bad_metadata = "The MaxMind DB file contains invalid metadata";
    size_t start = find_metadata(bytes);
    struct str metadata = start == 0 ? STR_NONE : str_skip(bytes, start);
    uint64_t nodes;
    uint64_t record_size;
    uint64_t ip_version;
    uint64_t format;

    if (bytes.len == 0) {
        return "An attempt to read data from the MaxMind DB file failed";
    }
    *out = (struct geo_mmdb){.build_epoch = 0};
    if (!metadata_number(metadata, "node_count", &nodes) ||
        !metadata_number(metadata, "record_size", &record_size) ||
        !metadata_number(metadata, "ip_version", &ip_version) ||
        !metadata_number(metadata, "binary_format_major_version", &format) ||
        !metadata_number(metadata, "build_epoch", &out->build_epoch)) {
        return bad_metadata;
    }
    if (format != 2 || (record_size != 24 && record_size != 28 && record_size != 32)) {
        return "The MaxMind DB file is in a format this library can't handle (unknown record size "
               "or binary format version)";
    }
    size_t tree_end = (size_t) nodes * ((size_t) record_size / 4);
    size_t data_end = start - METADATA_MARK.len;
    if (nodes == 0 || nodes > UINT32_MAX || (ip_version != 4 && ip_version != 6) ||
        data_end < SEPARATOR || tree_end > data_end - SEPARATOR) {
        return bad_metadata;
    }
    out->tree = str_head(bytes, tree_end);
    out->data = str_from(bytes.data + tree_end + SEPARATOR, bytes.data + data_end);
    out->node_count = (uint32_t) nodes;
    out->record_size = (unsigned) record_size;
    out->is_v6 = ip_version == 6;
    out->v4_node = out->is_v6 ? follow(out, 0, zeros, 96) : 0;
    return NULL;
}
