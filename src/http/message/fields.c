/* Header fields: lists of names and values, and the lookup of known names. */
#include "http/message/fields.h"

#include <stdio.h>

#define FIELD_NAME(id, name, repeats) [id] = STR_INIT(name),
const struct str field_names[FIELD_COUNT] = {KNOWN_FIELDS(FIELD_NAME)};
#undef FIELD_NAME

/* Known names by a small hash of length and three letters, filled at first use. Names are compared
 * by words, after setting the bit that makes letters lower case: among bytes that are valid in
 * names only letters are mapped to letters, and only a hyphen to a hyphen. */
#define LOOKUP_SIZE 256
#define LOOKUP_DEPTH 4

static struct lookup_entry {
    uint8_t ids[LOOKUP_DEPTH];
} lookup[LOOKUP_SIZE];
static char folded_names[FIELD_COUNT][24]; /* with that bit set */
static bool is_lookup_ready;

static unsigned name_hash(struct str name)
{
    unsigned first = (unsigned char) name.data[0] | 0x20;
    unsigned last = (unsigned char) name.data[name.len - 1] | 0x20;
    unsigned middle = (unsigned char) name.data[name.len / 2] | 0x20;
    return (first * 7 + last * 31 + middle * 13 + (unsigned) name.len * 5) & (LOOKUP_SIZE - 1);
}

static void lookup_fill(void)
{
    for (unsigned id = 1; id < FIELD_COUNT; id++) {
        uint8_t *ids = lookup[name_hash(field_names[id])].ids;
        unsigned i = 0;

        while (i < LOOKUP_DEPTH - 1 && ids[i] != 0) {
            i++;
        }
        ids[i] = (uint8_t) id;
        for (size_t c = 0; c < field_names[id].len; c++) {
            folded_names[id][c] = field_names[id].data[c] | 0x20;
        }
    }
    is_lookup_ready = true;
}

#define FOLD 0x2020202020202020u

static inline uint64_t load8(const char *at)
{
    uint64_t word;

    memcpy(&word, at, 8);
    return word | FOLD;
}

static inline uint32_t load4(const char *at)
{
    uint32_t word;

    memcpy(&word, at, 4);
    return word | (uint32_t) FOLD;
}

static inline uint16_t load2(const char *at)
{
    uint16_t word;

    memcpy(&word, at, 2);
    return word | (uint16_t) FOLD;
}

/* Is it this known name, which has the same length? The last word overlaps the one before. */
static inline bool is_known(struct str name, const char *folded)
{
    size_t len = name.len;

    if (len >= 8) {
        for (size_t i = 0; i + 8 < len; i += 8) {
            if (load8(name.data + i) != load8(folded + i)) {
                return false;
            }
        }
        return load8(name.data + len - 8) == load8(folded + len - 8);
    }
    if (len >= 4) {
        return load4(name.data) == load4(folded) &&
               load4(name.data + len - 4) == load4(folded + len - 4);
    }
    return len >= 2 && load2(name.data) == load2(folded) &&
           load2(name.data + len - 2) == load2(folded + len - 2);
}

enum field_id field_identify(struct str name)
{
    if (!is_lookup_ready) {
        lookup_fill();
    }
    if (name.len == 0) {
        return FIELD_OTHER;
    }
    const uint8_t *ids = lookup[name_hash(name)].ids;
    for (unsigned i = 0; i < LOOKUP_DEPTH && ids[i] != 0; i++) {
        if (field_names[ids[i]].len == name.len && is_known(name, folded_names[ids[i]])) {
            return (enum field_id) ids[i];
        }
    }
    return FIELD_OTHER;
}

#define FIRST_CAPACITY 16

struct field *fields_add_identified(struct fields *fields, struct arena *arena, enum field_id id,
                                    struct str name, struct str value)
{
    if (fields->count == fields->capacity) {
        uint32_t capacity = fields->capacity == 0 ? FIRST_CAPACITY : fields->capacity * 2;
        struct field *items = arena_alloc(arena, capacity * sizeof(*items));

        if (fields->count != 0) {
            memcpy(items, fields->items, fields->count * sizeof(*items));
        }
        fields->items = items;
        fields->capacity = capacity;
    }
    struct field *field = &fields->items[fields->count++];
    field->name = name;
    field->value = value;
    field->id = (uint8_t) id;
    field->is_removed = false;
    field->is_early = false;
    field->is_added = false;
    field->is_list = false;
    if ((fields->seen & FIELD_BIT(id)) != 0) {
        fields->has_repeats = true;
    } else {
        fields->seen |= FIELD_BIT(id);
        fields->first[id] = fields->count < 256 ? (uint8_t) fields->count : 0;
    }
    return field;
}

struct field *fields_add(struct fields *fields, struct arena *arena, struct str name,
                         struct str value)
{
    return fields_add_identified(fields, arena, field_identify(name), name, value);
}

struct field *fields_add_known(struct fields *fields, struct arena *arena, enum field_id id,
                               struct str value)
{
    return fields_add_identified(fields, arena, id, field_names[id], value);
}

struct field *fields_search(const struct fields *fields, enum field_id id)
{
    unsigned first = fields->first[id];

    for (uint32_t i = first == 0 ? 255 : first - 1; i < fields->count; i++) {
        if (fields->items[i].id == id && !fields->items[i].is_removed) {
            return &fields->items[i];
        }
    }
    return NULL;
}

