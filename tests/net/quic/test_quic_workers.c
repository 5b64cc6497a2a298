/* A connection stays with its worker when a newer one reads the socket, and is passed what belongs
 * to it. */
#include "net/quic/quic_ends.h"

#include <signal.h>
#include <sys/wait.h>

static char bytes[300000];

static void transfer(void)
{
    struct quic_stream *stream = quic_stream_open(client_end.connection, false);
    unsigned place = (unsigned) (stream->id / 4);

    quic_stream_write(stream, (struct str){bytes, sizeof(bytes)});
    quic_stream_finish(stream);
    turn_until(client_end.streams[place].is_finished || client_end.closed);
    assert_int_equal(client_end.streams[place].got, sizeof(bytes));
}

/* The worker of the next generation, until it is killed. */
static int newer_worker(int ready)
{
    const struct loop_options options = {.log = log_main};
    char byte = 'r';

    quic_worker = (struct quic_worker){.is_ready = false};
    if (!loop_init(&options) || !datagrams_start(&quic_listener, 2, 0) ||
        write(ready, &byte, 1) != 1) {
        return 1;
    }
    for (;;) {
        loop_turn(1000);
    }
}

static void a_newer_worker_reads(void **state)
{
    int go[2], ready[2];
    char byte = 'g';

    server_prepare();
    datagram_mailboxes_open(&quic_listener, 2, 1);
    assert_int_equal(pipe(go), 0);
    assert_int_equal(pipe(ready), 0);
    pid_t child = fork(); /* before this one is a worker, as a master does */
    if (child == 0) {
        _exit(read(go[0], &byte, 1) == 1 ? newer_worker(ready[1]) : 1);
    }
    assert_true(datagrams_start(&quic_listener, 1, 0));
    connect_client();
    turn_until(client_end.established != 0 && server_end.established != 0);
    transfer();
    assert_int_equal(write(go[1], &byte, 1), 1);
    assert_int_equal(read(ready[0], &byte, 1), 1);

    uint64_t taken = datagram_counts.taken;
    datagrams_stop(DATAGRAMS_REPLACED);
    transfer();
    assert_true(datagram_counts.taken > taken);
    ends_shut_client();
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    for (int i = 0; i < 2; i++) {
        close(go[i]);
        close(ready[i]);
    }
}

/* Datagrams go to the socket of the slot that their id names, whoever sends them. */
static void ids_name_slots_of(const struct quic_server_id *server)
{
    enum { SLOTS = 4 };
    unsigned char datagram[40] = {0x40};
    unsigned long_ones = 0;
    struct listener *listener = &quic_listener;

    quic_service.settings.server_id = server;
    server_prepare_slots(SLOTS);
    assert_true(shard_steer(listener->shards, SLOTS, &memory_log));
    for (unsigned i = 0; i < 40; i++) {
        const uint8_t random[8] = {(uint8_t) i, 1, 2, (uint8_t) (i * 3), 5, 6, 7, 8};
        const struct quic_cid_names names = {.worker = 77, .slot = (uint16_t) (i % SLOTS)};
        struct quic_cid cid;
        int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

        quic_cid_encode(quic_service.secrets, names, random, &cid);
        assert_int_equal(quic_cid_decode(quic_service.secrets, quic_cid_str(&cid)).slot, i % SLOTS);
        assert_int_equal(quic_cid_decode(quic_service.secrets, quic_cid_str(&cid)).worker, 77);
        datagram[0] = i % 2 == 0 ? 0x40 : 0xc0;
        datagram[5] = cid.len;
        memcpy(datagram + (i % 2 == 0 ? 1 : 6), cid.bytes, cid.len);
        connect(fd, &listener->addr.any, listener->addr.len);
        assert_int_equal(send(fd, datagram, sizeof(datagram), 0), sizeof(datagram));
        await_readable(listener->shards->fds[i % SLOTS]);
        assert_int_equal(recv(listener->shards->fds[i % SLOTS], datagram, sizeof(datagram), 0),
                         sizeof(datagram));
        long_ones += i % 2;
        close(fd);
    }
    assert_int_equal(long_ones, 20);
    assert_true(datagrams_start(listener, 1, 0));
}

static void ids_name_slots(void **state)
{
    ids_name_slots_of(NULL);
}

static void ids_name_a_server_and_slots(void **state)
{
    static const struct quic_server_id server = {.size = 7, .bytes = {1, 2, 3, 4, 5, 6, 7}};

    ids_name_slots_of(&server);
}

/* The packets of a client's first flight go to one socket, though what follows an id of another
 * size differs. */
static void ids_of_clients_are_steered_alike(void **state)
{
    enum { SLOTS = 4 };
    static const struct quic_server_id server = {.size = 7, .bytes = {1, 2, 3, 4, 5, 6, 7}};
    unsigned char datagram[64] = {0xc0, 0, 0, 0, 1, 8, 'c', 'l', 'i', 'e', 'n', 't', 'i', 'd'};
    struct listener *listener = &quic_listener;
    struct pollfd polled[SLOTS];
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    unsigned ready = 0;

    quic_service.settings.server_id = &server;
    server_prepare_slots(SLOTS);
    assert_true(shard_steer(listener->shards, SLOTS, &memory_log));
    connect(fd, &listener->addr.any, listener->addr.len);
    for (unsigned i = 0; i < 32; i++) {
        memset(datagram + 15, (int) (i * 37), sizeof(datagram) - 15);
        assert_int_equal(send(fd, datagram, sizeof(datagram), 0), sizeof(datagram));
    }
    for (unsigned i = 0; i < SLOTS; i++) {
        polled[i] = (struct pollfd){.fd = listener->shards->fds[i], .events = POLLIN};
    }
    assert_int_equal(poll(polled, SLOTS, 5000), 1);
    for (unsigned i = 0; i < SLOTS; i++) {
        while (recv(polled[i].fd, datagram, sizeof(datagram), MSG_DONTWAIT) > 0) {
            ready++;
        }
    }
    assert_int_equal(ready, 32);
    close(fd);
    assert_true(datagrams_start(listener, 1, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {QUIC_TEST(a_newer_worker_reads), QUIC_TEST(ids_name_slots),
                                       QUIC_TEST(ids_name_a_server_and_slots),
                                       QUIC_TEST(ids_of_clients_are_steered_alike)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
