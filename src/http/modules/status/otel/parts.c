/* Parts of the processing of a request, as spans within its own: slow handlers, subrequests, cache
 * lookups. */
#include "base/clock.h"
#include "http/exchange/exchange.h"
#include "http/modules/status/otel/otel.h"
#include "http/routing/hooks.h"

#define PARTS_MOST 64       /* per request */
#define SHORTEST_NS 1000000 /* for handlers that do not decide about access */

/* The parts of a main request and its subrequests. */
struct parts {
    struct request_trace trace; /* must be first */
    struct vec items;           /* struct otel_part */
    unsigned dropped;
};

static const struct request_trace_calls part_calls;

static void add_part(struct request_trace *trace, struct request *request,
                     const struct otel_part *part)
{
    struct parts *parts = (struct parts *) trace;

    if (parts->items.count == PARTS_MOST) {
        parts->dropped++;
        return;
    }
    struct otel_part *added = vec_add(&parts->items, &request->main->arena, struct otel_part);
    *added = *part;
    added->ended_ns = clock_read_ns();
}

/* A handler that took time (scripts, delays), or decided about access. */
static void part_asked(struct request_trace *trace, struct request *request, request_handler run,
                       enum handler_result result, uint64_t began_ns)
{
    const struct phase_hook *hook = phase_hook_find(request->server->main->hooks, run);

    if (hook == NULL || hook->phase == PHASE_LOG ||
        ((hook->phase != PHASE_ACCESS || result == HANDLER_NEXT) &&
         clock_read_ns() - began_ns < SHORTEST_NS)) {
        return;
    }
    struct str module =
        str_of(hook->name); /* "lua early": a module may have two hooks in a phase */
    const struct str words[] = {str_of(phase_words[hook->phase]), STR(" "), str_cut(&module, ' ')};
    add_part(trace, request,
             &(struct otel_part){.name = arena_join(&request->main->arena, words, 3),
                                 .began_ns = began_ns});
}

static void part_produced(struct request_trace *trace, struct request *request,
                          enum handler_result result, uint64_t began_ns)
{
    if (request == request->main) {
        add_part(trace, request,
                 &(struct otel_part){.name = STR("content"),
                                     .key = STR("http.route"),
                                     .value = request->location->name,
                                     .began_ns = began_ns});
    }
}

static void part_ended(struct request_trace *trace, struct request *request)
{
    add_part(trace, request,
             &(struct otel_part){.name = STR("subrequest"),
                                 .key = STR("http.target"),
                                 .value = arena_dup(&request->main->arena, request->uri),
                                 .status = request->response.status,
                                 .began_ns = request->start_ms * 1000000});
}

static void part_looked_up(struct request_trace *trace, struct request *request, struct str status,
                           uint64_t began_ns)
{
    add_part(trace, request,
             &(struct otel_part){.name = STR("cache"),
                                 .key = STR("cache.status"),
                                 .value = status,
                                 .began_ns = began_ns});
}

static const struct request_trace_calls part_calls = {.asked = part_asked,
                                                      .produced = part_produced,
                                                      .ended = part_ended,
                                                      .looked_up = part_looked_up};

void otel_parts_begin(struct request *request)
{
    if (request_observer(request, &part_calls) == NULL) {
        struct parts *parts = arena_new(&request->arena, struct parts);

        parts->trace.calls = &part_calls;
        request_observe(request, &parts->trace);
    }
}

const struct vec *otel_parts_of(const struct request *request, unsigned *dropped)
{
    const struct parts *parts = (struct parts *) request_observer(request, &part_calls);

    if (parts == NULL) {
        return NULL;
    }
    *dropped = parts->dropped;
    return &parts->items;
}
