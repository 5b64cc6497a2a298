/* Scripts in a handshake, which may wait: the step runs on a fiber, without OpenSSL's knowledge. */
#include <errno.h>
#include <openssl/err.h>

#include "net/conn/private.h"
#include "net/tls/private.h"

/* The argument of the fiber; read before the fiber first waits. */
struct step {
    struct tls *tls;
    enum tls_progress (*run)(struct tls *tls);
};

static void run_step(void *arg)
{
    struct step step = *(struct step *) arg;
    struct tls *tls = step.tls;
    struct log log;

    tls->asking_log = &log;
    enum tls_progress progress = step.run(tls);

    tls->is_asking = false;
    if (tls->is_abandoned) {
        tls_state_free(tls);
        return;
    }
    if (tls->conn->log == &log) {
        tls->conn->log = tls->asked_log;
    }
    tls->asked = progress;
    tls->has_asked = true;
    if (tls->has_waited) {
        tls_wake_owner(tls);
    }
}

enum tls_progress tls_ask_step(struct tls *tls, enum tls_progress (*run)(struct tls *))
{
    struct step step = {tls, run};

    if (tls->is_asking) {
        return TLS_MORE;
    }
    if (!tls->has_asked) {
        tls->is_asking = true;
        tls->has_waited = false;
        if (fiber_start_joinable(run_step, &step, &tls->asking) == FIBER_NO_STACK) {
            tls->is_asking = false;
            tls->is_failed = true;
            log_error(tls->conn->log, 0, "no free fiber for a handshake with scripts");
            return TLS_FAILED;
        }
        if (tls->is_asking) {
            tls->has_waited = true;
            return TLS_MORE;
        }
    }
    tls->has_asked = false;
    return tls->asked;
}

bool tls_ask_begin(struct tls *tls)
{
    /* While this fiber waits, other connections use the gather buffer. */
    if (tls_gather_end(tls, false)) {
        return true;
    }
    tls_gather_begin(tls);
    return false;
}

bool tls_ask_end(struct tls *tls)
{
    if (tls->is_abandoned) {
        tls->io_error = ECANCELED; /* nothing is written any more */
    } else if (tls->selector != NULL && tls->has_waited && tls->conn->log != tls->asking_log &&
               tls->selector->log != NULL) {
        /* The caller of the first part of the step has taken back its log. */
        tls->asked_log = tls->conn->log;
        tls->selector->log(tls->conn, tls->asking_log);
        tls->conn->log = tls->asking_log;
    }
    ERR_clear_error(); /* errors of other code that ran during the wait */
    tls_gather_begin(tls);
    return !tls->is_abandoned;
}

void tls_ask_abandon(struct tls *tls)
{
    tls->is_abandoned = true;
    tls->conn = NULL;
    fiber_cancel(tls->asking.fiber);
    fiber_detach(&tls->asking);
}
