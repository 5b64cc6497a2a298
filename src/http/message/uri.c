/* Normalizes URIs. */
#include "http/message/uri.h"

#include "base/text.h"

/* Bytes that end the fast path: they must be decoded, resolved or cut off. */
static const bool is_special[256] =
    {['\0'] = true, ['%'] = true, ['/'] = true, ['?'] = true, ['#'] = true};

/* The length of the beginning of a path without escapes, and without empty or dot segments. */
static size_t plain_length(struct str target)
{
    size_t i = 0;

    while (i < target.len) {
        unsigned char c = (unsigned char) target.data[i];
        if (is_special[c]) {
            if (c != '/') {
                break;
            }
            if (i + 1 < target.len && (target.data[i + 1] == '/' || target.data[i + 1] == '.' ||
                                       target.data[i + 1] == '%')) {
                break;
            }
        }
        i++;
    }
    return i;
}

/* Decodes one byte of the path at *at, which is advanced; -1 if it is malformed. */
static int next_byte(struct str target, size_t *at, bool *was_quoted)
{
    unsigned char c = (unsigned char) target.data[*at];

    *was_quoted = c == '%';
    if (c != '%') {
        *at += 1;
        return c == '\0' || c == '#' ? -1 : c;
    }
    if (target.len - *at < 3) {
        return -1;
    }
    int high = hex_value[(unsigned char) target.data[*at + 1]];
    int low = hex_value[(unsigned char) target.data[*at + 2]];
    if (high < 0 || low < 0 || (high == 0 && low == 0)) {
        return -1;
    }
    *at += 3;
    return high << 4 | low;
}

/* The kind of a complete path segment. */
enum segment { SEGMENT_PLAIN, SEGMENT_EMPTY, SEGMENT_DOT, SEGMENT_DOTS };

static enum segment segment_kind(const char *start, const char *end)
{
    size_t len = (size_t) (end - start);

    if (len == 0) {
        return SEGMENT_EMPTY;
    }
    if (start[0] != '.' || len > 2) {
        return SEGMENT_PLAIN;
    }
    if (len == 1) {
        return SEGMENT_DOT;
    }
    return start[1] == '.' ? SEGMENT_DOTS : SEGMENT_PLAIN;
}

/* Ends the segment that begins at `segment` in the output [path, *at): resolves dots, and drops an
 * empty one if `merge`. False if ".." would leave the root. The previous segment ends with a slash
 * at segment[-1]. */
static bool end_segment(char *path, char *segment, char **at, bool merge, bool *is_dropped)
{
    *is_dropped = true;
    switch (segment_kind(segment, *at)) {
    case SEGMENT_EMPTY:
        *is_dropped = merge;
        return true;
    case SEGMENT_PLAIN:
        *is_dropped = false;
        return true;
    case SEGMENT_DOT:
        *at = segment;
        return true;
    case SEGMENT_DOTS:
        if (segment - path < 2) {
            return false;
        }
        char *up = segment - 2;
        while (*up != '/') {
            up--;
        }
        *at = up + 1;
        return true;
    }
    return false;
}

/* The slow path: decodes and resolves byte by byte into the arena. */
static bool normalise_path(struct arena *arena, struct str target, bool merge, struct uri *out,
                           size_t *used)
{
    char *path = arena_text(arena, target.len + 1);
    char *at = path;
    char *segment;
    size_t i = 1;
    bool is_dropped;

    *at++ = '/';
    segment = at;
    while (i < target.len && target.data[i] != '?') {
        bool was_quoted;
        int c = next_byte(target, &i, &was_quoted);
        if (c < 0) {
            return false;
        }
        out->was_quoted |= was_quoted;
        if (c != '/') {
            *at++ = (char) c;
            continue;
        }
        if (!end_segment(path, segment, &at, merge, &is_dropped)) {
            return false;
        }
        if (!is_dropped) {
            *at++ = '/';
        }
        segment = at;
    }
    if (!end_segment(path, segment, &at, merge, &is_dropped)) {
        return false;
    }
    out->path = str_from(path, at);
    *used = i;
    return true;
}

bool uri_normalise(struct arena *arena, struct str target, bool merge_slashes, struct uri *out)
{
    out->args = STR_NONE;
    out->has_args = out->was_quoted = false;
    if (target.len == 0 || target.data[0] != '/') {
        return false;
    }
    size_t used = plain_length(target);
    out->path = str_head(target, used);
    if (used == target.len) {
        return true;
    }
    if (target.data[used] != '?' && !normalise_path(arena, target, merge_slashes, out, &used)) {
        return false;
    }
    if (used < target.len) {
        out->args = str_skip(target, used + 1);
        out->has_args = true;
    }
    return str_find_char(out->args, '#') == NULL;
}

bool uri_climbs(struct str rest)
{
    return str_starts(rest, STR("..")) && (rest.len == 2 || rest.data[2] == '/');
}

bool uri_is_safe(struct str path)
{
    struct str rest = path;

    if (path.len == 0 || memchr(path.data, '\0', path.len) != NULL) {
        return false;
    }
    while (rest.data != NULL) {
        if (str_equal(str_cut(&rest, '/'), STR(".."))) {
            return false;
        }
    }
    return true;
}

struct str uri_extension(struct str path)
{
    for (size_t i = path.len; i > 1; i--) {
        char c = path.data[i - 1];
        if (c == '/') {
            break;
        }
        if (c == '.' && path.data[i - 2] != '/') {
            return str_skip(path, i);
        }
    }
    return STR_NONE;
}
