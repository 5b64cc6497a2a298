/* Fuzz target: the HTTP/1 request head parser. Slices stay inside the input, and a shorter input
 * never yields a longer head. */
#include <stdlib.h>

#include "base/arena.h"
#include "http/message/fields.h"
#include "http/message/parser.h"
#include "http/message/repeat.h"

static void check_inside(struct str part, struct str whole)
{
    if (part.len != 0 &&
        (part.data < whole.data || part.data + part.len > whole.data + whole.len)) {
        abort();
    }
}

/* However a head is cut, it is looked at again when there is something to say, and not before. */
static void check_parts(struct str input, const struct head_limits *limits, struct arena *arena,
                        const struct head *whole, enum parse_result result)
{
    size_t step = 1 + input.len % 7;
    struct head head = {0};
    unsigned parsed = 0;
    bool is_first = true;

    for (size_t n = step < input.len ? step : input.len;; n += step) {
        struct str part = str_head(input, n);
        if (is_first || head_wants_parsing(&head.scan, part, limits)) {
            struct fields fields = {0};
            enum parse_result again =
                head_parse(part, &(struct field_reading){limits, arena, &fields, NULL, 0}, &head);
            is_first = false;
            if (++parsed > 3) {
                abort();
            }
            if (again != PARSE_MORE) {
                if (again != result || (again == PARSE_DONE && head.end != whole->end)) {
                    abort();
                }
                return;
            }
        }
        if (n >= input.len) {
            break;
        }
    }
    if (result != PARSE_MORE) {
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct head_limits limits = {.line_max = 512,
                                       .head_max = 2048,
                                       .headers_max = 20,
                                       .ignore_invalid = size % 2 == 0};
    struct str input = {(const char *) data, size};
    struct arena arena;
    struct fields fields = {0};
    struct head head;
    struct str host;
    struct str port;

    arena_init(&arena);
    static struct repeated repeat;

    repeat.len = 0;
    enum parse_result result =
        head_parse(input, &(struct field_reading){&limits, &arena, &fields, &repeat, 0}, &head);
    if (result == PARSE_DONE) {
        if (head.end == 0 || head.end > size || head.size > head.end) {
            abort();
        }
        check_inside(head.line, input);
        check_inside(head.method, input);
        check_inside(head.target, input);
        check_inside(head.path, input);
        fields_each(field, &fields) {
            check_inside(field->name, input);
            check_inside(field->value, input);
            authority_parse(&arena, field->value, &host, &port);
        }
        /* What lies behind the head has no say in it. */
        struct fields again = {0};
        struct head same;
        if (head_parse(str_head(input, head.end),
                       &(struct field_reading){&limits, &arena, &again, NULL, 0},
                       &same) != PARSE_DONE ||
            same.end != head.end || again.count != fields.count) {
            abort();
        }
        /* … and a block that was remembered is the one that is parsed. */
        struct fields recalled = {0};
        if (head_parse(input, &(struct field_reading){&limits, &arena, &recalled, &repeat, 0},
                       &same) != PARSE_DONE ||
            same.end != head.end || same.size != head.size || recalled.count != fields.count ||
            recalled.seen != fields.seen || recalled.has_repeats != fields.has_repeats) {
            abort();
        }
        for (uint32_t i = 0; i < fields.count; i++) {
            if (!str_equal(recalled.items[i].name, fields.items[i].name) ||
                !str_equal(recalled.items[i].value, fields.items[i].value) ||
                recalled.items[i].id != fields.items[i].id) {
                abort();
            }
        }
    } else if (result == PARSE_BAD && head.status < 400) {
        abort();
    }
    check_parts(input, &limits, &arena, &head, result);
    arena_free(&arena);
    return 0;
}
