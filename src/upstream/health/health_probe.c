/* Active health checks: one probe, from its connection to its result. */
#include <errno.h>
#include <stdlib.h>

#include "base/checksum.h"
#include "base/clock.h"
#include "net/conn/conn.h"
#include "upstream/health/private.h"
#include "upstream/connections/connections.h"

/* ---- connections ---- */

/* Input NULL: input wakes the fiber. */
static const struct conn_owner probe_owner = {.input = 0};

void health_drop_conn(struct prober *prober)
{
    if (prober->conn != NULL) {
        conn_close(prober->conn);
        prober->conn = NULL;
    }
}

/* Can the kept connection be used for another probe? */
static bool is_conn_good(const struct prober *prober)
{
    const struct health_settings *settings = prober->settings;

    return !conn_peer_is_gone(prober->conn) && conn_input_len(prober->conn) == 0 &&
           (settings->keepalive_requests == 0 ||
            prober->conn_probes < settings->keepalive_requests) &&
           clock_now.now_ms - prober->conn_made_ms < settings->keepalive_time_ms;
}

/* Opens a connection for the probe. False: the probe has the reason; *is_our_fault: the error is on
 * our side. */
static bool connect_probe(struct prober *prober, struct probe_run *run, struct health_probe *probe,
                          bool *is_our_fault)
{
    static const struct log nowhere; /* only a change of state is logged, not each attempt */
    const struct upstream_connection_options options = {.tls = prober->settings->tls,
                                                        .is_datagram =
                                                            prober->settings->is_datagram};
    struct peer peer = *run->peer;

    if (prober->settings->port != 0 && peer.addr.any.sa_family != AF_UNIX) {
        addr_set_port(&peer.addr, prober->settings->port);
    }
    prober->conn_made_ms = clock_now.now_ms;
    prober->conn_probes = 0;
    run->pick.log = &nowhere;
    run->pick.peer = &peer;
    enum upstream_connect_result result =
        upstream_connect(&run->pick, &options, probe->deadline_ms, &probe->conn, &probe->error);
    run->pick.peer = NULL;
    run->pick.log = &prober->settings->log;
    if (result != UPSTREAM_CONNECT_OK) {
        probe->conn = NULL;
        probe->reason = "connection";
        *is_our_fault = result == UPSTREAM_CONNECT_ERROR;
        return false;
    }
    probe->conn->owner = &probe_owner;
    probe->conn->is_readable = 1; /* some servers send first */
    return true;
}

/* ---- one probe ---- */

/* Runs the protocol of the probe on probe->conn. True: the peer is healthy. */
static bool speak(struct prober *prober, struct health_probe *probe)
{
    const struct health_settings *settings = prober->settings;

    prober->conn_probes++;
    probe->may_keep =
        settings->keepalive_time_ms != 0 &&
        (settings->keepalive_requests == 0 || prober->conn_probes < settings->keepalive_requests);
    probe->keeps_conn = false;
    probe->error = 0;
    return settings->speak == NULL || settings->speak(probe);
}

/* Probes on the kept connection or a new one. If a kept connection has ended, that says nothing
 * about the peer. */
static bool make_probe(struct prober *prober, struct probe_run *run, struct health_probe *probe,
                       bool *is_our_fault)
{
    if (prober->conn != NULL && is_conn_good(prober)) {
        probe->conn = prober->conn;
        prober->conn = NULL;
        if (speak(prober, probe)) {
            return true;
        }
        if ((!probe->conn->is_broken && !probe->conn->is_input_closed) || fiber_is_cancelled()) {
            return false;
        }
        conn_close(probe->conn);
        probe->conn = NULL;
    }
    health_drop_conn(prober);
    return connect_probe(prober, run, probe, is_our_fault) && speak(prober, probe);
}

/* Applies the result to the probers whose leader this is: of the same address in other groups, or
 * again in this group. */
static void tell_followers(const struct prober *leader, const struct health_result *result)
{
    const struct health_worker *worker = leader->checked->worker;

    for (unsigned w = 0; w < worker->group_count; w++) {
        const struct checked_group *checked = &worker->groups[w];
        for (unsigned i = 0; i < checked->count; i++) {
            const struct prober *prober = checked->probers[i];
            if (prober->leader == leader) {
                health_settle(&(struct health_subject){checked->group, prober->settings,
                                                       prober->index, prober->peer},
                              result, &prober->settings->log);
            }
        }
    }
}

/* Sets the time of the next probe, unless another worker took this one for dead and has claimed
 * it. */
static void plan_next(struct probe_run *run, struct prober *prober, uint64_t next_ms)
{
    uint64_t claimed = run->claimed_ms;

    atomic_compare_exchange_strong(&prober->cell->checks[prober->index].next_ms, &claimed, next_ms);
}

static uint64_t next_time(const struct health_settings *settings, uint64_t start_ms)
{
    uint64_t next = start_ms + settings->interval_ms;

    if (settings->jitter_ms != 0) {
        next += random_uint32() % (settings->jitter_ms + 1);
    }
    return next > clock_now.now_ms ? next : clock_now.now_ms + 1;
}

