/* Pairs as JSON, in requests, responses and files. */
#ifndef SHARED_KEYVAL_TEXT_H
#define SHARED_KEYVAL_TEXT_H

#include "base/json.h"
#include "shared/keyval/store.h"

/* The format of times in it. */
struct keyval_text_form {
    struct str expiry;   /* the member's name; empty: there is none */
    uint64_t from_ms;    /* what it is relative to: now, or 0 for a point in time */
    uint64_t timeout_ms; /* from now, for pairs without a time; 0: they do not expire */
};

/* Reads {"key": "value", "key": {"value": "v", EXPIRY: ms}, "key": null} to struct keyval_change.
 * Strings are slices of the text or in the arena. False: malformed. */
bool keyval_text_read(struct str text, const struct keyval_text_form *form, struct arena *arena,
                      struct vec *changes);

/*
 * Writes some of the pairs of a store (see keyval_visit) as members of the open object; their
 * expiry only `with_expiry`, as a point in time "expires". False: these were the last. From any
 * thread.
 */
bool keyval_text_put(struct json *json, struct keyval_store *store, uint32_t *cursor,
                     bool with_expiry);

#endif
