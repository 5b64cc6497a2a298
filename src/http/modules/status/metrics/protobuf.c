/* The numbers as protobuf: messages MetricFamily of io.prometheus.client, each after its length. The only form that has native histograms. */
#include <math.h>
#include <string.h>

#include "shared/metrics/counters.h"
#include "http/modules/status/metrics/writer.h"

/* Numbers of fields, of each message. */
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
    HISTOGRAM_SPAN = 12,  /* of buckets above zero */
    HISTOGRAM_DELTA = 13, /* of buckets above zero: how many more than in the one before */
};

/* By enum family_type: MetricType, and the field of a metric. */
static const unsigned char type_numbers[] = {0, 1, 4, 1};
static const unsigned char value_fields[] = {METRIC_COUNTER, METRIC_GAUGE, METRIC_HISTOGRAM,
                                             METRIC_GAUGE};

/* ---- fields ---- */

enum wire_type { WIRE_VARINT = 0, WIRE_FIXED64 = 1, WIRE_BYTES = 2 };
enum { VARINT_MAX = 10 };

static size_t varint(char *at, uint64_t value)
{
    size_t size = 0;

    while (value > 0x7f) {
        at[size++] = (char) (value | 0x80);
        value >>= 7;
    }
    at[size++] = (char) value;
    return size;
}

static void put_varint(struct buf *out, uint64_t value)
{
    out->len += varint(buf_reserve(out, VARINT_MAX), value);
}

static void put_key(struct buf *out, unsigned field, enum wire_type type)
{
    put_varint(out, field << 3 | type);
}

static void put_unsigned(struct buf *out, unsigned field, uint64_t value)
{
    put_key(out, field, WIRE_VARINT);
    put_varint(out, value);
}

/* Small ones are short whatever their sign: 0, -1, 1, -2, … */
static void put_signed(struct buf *out, unsigned field, int64_t value)
{
    uint64_t bits = (uint64_t) value;

    put_unsigned(out, field, value < 0 ? ~(bits << 1) : bits << 1);
}

static void put_double(struct buf *out, unsigned field, double value)
{
    uint64_t bits;

    put_key(out, field, WIRE_FIXED64);
    memcpy(&bits, &value, sizeof(bits));
    for (unsigned i = 0; i < sizeof(bits); i++) {
        buf_append_char(out, (char) (bits >> 8 * i));
    }
}

static void put_string(struct buf *out, unsigned field, struct str text)
{
    put_key(out, field, WIRE_BYTES);
    put_varint(out, text.len);
    buf_append(out, text);
}

/* A message within one: what is put until it closes is in it. Gives where it starts. */
static size_t begin_message(struct buf *out, unsigned field)
{
    put_key(out, field, WIRE_BYTES);
    return out->len;
}

/* Ends a message: its length is put before it. */
static void end_message(struct buf *out, size_t start)
{
    char length[VARINT_MAX];
    size_t size = varint(length, out->len - start);

    buf_reserve(out, size);
    memmove(out->data + start + size, out->data + start, out->len - start);
    memcpy(out->data + start, length, size);
    out->len += size;
}

/* ---- families ---- */

/* One without samples is left out: readers take it for a fault. */
static void end_family(struct metrics_writer *writer)
{
    if (writer->is_empty) {
        writer->out->len = writer->start;
    } else {
        end_message(writer->out, writer->start);
    }
}

static void begin_protobuf(struct metrics_writer *writer, const char *help)
{
    struct buf *out = writer->out;

    size_t name = begin_message(out, FAMILY_NAME);
    buf_append(out, str_of(writer->name));
    buf_append(out, str_of(family_tail(writer->type)));
    end_message(out, name);
    put_string(out, FAMILY_HELP, str_of(help));
    put_unsigned(out, FAMILY_TYPE, type_numbers[writer->type]);
}

