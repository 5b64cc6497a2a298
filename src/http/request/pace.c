/* Clients that are too slow over a window of the time in which they are waited for. */
#include "http/request/pace.h"

#include "base/clock.h"
#include "http/request/wire.h"
#include "http/routing/body_settings.h"
#include "http/routing/connection_settings.h"
#include "server/generation.h"

static struct request_pace *pace_of(struct request *request)
{
    if (request->pace == NULL) {
        request->pace = arena_new(&request->arena, struct request_pace);
    }
    return request->pace;
}

static uint64_t earlier(uint64_t one, uint64_t other)
{
    return one < other ? one : other;
}

/* Adds the wait that ends now. */
static void wait_add(struct pace *pace)
{
    uint64_t elapsed_ms = pace->since_ms == 0 ? 0 : clock_now.now_ms - pace->since_ms;

    pace->waited_ms += elapsed_ms;
    pace->total_ms += elapsed_ms;
    pace->since_ms = 0;
}

/* When the window ends if the wait lasts as long. */
static uint64_t window_end(const struct pace *pace, const struct min_rate *rule)
{
    uint64_t left_ms = pace->waited_ms < rule->window_ms ? rule->window_ms - pace->waited_ms : 0;

    return pace->since_ms + left_ms;
}

/* Did the client move enough in the window, where that is over? Requests that share its connection
 * share what it has to do. */
static bool window_is_good(struct request *request, struct pace *pace, const struct min_rate *rule,
                           uint64_t position)
{
    const struct http_wire *wire = request->main->wire;
    uint64_t shares = wire->shares == NULL ? 1 : wire->shares(request->main);

    if (rule->bytes == 0 || pace->waited_ms < rule->window_ms) {
        return true;
    }
    uint64_t moved = position - pace->mark;
    /* In seconds first: neither product can overflow for rates below 2^53. */
    uint64_t wanted = rule->bytes / (shares == 0 ? 1 : shares) * (pace->waited_ms / 100) / 10;
    if (moved < wanted) {
        return false;
    }
    pace->waited_ms = 0;
    pace->mark = position;
    return true;
}

static void pace_log(struct request *request, const char *action, const char *what, uint64_t value)
{
    request->log.action = action;
    log_error(&request->log, 0, "client is too slow: %s %llu", what, (unsigned long long) value);
    counters_mine->limited++;
}

/* ---- bodies of requests ---- */

uint64_t pace_body_begins(struct request *request, uint64_t deadline_ms)
{
    const struct http_location *location = request->location;
    uint64_t total_ms = location->bodies->client_body_total_timeout_ms;

    if (total_ms == 0 && location->bodies->client_body_min_rate.bytes == 0) {
        return deadline_ms;
    }
    struct pace *pace = &pace_of(request)->body;
    pace->since_ms = clock_now.now_ms;
    if (pace->idle_ms != 0) {
        deadline_ms -= clock_now.now_ms - pace->idle_ms; /* the same silence still */
    } else {
        pace->idle_ms = clock_now.now_ms;
    }
    if (total_ms != 0) {
        uint64_t left_ms = pace->total_ms < total_ms ? total_ms - pace->total_ms : 0;
        deadline_ms = earlier(deadline_ms, clock_now.now_ms + left_ms);
    }
    if (location->bodies->client_body_min_rate.bytes != 0) {
        deadline_ms =
            earlier(deadline_ms, window_end(pace, &location->bodies->client_body_min_rate));
    }
    return deadline_ms;
}

bool pace_body_ended(struct request *request, bool is_timed_out, bool *is_continued)
{
    const struct http_location *location = request->location;
    uint64_t total_ms = location->bodies->client_body_total_timeout_ms;

    *is_continued = false;
    if (request->pace == NULL || request->pace->body.since_ms == 0) {
        return true;
    }
    struct pace *pace = &request->pace->body;
    uint64_t silent_ms = clock_now.now_ms - pace->idle_ms;
    wait_add(pace);
    if (total_ms != 0 && pace->total_ms >= total_ms) {
        pace_log(request, "reading client request body",
                 "the milliseconds of client_body_total_timeout are over after", pace->total_ms);
        return false;
    }
    uint64_t moved = request->incoming.received - pace->mark;
    if (!window_is_good(request, pace, &location->bodies->client_body_min_rate,
                        request->incoming.received)) {
        pace_log(request, "reading client request body",
                 "bytes of the body in a window of client_body_min_rate:", moved);
        return false;
    }
    uint64_t timeout_ms = request->incoming.timeout_ms != 0
                              ? request->incoming.timeout_ms
                              : location->bodies->client_body_timeout_ms;
    *is_continued = is_timed_out && silent_ms < timeout_ms;
    if (!*is_continued) {
        pace->idle_ms = 0;
    }
    return true;
}

/* ---- responses ---- */

uint64_t pace_send_begins(struct request *request, uint64_t position, uint64_t deadline_ms)
{
    const struct min_rate *rule = &request->location->connections->send_min_rate;

    if (rule->bytes == 0 || request->response.framing == FRAMING_TUNNEL) {
        return deadline_ms;
    }
    bool is_first = request->pace == NULL;
    struct pace *pace = &pace_of(request)->send;
    if (is_first || (pace->since_ms == 0 && pace->waited_ms == 0)) {
        pace->mark = position;
    }
    if (pace->since_ms == 0) {
        pace->since_ms = clock_now.now_ms;
    }
    return earlier(deadline_ms, window_end(pace, rule));
}

bool pace_send_ended(struct request *request, uint64_t position)
{
    if (request->pace == NULL || request->pace->send.since_ms == 0) {
        return true;
    }
    struct pace *pace = &request->pace->send;
    uint64_t moved = position - pace->mark;
    wait_add(pace);
    if (window_is_good(request, pace, &request->location->connections->send_min_rate, position)) {
        return true;
    }
    pace_log(request, "sending to client",
             "bytes of the response taken in a window of send_min_rate:", moved);
    request->is_timed_out = true;
    return false;
}

void pace_send_restart(struct request *request)
{
    if (request->pace != NULL) {
        request->pace->send = (struct pace){0};
    }
}
