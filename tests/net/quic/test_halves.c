/* Tests of the two halves of a stream: each by itself, and both over a channel that loses, repeats
 * and reorders. */
#include "base/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "net/quic/receive.h"
#include "net/quic/send.h"

static uint32_t next_number(uint32_t *seed)
{
    *seed = *seed * 1664525 + 1013904223;
    return *seed >> 8;
}

/* The byte of a stream at an offset, in all tests. */
static char pattern(uint64_t offset)
{
    return (char) (offset * 31 + (offset >> 8));
}

static void count_release(void *arg)
{
    ++*(int *) arg;
}

static struct quic_arrival arrival(const char *text, uint64_t offset, bool is_fin)
{
    return (struct quic_arrival){offset, {text + offset, strlen(text) - offset}, is_fin};
}

/* ---- the sending half ---- */

static void pieces_of_all_kinds_are_read_in_order(void **state)
{
    struct quic_send send;
    struct quic_send_chunk chunk;
    char bytes[64];
    int released = 0;
    FILE *file = tmpfile();

    fputs("....file....", file);
    fflush(file);
    quic_send_init(&send, 1000);
    quic_send_copy(&send, STR("copied,"));
    quic_send_copy(&send, STR("together,"));
    quic_send_refer(&send, STR("referred,"), count_release, &released);
    quic_send_file(&send, &(struct quic_file_part){fileno(file), 4, 4}, count_release, &released);
    quic_send_finish(&send);
    quic_send_copy(&send, STR("too late"));
    quic_send_refer(&send, STR("too late"), count_release, &released);
    assert_int_equal(released, 1);
    assert_true(quic_send_next(&send, NULL, sizeof(bytes), &chunk));
    assert_int_equal(chunk.offset, 0);
    assert_true(chunk.is_fin);
    assert_true(quic_send_read(&send, 0, bytes, chunk.len));
    assert_str(((struct str){bytes, chunk.len}), STR("copied,together,referred,file"));
    assert_true(quic_send_read(&send, 20, bytes, 7));
    assert_str(((struct str){bytes, 7}), STR("rred,fi"));
    quic_send_commit(&send, NULL, &chunk);
    assert_int_equal(send.state, QUIC_SEND_SENT);
    quic_send_acked(&send, &chunk);
    assert_true(quic_send_is_done(&send));
    assert_int_equal(released, 3);
    quic_send_free(&send);
    fclose(file);
}

static void a_file_that_became_shorter_is_noticed(void **state)
{
    struct quic_send send;
    char bytes[64];
    FILE *file = tmpfile();

    fputs("12345", file);
    fflush(file);
    quic_send_init(&send, 1000);
    quic_send_file(&send, &(struct quic_file_part){fileno(file), 0, 10}, NULL, NULL);
    assert_true(quic_send_read(&send, 0, bytes, 5));
    assert_false(quic_send_read(&send, 0, bytes, 6));
    quic_send_free(&send);
    fclose(file);
}

static void a_chunk_may_be_in_one_part_of_a_file(void **state)
{
    struct quic_send send;
    struct quic_file_part part;

    quic_send_init(&send, 1000);
    quic_send_copy(&send, STR("head"));
    quic_send_file(&send, &(struct quic_file_part){7, 100, 50}, NULL, NULL);
    quic_send_file(&send, &(struct quic_file_part){8, 0, 50}, NULL, NULL);
    assert_false(quic_send_is_in_file(&send, 0, 4, &part));
    assert_false(quic_send_is_in_file(&send, 3, 10, &part));
    assert_true(quic_send_is_in_file(&send, 4, 50, &part));
    assert_int_equal(part.fd, 7);
    assert_int_equal(part.offset, 100);
    assert_int_equal(part.len, 50);
    assert_false(quic_send_is_in_file(&send, 5, 50, &part));
    assert_true(quic_send_is_in_file(&send, 60, 7, &part));
    assert_int_equal(part.fd, 8);
    assert_int_equal(part.offset, 6);
    quic_send_free(&send);
}

