/* Points of each series in shared memory: see history.h. */
#include "shared/metrics/history.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "event/loop.h"
#include "server/generation.h"

/* Errors that do not appear in the status of a request. */
enum error_kind {
    ERROR_DROPPED,   /* connections that were accepted and not served */
    ERROR_LIMITED,   /* requests and connections that a limit refused */
    ERROR_HANDSHAKE, /* TLS handshakes that failed or timed out */
    ERROR_NO_ANSWER, /* attempts at a server of an upstream that got no response */
    ERROR_UPSTREAM,  /* attempts whose response had a status 5xx */
    ERROR_WORKER,    /* workers that died */
    ERROR_KINDS
};
static const char *const error_names[ERROR_KINDS] = {"connections dropped",
                                                     "limits reached",
                                                     "TLS handshakes failed",
                                                     "upstream without response",
                                                     "upstream responses 5xx",
                                                     "workers died"};

enum {
    RECENT = 10,    /* points that count as recent */
    IDLE_STEPS = 4, /* steps between two checks while the service is idle */
    NO_TIME = 255,  /* in a point without requests */
    ROW_TOTAL = 0,  /* the row of all servers */
    ROW_NONE = 0xffff
};

struct point {
    uint32_t count;                        /* requests or sessions; for upstreams, attempts */
    uint32_t errors_client, errors_server; /* 4xx; 5xx, and attempts without a response */
    uint8_t median, p99;                   /* cells of times (times.h), or NO_TIME */
};

struct row {
    uint8_t kind; /* enum series_kind; SERIES_KINDS: all servers together */
    uint8_t length;
    char label[SERIES_LABEL];   /* name of a server or zone; for peers, their group */
    struct metrics_cell former; /* sums at the last point */
    struct point points[HISTORY_POINTS];
};

/* One entry of the ring is being written while others are read. */
enum { SHOWN_MOST = HISTORY_POINTS - 1 };

/* The time of a point and its length; the errors in that time. */
struct span {
    uint64_t end_ms; /* since the epoch */
    uint64_t length_ms;
    bool is_idle;                     /* there were no requests */
    uint32_t statuses[METRICS_CODES]; /* number of responses with 4xx and 5xx */
    uint32_t errors[ERROR_KINDS];
};

struct root {
    _Atomic uint64_t taken_ms; /* when the last point was taken (clock_now.now_ms); a change claims
                                  the next one; 0: none yet */
    _Atomic uint32_t row_count;
    _Atomic uint64_t count; /* points that were ever taken */
    _Atomic uint32_t lost;  /* series without a row */
    uint64_t former[ERROR_KINDS];
    struct span spans[HISTORY_POINTS];
    struct row rows[HISTORY_ROWS];
};

static struct root *root;

/* In this process: the row of each series, which never changes. */
static uint16_t row_of[SERIES_MOST];
static unsigned rows_known, rows_lost;

size_t history_zone_size(void)
{
    return sizeof(struct root) + (256 << 10); /* includes the allocator's pages */
}

bool history_use(struct zone *zone)
{
    if (zone->root == NULL) {
        zone->root = slab_alloc(zone->slab, sizeof(struct root));
    }
    root = zone->root;
    rows_known = rows_lost = 0;
    return root != NULL;
}

/* ---- rows ---- */

static struct row *add_row(unsigned kind, struct str label)
{
    unsigned count = atomic_load(&root->row_count);

    if (count == HISTORY_ROWS) {
        return NULL;
    }
    struct row *row = &root->rows[count];
    row->kind = (uint8_t) kind;
    row->length = (uint8_t) label.len;
    memcpy(row->label, label.data, label.len);
    memset(&row->former, 0, sizeof(row->former));
    for (unsigned i = 0; i < HISTORY_POINTS; i++) {
        row->points[i] = (struct point){.median = NO_TIME, .p99 = NO_TIME};
    }
    atomic_store(&root->row_count, count + 1);
    return row;
}

static struct str row_label(const struct row *row)
{
    return (struct str){row->label, row->length};
}