static void put_labels(struct buf *out, const struct label *labels)
{
    for (; labels != NULL && labels->name != NULL; labels++) {
        struct str rest = labels->value;
        struct str character;
        size_t label = begin_message(out, METRIC_LABEL);

        put_string(out, LABEL_NAME, str_of(labels->name));
        size_t value = begin_message(out, LABEL_VALUE);
        while ((character = label_character(&rest)).len != 0) {
            buf_append(out, character);
        }
        end_message(out, value);
        end_message(out, label);
    }
}

static void put_protobuf(struct metrics_writer *writer, const struct label *labels, uint64_t value,
                         enum metrics_unit unit)
{
    struct buf *out = writer->out;
    size_t metric = begin_message(out, FAMILY_METRIC);

    put_labels(out, labels);
    size_t number = begin_message(out, value_fields[writer->type]);
    put_double(out, NUMBER_VALUE, unit == UNIT_ONE ? (double) value : (double) value / 1e6);
    end_message(out, number);
    end_message(out, metric);
}

/* ---- histograms ---- */

/* Buckets of the classic one. */
static void put_classic(struct buf *out, const uint64_t *counts)
{
    for (unsigned i = 0; i < TIMES_CLASSIC; i++) {
        size_t bucket = begin_message(out, HISTOGRAM_BUCKET);

        put_unsigned(out, BUCKET_COUNT, counts[i]);
        put_double(out, BUCKET_END,
                   i < TIMES_CLASSIC - 1 ? times_classic_ms[i] / 1000.0 : (double) INFINITY);
        end_message(out, bucket);
    }
}

/* Where there are buckets: runs of them, the first from bucket 0, each further from the end of the one before. */
static void put_spans(struct buf *out, const uint64_t *counts)
{
    int end = 0;

    for (int i = 0; i < TIMES_BUCKETS; i++) {
        int first = i;

        while (i < TIMES_BUCKETS && counts[i] != 0) {
            i++;
        }
        if (i != first) {
            size_t span = begin_message(out, HISTOGRAM_SPAN);

            put_signed(out, SPAN_OFFSET, TIMES_FIRST + first - end);
            put_unsigned(out, SPAN_LENGTH, (uint64_t) (i - first));
            end_message(out, span);
            end = TIMES_FIRST + i;
        }
    }
}

static void put_deltas(struct buf *out, const uint64_t *counts)
{
    uint64_t former = 0;

    for (int i = 0; i < TIMES_BUCKETS; i++) {
        if (counts[i] != 0) {
            put_signed(out, HISTOGRAM_DELTA, (int64_t) (counts[i] - former));
            former = counts[i];
        }
    }
}

static void put_native(struct buf *out, const uint64_t *times)
{
    uint64_t counts[TIMES_BUCKETS];

    times_native(times, counts);
    put_signed(out, HISTOGRAM_SCHEMA, TIMES_SCHEMA);
    put_double(out, HISTOGRAM_ZERO_THRESHOLD, TIMES_ZERO_SECONDS);
    put_unsigned(out, HISTOGRAM_ZERO_COUNT, times[0]);
    put_spans(out, counts);
    put_deltas(out, counts);
}

static void put_protobuf_histogram(struct metrics_writer *writer, const struct label *labels,
                                   const struct metrics_cell *cell)
{
    uint64_t counts[TIMES_CLASSIC];
    struct buf *out = writer->out;
    size_t metric = begin_message(out, FAMILY_METRIC);

    put_labels(out, labels);
    times_classic(cell->times, counts);
    size_t histogram = begin_message(out, METRIC_HISTOGRAM);
    put_unsigned(out, HISTOGRAM_COUNT, counts[TIMES_CLASSIC - 1]);
    put_double(out, HISTOGRAM_SUM, (double) cell->time_ms / 1000);
    put_classic(out, counts);
    put_native(out, cell->times);
    end_message(out, histogram);
    end_message(out, metric);
}

const struct metrics_form metrics_protobuf = {
    .begin = begin_protobuf,
    .put = put_protobuf,
    .put_histogram = put_protobuf_histogram,
    .end_family = end_family,
};