/* In turns, with parts that are sent again. */
static void files_of_many_streams_keep_apart(void **state)
{
    enum { STREAMS = 20, SIZE = 50000 };
    static struct quic_send sends[STREAMS];
    static char expected[SIZE];
    FILE *file = tmpfile();

    for (uint64_t i = 0; i < SIZE; i++) {
        expected[i] = pattern(i);
    }
    fwrite(expected, 1, SIZE, file);
    fflush(file);
    for (uint64_t i = 0; i < STREAMS; i++) {
        quic_send_init(&sends[i], SIZE);
        quic_send_copy(&sends[i], STR("head"));
        quic_send_file(&sends[i], &(struct quic_file_part){fileno(file), i, SIZE - i}, NULL, NULL);
    }
    for (uint32_t seed = 1, step = 0; step < 20000; step++) {
        uint32_t i = next_number(&seed) % STREAMS;
        struct quic_send_chunk chunk;
        char bytes[1200];
        if (!quic_send_next(&sends[i], NULL, sizeof(bytes), &chunk)) {
            continue;
        }
        assert_true(quic_send_read(&sends[i], chunk.offset, bytes, chunk.len));
        uint32_t head = chunk.offset < 4 ? 4 - (uint32_t) chunk.offset : 0;
        assert_memory_equal(bytes + head, expected + i + chunk.offset + head - 4, chunk.len - head);
        quic_send_commit(&sends[i], NULL, &chunk);
        if (next_number(&seed) % 4 == 0) {
            quic_send_lost(&sends[i], &chunk);
        }
    }
    for (uint64_t i = 0; i < STREAMS; i++) {
        assert_int_equal(quic_send_unsent(&sends[i]), i < 4 ? 4 - i : 0); /* by the credit */
        quic_send_free(&sends[i]);
    }
    fclose(file);
}

static void credit_of_stream_and_connection_limits_new_bytes_only(void **state)
{
    struct quic_send send;
    struct quic_credit connection;
    struct quic_send_chunk chunk;

    quic_credit_init(&connection, 8);
    quic_send_init(&send, 5);
    assert_int_equal(quic_send_need(&send, &connection), QUIC_SEND_NOTHING);
    quic_send_copy(&send, STR("0123456789"));
    assert_true(quic_send_next(&send, &connection, 100, &chunk));
    assert_int_equal(chunk.len, 5);
    quic_send_commit(&send, &connection, &chunk);
    assert_int_equal(quic_send_need(&send, &connection), QUIC_SEND_BLOCKED_STREAM);
    assert_true(quic_credit_raise(&send.credit, 100));
    assert_true(quic_send_next(&send, &connection, 100, &chunk));
    assert_int_equal(chunk.len, 3);
    quic_send_commit(&send, &connection, &chunk);
    assert_int_equal(quic_send_need(&send, &connection), QUIC_SEND_BLOCKED_CONNECTION);
    assert_false(quic_send_next(&send, &connection, 100, &chunk));
    quic_send_lost(&send, &(struct quic_send_chunk){.offset = 2, .len = 4});
    assert_int_equal(quic_send_need(&send, &connection), QUIC_SEND_AGAIN);
    assert_true(quic_send_next(&send, &connection, 3, &chunk));
    assert_int_equal(chunk.offset, 2);
    assert_int_equal(chunk.len, 3);
    quic_send_commit(&send, &connection, &chunk);
    assert_int_equal(connection.used, 8);
    assert_int_equal(send.resent, 3);
    assert_false(quic_send_next(&send, &connection, 0, &chunk)); /* no room */
    quic_send_free(&send);
}

static void what_another_packet_delivered_is_not_sent_again(void **state)
{
    struct quic_send send;
    struct quic_send_chunk chunk;

    quic_send_init(&send, 100);
    quic_send_copy(&send, STR("0123456789"));
    quic_send_next(&send, NULL, 100, &chunk);
    quic_send_commit(&send, NULL, &chunk);
    quic_send_acked(&send, &(struct quic_send_chunk){.offset = 3, .len = 2});
    quic_send_acked(&send, &(struct quic_send_chunk){.offset = 7, .len = 1});
    assert_int_equal(quic_send_unacknowledged(&send), 7);
    quic_send_lost(&send, &(struct quic_send_chunk){.offset = 0, .len = 10});
    assert_int_equal(send.lost.count, 3);
    quic_send_acked(&send, &(struct quic_send_chunk){.offset = 0, .len = 6}); /* late */
    assert_int_equal(send.acked, 6);
    assert_int_equal(send.lost.count, 2);
    assert_int_equal(quic_ranges_at(&send.lost, 0).start, 6);
    quic_send_free(&send);
}

