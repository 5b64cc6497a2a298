/* Shared dictionaries: keys and values in a zone of shared memory, by lua_shared_dict. Knows
 * nothing of Lua's VM. Implemented in lists.c, table.c and values.c. */
#ifndef LUA_DICT_DICT_H
#define LUA_DICT_DICT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/shm.h"
#include "base/str.h"

struct dict_table;

/* One lua_shared_dict, in this process; lives as long as the generation. */
struct script_dict {
    struct script_dict *next;
    struct str name;
    size_t size; /* bytes, as configured */
    struct zone *zone;
    struct dict_table *table; /* in the zone */
};

/* Types of values; the numbers are in shared memory and in library/dict/dict.lua. */
enum dict_type { DICT_NONE, DICT_BOOLEAN, DICT_NUMBER, DICT_STRING, DICT_LIST };

/* A value, in or out: `struct script_dict_value` of library/dict/dict.lua. */
struct script_dict_value {
    double number;  /* of a number; of a boolean: 0 or 1; of incr: what is added, then the sum */
    double init;    /* of incr: where a new key begins */
    double seconds; /* in: until it expires, 0 = never; out of ttl: how long still */
    double len; /* bytes of a string; out: also of one that has no room; a double, which Lua reads
                   without an allocation */
    const char *data;   /* in: of a string */
    char *room;         /* out: where strings are copied */
    uint32_t room_size; /* bytes */
    int32_t flags;      /* the user's */
    int type;           /* enum dict_type */
    int is_stale;       /* out: it has expired */
    int is_forcible;    /* out: others that were valid had to go for it */
    int has_entry; /* out, of a push: the key has an entry, so what had no room was the value */
};

enum dict_set { DICT_SET, DICT_ADD, DICT_REPLACE, DICT_SAFE_SET, DICT_SAFE_ADD };

enum dict_result {
    DICT_OK,
    DICT_NOT_FOUND,
    DICT_EXISTS,
    DICT_NO_MEMORY,
    DICT_NOT_NUMBER,
    DICT_NOT_LIST,
};

/* The bytes that a zone needs, so that as much is left for entries as in nginx where the directive
 * says `size`. */
size_t dict_zone_size(size_t size);
/* The table in the zone, made where there is none yet. NULL: the zone is too small. */
struct dict_table *dict_table_of(struct zone *zone, size_t size);

/*
 * What Lua calls, by FFI. Keys have 1 to 65535 bytes. Each takes the lock of the dictionary once.
 * They do not wait, except for others that hold the lock, which do no more than these.
 */

/* The value of a key, and whether it is stale; a stale one only when it is asked for. DICT_NONE:
 * there is none. A string with more bytes than the room is not copied: len says how many it has. */
int script_ffi_dict_get(struct script_dict *dict, const char *key, size_t key_len, int wants_stale,
                        struct script_dict_value *out);
/* Sets, adds, replaces by enum dict_set; a value of DICT_NONE removes. */
int script_ffi_dict_set(struct script_dict *dict, const char *key, size_t key_len, int how,
                        struct script_dict_value *value);
int script_ffi_dict_incr(struct script_dict *dict, const char *key, size_t key_len, int has_init,
                         struct script_dict_value *value);
/* seconds of the value: asked, or set. */
int script_ffi_dict_ttl(struct script_dict *dict, const char *key, size_t key_len,
                        struct script_dict_value *out);
int script_ffi_dict_expire(struct script_dict *dict, const char *key, size_t key_len,
                           double seconds);
/* Lists: number of the value becomes the new length. */
int script_ffi_dict_push(struct script_dict *dict, const char *key, size_t key_len, int is_left,
                         struct script_dict_value *value);
/* An element that is longer than the room stays in the list: len says how many bytes it has. */
int script_ffi_dict_pop(struct script_dict *dict, const char *key, size_t key_len, int is_left,
                        struct script_dict_value *out);
int script_ffi_dict_length(struct script_dict *dict, const char *key, size_t key_len,
                           struct script_dict_value *out);

/* All entries are stale from now on. */
void script_ffi_dict_flush_all(struct script_dict *dict);
/* Removes entries that have expired, at most so many (0 = all); gives their number. */
double script_ffi_dict_flush_expired(struct script_dict *dict, double most);
/* Up to `most` keys (0 = all), those not used for longest first; each is two bytes of its length
 * and its bytes, in the room. None is written if they are longer, as out->len says. */
void script_ffi_dict_keys(struct script_dict *dict, double most, struct script_dict_value *out);
double script_ffi_dict_capacity(const struct script_dict *dict);
double script_ffi_dict_free_space(const struct script_dict *dict);

#endif
