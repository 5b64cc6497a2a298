/* JSON objects with limits; values as text. */
#include "shared/jose/document.h"

#include <math.h>
#include <stdlib.h>

#include "base/buf.h"

/* jansson recurses for each level: text that is nested too deeply must not reach it. */
static bool is_too_deep(struct str text)
{
    unsigned depth = 0;
    bool is_quoted = false;

    for (size_t i = 0; i < text.len; i++) {
        char c = text.data[i];
        if (is_quoted) {
            i += c == '\\';
            is_quoted = c != '"';
        } else if (c == '"') {
            is_quoted = true;
        } else if (c == '{' || c == '[') {
            if (++depth > JOSE_DEPTH_MAX) {
                return true;
            }
        } else if ((c == '}' || c == ']') && depth != 0) {
            depth--;
        }
    }
    return false;
}

json_t *jose_object(struct str text)
{
    if (text.len == 0 || is_too_deep(text)) {
        return NULL;
    }
    json_t *object = json_loadb(text.data, text.len, JSON_REJECT_DUPLICATES, NULL);
    if (object != NULL && !json_is_object(object)) {
        json_decref(object);
        object = NULL;
    }
    return object;
}

struct str jose_string(const json_t *object, const char *name)
{
    const json_t *value = json_object_get(object, name);

    return json_is_string(value) ? (struct str){json_string_value(value), json_string_length(value)}
                                 : STR_NONE;
}

int jose_time(const json_t *object, const char *name, int64_t *out)
{
    const json_t *value = json_object_get(object, name);

    if (value == NULL) {
        return 0;
    }
    if (json_is_integer(value)) {
        *out = json_integer_value(value);
        return 1;
    }
    double seconds = floor(json_real_value(value));
    if (!json_is_real(value) || !(seconds > -1e18 && seconds < 1e18)) {
        return -1;
    }
    *out = (int64_t) seconds;
    return 1;
}

const json_t *jose_member(json_t *object, struct str name)
{
    const json_t *found = json_object_getn(object, name.data, name.len);
    const char *key;
    json_t *value;

    if (found != NULL) {
        return found;
    }
    json_object_foreach(object, key, value)
    {
        if (str_equal_nocase(str_of(key), name)) {
            if (found != NULL) {
                return NULL;
            }
            found = value;
        }
    }
    return found;
}

/* ---- as text ---- */

static void put_value(struct buf *out, const json_t *value)
{
    if (json_is_string(value)) {
        buf_append(out, (struct str){json_string_value(value), json_string_length(value)});
        return;
    }
    char *text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
    if (text != NULL) {
        buf_append(out, str_of(text));
        free(text);
    }
}

static void put_list(struct buf *out, const json_t *array)
{
    size_t index;
    json_t *value;

    json_array_foreach(array, index, value)
    {
        if (index != 0) {
            buf_append_char(out, ',');
        }
        put_value(out, value);
    }
}

bool jose_text(const json_t *value, bool as_list, struct arena *arena, struct str *out)
{
    struct buf text = {0};

    if (value == NULL || json_is_null(value)) {
        return false;
    }
    if (json_is_string(value)) {
        *out = arena_dup(arena, (struct str){json_string_value(value), json_string_length(value)});
        return true;
    }
    if (as_list && json_is_array(value)) {
        put_list(&text, value);
    } else {
        put_value(&text, value);
    }
    *out = arena_dup(arena, buf_str(&text));
    buf_free(&text);
    return true;
}