static void the_end_is_sent_alone_and_again(void **state)
{
    struct quic_send send;
    struct quic_send_chunk chunk;

    quic_send_init(&send, 100);
    quic_send_copy(&send, STR("body"));
    quic_send_next(&send, NULL, 100, &chunk);
    assert_false(chunk.is_fin);
    quic_send_commit(&send, NULL, &chunk);
    quic_send_acked(&send, &chunk);
    quic_send_finish(&send);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(quic_send_need(&send, NULL), i == 0 ? QUIC_SEND_NEW : QUIC_SEND_AGAIN);
        assert_true(quic_send_next(&send, NULL, 0, &chunk));
        assert_int_equal(chunk.len, 0);
        assert_int_equal(chunk.offset, 4);
        assert_true(chunk.is_fin);
        quic_send_commit(&send, NULL, &chunk);
        assert_int_equal(quic_send_need(&send, NULL), QUIC_SEND_NOTHING);
        quic_send_lost(&send, &chunk);
    }
    quic_send_acked(&send, &chunk); /* the second was not lost after all */
    assert_true(quic_send_is_done(&send));
    assert_int_equal(quic_send_need(&send, NULL), QUIC_SEND_NOTHING);
    quic_send_free(&send);
}

static void a_reset_drops_all_and_is_repeated(void **state)
{
    struct quic_send send;
    struct quic_send_chunk chunk;
    int released = 0;

    quic_send_init(&send, 100);
    quic_send_refer(&send, STR("0123456789"), count_release, &released);
    quic_send_next(&send, NULL, 4, &chunk);
    quic_send_commit(&send, NULL, &chunk);
    quic_send_reset(&send, 7);
    assert_int_equal(released, 1);
    assert_int_equal(quic_send_final_size(&send), 4);
    assert_int_equal(quic_send_unsent(&send), 0);
    quic_send_lost(&send, &chunk);
    assert_int_equal(quic_send_need(&send, NULL), QUIC_SEND_NOTHING);
    assert_true(send.wants_reset);
    quic_send_reset_sent(&send);
    quic_send_reset_lost(&send);
    assert_true(send.wants_reset);
    quic_send_reset_sent(&send);
    quic_send_reset(&send, 8);
    assert_int_equal(send.reset_code, 7);
    quic_send_reset_acked(&send);
    assert_true(quic_send_is_done(&send));
    quic_send_reset_lost(&send);
    assert_false(send.wants_reset);
    quic_send_free(&send);
}

/* ---- the receiving half ---- */

static void bytes_in_order_are_not_copied(void **state)
{
    struct quic_receive receive;
    struct quic_window connection;
    struct quic_arrival now;
    struct quic_arrival first = arrival("hello", 0, false);

    quic_window_init(&connection, 100, 100);
    quic_receive_init(&receive, 100, 100);
    assert_int_equal(quic_receive_take(&receive, &connection, &first, &now), QUIC_RECEIVED);
    assert_ptr_equal(now.bytes.data, first.bytes.data);
    assert_int_equal(now.bytes.len, 5);
    quic_receive_consume(&receive, &connection, 5);
    quic_receive_keep(&receive, &now);
    assert_int_equal(quic_receive_held(&receive), 0);
    struct quic_arrival rest = arrival("hello, world", 3, true); /* begins again a bit earlier */
    assert_int_equal(quic_receive_take(&receive, &connection, &rest, &now), QUIC_RECEIVED);
    assert_text(now.bytes, ", world");
    quic_receive_consume(&receive, &connection, 2);
    quic_receive_keep(&receive, &now);
    assert_int_equal(receive.state, QUIC_RECEIVE_COMPLETE);
    assert_text(quic_receive_input(&receive), "world");
    quic_receive_consume(&receive, &connection, 5);
    assert_true(quic_receive_is_read(&receive));
    assert_int_equal(connection.consumed, 12);
    assert_int_equal(quic_receive_held(&receive), 0);
    quic_receive_free(&receive);
}

