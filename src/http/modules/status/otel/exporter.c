/* Queues of a worker's spans, log records and metrics: when they are sent to the collector, and
 * what happens after failures. */
#include <stdlib.h>

#include "base/clock.h"
#include "http/exchange/exchange.h"
#include "http/exchange/probe/probe.h"
#include "http/modules/status/otel/otel.h"
#include "http/modules/status/otel/ring.h"

enum {
    ATTEMPTS_MOST = 5,            /* of one batch */
    RETRY_FIRST_MS = 1000,        /* after the first failure; doubled after each further one */
    QUIT_TIMEOUT_MS = 3000,       /* for everything that remains when the worker quits */
    DROPS_LOGGED_EVERY_MS = 60000 /* one message */
};

/* Names in log messages. */
static const struct {
    const char *items;
    const char *parts;  /* items that a collector can reject individually */
    const char *suffix; /* appended to the failure message; for traces it is the same as nginx's */
} signals[OTEL_SIGNALS] = {
    [OTEL_TRACES] = {"spans", "spans", ""},
    [OTEL_LOGS] = {"log records", "log records", ", log records"},
    [OTEL_METRICS] = {"exports of metrics", "data points", ", metrics"},
};

struct exporter {
    struct exporter *next; /* list of exporters, for generations that have not ended */
    enum otel_signal signal;
    const struct otel_exporter *settings;
    const struct otel_main *main;
    const struct generation *generation;
    struct span_ring ring;
    struct timer timer;  /* the next batch is due; when quitting: time limit of sending */
    struct fiber *fiber; /* the sending fiber; or NULL */
    struct grpc_link grpc;
    struct otel_link link;
    const struct log *log;
    unsigned attempts;       /* of the oldest batch */
    uint64_t logged_ms;      /* when drops were last logged; 0 = never */
    uint64_t logged_dropped; /* value of ring.dropped at that time */
    bool is_sending;
    bool is_quitting;
};

/* Of this process, newest first: without a master, the former generation ends while the next one
 * serves. */
static struct exporter *exporters;

static struct exporter **exporter_of(const struct generation *generation, enum otel_signal signal)
{
    struct exporter **at = &exporters;

    while (*at != NULL && ((*at)->generation != generation || (*at)->signal != signal)) {
        at = &(*at)->next;
    }
    return at;
}

/* ---- log messages ---- */

static void count_sent(const struct exporter *exporter, unsigned items)
{
    counters_mine->spans_sent += exporter->signal == OTEL_TRACES ? items : 0;
    counters_mine->records_sent += exporter->signal == OTEL_LOGS ? items : 0;
}

static void count_dropped(const struct exporter *exporter, unsigned items)
{
    counters_mine->spans_dropped += exporter->signal == OTEL_TRACES ? items : 0;
    counters_mine->records_dropped += exporter->signal == OTEL_LOGS ? items : 0;
    counters_mine->metrics_dropped += exporter->signal == OTEL_METRICS ? items : 0;
}

static void drop(struct exporter *exporter, unsigned items)
{
    exporter->ring.dropped += items;
    count_dropped(exporter, items);
}

/* Logged rarely: while a collector is down, a worker drops spans at each request. */
static void log_drops(struct exporter *exporter)
{
    uint64_t now_ms = clock_now.now_ms;

    if (exporter->ring.dropped == exporter->logged_dropped ||
        (exporter->logged_ms != 0 && now_ms - exporter->logged_ms < DROPS_LOGGED_EVERY_MS &&
         !exporter->is_quitting)) {
        return;
    }
    otel_error_log_pause();
    log_warn(
        exporter->log, 0,
        "%llu %s were dropped: the collector %.*s does not accept them as fast as they are recorded",
        (unsigned long long) (exporter->ring.dropped - exporter->logged_dropped),
        signals[exporter->signal].items, STR_ARG(exporter->settings->authority));
    otel_error_log_resume();
    exporter->logged_dropped = exporter->ring.dropped;
    exporter->logged_ms = now_ms;
}

static void log_refusal(struct exporter *exporter, struct str answer)
{
    uint64_t refused;
    struct str reason;

    if (otel_read_refusal(answer, &refused, &reason)) {
        otel_error_log_pause();
        log_warn(exporter->log, 0, "the collector %.*s has refused %llu %s: \"%.*s\"",
                 STR_ARG(exporter->settings->authority), (unsigned long long) refused,
                 signals[exporter->signal].parts, STR_ARG(str_head(reason, 200)));
        otel_error_log_resume();
    }
}

/* ---- sending ---- */

static void plan(struct exporter *exporter, uint64_t in_ms)
{
    timer_set(&exporter->timer, clock_now.now_ms + in_ms);
}

/* The delay of the next attempt after a failure. */
static uint64_t retry_delay(const struct exporter *exporter)
{
    return (uint64_t) RETRY_FIRST_MS << (exporter->attempts - 1);
}

