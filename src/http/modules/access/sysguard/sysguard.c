/* ngx_http_sysguard_module (Tengine's): rejects requests while the system is overloaded. */
#include <unistd.h>

#include "base/clock.h"
#include "base/parse.h"
#include "http/modules/access/sysguard/system.h"
#include "http/request/request.h"
#include "http/routing/hooks.h"
#include "http/variables/variables.h"
#include "server/module.h"

/* In the order in which they are checked. */
enum guard_kind { GUARD_LOAD, GUARD_CPU, GUARD_SWAP, GUARD_FREE, GUARD_RT, GUARD_KINDS };

#define PERIOD_MOST 3600 /* seconds of sysguard_rt, sysguard_cpu */
/* Bytes of a /proc file that are read; the relevant ones are at its beginning. */
#define FILE_SIZE 4096

/* A limit. */
struct guard {
    bool is_set;
    uint64_t limit;    /* load, rt: thousandths; cpu, swap: percent; free: bytes */
    uint64_t period_s; /* for cpu, rt */
    struct str action; /* a URI or "@name"; empty: 503 */
    /* For cpu and rt: the measurements of this process; in the generation's memory. */
    struct guard_state *state;
};

struct sysguard_settings {
    bool is_on;
    bool wants_all; /* `sysguard_mode and` */
    unsigned log_level;
    uint64_t interval_s;
    struct guard guards[GUARD_KINDS];
};

static struct settings_key sysguard_key;

TYPED_SETTINGS(sysguard_settings_at, struct sysguard_settings, sysguard_key, struct http_location)

/* ---- measurements of a worker ---- */

/* Requests that ended within one second. */
struct second {
    time_t when;
    uint32_t count;
    uint64_t sum_ms;
};

/* The state of one limit on cpu or rt. */
struct guard_state {
    struct cpu_time former; /* one period ago */
    uint64_t former_ms;     /* the time of `former`; 0 = none yet */
    uint64_t usage;         /* percent, in the last complete period */
    struct second *seconds; /* for rt: a ring with one entry per second of the period */
};

/* System-wide values, read again after an interval. */
static struct {
    uint64_t load_at_ms, memory_at_ms; /* when they were read; 0 = never */
    uint64_t load;                     /* thousandths */
    struct memory_state memory;
} seen;

static bool is_old(uint64_t at_ms, uint64_t interval_s)
{
    return at_ms == 0 || clock_now.now_ms - at_ms >= interval_s * 1000;
}

static uint64_t load_now(const struct sysguard_settings *settings)
{
    char buffer[FILE_SIZE / 16];

    if (is_old(seen.load_at_ms, settings->interval_s)) {
        seen.load_at_ms = clock_now.now_ms;
        system_read_load(system_text("/proc/loadavg", buffer, sizeof(buffer)), &seen.load);
    }
    return seen.load;
}

static const struct memory_state *memory_now(const struct sysguard_settings *settings)
{
    char buffer[FILE_SIZE / 2];

    if (is_old(seen.memory_at_ms, settings->interval_s)) {
        seen.memory_at_ms = clock_now.now_ms;
        if (!system_read_memory(system_text("/proc/meminfo", buffer, sizeof(buffer)),
                                &seen.memory)) {
            seen.memory = (struct memory_state){.free_bytes = UINT64_MAX};
        }
    }
    return &seen.memory;
}

/* CPU usage in percent, in the last complete period. */
static uint64_t cpu_now(const struct guard *guard)
{
    struct guard_state *state = guard->state;
    char buffer[FILE_SIZE / 8];
    struct cpu_time now;

    if (!is_old(state->former_ms, guard->period_s) ||
        !system_read_cpu(system_text("/proc/stat", buffer, sizeof(buffer)), &now)) {
        return state->usage;
    }
    /* some of the kernel's counters may decrease */
    bool is_sound =
        state->former_ms != 0 && now.all > state->former.all && now.busy >= state->former.busy;
    state->usage =
        is_sound ? (now.busy - state->former.busy) * 100 / (now.all - state->former.all) : 0;
    state->former = now;
    state->former_ms = clock_now.now_ms;
    return state->usage;
}

/* Mean duration of the requests of the last period, in milliseconds. */
static uint64_t rt_now(const struct guard *guard)
{
    const struct guard_state *state = guard->state;
    time_t first = clock_now.seconds - (time_t) guard->period_s;
    uint64_t count = 0;
    uint64_t sum_ms = 0;

    for (uint64_t i = 0; i < guard->period_s; i++) {
        if (state->seconds[i].when > first) {
            count += state->seconds[i].count;
            sum_ms += state->seconds[i].sum_ms;
        }
    }
    return count == 0 ? 0 : sum_ms / count;
}