static void what_came_early_waits_for_what_is_missing(void **state)
{
    struct quic_receive receive;
    struct quic_arrival now, frame = {4, STR("efgh"), true};

    quic_receive_init(&receive, 100, 100);
    assert_int_equal(quic_receive_take(&receive, NULL, &frame, &now), QUIC_RECEIVED);
    assert_int_equal(now.bytes.len, 0);
    assert_int_equal(quic_receive_input(&receive).len, 0);
    assert_int_equal(receive.state, QUIC_RECEIVE_SIZED);
    frame = (struct quic_arrival){0, STR("abcdef"), false};
    assert_int_equal(quic_receive_take(&receive, NULL, &frame, &now), QUIC_RECEIVED);
    assert_text(now.bytes, "abcd"); /* up to what is there */
    quic_receive_keep(&receive, &now);
    assert_text(quic_receive_input(&receive), "abcdefgh");
    assert_true(quic_receive_is_done(&receive));
    quic_receive_free(&receive);
}

static void the_final_size_is_held_to(void **state)
{
    struct quic_receive receive;
    struct quic_arrival now, frame = {4, STR("efgh"), true};

    quic_receive_init(&receive, 100, 100);
    assert_int_equal(quic_receive_take(&receive, NULL, &frame, &now), QUIC_RECEIVED);
    frame = (struct quic_arrival){7, STR("xy"), false};
    assert_int_equal(quic_receive_take(&receive, NULL, &frame, &now),
                     QUIC_RECEIVED_FINAL_SIZE_ERROR);
    frame = (struct quic_arrival){4, STR("efg"), true};
    assert_int_equal(quic_receive_take(&receive, NULL, &frame, &now),
                     QUIC_RECEIVED_FINAL_SIZE_ERROR);
    assert_int_equal(quic_receive_reset(&receive, NULL, 1, 9), QUIC_RECEIVED_FINAL_SIZE_ERROR);
    assert_int_equal(quic_receive_reset(&receive, NULL, 1, 8), QUIC_RECEIVED);
    assert_int_equal(receive.state, QUIC_RECEIVE_RESET);
    assert_int_equal(receive.window.consumed, 8);
    quic_receive_free(&receive);

    quic_receive_init(&receive, 100, 100);
    frame = (struct quic_arrival){0, STR("0123456789"), false};
    quic_receive_take(&receive, NULL, &frame, &now);
    quic_receive_keep(&receive, &now);
    frame = (struct quic_arrival){2, STR("23"), true}; /* an end before what came */
    assert_int_equal(quic_receive_take(&receive, NULL, &frame, &now),
                     QUIC_RECEIVED_FINAL_SIZE_ERROR);
    assert_int_equal(quic_receive_reset(&receive, NULL, 1, 9), QUIC_RECEIVED_FINAL_SIZE_ERROR);
    quic_receive_free(&receive);
}

static void both_windows_are_held_to(void **state)
{
    struct quic_receive receive;
    struct quic_window connection;
    struct quic_arrival now, frame = {8, STR("89"), false};

    quic_window_init(&connection, 9, 9);
    quic_receive_init(&receive, 20, 20);
    assert_int_equal(quic_receive_take(&receive, &connection, &frame, &now),
                     QUIC_RECEIVED_FLOW_CONTROL_ERROR);
    assert_int_equal(receive.window.received, 0);
    assert_int_equal(connection.received, 0);
    assert_int_equal(quic_receive_reset(&receive, &connection, 1, 10),
                     QUIC_RECEIVED_FLOW_CONTROL_ERROR);
    connection.limit = 100;
    frame = (struct quic_arrival){15, STR("5678901"), false};
    assert_int_equal(quic_receive_take(&receive, &connection, &frame, &now),
                     QUIC_RECEIVED_FLOW_CONTROL_ERROR);
    frame = (struct quic_arrival){15, STR("56789"), false};
    assert_int_equal(quic_receive_take(&receive, &connection, &frame, &now), QUIC_RECEIVED);
    assert_int_equal(connection.received, 20);
    quic_receive_free(&receive);
}

