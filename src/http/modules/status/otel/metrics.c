/* The metrics of `metrics` as OTLP: opentelemetry.proto.metrics.v1. One worker sends them for
 * all. */
#include "base/clock.h"
#include "base/text.h"
#include "http/modules/status/otel/encode.h"
#include "http/modules/status/otel/otel.h"
#include "shared/metrics/counters.h"
#include "shared/metrics/writer.h"
#include "shared/metrics/zones.h"

enum {
    METRIC_NAME = 1,
    METRIC_DESCRIPTION = 2,
    METRIC_UNIT = 3,
    METRIC_GAUGE = 5,
    METRIC_SUM = 7,
    METRIC_HISTOGRAM = 9,
};
enum { DATA_POINTS = 1, DATA_TEMPORALITY = 2, SUM_IS_MONOTONIC = 3 }; /* of all kinds of data */
enum { TEMPORALITY_CUMULATIVE = 2 };
enum { POINT_START = 2, POINT_TIME = 3 }; /* of all kinds of points */
enum { NUMBER_DOUBLE = 4, NUMBER_INT = 6, NUMBER_ATTRIBUTES = 7 };
enum {
    HISTOGRAM_COUNT = 4,
    HISTOGRAM_SUM = 5,
    HISTOGRAM_BUCKETS = 6,
    HISTOGRAM_BOUNDS = 7,
    HISTOGRAM_ATTRIBUTES = 9
};

/* A form with the data for its points. */
struct otlp_form {
    struct metrics_form form; /* must be first */
    uint64_t began_ns;        /* start time of the counters */
    uint64_t now_ns;
    size_t data; /* offset of the data of the family */
};

/* ---- families ---- */

static unsigned data_field(enum family_type type)
{
    return type == FAMILY_COUNTER ? METRIC_SUM
                                  : (type == FAMILY_HISTOGRAM ? METRIC_HISTOGRAM : METRIC_GAUGE);
}

static struct otlp_form *form_of(const struct metrics_writer *writer)
{
    return (struct otlp_form *) (void *) writer->form;
}

/* Names of Prometheus contain the unit. */
static struct str unit_of(struct str name)
{
    return str_ends(name, STR("_seconds")) ? STR("s")
                                           : (str_ends(name, STR("_bytes")) ? STR("By") : STR_NONE);
}

static void begin_otlp(struct metrics_writer *writer, const char *help)
{
    struct buf *out = writer->out;
    struct str unit = unit_of(str_of(writer->name));

    protobuf_begin(out, SCOPE_ITEMS);
    protobuf_put_bytes(out, METRIC_NAME, str_of(writer->name));
    protobuf_put_bytes(out, METRIC_DESCRIPTION, str_of(help));
    if (unit.len != 0) {
        protobuf_put_bytes(out, METRIC_UNIT, unit);
    }
    form_of(writer)->data = protobuf_begin(out, data_field(writer->type));
}

/* Removes a family without points. */
static void end_otlp(struct metrics_writer *writer)
{
    struct buf *out = writer->out;

    if (writer->is_empty) {
        out->len = writer->start;
        return;
    }
    if (writer->type == FAMILY_COUNTER || writer->type == FAMILY_HISTOGRAM) {
        protobuf_put_unsigned(out, DATA_TEMPORALITY, TEMPORALITY_CUMULATIVE);
    }
    if (writer->type == FAMILY_COUNTER) {
        protobuf_put_unsigned(out, SUM_IS_MONOTONIC, 1);
    }
    protobuf_end(out, form_of(writer)->data);
    protobuf_end(out, writer->start + 2); /* key and length */
}

/* ---- points ---- */

static void put_labels(struct buf *out, unsigned field, const struct label *labels)
{
    for (; labels != NULL && labels->name != NULL; labels++) {
        struct str name = str_of(labels->name);
        char *at = buf_reserve(out, name.len + TARGET_MOST + ATTRIBUTE_SIZE);

        out->len = (size_t) (put_text(at, field, name, labels->value, TARGET_MOST) - out->data);
    }
}