static unsigned find_row(unsigned kind, struct str label)
{
    unsigned count = atomic_load(&root->row_count);

    for (unsigned i = 0; i < count; i++) {
        if (root->rows[i].kind == kind && str_equal(row_label(&root->rows[i]), label)) {
            return i;
        }
    }
    if (add_row(kind, label) == NULL) {
        atomic_store(&root->lost, ++rows_lost);
        return ROW_NONE;
    }
    return count;
}

static bool is_peer(unsigned kind)
{
    return kind == SERIES_PEER || kind == SERIES_STREAM_PEER;
}

/* Finds the rows of new series. */
static void know_rows(void)
{
    unsigned count = metrics_series_count();

    if (rows_known == 0) {
        find_row(SERIES_KINDS, STR("")); /* ROW_TOTAL is the first */
    }
    for (; rows_known < count; rows_known++) {
        struct str label;
        enum series_kind kind = metrics_series_label(rows_known, &label);

        row_of[rows_known] =
            (uint16_t) find_row(kind, is_peer(kind) ? str_cut(&label, '\0') : label);
    }
}

/* ---- taking a point ---- */

/* Both structs consist of counters only. */
static void add_cell(struct metrics_cell *to, const struct metrics_cell *cell)
{
    uint64_t *sums = (uint64_t *) to;
    const uint64_t *more = (const uint64_t *) cell;

    for (unsigned i = 0; i < sizeof(*to) / sizeof(*sums); i++) {
        sums[i] += more[i];
    }
}

/* The increase; the whole value if the counters were restarted. */
static uint64_t since(uint64_t now, uint64_t former)
{
    return now >= former ? now - former : now;
}

static void subtract_cell(struct metrics_cell *now, struct metrics_cell *former)
{
    uint64_t *sums = (uint64_t *) now;
    uint64_t *bases = (uint64_t *) former;

    for (unsigned i = 0; i < sizeof(*now) / sizeof(*sums); i++) {
        uint64_t sum = sums[i];

        sums[i] = since(sum, bases[i]);
        bases[i] = sum;
    }
}

/* The cell of times that contains this percentile. */
static uint8_t quantile(const struct metrics_cell *cell, uint64_t all, unsigned percent)
{
    uint64_t wanted = (all * percent + 99) / 100;
    uint64_t seen = 0;

    for (unsigned i = 0; i < TIMES_CELLS && all != 0; i++) {
        seen += cell->times[i];
        if (seen >= wanted) {
            return (uint8_t) i;
        }
    }
    return NO_TIME;
}

static struct point point_of(const struct metrics_cell *cell, unsigned kind)
{
    struct point point = {0};

    for (unsigned i = 0; i < METRICS_CODES; i++) {
        unsigned class = metrics_codes[i] / 100;

        point.count += (uint32_t) cell->codes[i];
        if (class == 4) {
            point.errors_client += (uint32_t) cell->codes[i];
        } else if (class == 5 || (class == 0 && is_peer(kind))) {
            point.errors_server += (uint32_t) cell->codes[i];
        }
    }
    point.median = quantile(cell, point.count, 50);
    point.p99 = quantile(cell, point.count, 99);
    return point;
}

static void take_row(unsigned number, struct metrics_cell *sum, unsigned index, struct span *span)
{
    struct row *row = &root->rows[number];

    subtract_cell(sum, &row->former);
    row->points[index] = point_of(sum, row->kind);
    span->is_idle = span->is_idle && row->points[index].count == 0;
}

static void take_errors(struct span *span, const struct metrics_cell *total)
{
    struct slot_counters sum;

    counters_sum(&sum);
    const uint64_t now[ERROR_KINDS] = {
        [ERROR_DROPPED] = sum.accepted > sum.handled ? sum.accepted - sum.handled : 0,
        [ERROR_LIMITED] = sum.limited,
        [ERROR_HANDSHAKE] = sum.tls_failures + sum.tls_timeouts,
        [ERROR_WORKER] = sum.respawned,
    };
    for (unsigned i = 0; i < METRICS_CODES; i++) {
        span->statuses[i] = metrics_codes[i] >= 400 ? (uint32_t) total->codes[i] : 0;
    }
    for (unsigned i = 0; i < ERROR_KINDS; i++) {
        if (i != ERROR_NO_ANSWER && i != ERROR_UPSTREAM) {
            span->errors[i] = (uint32_t) since(now[i], root->former[i]);
            root->former[i] = now[i];
        }
    }
}