static enum handler_result note_time(struct request *request)
{
    const struct sysguard_settings *settings = sysguard_settings_at(request->location);
    const struct guard *guard = &settings->guards[GUARD_RT];

    if (request != request->main) {
        return HANDLER_NEXT;
    }
    struct second *second = &guard->state->seconds[(uint64_t) clock_now.seconds % guard->period_s];
    if (second->when != clock_now.seconds) {
        *second = (struct second){.when = clock_now.seconds};
    }
    second->count++;
    second->sum_ms += request_age_ms(request);
    return HANDLER_NEXT;
}

/* ---- per request ---- */

static void sysguard_say(const struct request *request, const struct sysguard_settings *settings,
                         enum guard_kind kind, uint64_t current)
{
    static const char *const names[] = {"load", "cpuusage", "swap", "free", "rt"};
    uint64_t limit = settings->guards[kind].limit;

    if (kind == GUARD_LOAD || kind == GUARD_RT) {
        log_at(&request->log, settings->log_level, 0,
               "sysguard %s limited, current:%llu.%03u conf:%llu.%03u", names[kind],
               (unsigned long long) (current / 1000), (unsigned) (current % 1000),
               (unsigned long long) (limit / 1000), (unsigned) (limit % 1000));
    } else if (kind == GUARD_FREE) {
        log_at(&request->log, settings->log_level, 0,
               "sysguard free limited, current:%lluM conf:%lluM",
               (unsigned long long) (current >> 20), (unsigned long long) (limit >> 20));
    } else {
        log_at(&request->log, settings->log_level, 0, "sysguard %s limited, current:%llu conf:%llu",
               names[kind], (unsigned long long) current, (unsigned long long) limit);
    }
}

static bool sysguard_is_over(const struct request *request,
                             const struct sysguard_settings *settings, enum guard_kind kind)
{
    const struct guard *guard = &settings->guards[kind];
    const struct memory_state *memory;
    uint64_t current = 0;

    switch (kind) {
    case GUARD_LOAD:
        current = load_now(settings);
        break;
    case GUARD_CPU:
        current = cpu_now(guard);
        break;
    case GUARD_SWAP:
        memory = memory_now(settings);
        current = memory->swap_total == 0
                      ? 0
                      : (memory->swap_total - memory->swap_free) * 100 / memory->swap_total;
        break;
    case GUARD_FREE:
        current = memory_now(settings)->free_bytes;
        break;
    case GUARD_RT:
        current = rt_now(guard);
        break;
    case GUARD_KINDS:
        return false;
    }
    if (kind == GUARD_FREE ? current >= guard->limit : current <= guard->limit) {
        return false;
    }
    sysguard_say(request, settings, kind, current);
    return true;
}

static enum handler_result turn_away(struct request *request, const struct guard *guard)
{
    struct str args = guard->action;
    struct str uri = str_cut(&args, '?');

    counters_mine->limited++;
    if (guard->action.len == 0) {
        return request_fail(request, 503);
    }
    return *guard->action.data == '@' ? request_redirect_named(request, guard->action)
                                      : request_redirect(request, uri, args);
}

/* Once per request: the target of an action is not checked. */
static enum handler_result guard_request(struct request *request)
{
    const struct sysguard_settings *settings = sysguard_settings_at(request->location);
    const struct guard *last = NULL;

    if (request != request->main || request_data(request, &sysguard_key, 0) != NULL) {
        return HANDLER_NEXT;
    }
    request_data(request, &sysguard_key, 1);
    for (unsigned kind = 0; kind < GUARD_KINDS; kind++) {
        const struct guard *guard = &settings->guards[kind];

        if (!guard->is_set) {
            continue;
        }
        bool is_bad = sysguard_is_over(request, settings, kind);
        if (is_bad != settings->wants_all) {
            return is_bad ? turn_away(request, guard) : HANDLER_NEXT;
        }
        last = guard;
    }
    return last != NULL && settings->wants_all ? turn_away(request, last) : HANDLER_NEXT;
}

static bool notes_time(const struct http_location *location)
{
    return sysguard_settings_at(location)->is_on &&
           sysguard_settings_at(location)->guards[GUARD_RT].is_set;
}

