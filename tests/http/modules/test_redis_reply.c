/* The end of Redis' answers. */
#include "base/unit.h"

#include "http/modules/backends/redis2/reply.h"

/* How many bytes belong to `count` answers; -1: they are not whole; -2: they are none. Whole and
 * byte by byte. */
static int length_of(struct str text, uint64_t count)
{
    struct reply reply;
    size_t used;

    reply_begin(&reply, count);
    enum reply_result whole = reply_take(&reply, text, &used);
    size_t total = 0;
    enum reply_result pieces = REPLY_MORE;
    reply_begin(&reply, count);
    for (size_t one = 1; pieces == REPLY_MORE && total < text.len && one != 0; total += one) {
        pieces = reply_take(&reply, (struct str){text.data + total, 1}, &one);
    }
    assert_int_equal(whole, pieces);
    assert_int_equal(used, total);
    return whole == REPLY_END ? (int) used : whole == REPLY_MORE ? -1 : -2;
}

#define LENGTH(text, count) length_of(STR(text), count)

static void answers_end(void **state)
{
    assert_int_equal(LENGTH("+OK\r\n", 1), 5);
    assert_int_equal(LENGTH("+OK\r\n+PONG\r\nmore", 2), 12);
    assert_int_equal(LENGTH("-ERR no\r\n", 1), 9);
    assert_int_equal(LENGTH(":-12\r\n", 1), 6);
    assert_int_equal(LENGTH("$3\r\na\r\n\r\n", 1), 9);
    assert_int_equal(LENGTH("$0\r\n\r\n", 1), 6);
    assert_int_equal(LENGTH("$-1\r\n+", 1), 5);
    assert_int_equal(LENGTH("*-1\r\n", 1), 5);
    assert_int_equal(LENGTH("*0\r\n", 1), 4);
    assert_int_equal(LENGTH("*2\r\n$1\r\na\r\n*1\r\n:1\r\n+x", 1), 19);
}

static void answers_that_are_not_whole(void **state)
{
    assert_int_equal(LENGTH("+OK\r\n", 2), -1);
    assert_int_equal(LENGTH("+OK\r", 1), -1);
    assert_int_equal(LENGTH("$3\r\nabc\r", 1), -1);
    assert_int_equal(LENGTH("*1000000\r\n:1\r\n", 1), -1);
}

static void what_is_no_answer(void **state)
{
    assert_int_equal(LENGTH("OK\r\n", 1), -2);
    assert_int_equal(LENGTH("+OK\n", 1), -2);
    assert_int_equal(LENGTH("+OK\rx", 1), -2);
    assert_int_equal(LENGTH("$3\r\nabcd\r\n", 1), -2);
    assert_int_equal(LENGTH("$\r\n", 1), -2);
    assert_int_equal(LENGTH("$-2\r\n", 1), -2);
    assert_int_equal(LENGTH("$--1\r\n", 1), -2);
    assert_int_equal(LENGTH("*1x\r\n", 1), -2);
    assert_int_equal(LENGTH("$99999999999999999999999\r\n", 1), -2);
    assert_int_equal(LENGTH("*1099511627776\r\n*1099511627776\r\n", 1), -2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(answers_end),
                                       cmocka_unit_test(answers_that_are_not_whole),
                                       cmocka_unit_test(what_is_no_answer)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