/* Counts failed attempts: without a response they have status 0, the last of the codes. */
static void take_peer_errors(struct span *span, const struct metrics_cell *cell)
{
    for (unsigned i = 0; i < METRICS_CODES; i++) {
        if (metrics_codes[i] == 0) {
            span->errors[ERROR_NO_ANSWER] += (uint32_t) cell->codes[i];
        } else if (metrics_codes[i] >= 500) {
            span->errors[ERROR_UPSTREAM] += (uint32_t) cell->codes[i];
        }
    }
}

/* Takes a point of every row, at this index. */
static void take_rows(unsigned index, struct span *span)
{
    static struct metrics_cell total, sum, part; /* too large for a fiber's frame */
    unsigned series_count = rows_known;
    unsigned row_count = atomic_load(&root->row_count);

    memset(&total, 0, sizeof(total));
    for (unsigned row = ROW_TOTAL + 1; row < row_count; row++) {
        memset(&sum, 0, sizeof(sum));
        for (unsigned i = 0; i < series_count; i++) {
            if (row_of[i] == row) {
                metrics_sum(i, &part);
                add_cell(&sum, &part);
            }
        }
        if (root->rows[row].kind == SERIES_SERVER) {
            add_cell(&total, &sum); /* before take_row replaces the sum by the increase */
        }
        take_row(row, &sum, index, span);
        if (root->rows[row].kind == SERIES_PEER) {
            take_peer_errors(span, &sum);
        }
    }
    take_row(ROW_TOTAL, &total, index, span);
    take_errors(span, &total);
}

/* True: a step has passed, and this process takes the point. */
static bool claim(uint64_t step_ms, uint64_t *former)
{
    *former = atomic_load(&root->taken_ms);
    return (*former == 0 || clock_now.now_ms >= *former + step_ms) &&
           atomic_compare_exchange_strong(&root->taken_ms, former, clock_now.now_ms);
}

void history_look(uint64_t step_ms)
{
    struct span span = {.is_idle = true};
    uint64_t former;

    if (root == NULL || !claim(step_ms, &former)) {
        return;
    }
    uint64_t count = atomic_load(&root->count);
    know_rows();
    span.end_ms = (uint64_t) clock_now.seconds * 1000 + clock_now.milliseconds;
    span.length_ms = clock_now.now_ms - former;
    take_rows(count % HISTORY_POINTS, &span);
    if (former != 0) { /* the first one is the base of the others */
        root->spans[count % HISTORY_POINTS] = span;
        atomic_store(&root->count, count + 1);
    }
}

/* ---- the worker that takes points ---- */

static struct timer ticker;
static uint64_t ticker_step_ms;

static bool was_idle(void)
{
    uint64_t count = atomic_load(&root->count);

    return count != 0 && root->spans[(count - 1) % HISTORY_POINTS].is_idle;
}

static void tick(struct timer *timer)
{
    history_look(ticker_step_ms);
    timer_set(timer, clock_now.now_ms + ticker_step_ms * (was_idle() ? IDLE_STEPS : 1));
}

void history_stop(void)
{
    if (ticker_step_ms != 0) {
        timer_remove(&ticker);
        ticker_step_ms = 0;
    }
}

void history_start(uint64_t step_ms)
{
    ticker_step_ms = step_ms;
    timer_init(&ticker, tick);
    tick(&ticker);
}

/* ---- output ---- */

/* The points to write: numbers from `first` up to `end`. */
struct range {
    uint64_t first, end;
};

static struct range range_after(uint64_t after)
{
    struct range range = {0, atomic_load(&root->count)};

    if (range.end > SHOWN_MOST) {
        range.first = range.end - SHOWN_MOST;
    }
    if (after > range.first && after <= range.end) {
        range.first = after;
    }
    return range;
}

static void put_time_of(struct json *json, uint8_t cell)
{
    if (cell >= TIMES_CELLS) {
        json_put_name(json, STR_NONE);
        buf_append(json->out, STR("null"));
        return;
    }
    bool is_last = cell == TIMES_CELLS - 1;
    json_put_number(json, "", time_cells[is_last ? cell - 1 : cell].end_ms);
}

