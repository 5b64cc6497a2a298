/* Pairs as JSON: what requests bring and get, and what stands in a file. */
#ifndef SHARED_KEYVAL_TEXT_H
#define SHARED_KEYVAL_TEXT_H

#include "base/json.h"
#include "shared/keyval/store.h"

/* How times stand there. */
struct keyval_text_form {
    struct str expiry;   /* the member's name; empty: there is none */
    uint64_t from_ms;    /* what it is counted from: now, or 0 where it is a point in time */
    uint64_t timeout_ms; /* from now, of pairs that say nothing; 0: they stay */
};

/* {"key": "value", "key": {"value": "v", EXPIRY: ms}, "key": null}, to struct keyval_change.
 * Strings are slices of the text or in the arena. False: malformed. */
bool keyval_text_read(struct str text, const struct keyval_text_form *form, struct arena *arena,
                      struct vec *changes);

/*
 * Some of the pairs of a store, as keyval_visit gives them, as members of the object that is open;
 * the point in time at which they expire only `with_expiry`, as "expires". False: these were the
 * last. From any thread.
 */
bool keyval_text_put(struct json *json, struct keyval_store *store, uint32_t *cursor,
                     bool with_expiry);

#endif
