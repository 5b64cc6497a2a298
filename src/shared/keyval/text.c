/* Pairs as JSON. */
#include "shared/keyval/text.h"

#define EXPIRES STR("expires")

/* ---- reading ---- */

/* Reads {"value": "v", EXPIRY: ms}; one of the two may be absent. */
static bool read_object(struct json_text *text, const struct keyval_text_form *form,
                        struct keyval_change *change)
{
    bool is_first = true, is_end, has_value = false, has_expiry = false;
    struct str name;
    uint64_t ms;

    while (json_next_member(text, &is_first, &name, &is_end)) {
        if (is_end) {
            change->keeps_value = !has_value;
            return has_value || has_expiry;
        }
        if (str_is(name, "value") && !has_value) {
            has_value = json_take_string(text, &change->pair.value);
        } else if (form->expiry.len != 0 && str_equal(name, form->expiry) && !has_expiry) {
            has_expiry = json_take_number(text, &ms) && ms <= INT64_MAX / 2;
        } else {
            return false;
        }
        if (str_is(name, "value") ? !has_value : !has_expiry) {
            return false;
        }
        if (has_expiry) {
            change->pair.expires_ms = form->from_ms + ms;
        }
    }
    return false;
}

static bool keyval_text_read_value(struct json_text *text, const struct keyval_text_form *form,
                                   struct keyval_change *change)
{
    switch (json_peek(text)) {
    case '"':
        return json_take_string(text, &change->pair.value);
    case 'n':
        change->is_deleted = true;
        return json_take_word(text, STR("null"));
    case '{':
        json_skip(text, '{');
        return read_object(text, form, change);
    default:
        return false;
    }
}

bool keyval_text_read(struct str text, const struct keyval_text_form *form, struct arena *arena,
                      struct vec *changes)
{
    struct json_text reading = {text.data, text.data + text.len, arena};
    bool is_first = true, is_end;
    struct str name;

    if (!json_skip(&reading, '{')) {
        return false;
    }
    while (json_next_member(&reading, &is_first, &name, &is_end)) {
        if (is_end) {
            return json_is_over(&reading);
        }
        struct keyval_change *change = vec_add(changes, arena, struct keyval_change);
        change->pair.key = name;
        change->pair.expires_ms =
            form->timeout_ms == 0 ? KEYVAL_NEVER : keyval_now() + form->timeout_ms;
        if (!keyval_text_read_value(&reading, form, change)) {
            return false;
        }
    }
    return false;
}

/* ---- writing ---- */

struct writing {
    struct json *json;
    bool with_expiry;
};

static void put_pair(const struct keyval_pair *pair, void *arg)
{
    const struct writing *writing = arg;
    struct json *json = writing->json;

    json_put_name(json, pair->key);
    if (!writing->with_expiry || pair->expires_ms == KEYVAL_NEVER) {
        json_put_text(json, pair->value);
        return;
    }
    buf_append(json->out, STR("{\"value\":"));
    json_put_text(json, pair->value);
    buf_printf(json->out, ",\"%s\":%llu}", EXPIRES.data, (unsigned long long) pair->expires_ms);
}

bool keyval_text_put(struct json *json, struct keyval_store *store, uint32_t *cursor,
                     bool with_expiry)
{
    struct writing writing = {json, with_expiry};

    return keyval_visit(store, cursor, put_pair, &writing);
}
