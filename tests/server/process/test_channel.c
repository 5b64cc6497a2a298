/* Messages with descriptors between master and worker. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "server/process/channel.h"

static int ends[2];

static int open_ends(void **state)
{
    return channel_open(ends) ? 0 : -1;
}

static int close_ends(void **state)
{
    close(ends[0]);
    close(ends[1]);
    return 0;
}

static void messages_keep_their_order_and_bounds(void **state)
{
    struct channel_message message;
    int fd;

    for (uint32_t i = 0; i < 10; i++) {
        message = (struct channel_message){.type = CHANNEL_RETURN, .slot = i};
        assert_true(channel_send(ends[0], &message, -1));
    }
    for (uint32_t i = 0; i < 10; i++) {
        assert_int_equal(channel_receive(ends[1], &message, &fd), CHANNEL_MESSAGE);
        assert_int_equal(message.slot, i);
        assert_int_equal(fd, -1);
    }
    assert_int_equal(channel_receive(ends[1], &message, &fd), CHANNEL_EMPTY);
}

static void a_descriptor_comes_along(void **state)
{
    struct channel_message message = {.type = CHANNEL_ADOPT, .listener = 3};
    int pipe_ends[2];
    int fd;
    char byte;

    assert_int_equal(pipe(pipe_ends), 0);
    assert_true(channel_send(ends[0], &message, pipe_ends[1]));
    close(pipe_ends[1]);
    memset(&message, 0, sizeof(message));
    assert_int_equal(channel_receive(ends[1], &message, &fd), CHANNEL_MESSAGE);
    assert_int_equal(message.listener, 3);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "x", 1), 1);
    assert_int_equal(read(pipe_ends[0], &byte, 1), 1);
    close(fd);
    assert_int_equal(read(pipe_ends[0], &byte, 1), 0); /* ours was the last copy */
    close(pipe_ends[0]);
}

static void messages_of_another_size_are_dropped(void **state)
{
    struct channel_message message = {.type = CHANNEL_READY};
    int fd;

    assert_int_equal(send(ends[0], "abc", 3, 0), 3);
    assert_true(channel_send(ends[0], &message, -1));
    assert_int_equal(channel_receive(ends[1], &message, &fd), CHANNEL_MESSAGE);
    assert_int_equal(message.type, CHANNEL_READY);
}

static void a_full_channel_says_so_and_a_closed_one_too(void **state)
{
    struct channel_message message = {.type = CHANNEL_REOPEN};
    int fd;
    int sent = 0;

    while (channel_send(ends[0], &message, -1)) {
        assert_in_range(++sent, 1, 100000);
    }
    assert_true(errno == EAGAIN);
    close(ends[0]);
    while (sent-- != 0) {
        assert_int_equal(channel_receive(ends[1], &message, &fd), CHANNEL_MESSAGE);
    }
    assert_int_equal(channel_receive(ends[1], &message, &fd), CHANNEL_CLOSED);
    assert_false(channel_send(ends[1], &message, -1));
    ends[0] = dup(ends[1]); /* something for the teardown to close */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(messages_keep_their_order_and_bounds, open_ends,
                                        close_ends),
        cmocka_unit_test_setup_teardown(a_descriptor_comes_along, open_ends, close_ends),
        cmocka_unit_test_setup_teardown(messages_of_another_size_are_dropped, open_ends,
                                        close_ends),
        cmocka_unit_test_setup_teardown(a_full_channel_says_so_and_a_closed_one_too, open_ends,
                                        close_ends),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
