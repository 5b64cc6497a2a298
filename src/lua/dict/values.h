/* Inside lua/dict: memory for values, and values on their way out. Needs the lock. */
#ifndef LUA_DICT_VALUES_H
#define LUA_DICT_VALUES_H

#include "lua/dict/table.h"

/*
 * dict_item_new, for which the entries used longest ago may be evicted; is_forcible is set when a
 * valid one went. NULL: none may.
 */
struct dict_item *dict_item_make(struct dict_table *table, struct str key, uint32_t hash,
                                 size_t value_len, bool *is_forcible);

/* A value for Lua; a string is copied to the room. False: it has more bytes than that, out->len. */
bool dict_copy_out(struct script_dict_value *out, unsigned type, const char *data, size_t len);

#endif
