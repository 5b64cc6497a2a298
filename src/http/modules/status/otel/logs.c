/* Lines of the error log and of requests as OTLP log records: opentelemetry.proto.logs.v1. */
#include <pthread.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/parse.h"
#include "http/modules/status/otel/encode.h"
#include "http/modules/status/otel/otel.h"
#include "http/request/request.h"

enum {
    RECORD_TIME = 1,
    RECORD_SEVERITY = 2,
    RECORD_SEVERITY_TEXT = 3,
    RECORD_BODY = 5,
    RECORD_ATTRIBUTES = 6,
    RECORD_FLAGS = 8,
    RECORD_TRACE_ID = 9,
    RECORD_SPAN_ID = 10,
    RECORD_OBSERVED = 11,
    RECORD_EVENT = 12,
};

/* Severity numbers that the specification assigns to syslog levels. */
static const unsigned char severities[LOG_DEBUG + 1] = {
    [LOG_STDERR] = 17, [LOG_EMERG] = 21,  [LOG_ALERT] = 19, [LOG_CRIT] = 18, [LOG_ERROR] = 17,
    [LOG_WARN] = 13,   [LOG_NOTICE] = 10, [LOG_INFO] = 9,   [LOG_DEBUG] = 5,
};

/* ---- records ---- */

/* Writes the beginning of a record; body and event follow. */
static char *put_head(char *at, uint64_t time_ns, enum log_level level)
{
    at = put_byte(at, SCOPE_ITEMS << 3 | PROTOBUF_BYTES) + 2; /* most lengths take two bytes */
    at = put_time(at, RECORD_TIME, time_ns);
    at = put_time(at, RECORD_OBSERVED, time_ns);
    at = put_byte(at, RECORD_SEVERITY << 3 | PROTOBUF_VARINT);
    at = put_byte(at, severities[level]);
    at = put_byte(at, RECORD_SEVERITY_TEXT << 3 | PROTOBUF_BYTES);
    at = put_byte(at, (unsigned) log_level_names[level].len);
    return str_put(at, log_level_names[level]);
}

static void put_body(struct buf *out, struct str text)
{
    size_t body = protobuf_begin(out, RECORD_BODY);

    protobuf_put_text(out, VALUE_STRING, text, TARGET_MOST);
    protobuf_end(out, body);
}

static uint64_t wall_ms(void)
{
    return (uint64_t) clock_now.seconds * 1000 + clock_now.milliseconds;
}

static void put_trace(struct buf *out, const struct otel_context *context)
{
    char *at = buf_reserve(out, TRACE_ID_SIZE + SPAN_ID_SIZE + ATTRIBUTE_SIZE);
    uint32_t flags = htole32(context->own.flags & TRACE_FLAG_SAMPLED);

    at = put_id(at, RECORD_TRACE_ID, context->own.trace_id, TRACE_ID_SIZE);
    at = put_id(at, RECORD_SPAN_ID, context->own.span_id, SPAN_ID_SIZE);
    at = put_byte(at, RECORD_FLAGS << 3 | PROTOBUF_FIXED32);
    memcpy(at, &flags, sizeof(flags));
    out->len = (size_t) (at + sizeof(flags) - out->data);
}

void otel_log_request(struct request *request, struct str text)
{
    struct generation *generation = request->server->main->generation;
    struct buf *out = otel_exporter_next(generation, OTEL_LOGS);
    const struct otel_context *context = otel_context_made(request);

    if (out == NULL) {
        return;
    }
    size_t start = out->len;
    char *at = put_head(buf_reserve(out, SPAN_SIZE), wall_ms() * 1000000, LOG_INFO);
    at = otel_put_attributes(at, RECORD_ATTRIBUTES, request);
    out->len = (size_t) (at - out->data);
    put_body(out, text);
    protobuf_put_bytes(out, RECORD_EVENT, STR("nginx.access"));
    if (context != NULL) {
        put_trace(out, context);
    }
    otel_put_length(out, start + 1);
    otel_exporter_added(generation, OTEL_LOGS);
}

/* ---- the error log ---- */

/* Memory for lines until they become records. Its pages are not used if little is logged. */
enum { LINES_SIZE = 256 * 1024 };

/* Header of a stored line. */
struct kept_line {
    uint64_t time_ns;
    uint32_t len;
    uint32_t level;
};

/* Per process: lines may come from threads of pools and from signal handlers, so they are stored
 * unchanged, and the loop converts them to records. */
static struct {
    struct log_tap tap;
    pthread_mutex_t lock;
    struct generation *generation; /* whose exporter gets the records; NULL: none */
    struct timer timer;            /* when lines are converted */
    uint64_t interval_ms;
    enum log_level level; /* the least important level that is stored */
    size_t used;          /* used bytes */
    unsigned dropped;     /* lines without space */
    char *buffer;
} lines = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* This thread holds the lock, or logs a message about the collector: lines of a signal handler in
 * the first case, and these messages, are omitted. */
static __thread volatile bool is_paused;

void otel_error_log_pause(void)
{
    is_paused = true;
}

