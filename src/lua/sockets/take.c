/* How much of what has arrived belongs to one receive. */
#include "lua/sockets/take.h"

#include <string.h>

void delimiter_init(struct delimiter *delimiter, struct str text, uint32_t *shorter)
{
    uint32_t length = 0;

    *delimiter = (struct delimiter){.text = text, .shorter = shorter};
    shorter[0] = 0;
    for (size_t i = 1; i < text.len; i++) {
        shorter[i] = length; /* of the first i bytes */
        while (length != 0 && text.data[i] != text.data[length]) {
            length = shorter[length];
        }
        length += text.data[i] == text.data[length];
    }
    shorter[text.len] = length;
}

/* The first CR or LF. In blocks, so that what comes after it is not looked at again and again. */
static size_t find_end(struct str input)
{
    enum { BLOCK = 256 };

    for (size_t at = 0; at < input.len; at += BLOCK) {
        size_t length = input.len - at < BLOCK ? input.len - at : BLOCK;
        const char *newline = memchr(input.data + at, '\n', length);

        length = newline != NULL ? (size_t) (newline - input.data) - at : length;
        const char *ignored = memchr(input.data + at, '\r', length);
        if (ignored != NULL) {
            return (size_t) (ignored - input.data);
        }
        if (newline != NULL) {
            return (size_t) (newline - input.data);
        }
    }
    return input.len;
}

/* CRs are left out, wherever they are. */
static struct taken take_line(struct str input)
{
    size_t length = find_end(input);
    struct taken taken = {.bytes = {input.data, length}, .used = length};

    while (taken.used < input.len && input.data[taken.used] == '\r') {
        taken.used++;
    }
    if (taken.used < input.len && input.data[taken.used] == '\n') {
        taken.used++;
        taken.is_done = true;
    }
    return taken;
}

/* Notes what was given of the rest that is wanted. */
static void script_take_give(struct take *take, struct taken *taken, struct str bytes)
{
    taken->bytes = bytes;
    take->has_given = true;
    if (take->rest != TAKE_NO_LIMIT) {
        take->rest -= bytes.len < take->rest ? bytes.len : take->rest;
        taken->is_done |= take->rest == 0;
    }
}

/* Nothing of the delimiter was seen: all up to where it may begin, or its first byte. */
static struct taken take_before(struct take *take, struct str input)
{
    const char *first = memchr(input.data, take->delimiter->text.data[0], input.len);
    size_t length = first != NULL ? (size_t) (first - input.data) : input.len;
    struct taken taken = {.is_done = false};

    if (length == 0) {
        take->delimiter->seen = 1;
        taken.used = 1;
        return taken;
    }
    if (length > take->rest) {
        length = (size_t) take->rest;
    }
    taken.used = length;
    script_take_give(take, &taken, (struct str){input.data, length});
    return taken;
}

/* The byte does not continue what was seen of the delimiter. Gives all of it that cannot be its
 * beginning any more. The byte is used where it continues a shorter beginning: what else is read
 * next begins after it. */
static struct str delimiter_fall_back(struct delimiter *delimiter, char byte, size_t *used)
{
    struct str text = delimiter->text;
    uint32_t seen = delimiter->seen, kept = seen;

    do {
        kept = delimiter->shorter[kept];
    } while (kept != 0 && text.data[kept] != byte);
    delimiter->seen = kept != 0 ? kept + 1 : 0;
    *used += kept != 0;
    return str_head(text, seen - kept);
}

static struct taken take_until(struct take *take, struct str input)
{
    struct delimiter *delimiter = take->delimiter;
    struct str text = delimiter->text;
    struct taken taken = {.is_done = false};

    for (;;) {
        if (delimiter->seen == text.len) {
            if (delimiter->is_apart && delimiter->is_included && take->has_given &&
                take->rest != TAKE_NO_LIMIT) {
                taken.is_done = true;
                return taken;
            }
            delimiter->seen = 0;
            delimiter->was_met = take->rest != TAKE_NO_LIMIT;
            taken.is_done = true;
            taken.bytes = delimiter->is_included ? text : STR_NONE;
            return taken;
        }
        if (delimiter->seen == 0) {
            taken = take_before(take, input);
            if (taken.bytes.len != 0 || taken.is_done) {
                return taken;
            }
        } else if (taken.used == input.len) {
            return taken;
        } else if (input.data[taken.used] == text.data[delimiter->seen]) {
            delimiter->seen++;
            taken.used++;
        } else {
            script_take_give(take, &taken,
                             delimiter_fall_back(delimiter, input.data[taken.used], &taken.used));
            return taken;
        }
    }
}

struct taken take_step(struct take *take, struct str input)
{
    struct taken taken = {.bytes = input, .used = input.len};

    switch (take->kind) {
    case TAKE_LINE:
        return take_line(input);
    case TAKE_UNTIL:
        return take_until(take, input);
    case TAKE_ALL:
        return taken;
    case TAKE_SIZE:
    case TAKE_ANY:
        break;
    }
    taken.bytes = str_head(input, take->rest < input.len ? (size_t) take->rest : input.len);
    taken.used = taken.bytes.len;
    take->rest -= taken.used;
    taken.is_done = take->rest == 0 || take->kind == TAKE_ANY;
    return taken;
}
