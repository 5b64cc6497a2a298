/* Messages with idle connections: how many descriptors one brings is known before it is taken. */
#include "base/unit.h"

#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/shards/listener.h"
#include "server/worker/batch.h"

static struct listener listener = {.magic = LISTENER_MAGIC, .opening = 7};

static void send_batch(int to, unsigned count)
{
    struct batch *batch = batch_new(&listener);

    for (unsigned i = 0; i < count; i++) {
        batch_add(batch, to, "state", 5);
    }
    assert_true(batch_send(batch, to));
    free(batch);
}

static void the_number_of_descriptors_is_known_before(void **state)
{
    int pair[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, pair), 0);
    assert_int_equal(batch_peek(pair[0]), 0);
    send_batch(pair[1], 3);
    int next = dup(pair[0]);
    close(next);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(batch_peek(pair[0]), 3);
    }
    /* None of them was opened here for it. */
    assert_int_equal(dup(pair[0]), next);
    close(next);
    close(pair[0]);
    close(pair[1]);
}

static void other_messages_bring_none(void **state)
{
    int pair[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, pair), 0);
    assert_int_equal(send(pair[1], "", 1, 0), 1);
    assert_int_equal(batch_peek(pair[0]), 0);
    close(pair[1]);
    char byte;
    assert_int_equal(recv(pair[0], &byte, 1, 0), 1);
    assert_int_equal(batch_peek(pair[0]), 0); /* its end */
    close(pair[0]);
    assert_int_equal(batch_count("", 0), 0);
}

static void a_message_gives_back_what_was_put_in(void **state)
{
    struct batch *batch = batch_new(&listener);
    struct addr addr;
    struct str text;
    uint32_t opening;
    size_t at = 0;

    batch_add(batch, 0, "one", 3);
    batch_add(batch, 0, "", 0);
    assert_true(batch_listener(batch->data, batch->size, &addr, &opening));
    assert_int_equal(opening, 7);
    assert_true(batch_next(batch->data, batch->size, &at, &text));
    assert_text(text, "one");
    assert_true(batch_next(batch->data, batch->size, &at, &text));
    assert_text(text, "");
    assert_false(batch_next(batch->data, batch->size, &at, &text));
    at = 0;
    assert_false(batch_next(batch->data, batch->size - 6, &at, &text)); /* cut in the first */
    free(batch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_number_of_descriptors_is_known_before),
        cmocka_unit_test(other_messages_bring_none),
        cmocka_unit_test(a_message_gives_back_what_was_put_in),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