/* ---- when the configuration is read ---- */

/* "ncpu*1.5", "0.3" */
static bool read_load(struct str word, uint64_t *limit)
{
    uint64_t factor = 1;

    if (str_starts(word, STR("ncpu*"))) {
        long count = sysconf(_SC_NPROCESSORS_ONLN);
        word = str_skip(word, 5);
        factor = count > 0 ? (uint64_t) count : 1;
    }
    if (!parse_fixed_point(word, 3, limit) || *limit > UINT32_MAX) {
        return false;
    }
    *limit *= factor;
    return true;
}

static bool read_limit(enum guard_kind kind, struct str word, uint64_t *limit)
{
    switch (kind) {
    case GUARD_LOAD:
        return read_load(word, limit);
    case GUARD_RT:
        return parse_fixed_point(word, 3, limit);
    case GUARD_SWAP:
        return word.len > 1 && word.data[word.len - 1] == '%' &&
               parse_uint(str_head(word, word.len - 1), limit) && *limit <= 100;
    case GUARD_CPU:
        return parse_uint(word, limit) && *limit <= 100;
    case GUARD_FREE: {
        int64_t bytes;
        bool is_good = parse_offset(word, &bytes);

        *limit = is_good ? (uint64_t) bytes : 0;
        return is_good;
    }
    case GUARD_KINDS:
        break;
    }
    return false;
}

static const char *const limit_names[] = {"load", "usage", "swapratio", "free", "rt"};

/* Does it have an unknown name? Tengine ignores such parameters: "actoin=/x". */
static bool is_unheard_of(struct str word)
{
    struct str rest = word;
    struct str name = str_cut(&rest, '=');

    for (unsigned kind = 0; kind < GUARD_KINDS; kind++) {
        if (str_is(name, limit_names[kind])) {
            return false;
        }
    }
    return rest.data != NULL && !str_is(name, "period") && !str_is(name, "action");
}

static bool sysguard_read_word(enum guard_kind kind, struct str word, struct guard *guard)
{
    struct str value = word;
    struct str name = str_cut(&value, '=');

    if (value.data == NULL || value.len == 0) {
        return false;
    }
    if (str_is(name, limit_names[kind])) {
        guard->is_set = true;
        return read_limit(kind, value, &guard->limit);
    }
    if (str_is(name, "period") && (kind == GUARD_CPU || kind == GUARD_RT)) {
        return parse_sec(value, &guard->period_s) && guard->period_s != 0 &&
               guard->period_s <= PERIOD_MOST;
    }
    guard->action = value;
    return str_is(name, "action") && (*value.data == '/' || *value.data == '@');
}

static bool read_guard(struct conf_scope *scope, const struct conf_node *node, enum guard_kind kind,
                       struct sysguard_settings *settings)
{
    struct guard guard = {.period_s = kind == GUARD_CPU ? 3 : 1};

    for (unsigned i = 1; i < node->count; i++) {
        if (is_unheard_of(node->args[i])) {
            conf_warn(scope->conf, node, "unknown parameter \"%.*s\", ignored",
                      STR_ARG(node->args[i]));
        } else if (!sysguard_read_word(kind, node->args[i], &guard)) {
            return conf_error(scope->conf, node, "invalid parameter \"%.*s\"",
                              STR_ARG(node->args[i]));
        }
    }
    if (!guard.is_set) {
        return conf_error(scope->conf, node, "invalid number of arguments in \"%.*s\" directive",
                          STR_ARG(node->args[0]));
    }
    if (kind == GUARD_CPU || kind == GUARD_RT) {
        guard.state = arena_new(scope->conf->arena, struct guard_state);
        guard.state->seconds =
            arena_array(scope->conf->arena, (size_t) guard.period_s, sizeof(struct second));
    }
    settings->guards[kind] = guard;
    return true;
}

static bool load_apply(struct conf_scope *scope, const struct directive *row,
                       struct conf_node *node, void *settings)
{
    return read_guard(scope, node, GUARD_LOAD, settings);
}

static bool cpu_apply(struct conf_scope *scope, const struct directive *row, struct conf_node *node,
                      void *settings)
{
    return read_guard(scope, node, GUARD_CPU, settings);
}

/* Two limits share a directive: the first parameter selects the limit. */
static bool mem_apply(struct conf_scope *scope, const struct directive *row, struct conf_node *node,
                      void *settings)
{
    bool is_free = false;

    for (unsigned i = 1; i < node->count; i++) {
        is_free |= str_starts(node->args[i], STR("free="));
    }
    return read_guard(scope, node, is_free ? GUARD_FREE : GUARD_SWAP, settings);
}

