/* Relays against a model: bytes, sizes, pauses and ends at random, both ways, plain and TLS. */
#include "net/tls/tls_ends.h"

#include "net/relay/relay_ends.h"

enum {
    ROUNDS = 150,        /* sessions of each kind */
    BYTES_MOST = 600000, /* that a peer says */
    PATIENCE = 1000,     /* steps without a byte; then the kernel's timers are waited for */
    GIVE_UP_MS = 20000,  /* of a session: beyond that it hangs */
};

/* How a session ends. */
enum ending {
    ORDERLY,    /* half close is on; both say all they have, and hear all */
    FIRST_ENDS, /* half close is off; one ends, the other is cut short */
    CUT,        /* half close is on or off; one closes or resets somewhere */
    ENDINGS
};

/* A peer, and what it says: bytes that follow from their place. */
struct talker {
    int fd;
    SSL *ssl; /* or NULL */
    unsigned seed;
    size_t says; /* bytes that it has to say */
    size_t said;
    bool has_shut;
    size_t heard; /* of the other one */
    bool heard_end;
};

static unsigned long state_of_random = 1;

static unsigned dice(unsigned sides)
{
    state_of_random = state_of_random * 6364136223846793005ul + 1442695040888963407ul;
    return (unsigned) (state_of_random >> 33) % sides;
}

static char byte_at(unsigned seed, size_t i)
{
    return (char) ((i + seed) * 2654435761u >> 11);
}

static unsigned size_by_dice(void)
{
    static const unsigned most[] = {1, 100, 3000, 40000};

    return 1 + dice(most[dice(4)]);
}

/* ---- what a peer does ---- */

static void say(struct talker *talker)
{
    static char bytes[40000];
    size_t left = talker->says - talker->said;
    size_t n = size_by_dice();

    n = n < left ? n : left;
    for (size_t i = 0; i < n; i++) {
        bytes[i] = byte_at(talker->seed, talker->said + i);
    }
    if (n == 0) {
        return;
    }
    ssize_t sent = talker->ssl != NULL ? SSL_write(talker->ssl, bytes, (int) n)
                                       : send(talker->fd, bytes, n, MSG_NOSIGNAL);
    ERR_clear_error();
    talker->said += sent > 0 ? (size_t) sent : 0;
}

static void hear(struct talker *talker, const struct talker *other)
{
    static char bytes[40000];
    size_t n = size_by_dice();
    ssize_t got =
        talker->ssl != NULL ? SSL_read(talker->ssl, bytes, (int) n) : recv(talker->fd, bytes, n, 0);

    if (talker->ssl != NULL && got <= 0) {
        talker->heard_end |= SSL_get_error(talker->ssl, (int) got) != SSL_ERROR_WANT_READ;
        ERR_clear_error();
    } else {
        talker->heard_end |= got == 0 || (got == -1 && errno != EAGAIN);
    }
    for (ssize_t i = 0; i < got; i++) {
        if (bytes[i] != byte_at(other->seed, talker->heard + (size_t) i)) {
            fail_msg("byte %zu is another", talker->heard + (size_t) i);
        }
    }
    talker->heard += got > 0 ? (size_t) got : 0;
    assert_true(talker->heard <= other->said);
}

static void shut(struct talker *talker)
{
    if (!talker->has_shut && talker->said == talker->says) {
        talker->has_shut = true;
        if (talker->ssl != NULL) {
            SSL_shutdown(talker->ssl);
        }
        shutdown(talker->fd, SHUT_WR);
    }
}

/* ---- a session ---- */

struct play {
    struct session session;
    struct ends ends; /* of TLS with the client */
    struct talker talkers[2];
    enum ending ending;
    bool is_tls;
    size_t cut_at; /* bytes that were said by both; then it is cut */
};