struct field *fields_find(const struct fields *fields, struct str name)
{
    fields_each(field, fields) {
        if (!field->is_removed && str_equal_nocase(field->name, name)) {
            return field;
        }
    }
    return NULL;
}

bool field_lists(const struct field *field, struct str word)
{
    struct str value = field->value;

    while (value.data != NULL) {
        if (str_equal_nocase(str_trim(str_cut(&value, ',')), word)) {
            return true;
        }
    }
    return false;
}

void fields_set(struct fields *fields, struct arena *arena, enum field_id id, struct str value)
{
    bool is_set = str_is_empty(value);

    fields_each(field, fields) {
        if (field->id != id || field->is_removed) {
            continue;
        }
        if (is_set) {
            field->is_removed = true;
        } else {
            field->value = value;
            is_set = true;
        }
    }
    if (!is_set) {
        fields_add_known(fields, arena, id, value);
    }
}

/* Does the field's name, in lower case and with '_' for '-', equal `name`? */
static bool has_variable_name(struct str field_name, struct str name)
{
    if (field_name.len != name.len) {
        return false;
    }
    for (size_t i = 0; i < name.len; i++) {
        unsigned char c = ascii_lower((unsigned char) field_name.data[i]);
        if ((c == '-' ? '_' : c) != (unsigned char) name.data[i]) {
            return false;
        }
    }
    return true;
}

/* Which fields to join: those with an id, or with a variable's name. */
struct wanted {
    enum field_id id; /* FIELD_COUNT: by name */
    struct str name;
};

static inline bool fields_is_wanted(const struct wanted *wanted, const struct field *field)
{
    return !field->is_removed &&
           (wanted->id != FIELD_COUNT ? field->id == wanted->id
                                      : has_variable_name(field->name, wanted->name));
}

/* Computes the size first, so that any number of fields needs only one allocation. */
static bool join(const struct fields *fields, struct arena *arena, const struct wanted *wanted,
                 struct str separator, struct str *out)
{
    const struct field *first = NULL;
    unsigned count = 0;
    size_t size = 0;

    fields_each(field, fields) {
        if (fields_is_wanted(wanted, field)) {
            first = first == NULL ? field : first;
            size += field->value.len;
            count++;
        }
    }
    if (count <= 1) {
        *out = first != NULL ? first->value : *out;
        return first != NULL;
    }
    size += (count - 1) * separator.len;
    char *text = arena_text(arena, size);
    char *at = str_put(text, first->value);
    for (const struct field *field = first + 1; field < fields->items + fields->count; field++) {
        if (fields_is_wanted(wanted, field)) {
            at = str_put(str_put(at, separator), field->value);
        }
    }
    *out = (struct str){text, size};
    return true;
}

bool fields_joined(const struct fields *fields, struct arena *arena, enum field_id id,
                   struct str *out)
{
    const struct wanted wanted = {.id = id};

    return (fields->seen & FIELD_BIT(id)) != 0 &&
           join(fields, arena, &wanted, id == FIELD_COOKIE ? STR("; ") : STR(", "), out);
}

bool fields_by_variable_name(const struct fields *fields, struct arena *arena, struct str name,
                             struct str *out)
{
    const struct wanted wanted = {FIELD_COUNT, name};

    return join(fields, arena, &wanted, str_is(name, "cookie") ? STR("; ") : STR(", "), out);
}

/* The number of bytes before the first one that is invalid in values. */
static size_t sound_length(struct str value)
{
    size_t i = 0;

    while (i < value.len && value.data[i] != '\r' && value.data[i] != '\n' &&
           value.data[i] != '\0') {
        i++;
    }
    return i;
}

struct str field_value_shown(struct arena *arena, struct str value)
{
    size_t sound = sound_length(value);
    char mark[sizeof("\\xff...")];

    if (sound == value.len) {
        return value;
    }
    int size =
        snprintf(mark, sizeof(mark), "\\x%02x...", (unsigned) (unsigned char) value.data[sound]);
    return arena_concat(arena, str_head(value, sound), (struct str){mark, (size_t) size});
}

struct str field_value_safe(struct arena *arena, struct str value)
{
    size_t i = sound_length(value);

    if (i == value.len) {
        return value;
    }
    char *copy = arena_cstr(arena, value);
    for (; i < value.len; i++) {
        if (copy[i] == '\r' || copy[i] == '\n' || copy[i] == '\0') {
            copy[i] = ' ';
        }
    }
    return (struct str){copy, value.len};
}

/* Removes spaces at both ends; tabs are kept, as in nginx. */
static struct str without_spaces(const char *start, const char *end)
{
    while (start != end && *start == ' ') {
        start++;
    }
    while (end != start && end[-1] == ' ') {
        end--;
    }
    return str_from(start, end);
}

bool fields_set_cookie(const struct fields *fields, struct str name, struct str *out)
{
    fields_each(field, fields) {
        if (field->is_removed || field->id != FIELD_SET_COOKIE) {
            continue;
        }
        struct str rest = field->value;
        struct str pair = str_cut(&rest, ';');
        const char *equals = str_find_char(pair, '=');
        if (equals != NULL && str_equal_nocase(without_spaces(pair.data, equals), name)) {
            *out = without_spaces(equals + 1, pair.data + pair.len);
            return true;
        }
    }
    return false;
}
