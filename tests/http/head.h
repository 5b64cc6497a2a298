/* What the tests of the request head share: one parse of a text that ends where its memory ends. */
#ifndef TESTS_HTTP_HEAD_H
#define TESTS_HTTP_HEAD_H

#include <stdlib.h>

#include "base/unit.h"

#include "base/arena.h"
#include "base/buf.h"
#include "http/message/fields.h"
#include "http/message/parser.h"

static const struct head_limits usual_limits = {.line_max = 200,
                                                .head_max = 1000,
                                                .headers_max = 10,
                                                .ignore_invalid = true};

static struct arena arena;
static struct head head;
static struct fields fields;
static char
    *memory; /* the input: a piece of its own, so that a byte read too far is seen by ASan */
static struct head_limits limits;

static inline int set_up(void **state)
{
    arena_init(&arena);
    limits = usual_limits;
    memory = NULL;
    return 0;
}

static inline int tear_down(void **state)
{
    arena_free(&arena);
    free(memory);
    return 0;
}

static inline struct str exact_copy(struct str text)
{
    free(memory);
    memory = malloc(text.len == 0 ? 1 : text.len);
    assert_non_null(memory);
    memcpy(memory, text.data, text.len);
    return (struct str){memory, text.len};
}

static inline enum parse_result parse_str(struct str text)
{
    memset(&fields, 0, sizeof(fields));
    return head_parse(exact_copy(text), &(struct field_reading){&limits, &arena, &fields, NULL, 0},
                      &head);
}

static inline enum parse_result parse(const char *text)
{
    return parse_str(str_of(text));
}

/* Refused with the status; the log shows a reason, and of the input at most what was sent. */
#define assert_refused_str(text, wanted)                                                           \
    do {                                                                                           \
        assert_int_equal(parse_str(text), PARSE_BAD);                                              \
        assert_int_equal(head.status, wanted);                                                     \
        assert_non_null(head.reason);                                                              \
        if (head.culprit.len != 0) {                                                               \
            assert_true(head.culprit.data >= memory);                                              \
            assert_true(head.culprit.data + head.culprit.len <= memory + (text).len);              \
        }                                                                                          \
    } while (0)

#define assert_refused(text, wanted) assert_refused_str(str_of(text), wanted)

#define head_test(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

#endif
