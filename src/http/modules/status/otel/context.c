/* The trace context of a request: from its fields, or generated, and passed to backends. */
#include "base/checksum.h"
#include "http/modules/status/otel/otel.h"
#include "http/request/field_change.h"

static const char context_of; /* its address is the key of our data in a request */

struct otel_context *otel_context_made(const struct request *request)
{
    struct request *main = request->main;
    struct otel_context *context =
        main->data == NULL ? NULL
                           : request_data(main, &context_of, 0); /* most requests have no data */

    return context != NULL && context->is_made ? context : NULL;
}

/* The first byte of a random id is made non-zero, so that an id is never all zero (3.2.2.3 of the
 * recommendation). */
static void make_ids(struct traceparent *own, bool has_parent)
{
    if (has_parent) {
        random_bytes(own->span_id, SPAN_ID_SIZE);
    } else {
        random_bytes(own, offsetof(struct traceparent, flags));
        own->trace_id[0] |= own->trace_id[0] == 0;
    }
    own->span_id[0] |= own->span_id[0] == 0;
}

/* Two traceparent fields count as none, since it is uncertain which is valid. */
static void extract(struct request *request, struct otel_context *context)
{
    struct traceparent parent;
    const struct field *found = NULL;
    bool has_state = false;

    fields_each(field, &request->headers) {
        if (field->is_removed || field->name.len < 10 || (field->name.data[0] | 0x20) != 't') {
            continue;
        }
        if (str_equal_nocase(field->name, STR("traceparent"))) {
            if (found != NULL) {
                return;
            }
            found = field;
        }
        has_state |= str_equal_nocase(field->name, STR("tracestate"));
    }
    if (found == NULL || !traceparent_parse(found->value, &parent)) {
        return;
    }
    context->has_parent = true;
    context->is_parent_sampled = (parent.flags & TRACE_FLAG_SAMPLED) != 0;
    memcpy(context->own.trace_id, parent.trace_id, TRACE_ID_SIZE);
    memcpy(context->parent_id, parent.span_id, SPAN_ID_SIZE);
    if (has_state &&
        fields_by_variable_name(&request->headers, &request->arena, STR("tracestate"),
                                &context->state) &&
        !tracestate_is_valid(context->state)) {
        context->state = STR_NONE;
    }
}

struct otel_context *otel_context_of(struct request *request)
{
    struct request *main = request->main;
    struct otel_context *context = request_data(main, &context_of, sizeof(*context));

    if (!context->is_made) {
        context->is_made = true;
        if ((otel_settings_at(request->location)->context & OTEL_EXTRACT) != 0) {
            extract(main, context);
        }
        make_ids(&context->own, context->has_parent);
    }
    return context;
}

/* Sets the fields in the request itself, so they are passed to backends as others are. */
static void inject(struct request *request, struct otel_context *context)
{
    char *text = arena_text(&request->arena, TRACEPARENT_SIZE);
    const struct field_change parent = {
        .name = STR("traceparent"),
        .value = str_from(text, traceparent_put(text, &context->own)),
    };
    const struct field_change state = {.name = STR("tracestate"), .value = context->state};

    request_change_field(request, &parent);
    request_change_field(request, &state);
    context->is_injected = true;
}

static uint64_t seed; /* per worker */

/* If one share applies to all requests: one number of a linear congruential generator per request
 * is the only cost of a request that is not recorded. */
static struct {
    uint64_t state;
    uint64_t most; /* compared with a share of OTEL_ALL */
} share_of_all;

void otel_contexts_start(uint64_t share)
{
    random_bytes(&seed, sizeof(seed));
    random_bytes(&share_of_all.state, sizeof(share_of_all.state));
    share_of_all.most = share;
}

/* A random position of the request between 0 and OTEL_ALL; always the same for one request. */
static uint64_t sample_of(const struct request *request)
{
    uint64_t x = connection_number(request->connection) * 0x9e3779b97f4a7c15u;

    x = (x ^ request->ordinal ^ seed) * 0xbf58476d1ce4e5b9u; /* splitmix64 */
    x = (x ^ x >> 31) * 0x94d049bb133111ebu;
    return x >> 32;
}

/* Does otel_trace of this location record the request? */
static bool wants_trace(struct request *request, const struct otel_settings *settings)
{
    if (!settings->is_variable) {
        return sample_of(request) < settings->share;
    }
    struct str value = template_text(settings->trace, &request->env);
    return str_is(value, "on") || str_is(value, "1");
}

static void set_recorded(struct request *request)
{
    struct otel_context *context = otel_context_of(request);

    request->trace_decision = TRACE_RECORDED;
    context->own.flags |= TRACE_FLAG_SAMPLED;
    context->is_injected = false;
}

/* A recorded request remains recorded, wherever it is redirected. */
static void decide(struct request *request, const struct otel_settings *settings)
{
    if (request->trace_decision == TRACE_RECORDED) {
        return;
    }
    if (wants_trace(request, settings)) {
        set_recorded(request);
    } else {
        request->trace_decision = TRACE_SKIPPED;
    }
}

enum handler_result otel_enter_location(struct request *request)
{
    const struct otel_settings *settings = otel_settings_at(request->location);

    if (request != request->main) {
        return HANDLER_NEXT; /* it shares the fields of the main request */
    }
    decide(request, settings);
    if (request->trace_decision == TRACE_RECORDED && settings->has_internal_spans) {
        otel_parts_begin(request);
    }
    if ((settings->context & OTEL_INJECT) != 0) {
        struct otel_context *context = otel_context_of(request);

        if (!context->is_injected) {
            inject(request, context);
        }
    }
    return HANDLER_NEXT;
}

enum handler_result otel_log(struct request *request)
{
    if (request != request->main) {
        return HANDLER_NEXT;
    }
    if (request->trace_decision == TRACE_UNDECIDED && request->method_name.len != 0) {
        decide(request, otel_settings_at(request->location));
    }
    if (request->trace_decision == TRACE_RECORDED) {
        otel_record(request, otel_context_of(request));
    }
    return HANDLER_NEXT;
}

/* May the values to send use variables of the context? Such a variable would make another
 * context. */
static bool is_asked_for(const struct otel_settings *settings)
{
    return otel_has_record(settings) || settings->span_name != NULL ||
           settings->attributes.count != 0;
}

/* Records a request of the share. A context that is not needed otherwise is not stored. */
static __attribute__((noinline)) void record_of_share(struct request *request)
{
    const struct otel_settings *settings = otel_settings_at(request->location);
    struct otel_context own = {.is_made = true};
    struct otel_context *context = otel_context_made(request);

    if (context == NULL && !is_asked_for(settings)) {
        context = &own;
        make_ids(&own.own, false);
    } else if (context == NULL) {
        context = otel_context_of(request);
    }
    context->own.flags |= TRACE_FLAG_SAMPLED;
    otel_record(request, context);
}

enum handler_result otel_log_share(struct request *request)
{
    share_of_all.state = share_of_all.state * 0x5851f42d4c957f2du + 0x14057b7ef767814fu;
    if (share_of_all.state >> 32 < share_of_all.most && request == request->main &&
        request->method_name.len != 0) {
        record_of_share(request);
    }
    return HANDLER_NEXT;
}
