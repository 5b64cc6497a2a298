/*
 * Elastic placement gathers keep-alive connections on few workers. When these become busy, another
 * worker joins (placement.h), and gets some of their idle connections, each of which is a
 * descriptor and a few bytes.
 */
#include "server/worker/balance.h"

#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/conn/conn.h"
#include "net/shards/listener.h"
#include "server/generation.h"
#include "server/worker/batch.h"
#include "server/worker/handover.h"

#define LOOKS 4 /* idle connections that are visited for each one to be handed over */

static struct {
    struct handover face;
    struct batch *batch; /* or NULL */
    unsigned left;       /* how many more may be given */
} gift;

static bool add_to_gift(struct handover *handover, struct listener *listener, int fd,
                        const void *state, size_t size)
{
    if (gift.batch == NULL) {
        gift.batch = batch_new(listener);
    }
    if (size > STATE_MOST || !batch_takes(gift.batch, listener, size)) {
        return false;
    }
    batch_add(gift.batch, fd, state, size);
    gift.left--;
    return true;
}

static void visit(struct conn *conn, void *arg)
{
    if (gift.left != 0 && conn->owner->hand_over != NULL) {
        conn->owner->hand_over(conn, &gift.face);
    }
}

unsigned balance_hand_over(int mailbox, unsigned most)
{
    unsigned given;

    if (most == 0) {
        send(mailbox, "", 1, MSG_NOSIGNAL);
        return 0;
    }
    gift.face.send = add_to_gift;
    gift.batch = NULL;
    gift.left = most;
    conn_each_latest_idle(most * LOOKS, visit, NULL);
    if (gift.batch == NULL) {
        return 0;
    }
    if (batch_send(gift.batch, mailbox)) {
        given = gift.batch->count;
        for (unsigned i = 0; i < given; i++) {
            close(gift.batch->fds[i]);
        }
    } else {
        given = 0;
        handover_take(gift.batch->data, gift.batch->size, gift.batch->fds, gift.batch->count);
    }
    free(gift.batch);
    return given;
}
