/* Fuzz target: the HTTP/1 request head parser. Slices stay inside the input, and a shorter input
 * never yields a longer head. */
#include <stdlib.h>

#include "base/arena.h"
#include "http/fields.h"
#include "http/v1/parser.h"
#include "http/v1/repeat.h"

static void check_inside(struct str part, struct str whole)
{
    if (part.len != 0 &&
        (part.data < whole.data || part.data + part.len > whole.data + whole.len)) {
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
    enum parse_result result = head_parse(input, &limits, &arena, &repeat, &fields, &head);
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
        if (head_parse(str_head(input, head.end), &limits, &arena, NULL, &again, &same) !=
                PARSE_DONE ||
            same.end != head.end || again.count != fields.count) {
            abort();
        }
        /* … and a block that was remembered is the one that is parsed. */
        struct fields recalled = {0};
        if (head_parse(input, &limits, &arena, &repeat, &recalled, &same) != PARSE_DONE ||
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
    arena_free(&arena);
    return 0;
}