static void put_times(struct metrics_writer *writer)
{
    const struct otlp_form *form = form_of(writer);

    if (writer->type == FAMILY_COUNTER || writer->type == FAMILY_HISTOGRAM) {
        protobuf_put_fixed64(writer->out, POINT_START, form->began_ns);
    }
    protobuf_put_fixed64(writer->out, POINT_TIME, form->now_ns);
}

static void put_otlp(struct metrics_writer *writer, const struct label *labels, uint64_t value,
                     enum metrics_unit unit)
{
    struct buf *out = writer->out;
    size_t point = protobuf_begin(out, DATA_POINTS);

    put_labels(out, NUMBER_ATTRIBUTES, labels);
    put_times(writer);
    if (unit == UNIT_MICROSECOND) {
        protobuf_put_double(out, NUMBER_DOUBLE, (double) value / 1e6);
    } else {
        protobuf_put_fixed64(out, NUMBER_INT, value);
    }
    protobuf_end(out, point);
}

static void put_otlp_histogram(struct metrics_writer *writer, const struct label *labels,
                               const struct metrics_cell *cell)
{
    uint64_t counts[TIMES_CLASSIC];
    struct buf *out = writer->out;
    size_t point = protobuf_begin(out, DATA_POINTS);

    times_classic(cell->times, counts);
    put_labels(out, HISTOGRAM_ATTRIBUTES, labels);
    put_times(writer);
    protobuf_put_fixed64(out, HISTOGRAM_COUNT, counts[TIMES_CLASSIC - 1]);
    protobuf_put_double(out, HISTOGRAM_SUM, (double) cell->time_ms / 1000);
    for (unsigned i = 0; i < TIMES_CLASSIC; i++) {
        protobuf_put_fixed64(out, HISTOGRAM_BUCKETS, counts[i] - (i == 0 ? 0 : counts[i - 1]));
    }
    for (unsigned i = 0; i < TIMES_CLASSIC - 1; i++) {
        protobuf_put_double(out, HISTOGRAM_BOUNDS, times_classic_ms[i] / 1000.0);
    }
    protobuf_end(out, point);
}

/* ---- when ---- */

/* Per worker. */
static struct {
    struct generation *generation; /* NULL: this worker sends none */
    struct timer timer;
    uint64_t interval_ms;
} metrics;

static void export_metrics(void)
{
    struct conf *conf = &metrics.generation->conf;
    const struct status_zones *zones = status_zones_of(conf);
    struct buf *out =
        zones->zone == NULL ? NULL : otel_exporter_next(metrics.generation, OTEL_METRICS);
    struct otlp_form form = {
        .form = {.begin = begin_otlp,
                 .put = put_otlp,
                 .put_histogram = put_otlp_histogram,
                 .end_family = end_otlp},
        .began_ns = metrics_began_ms() * 1000000,
        .now_ns = ((uint64_t) clock_now.seconds * 1000 + clock_now.milliseconds) * 1000000,
    };
    struct arena arena;

    if (out == NULL) {
        return; /* the collector is not reachable: counted */
    }
    arena_init(&arena);
    zones->write(out, &arena, conf, &form.form);
    arena_free(&arena);
    otel_exporter_added(metrics.generation, OTEL_METRICS);
}

static void metrics_are_due(struct timer *timer)
{
    export_metrics();
    timer_set(timer, clock_now.now_ms + metrics.interval_ms);
}

void otel_metrics_start(struct generation *generation, const struct otel_main *main)
{
    if (metrics.generation == NULL) {
        timer_init(&metrics.timer, metrics_are_due);
    }
    metrics.generation = generation;
    metrics.interval_ms = main->metrics_ms;
    timer_set(&metrics.timer, clock_now.now_ms + metrics.interval_ms);
}

void otel_metrics_stop(struct generation *generation, bool is_last)
{
    if (metrics.generation == NULL || metrics.generation != generation) {
        return;
    }
    if (is_last) {
        export_metrics();
    }
    timer_remove(&metrics.timer);
    metrics.generation = NULL;
}
