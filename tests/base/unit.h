/* What the unit tests of src/server share: cmocka with what it needs, and checks of slices. */
#ifndef TESTS_BASE_UNIT_H
#define TESTS_BASE_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/str.h"

/* Both lengths and all bytes are shown when they differ. */
#define assert_str(actual, expected)                                                               \
    do {                                                                                           \
        struct str actual_ = (actual);                                                             \
        struct str expected_ = (expected);                                                         \
        if (!str_equal(actual_, expected_)) {                                                      \
            fail_msg("got \"%.*s\" (%zu), expected \"%.*s\" (%zu)", STR_ARG(actual_), actual_.len, \
                     STR_ARG(expected_), expected_.len);                                           \
        }                                                                                          \
    } while (0)

#define assert_text(actual, literal) assert_str(actual, STR(literal))

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

#endif