/* Keeps the connection for the next probe, or closes it. */
static void put_away(struct prober *prober, const struct health_probe *probe, bool is_good)
{
    if (probe->conn == NULL) {
        return;
    }
    if (is_good && probe->may_keep && probe->keeps_conn && prober->checked != NULL &&
        !prober->checked->worker->is_ending) {
        conn_input_release(probe->conn);
        prober->conn = probe->conn;
    } else {
        conn_close(probe->conn);
    }
}

/* Applies the result, and plans the next probe. The result is ignored if the peer was removed in
 * the meantime. */
static void conclude(struct probe_run *run, struct prober *prober,
                     const struct health_result *result, bool is_our_fault)
{
    if (fiber_is_cancelled()) {
        plan_next(run, prober, clock_now.now_ms); /* for another worker */
        return;
    }
    if (is_our_fault) {
        log_error(&prober->settings->log, result->error,
                  "health check of peer %.*s could not be performed", STR_ARG(run->peer->name));
    } else if (prober->checked != NULL) {
        health_settle(&(struct health_subject){prober->checked->group, prober->settings,
                                               prober->index, run->peer},
                      result, &prober->settings->log);
        tell_followers(prober, result);
    }
    plan_next(run, prober, next_time(prober->settings, run->start_ms));
    if (run->is_shared && !is_our_fault && prober->checked != NULL) {
        prober->settings->sharing->probed(&(struct health_subject){prober->checked->group,
                                                                   prober->settings, prober->index,
                                                                   run->peer});
    }
}

static void end_run(struct probe_run *run)
{
    struct health_worker *worker = run->worker;

    upstream_pick_end(&run->pick);
    arena_free(&run->arena);
    list_remove(&run->in_worker);
    free(run);
    worker->running--;
}

/*
 * Where several nodes share probes: is it this node's turn? MAY WAIT. If not, it is checked again
 * later, unless the result of another node arrives before.
 */
static bool is_our_turn(struct probe_run *run, struct prober *prober)
{
    const struct health_settings *settings = prober->settings;
    enum health_turn turn = HEALTH_TURN_UNKNOWN;

    if (settings->sharing != NULL) {
        const struct health_subject subject = {run->pick.group, settings, prober->index, run->peer};
        uint64_t until_ms = 0;

        turn = settings->sharing->turn(&subject, &until_ms);
        atomic_store(&run->peer->cell->checks[prober->index].leads_until_ms,
                     turn == HEALTH_TURN_OURS ? until_ms : 0);
        run->start_ms = clock_now.now_ms;
    }
    run->is_shared = turn == HEALTH_TURN_OURS;
    if (turn == HEALTH_TURN_OTHERS) {
        plan_next(run, prober, next_time(settings, run->start_ms));
    }
    return turn != HEALTH_TURN_OTHERS;
}

static void probe_once(struct probe_run *run, struct prober *prober)
{
    bool is_our_fault = false;
    struct health_probe probe = {
        .settings = prober->settings,
        .group = run->pick.group,
        .peer = run->peer,
        .deadline_ms = run->start_ms + prober->settings->timeout_ms,
        .log = &prober->settings->log,
        .arena = &run->arena,
    };
    struct health_result result = {.is_good = make_probe(prober, run, &probe, &is_our_fault)};

    result.reason = probe.reason == NULL ? "answer" : probe.reason;
    result.error = probe.error;
    prober->run = NULL;
    put_away(prober, &probe, result.is_good);
    conclude(run, prober, &result, is_our_fault);
}

/* The fiber of a probe. */
static void run_probe(void *arg)
{
    struct probe_run *run = arg;
    struct prober *prober = run->prober;
    struct health_worker *worker = run->worker;

    run->fiber = fiber_self();
    if (is_our_turn(run, prober)) {
        probe_once(run, prober);
    } else {
        prober->run = NULL;
    }
    if (prober->checked == NULL) {
        health_free_prober(prober);
    }
    end_run(run);
    wait_signal_later(&worker->wake);
    health_free_if_idle(worker);
}

/* Starts a fiber for a probe that was claimed. */
bool health_start_probe(struct prober *prober, uint64_t claimed_ms)
{
    struct health_worker *worker = prober->checked->worker;
    struct probe_run *run = calloc(1, sizeof(*run));

    if (run == NULL) {
        return false; /* the claim expires */
    }
    arena_init(&run->arena);
    run->worker = worker;
    run->prober = prober;
    run->start_ms = clock_now.now_ms;
    run->claimed_ms = claimed_ms;
    run->pick.arena = &run->arena;
    run->pick.log = &prober->settings->log;
    upstream_pick_begin(&run->pick, prober->checked->group);
    run->peer = prober->peer; /* the list was updated in this same turn, so this is its peer */
    prober->run = run;
    prober->is_ours = true;
    worker->running++;
    list_push_back(&worker->runs, &run->in_worker);
    if (fiber_start(run_probe, run, NULL) == FIBER_NO_STACK) {
        log_error(&prober->settings->log, errno, "no fiber for the health check of peer %.*s",
                  STR_ARG(prober->peer->name));
        prober->run = NULL;
        plan_next(run, prober, next_time(prober->settings, run->start_ms));
        end_run(run);
        return false;
    }
    return true;
}

void health_free_prober(struct prober *prober)
{
    prober->checked = NULL;
    if (prober->run == NULL) {
        health_drop_conn(prober);
        free(prober);
    }
}