static void a_stopped_half_gives_its_credit_back(void **state)
{
    struct quic_receive receive;
    struct quic_window connection;
    struct quic_arrival now, frame = {8, STR("89"), false};

    quic_window_init(&connection, 100, 100);
    quic_receive_init(&receive, 100, 100);
    quic_receive_take(&receive, &connection, &frame, &now);
    quic_receive_stop(&receive, &connection, 5);
    assert_true(receive.wants_stop);
    assert_int_equal(connection.consumed, 10);
    assert_int_equal(quic_receive_held(&receive), 0);
    quic_receive_stop_sent(&receive);
    quic_receive_stop_lost(&receive);
    assert_true(receive.wants_stop);
    frame = (struct quic_arrival){18, STR("89"), true};
    quic_receive_take(&receive, &connection, &frame, &now);
    assert_int_equal(now.bytes.len, 0);
    assert_int_equal(connection.consumed, 20);
    assert_true(quic_receive_is_read(&receive));
    quic_receive_stop_lost(&receive);
    assert_false(receive.wants_stop); /* it has all come */
    quic_receive_free(&receive);
}

static void too_many_gaps_are_refused_but_the_first_is_filled(void **state)
{
    struct quic_receive receive;
    struct quic_arrival now, frame;
    uint64_t gaps = 0;

    const uint64_t most = QUIC_RECEIVE_GAPS + 10;

    quic_receive_init(&receive, 10240, 10240);
    for (uint64_t offset = 1; offset < 10000; offset += 2) {
        frame = (struct quic_arrival){offset, STR("x"), false};
        if (quic_receive_take(&receive, NULL, &frame, &now) == QUIC_RECEIVED_SCATTERED) {
            break;
        }
        gaps++;
    }
    assert_int_equal(gaps, most);
    assert_int_equal(receive.window.received, 2 * most);
    for (uint64_t offset = 0; offset < 2 * gaps; offset += 2) {
        frame = (struct quic_arrival){offset, STR("x"), false};
        assert_int_equal(quic_receive_take(&receive, NULL, &frame, &now), QUIC_RECEIVED);
        assert_int_equal(now.bytes.len, 1);
        quic_receive_consume(&receive, NULL, 1);
        quic_receive_keep(&receive, &now);
        quic_receive_consume(&receive, NULL, quic_receive_input(&receive).len);
    }
    assert_int_equal(quic_receive_held(&receive), 0);
    quic_receive_free(&receive);
}

/* ---- both ---- */

enum { TOTAL = 60000, UNDER_WAY = 24 };

struct frame_under_way {
    struct quic_send_chunk chunk;
    char bytes[1200];
};

static void read_some(struct quic_receive *receive, struct quic_window *connection, uint32_t *seed,
                      struct quic_arrival *now)
{
    size_t most = next_number(seed) % 3000;
    struct str input = now->bytes.len != 0 ? now->bytes : quic_receive_input(receive);
    size_t n = input.len < most ? input.len : most;

    for (size_t i = 0; i < n; i++) {
        assert_int_equal(input.data[i], pattern(receive->window.consumed + i));
    }
    quic_receive_consume(receive, connection, n);
    quic_receive_keep(receive, now);
    now->bytes.len = 0;
}

static void write_some(struct quic_send *send, uint32_t *seed, char *bytes)
{
    size_t n = next_number(seed) % 5000;

    n = n < TOTAL - send->queued ? n : TOTAL - send->queued;
    if (next_number(seed) % 2 == 0) {
        quic_send_copy(send, (struct str){bytes + send->queued, n});
    } else {
        quic_send_refer(send, (struct str){bytes + send->queued, n}, NULL, NULL);
    }
    if (send->queued == TOTAL) {
        quic_send_finish(send);
    }
}