/* The oldest batch was not accepted. True: it stays for another attempt. */
static bool settle_failure(struct exporter *exporter, enum otel_sent sent, unsigned items,
                           const struct otel_outcome *outcome)
{
    bool is_kept = sent == OTEL_FAILED && !exporter->is_quitting &&
                   ++exporter->attempts < ATTEMPTS_MOST && !fiber_is_cancelled();

    otel_error_log_pause();
    log_error(exporter->log, outcome->error, "OTel export failure: %s of collector %.*s%s",
              outcome->reason, STR_ARG(exporter->settings->authority),
              signals[exporter->signal].suffix);
    otel_error_log_resume();
    if (!is_kept) {
        drop(exporter, items);
    }
    return is_kept;
}

/* Sends the oldest batch. False: it stays for another attempt. MAY WAIT. */
static bool send_oldest(struct exporter *exporter)
{
    const struct span_batch *batch = span_ring_take(&exporter->ring);
    unsigned items = batch->count;
    struct otel_outcome outcome = {.error = 0};
    struct arena arena;

    arena_init(&arena);
    struct str message =
        otel_put_frame(buf_str(&batch->spans), exporter->main, exporter->ring.frame);
    enum otel_sent sent =
        otel_send(&exporter->link, exporter->settings, &arena,
                  &(struct otel_message){.signal = exporter->signal,
                                         .bytes = message,
                                         .deadline_ms =
                                             clock_now.now_ms + exporter->settings->timeout_ms},
                  &outcome);
    bool is_kept = false;
    if (sent == OTEL_SENT) {
        count_sent(exporter, items);
        log_refusal(exporter, outcome.answer);
    } else {
        is_kept = settle_failure(exporter, sent, items, &outcome);
    }
    span_ring_sent(&exporter->ring, is_kept);
    exporter->attempts = is_kept ? exporter->attempts : 0;
    arena_free(&arena);
    return !is_kept;
}

static void free_exporter(struct exporter *exporter)
{
    timer_remove(&exporter->timer);
    span_ring_close(&exporter->ring);
    free(exporter);
}

/* The main function of the fiber: sends everything when quitting, otherwise full batches. */
static void run_exporter(void *arg)
{
    struct exporter *exporter = arg;
    bool is_taken = true;

    exporter->fiber = fiber_self();
    do {
        is_taken = send_oldest(exporter);
    } while (
        is_taken && !fiber_is_cancelled() &&
        (exporter->is_quitting ? exporter->ring.used != 0 : span_ring_has_full(&exporter->ring)));
    log_drops(exporter);
    if (exporter->is_quitting) {
        timer_clear(&exporter->timer);
        otel_link_close(&exporter->link);
    }
    exporter->fiber = NULL;
    exporter->is_sending = false;
    if (exporter->ring.used != 0 && !exporter->is_quitting) {
        plan(exporter, is_taken ? exporter->settings->interval_ms : retry_delay(exporter));
    }
}

static void start_sending(struct exporter *exporter)
{
    if (exporter->is_sending || exporter->ring.used == 0) {
        return;
    }
    exporter->is_sending = true;
    timer_clear(&exporter->timer);
    if (exporter->is_quitting) {
        plan(exporter, QUIT_TIMEOUT_MS);
    }
    if (fiber_start(run_exporter, exporter, NULL) == FIBER_NO_STACK) {
        exporter->is_sending = false;
        plan(exporter, RETRY_FIRST_MS);
    }
}

static void exporter_is_due(struct timer *timer)
{
    struct exporter *exporter = container_of(timer, struct exporter, timer);

    if (exporter->is_quitting && exporter->fiber != NULL) {
        fiber_cancel(exporter->fiber); /* the time limit for quitting has passed */
    } else {
        start_sending(exporter);
    }
}

/* The buffer for the next item; NULL: it is dropped. */
static struct buf *next_item(struct exporter *exporter)
{
    struct buf *out = span_ring_next(&exporter->ring);

    if (out == NULL) {
        count_dropped(exporter, 1);
    }
    return out;
}

/* Schedules sending after an item was added. is_full: a batch is full. */
static void send_in_time(struct exporter *exporter, bool is_full)
{
    if (exporter->is_quitting) {
        start_sending(exporter); /* the worker waits for fibers, but not for timers */
    } else if (exporter->is_sending || exporter->attempts != 0) {
        return; /* the fiber will check, or the next attempt is scheduled */
    } else if (is_full) {
        plan(exporter, 0);
    } else if (exporter->timer.deadline_ms == NO_DEADLINE) {
        plan(exporter, exporter->settings->interval_ms);
    }
}

struct buf *otel_exporter_next(struct generation *generation, enum otel_signal signal)
{
    struct exporter *exporter = *exporter_of(generation, signal);

    return exporter == NULL ? NULL : next_item(exporter);
}

void otel_exporter_added(struct generation *generation, enum otel_signal signal)
{
    struct exporter *exporter = *exporter_of(generation, signal);

    send_in_time(exporter, span_ring_added(&exporter->ring));
}

