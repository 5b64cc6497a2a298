/* Metrics as protobuf: MetricFamily messages of io.prometheus.client, each preceded by its length.
 * The only form with native histograms. */
#include <math.h>

#include "base/protobuf.h"
#include "shared/metrics/counters.h"
#include "shared/metrics/writer.h"

/* Field numbers by message. */
enum { FAMILY_NAME = 1, FAMILY_HELP = 2, FAMILY_TYPE = 3, FAMILY_METRIC = 4 };
enum { METRIC_LABEL = 1, METRIC_GAUGE = 2, METRIC_COUNTER = 3, METRIC_HISTOGRAM = 7 };
enum { LABEL_NAME = 1, LABEL_VALUE = 2 };
enum { NUMBER_VALUE = 1 }; /* of Gauge and Counter */
enum { BUCKET_COUNT = 1, BUCKET_END = 2 };
enum { SPAN_OFFSET = 1, SPAN_LENGTH = 2 };
enum {
    HISTOGRAM_COUNT = 1,
    HISTOGRAM_SUM = 2,
    HISTOGRAM_BUCKET = 3,
    HISTOGRAM_SCHEMA = 5,
    HISTOGRAM_ZERO_THRESHOLD = 6,
    HISTOGRAM_ZERO_COUNT = 7,
    HISTOGRAM_SPAN = 12,  /* runs of buckets above zero */
    HISTOGRAM_DELTA = 13, /* buckets above zero: each count minus that of the bucket before */
};

/* By enum family_type: MetricType, and the field of a metric with the value. */
static const unsigned char type_numbers[] = {0, 1, 4, 1};
static const unsigned char value_fields[] = {METRIC_COUNTER, METRIC_GAUGE, METRIC_HISTOGRAM,
                                             METRIC_GAUGE};

/* ---- families ---- */

/* A family without samples is removed, because readers treat it as an error. */
static void end_family(struct metrics_writer *writer)
{
    if (writer->is_empty) {
        writer->out->len = writer->start;
    } else {
        protobuf_end(writer->out, writer->start + 1);
    }
}

static void begin_protobuf(struct metrics_writer *writer, const char *help)
{
    struct buf *out = writer->out;

    protobuf_begin_delimited(out);
    size_t name = protobuf_begin(out, FAMILY_NAME);
    buf_append(out, str_of(writer->name));
    buf_append(out, str_of(family_tail(writer->type)));
    protobuf_end(out, name);
    protobuf_put_bytes(out, FAMILY_HELP, str_of(help));
    protobuf_put_unsigned(out, FAMILY_TYPE, type_numbers[writer->type]);
}

static void put_labels(struct buf *out, const struct label *labels)
{
    for (; labels != NULL && labels->name != NULL; labels++) {
        struct str rest = labels->value;
        struct str character;
        size_t label = protobuf_begin(out, METRIC_LABEL);

        protobuf_put_bytes(out, LABEL_NAME, str_of(labels->name));
        size_t value = protobuf_begin(out, LABEL_VALUE);
        while ((character = label_character(&rest)).len != 0) {
            buf_append(out, character);
        }
        protobuf_end(out, value);
        protobuf_end(out, label);
    }
}

static void put_protobuf(struct metrics_writer *writer, const struct label *labels, uint64_t value,
                         enum metrics_unit unit)
{
    struct buf *out = writer->out;
    size_t metric = protobuf_begin(out, FAMILY_METRIC);

    put_labels(out, labels);
    size_t number = protobuf_begin(out, value_fields[writer->type]);
    protobuf_put_double(out, NUMBER_VALUE,
                        unit == UNIT_ONE ? (double) value : (double) value / 1e6);
    protobuf_end(out, number);
    protobuf_end(out, metric);
}

/* ---- histograms ---- */

/* Buckets of a classic histogram. */
static void put_classic(struct buf *out, const uint64_t *counts)
{
    for (unsigned i = 0; i < TIMES_CLASSIC; i++) {
        size_t bucket = protobuf_begin(out, HISTOGRAM_BUCKET);

        protobuf_put_unsigned(out, BUCKET_COUNT, counts[i]);
        protobuf_put_double(out, BUCKET_END,
                            i < TIMES_CLASSIC - 1 ? times_classic_ms[i] / 1000.0
                                                  : (double) INFINITY);
        protobuf_end(out, bucket);
    }
}

/* Runs of consecutive buckets: the offset of the first from bucket 0, of others from the end of the
 * run before. */
static void put_spans(struct buf *out, const uint64_t *counts)
{
    int end = 0;

    for (int i = 0; i < TIMES_BUCKETS; i++) {
        int first = i;

        while (i < TIMES_BUCKETS && counts[i] != 0) {
            i++;
        }
        if (i != first) {
            size_t span = protobuf_begin(out, HISTOGRAM_SPAN);

            protobuf_put_signed(out, SPAN_OFFSET, TIMES_FIRST + first - end);
            protobuf_put_unsigned(out, SPAN_LENGTH, (uint64_t) (i - first));
            protobuf_end(out, span);
            end = TIMES_FIRST + i;
        }
    }
}

static void put_deltas(struct buf *out, const uint64_t *counts)
{
    uint64_t former = 0;

    for (int i = 0; i < TIMES_BUCKETS; i++) {
        if (counts[i] != 0) {
            protobuf_put_signed(out, HISTOGRAM_DELTA, (int64_t) (counts[i] - former));
            former = counts[i];
        }
    }
}

static void put_native(struct buf *out, const uint64_t *times)
{
    uint64_t counts[TIMES_BUCKETS];

    times_native(times, counts);
    protobuf_put_signed(out, HISTOGRAM_SCHEMA, TIMES_SCHEMA);
    protobuf_put_double(out, HISTOGRAM_ZERO_THRESHOLD, TIMES_ZERO_SECONDS);
    protobuf_put_unsigned(out, HISTOGRAM_ZERO_COUNT, times[0]);
    put_spans(out, counts);
    put_deltas(out, counts);
}

static void put_protobuf_histogram(struct metrics_writer *writer, const struct label *labels,
                                   const struct metrics_cell *cell)
{
    uint64_t counts[TIMES_CLASSIC];
    struct buf *out = writer->out;
    size_t metric = protobuf_begin(out, FAMILY_METRIC);

    put_labels(out, labels);
    times_classic(cell->times, counts);
    size_t histogram = protobuf_begin(out, METRIC_HISTOGRAM);
    protobuf_put_unsigned(out, HISTOGRAM_COUNT, counts[TIMES_CLASSIC - 1]);
    protobuf_put_double(out, HISTOGRAM_SUM, (double) cell->time_ms / 1000);
    put_classic(out, counts);
    put_native(out, cell->times);
    protobuf_end(out, histogram);
    protobuf_end(out, metric);
}

const struct metrics_form metrics_protobuf = {
    .begin = begin_protobuf,
    .put = put_protobuf,
    .put_histogram = put_protobuf_histogram,
    .end_family = end_family,
};