static bool rt_apply(struct conf_scope *scope, const struct directive *row, struct conf_node *node,
                     void *settings)
{
    return read_guard(scope, node, GUARD_RT, settings);
}

static const struct directive_word level_words[] = {{"info", LOG_INFO},
                                                    {"notice", LOG_NOTICE},
                                                    {"warn", LOG_WARN},
                                                    {"error", LOG_ERROR},
                                                    {NULL, 0}};
static const struct directive_word mode_words[] = {{"or", false}, {"and", true}, {NULL, 0}};

static bool mode_apply(struct conf_scope *scope, const struct directive *row,
                       struct conf_node *node, void *settings)
{
    const struct directive_word *word = mode_words;

    while (word->word != NULL && !str_is(node->args[1], word->word)) {
        word++;
    }
    if (word->word == NULL) {
        return conf_error(scope->conf, node, "invalid value \"%.*s\"", STR_ARG(node->args[1]));
    }
    ((struct sysguard_settings *) settings)->wants_all = word->value != 0;
    return true;
}

#define S struct sysguard_settings
static const struct directive sysguard_rows[] = {
    {"sysguard", IN_HTTP_ALL, FLAG(S, is_on), .initial = "off",
     .doc = "Refuses requests, with 503 or the action of a limit, while the system exceeds "
            "the limits below."},
    {"sysguard_load", IN_HTTP_ALL, CUSTOM_FIELD(S, guards[GUARD_LOAD], load_apply), ARGS(1, 2),
     .syntax = "load=[ncpu*]number [action=uri]",
     .doc = "Limit for the load average of one minute; `ncpu*` multiplies the number by the "
            "number of processors."},
    {"sysguard_cpu", IN_HTTP_ALL, CUSTOM_FIELD(S, guards[GUARD_CPU], cpu_apply), ARGS(1, 3),
     .syntax = "usage=percent [period=time] [action=uri]",
     .doc = "Limit for the CPU usage of the system in the last period; `period` is 3s by "
            "default."},
    {"sysguard_mem", IN_HTTP_ALL, CUSTOM(mem_apply), ARGS(1, 2), .repeat = REPEAT_CUSTOM,
     .syntax = "swapratio=percent% [action=uri] | free=size [action=uri]",
     .doc = "Limits for memory: the largest share of the swap space that may be used, or "
            "the smallest amount of memory that must be free or used by the page cache."},
    {"sysguard_rt", IN_HTTP_ALL, CUSTOM_FIELD(S, guards[GUARD_RT], rt_apply), ARGS(1, 3),
     .syntax = "rt=seconds [period=time] [action=uri]",
     .doc = "Limit for the mean time of the worker's requests, in the blocks with this "
            "limit, in the last period; `period` is 1s by default."},
    {"sysguard_mode", IN_HTTP_ALL, CUSTOM_FIELD(S, wants_all, mode_apply), ARGS(1, 1),
     .initial = "or", .syntax = "or | and",
     .doc = "Whether requests are refused when one of the limits is exceeded (`or`), or "
            "only when all of them are (`and`)."},
    {"sysguard_interval", IN_HTTP_ALL, SEC(S, interval_s), .initial = "1s",
     .doc = "Interval at which the load and the memory usage are read."},
    {"sysguard_log_level", IN_HTTP_ALL, ENUM(S, log_level, level_words), .initial = "error",
     .doc = "Log level of the message about an exceeded limit."},
    {0},
};
#undef S

static const struct phase_hook sysguard_phases[] = {
    {.phase = PHASE_PREACCESS,
     .name = "sysguard",
     .before = "limit_req",
     .run = guard_request,
     .when = SETTING(sysguard_key, struct sysguard_settings, is_on)},
    {.phase = PHASE_LOG,
     .name = "sysguard",
     .after = "log",
     .run = note_time,
     .is_active = notes_time},
    {.run = NULL},
};
static const struct http_module sysguard_hooks = {.phases = sysguard_phases};

const struct module ngx_http_sysguard_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_sysguard_module",
    .kind = MODULE_HTTP,
    .table = {.key = &sysguard_key,
              .rows = sysguard_rows,
              .contexts = IN_HTTP_LOCATION_SETTINGS,
              .size = sizeof(struct sysguard_settings)},
    .hooks = &sysguard_hooks,
};