void otel_error_log_resume(void)
{
    is_paused = false;
}

static void take_line(struct log_tap *tap, enum log_level level, struct str line)
{
    const struct kept_line kept = {.time_ns = wall_ms() * 1000000,
                                   .len = (uint32_t) line.len,
                                   .level = level};

    if (level > lines.level || is_paused) {
        return;
    }
    is_paused = true;
    pthread_mutex_lock(&lines.lock);
    if (sizeof(kept) + line.len > LINES_SIZE - lines.used) {
        lines.dropped++;
    } else {
        memcpy(lines.buffer + lines.used, &kept, sizeof(kept));
        memcpy(lines.buffer + lines.used + sizeof(kept), line.data, line.len);
        lines.used += sizeof(kept) + line.len;
    }
    pthread_mutex_unlock(&lines.lock);
    is_paused = false;
}

/* "2026/11/29 06:30:00 [error] 12#13: *1 …": the body is the text after that, the numbers become
 * attributes. */
static void put_line(struct buf *out, const struct kept_line *kept, struct str line)
{
    size_t start = out->len;
    const char *end = str_find(line, STR("] "));
    struct str ids = end == NULL ? STR_NONE : str_skip(line, (size_t) (end + 2 - line.data));
    const char *body = str_find(ids, STR(": "));
    uint64_t pid, tid;
    char *at = put_head(buf_reserve(out, SPAN_SIZE), kept->time_ns, (enum log_level) kept->level);

    if (body != NULL) {
        struct str numbers = str_from(ids.data, body);
        struct str first = str_cut(&numbers, '#');

        line = str_from(body + 2, line.data + line.len);
        if (parse_uint(first, &pid) && parse_uint(numbers, &tid)) {
            at = put_number(at, RECORD_ATTRIBUTES, STR("process.pid"), pid);
            at = put_number(at, RECORD_ATTRIBUTES, STR("thread.id"), tid);
        }
    }
    out->len = (size_t) (at - out->data);
    put_body(out, line);
    protobuf_put_bytes(out, RECORD_EVENT, STR("nginx.error"));
    otel_put_length(out, start + 1);
}

/* The lock is only held while lines are copied. */
static size_t take_lines(struct buf *out, unsigned *dropped)
{
    is_paused = true;
    pthread_mutex_lock(&lines.lock);
    buf_append(out, (struct str){lines.buffer, lines.used});
    *dropped = lines.dropped;
    lines.dropped = 0;
    lines.used = 0;
    pthread_mutex_unlock(&lines.lock);
    is_paused = false;
    return out->len;
}

void otel_error_log_drain(struct generation *generation)
{
    struct buf taken = {0};
    unsigned dropped = 0;

    if (lines.generation != generation) {
        return;
    }
    for (size_t at = 0, end = take_lines(&taken, &dropped); at != end;) {
        struct kept_line kept;

        memcpy(&kept, taken.data + at, sizeof(kept));
        struct buf *out = otel_exporter_next(generation, OTEL_LOGS);
        if (out != NULL) {
            put_line(out, &kept, (struct str){taken.data + at + sizeof(kept), kept.len});
            otel_exporter_added(generation, OTEL_LOGS);
        }
        at += sizeof(kept) + kept.len;
    }
    buf_free(&taken);
    if (dropped != 0) {
        otel_exporter_drop(generation, OTEL_LOGS, dropped);
    }
}

static void drain_is_due(struct timer *timer)
{
    otel_error_log_drain(lines.generation);
    timer_set(&lines.timer, clock_now.now_ms + lines.interval_ms);
}

bool otel_error_log_start(struct generation *generation, const struct otel_main *main)
{
    if (lines.generation == NULL) {
        if (lines.buffer == NULL && (lines.buffer = malloc(LINES_SIZE)) == NULL) {
            return false;
        }
        lines.tap.take = take_line;
        timer_init(&lines.timer, drain_is_due);
        log_tap_add(&lines.tap);
    } else {
        otel_error_log_drain(
            lines.generation); /* without a master: those of the former generation */
    }
    lines.generation = generation;
    lines.level = (enum log_level) main->error_log;
    lines.interval_ms = main->exporter->interval_ms;
    timer_set(&lines.timer, clock_now.now_ms + lines.interval_ms);
    return true;
}

void otel_error_log_end(struct generation *generation)
{
    if (lines.generation == NULL || lines.generation != generation) {
        return;
    }
    log_tap_remove(&lines.tap);
    timer_remove(&lines.timer);
    /* Nothing is sent any more. The memory is not freed, because a thread may be about to add a
     * line. */
    pthread_mutex_lock(&lines.lock);
    unsigned dropped = lines.dropped;
    for (size_t at = 0; at != lines.used; dropped++) {
        struct kept_line kept;

        memcpy(&kept, lines.buffer + at, sizeof(kept));
        at += sizeof(kept) + kept.len;
    }
    lines.used = lines.dropped = 0;
    lines.generation = NULL;
    pthread_mutex_unlock(&lines.lock);
    counters_mine->records_dropped += dropped;
}