/* One run: frames are delivered, lost, delivered and thought lost, in any order. */
static void carry_stream(uint32_t seed, char *bytes)
{
    static struct frame_under_way ways[UNDER_WAY];
    struct quic_send send;
    struct quic_receive receive;
    struct quic_credit credit;
    struct quic_window connection;
    size_t count = 0;

    quic_send_init(&send, 4000);
    quic_receive_init(&receive, 4000, 20000);
    quic_credit_init(&credit, 6000);
    quic_window_init(&connection, 6000, 30000);
    for (int step = 0; !quic_send_is_done(&send) || !quic_receive_is_read(&receive); step++) {
        struct quic_arrival now = {0};
        assert_true(step < 100000);
        write_some(&send, &seed, bytes);
        while (count < UNDER_WAY && next_number(&seed) % 8 != 0) {
            struct frame_under_way *way = &ways[count];
            if (!quic_send_next(&send, &credit, next_number(&seed) % 1200, &way->chunk)) {
                break;
            }
            assert_true(quic_send_read(&send, way->chunk.offset, way->bytes, way->chunk.len));
            quic_send_commit(&send, &credit, &way->chunk);
            count++;
        }
        if (count != 0) {
            size_t at = next_number(&seed) % count;
            struct frame_under_way way = ways[at];
            unsigned fate = next_number(&seed) % 8;
            if (fate < 6) {
                struct quic_arrival frame = {way.chunk.offset,
                                             {way.bytes, way.chunk.len},
                                             way.chunk.is_fin};
                assert_int_equal(quic_receive_take(&receive, &connection, &frame, &now),
                                 QUIC_RECEIVED);
                read_some(&receive, &connection, &seed, &now);
            }
            if (fate >= 5) {
                quic_send_lost(&send, &way.chunk);
            } else {
                quic_send_acked(&send, &way.chunk);
            }
            if (fate != 4) { /* 4: it comes once more */
                ways[at] = ways[--count];
            }
        }
        read_some(&receive, &connection, &seed, &now);
        if (quic_receive_is_window_due(&receive)) {
            quic_credit_raise(&send.credit,
                              quic_window_update(&receive.window, (uint64_t) step + 1, 3));
        }
        if (quic_window_is_due(&connection)) {
            quic_credit_raise(&credit, quic_window_update(&connection, (uint64_t) step + 1, 3));
        }
        assert_true(quic_receive_held(&receive) <= 20000 + 2 * 4096);
    }
    assert_int_equal(receive.window.consumed, TOTAL);
    assert_int_equal(connection.consumed, TOTAL);
    assert_int_equal(quic_receive_held(&receive), 0);
    quic_receive_free(&receive);
    quic_send_free(&send);
}

static void a_stream_arrives_whole_over_a_bad_channel(void **state)
{
    char *bytes = malloc(TOTAL);

    for (uint64_t i = 0; i < TOTAL; i++) {
        bytes[i] = pattern(i);
    }
    for (uint32_t seed = 0; seed < 300; seed++) {
        carry_stream(seed, bytes);
    }
    free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_of_all_kinds_are_read_in_order),
        cmocka_unit_test(a_file_that_became_shorter_is_noticed),
        cmocka_unit_test(a_chunk_may_be_in_one_part_of_a_file),
        cmocka_unit_test(files_of_many_streams_keep_apart),
        cmocka_unit_test(credit_of_stream_and_connection_limits_new_bytes_only),
        cmocka_unit_test(what_another_packet_delivered_is_not_sent_again),
        cmocka_unit_test(the_end_is_sent_alone_and_again),
        cmocka_unit_test(a_reset_drops_all_and_is_repeated),
        cmocka_unit_test(bytes_in_order_are_not_copied),
        cmocka_unit_test(what_came_early_waits_for_what_is_missing),
        cmocka_unit_test(the_final_size_is_held_to),
        cmocka_unit_test(both_windows_are_held_to),
        cmocka_unit_test(a_stopped_half_gives_its_credit_back),
        cmocka_unit_test(too_many_gaps_are_refused_but_the_first_is_filled),
        cmocka_unit_test(a_stream_arrives_whole_over_a_bad_channel),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