static void play_open(struct play *play, struct tls_context *context)
{
    struct session *session = &play->session;
    int pair[2];

    session_open(session);
    if (dice(3) == 0 && !play->is_tls) {
        conn_close(session->relay.sides[RELAY_CLIENT].conn);
        session_close_peer(session, RELAY_CLIENT);
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
        session_take(session, RELAY_CLIENT, pair);
    } else if (play->is_tls) {
        conn_close(session->relay.sides[RELAY_CLIENT].conn);
        session_close_peer(session, RELAY_CLIENT);
        ends_open(&play->ends, context, NULL);
        assert_int_equal(shake_hands(&play->ends), 1);
        SSL_set_mode(play->ends.client,
                     SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
        play->ends.pair.conn->owner = &session_owner;
        play->ends.pair.conn->user = session;
        session->relay.sides[RELAY_CLIENT].conn = play->ends.pair.conn;
        session->peers[RELAY_CLIENT] = play->ends.pair.peer;
    }
    for (int i = 0; i < 2; i++) {
        int size = 32768 << dice(3);

        if (dice(2) == 0) {
            setsockopt(session->peers[i], SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
            setsockopt(session->relay.sides[i].conn->source.fd, SOL_SOCKET, SO_SNDBUF, &size,
                       sizeof(size));
        }
        session->relay.sides[i].conn->turn_budget = dice(2) == 0 ? 0 : 1 + dice(30000);
        play->talkers[i] = (struct talker){
            .fd = session->peers[i],
            .ssl = i == 0 && play->is_tls ? play->ends.client : NULL,
            .seed = dice(100000),
            .says = dice(3) == 0 ? dice(1000) : dice(BYTES_MOST),
        };
    }
    session->relay.buffer_size = dice(2) == 0 ? 0 : 1 + dice(70000);
    for (int i = 0; i < 2; i++) {
        session->relay.sides[i].is_half_close_on =
            play->ending == ORDERLY || (play->ending == CUT && dice(2));
    }
    play->cut_at = play->ending == CUT
                       ? dice((unsigned) (play->talkers[0].says + play->talkers[1].says + 1))
                       : SIZE_MAX;
}

/* The one that ends first in FIRST_ENDS is the client or the backend by its seed. */
static bool may_shut(const struct play *play, int i)
{
    return play->ending != FIRST_ENDS || (play->talkers[0].seed & 1) == (unsigned) i;
}

static void play_step(struct play *play)
{
    int i = (int) dice(2);
    struct talker *talker = &play->talkers[i];

    if (talker->fd != -1) {
        switch (dice(8)) {
        case 0:
        case 1:
        case 2:
            say(talker);
            break;
        case 3:
        case 4:
        case 5:
            hear(talker, &play->talkers[1 - i]);
            break;
        default:
            if (may_shut(play, i)) {
                shut(talker);
            }
        }
    }
    if (play->talkers[0].said + play->talkers[1].said >= play->cut_at) {
        if (dice(2) == 0) {
            session_reset_peer(&play->session, (enum relay_end) i);
        } else {
            session_close_peer(&play->session, (enum relay_end) i);
        }
        talker->fd = -1;
        play->cut_at = SIZE_MAX;
    }
    if (dice(4) == 0) {
        loop_turn(0);
    }
}

/* Our side closes, and who is left hears what is on its way. */
static void play_close(struct play *play)
{
    struct session *session = &play->session;

    relay_abort(&session->relay);
    assert_int_equal(session->ended, 1);
    for (int i = 0; i < 2; i++) {
        assert_null(session->relay.sides[i].pipe);
        conn_close(session->relay.sides[i].conn);
    }
    for (int i = 0; i < 2; i++) {
        struct talker *talker = &play->talkers[i];

        while (talker->fd != -1 && !talker->heard_end) {
            hear(talker, &play->talkers[1 - i]);
        }
        session_close_peer(session, (enum relay_end) i);
    }
    if (play->is_tls) {
        SSL_free(play->ends.client);
        ERR_clear_error();
    }
}

static void check_counts(struct play *play)
{
    for (int i = 0; i < 2; i++) {
        const struct relay_side *side = &play->session.relay.sides[i];
        const struct conn *to = play->session.relay.sides[1 - i].conn;

        assert_true(side->received <= play->talkers[i].said);
        assert_true(to->sent <= side->received);
        if (play->ending == ORDERLY) {
            assert_int_equal(side->received, play->talkers[i].says);
            assert_int_equal(to->sent, side->received);
        }
        if (play->ending == FIRST_ENDS && may_shut(play, i)) {
            assert_int_equal(play->session.side, i);
            assert_int_equal(to->sent, play->talkers[i].says);
        }
    }
}

/* Until it has ended. */
static void play_steps(struct play *play)
{
    uint64_t give_up_ms = clock_now.now_ms + GIVE_UP_MS;
    size_t before = 0;
    int idle = 0;

    while (play->session.ended == 0) {
        play_step(play);
        size_t now = play->talkers[0].said + play->talkers[0].heard + play->talkers[1].said +
                     play->talkers[1].heard;
        idle = now == before ? idle + 1 : 0;
        before = now;
        if (idle > PATIENCE) {
            loop_turn(10);
            assert_true(clock_now.now_ms < give_up_ms);
        }
    }
}

static void play_once(enum ending ending, bool is_tls, struct tls_context *context)
{
    static struct play play;

    memset(&play, 0, sizeof(play));
    play.ending = ending;
    play.is_tls = is_tls;
    play_open(&play, context);
    relay_start(&play.session.relay);
    play_steps(&play);
    assert_int_equal(play.session.ended, 1);
    if (ending != CUT) {
        assert_int_equal(play.session.why, RELAY_CLOSED);
    }
    check_counts(&play);
    play_close(&play);
    if (ending == ORDERLY) {
        assert_int_equal(play.talkers[0].heard, play.talkers[1].says);
        assert_int_equal(play.talkers[1].heard, play.talkers[0].says);
    }
}

static void play_many(bool is_tls)
{
    struct tls_settings settings = usual();
    struct tls_context *context = is_tls ? context_of(&settings) : NULL;

    for (int i = 0; i < ROUNDS; i++) {
        play_once((enum ending)(i % ENDINGS), is_tls, context);
    }
}

static void plain_and_plain(void **state)
{
    play_many(false);
}

static void tls_and_plain(void **state)
{
    play_many(true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TLS_TEST(plain_and_plain),
        TLS_TEST(tls_and_plain),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