static void put_row(struct json *json, const struct row *row, struct range range)
{
    static const char *const kinds[SERIES_KINDS + 1] = {
        [SERIES_SERVER] = "server",
        [SERIES_ZONE] = "zone",
        [SERIES_PEER] = "upstream",
        [SERIES_STREAM_SERVER] = "stream server",
        [SERIES_STREAM_PEER] = "stream upstream",
        [SERIES_KINDS] = "all",
    };
    static const char *const columns[] = {"count", "errors_4xx", "errors_5xx", "p50_ms", "p99_ms"};

    json_open(json, STR_NONE, '{');
    json_put_string(json, "kind", str_of(kinds[row->kind <= SERIES_KINDS ? row->kind : 0]));
    json_put_string(json, "name", row_label(row));
    for (unsigned column = 0; column < sizeof(columns) / sizeof(*columns); column++) {
        json_open(json, str_of(columns[column]), '[');
        for (uint64_t number = range.first; number < range.end; number++) {
            const struct point *point = &row->points[number % HISTORY_POINTS];

            switch (column) {
            case 0:
                json_put_number(json, "", point->count);
                break;
            case 1:
                json_put_number(json, "", point->errors_client);
                break;
            case 2:
                json_put_number(json, "", point->errors_server);
                break;
            default:
                put_time_of(json, column == 3 ? point->median : point->p99);
            }
        }
        json_close(json, ']');
    }
    json_close(json, '}');
}

static void put_error(struct json *json, struct str name, uint64_t recent, uint64_t all)
{
    if (all != 0) {
        json_open(json, STR_NONE, '{');
        json_put_string(json, "kind", name);
        json_put_number(json, "recent", recent);
        json_put_number(json, "count", all);
        json_close(json, '}');
    }
}

static void put_errors(struct json *json)
{
    struct range range = range_after(0);
    uint64_t all[METRICS_CODES + ERROR_KINDS] = {0}, recent[METRICS_CODES + ERROR_KINDS] = {0};

    for (uint64_t number = range.first; number < range.end; number++) {
        const struct span *span = &root->spans[number % HISTORY_POINTS];
        bool is_recent = number + RECENT >= range.end;

        for (unsigned i = 0; i < METRICS_CODES + ERROR_KINDS; i++) {
            uint32_t n = i < METRICS_CODES ? span->statuses[i] : span->errors[i - METRICS_CODES];

            all[i] += n;
            recent[i] += is_recent ? n : 0;
        }
    }
    json_open(json, STR("errors"), '[');
    for (unsigned i = 0; i < METRICS_CODES; i++) {
        char name[16];
        int length = snprintf(name, sizeof(name), "status %u", metrics_codes[i]);

        put_error(json, (struct str){name, (size_t) length}, recent[i], all[i]);
    }
    for (unsigned i = 0; i < ERROR_KINDS; i++) {
        put_error(json, str_of(error_names[i]), recent[METRICS_CODES + i], all[METRICS_CODES + i]);
    }
    json_close(json, ']');
}

void history_put(struct json *json, uint64_t after)
{
    struct range range = range_after(after);
    unsigned row_count = atomic_load(&root->row_count);

    json_put_number(json, "first", range.first);
    json_put_number(json, "count", range.end);
    json_open(json, STR("end_ms"), '[');
    for (uint64_t number = range.first; number < range.end; number++) {
        json_put_number(json, "", root->spans[number % HISTORY_POINTS].end_ms);
    }
    json_close(json, ']');
    json_open(json, STR("length_ms"), '[');
    for (uint64_t number = range.first; number < range.end; number++) {
        json_put_number(json, "", root->spans[number % HISTORY_POINTS].length_ms);
    }
    json_close(json, ']');
    json_open(json, STR("rows"), '[');
    for (unsigned i = 0; i < row_count && i < HISTORY_ROWS; i++) {
        put_row(json, &root->rows[i], range);
    }
    json_close(json, ']');
    json_put_number(json, "lost", atomic_load(&root->lost));
    put_errors(json);
}