void otel_exporter_drop(struct generation *generation, enum otel_signal signal, unsigned count)
{
    struct exporter *exporter = *exporter_of(generation, signal);

    if (exporter != NULL) {
        drop(exporter, count);
        log_drops(exporter);
    }
}

/* Attempts follow the request, whose span is more important. True: a batch is full. Rarely used, so
 * not inlined in otel_record. */
static __attribute__((noinline)) bool record_attempts(struct exporter *exporter,
                                                      const struct request *request,
                                                      const struct otel_context *context)
{
    bool is_full = false;

    vec_each(const struct attempt, attempt, &request->exchange->attempts) {
        struct buf *out = next_item(exporter);

        if (out != NULL) {
            otel_put_attempt(out, context, attempt);
            is_full |= span_ring_added(&exporter->ring);
        }
    }
    return is_full;
}

/* Parts come last. True: a batch is full. */
static __attribute__((noinline)) bool record_parts(struct exporter *exporter,
                                                   const struct request *request,
                                                   const struct otel_context *context)
{
    unsigned dropped = 0;
    const struct vec *parts = otel_parts_of(request, &dropped);
    bool is_full = false;

    if (parts == NULL) {
        return false;
    }
    counters_mine->spans_dropped += dropped;
    vec_each(const struct otel_part, part, parts) {
        struct buf *out = next_item(exporter);

        if (out != NULL) {
            otel_put_part(out, request, context, part);
            is_full |= span_ring_added(&exporter->ring);
        }
    }
    return is_full;
}

void otel_record(struct request *request, const struct otel_context *context)
{
    struct exporter *exporter = *exporter_of(request->server->main->generation, OTEL_TRACES);
    struct buf *out = exporter == NULL ? NULL : next_item(exporter);

    if (out == NULL) {
        return;
    }
    otel_put_span(out, request, context);
    bool is_full = span_ring_added(&exporter->ring);
    if (request->exchange != NULL && otel_settings_at(request->location)->has_upstream_spans) {
        is_full |= record_attempts(exporter, request, context);
    }
    if (request->trace != NULL) {
        is_full |= record_parts(exporter, request, context);
    }
    send_in_time(exporter, is_full);
}

/* ---- a worker ---- */

bool otel_exporter_start(struct generation *generation, const struct otel_main *main,
                         enum otel_signal signal)
{
    struct exporter *exporter = calloc(1, sizeof(*exporter));
    /* All metrics are one item. While one waits for another attempt, one more may wait. */
    unsigned capacity = signal == OTEL_METRICS ? 2 : (unsigned) main->exporter->batch_count;
    unsigned batch_size = signal == OTEL_METRICS ? 1 : (unsigned) main->exporter->batch_size;

    if (exporter == NULL ||
        !span_ring_open(&exporter->ring, capacity, batch_size, otel_frame_most(main))) {
        free(exporter);
        return false;
    }
    exporter->signal = signal;
    exporter->settings = main->exporter;
    exporter->main = main;
    exporter->generation = generation;
    exporter->link.grpc = &exporter->grpc;
    exporter->link.next = worker_slot;
    exporter->log = &upstream_set_of(&generation->conf, &upstream_http)->log;
    timer_init(&exporter->timer, exporter_is_due);
    exporter->next = exporters;
    exporters = exporter;
    return true;
}

static void exporter_quit(struct exporter *exporter)
{
    if (exporter == NULL || exporter->is_quitting) {
        return;
    }
    exporter->is_quitting = true;
    timer_clear(&exporter->timer);
    if (exporter->is_sending) {
        plan(exporter, QUIT_TIMEOUT_MS);
    } else {
        otel_link_close(&exporter->link);
        start_sending(exporter);
    }
}

void otel_exporter_quit(struct generation *generation)
{
    for (unsigned signal = 0; signal < OTEL_SIGNALS; signal++) {
        exporter_quit(*exporter_of(generation, signal));
    }
}

void otel_exporter_abort(struct generation *generation)
{
    for (unsigned signal = 0; signal < OTEL_SIGNALS; signal++) {
        struct exporter *exporter = *exporter_of(generation, signal);

        if (exporter != NULL && exporter->fiber != NULL) {
            fiber_cancel(exporter->fiber);
        }
    }
}

static void exporter_end(struct exporter **at)
{
    struct exporter *exporter = *at;

    if (exporter == NULL) {
        return;
    }
    *at = exporter->next;
    otel_link_close(&exporter->link);
    while (exporter->ring.used != 0) {
        drop(exporter, span_ring_take(&exporter->ring)->count);
        span_ring_sent(&exporter->ring, false);
    }
    log_drops(exporter);
    free_exporter(exporter);
}

void otel_exporter_end(struct generation *generation)
{
    for (unsigned signal = 0; signal < OTEL_SIGNALS; signal++) {
        exporter_end(exporter_of(generation, signal));
    }
}
