/* Metrics as text: OpenMetrics, or Prometheus' format 0.0.4. */
#include <stdio.h>

#include "shared/metrics/counters.h"
#include "shared/metrics/writer.h"

static void metrics_text_put_head(struct metrics_writer *writer, const char *tail, const char *word,
                                  const char *help)
{
    buf_printf(writer->out, "# HELP %s%s %s\n# TYPE %s%s %s\n", writer->name, tail, help,
               writer->name, tail, word);
}

static void begin_text(struct metrics_writer *writer, const char *help)
{
    static const char *const words[] = {"counter", "gauge", "histogram", "gauge"};

    metrics_text_put_head(writer, family_tail(writer->type), words[writer->type], help);
}

static void begin_openmetrics(struct metrics_writer *writer, const char *help)
{
    static const char *const words[] = {"counter", "gauge", "histogram", "info"};

    metrics_text_put_head(writer, "", words[writer->type], help);
}

static void put_value(struct buf *out, struct str value)
{
    struct str character;

    while ((character = label_character(&value)).len != 0) {
        if (character.data[0] == '\n') {
            buf_append(out, STR("\\n"));
            continue;
        }
        if (character.data[0] == '"' || character.data[0] == '\\') {
            buf_append_char(out, '\\');
        }
        buf_append(out, character);
    }
}

/* Writes `name_tail{labels,le="bound"} `, to which the value is appended. */
static void put_sample(struct metrics_writer *writer, const char *tail, const struct label *labels,
                       const char *bound)
{
    char before = '{';

    buf_printf(writer->out, "%s%s", writer->name, tail);
    for (; labels != NULL && labels->name != NULL; labels++) {
        buf_printf(writer->out, "%c%s=\"", before, labels->name);
        put_value(writer->out, labels->value);
        buf_append_char(writer->out, '"');
        before = ',';
    }
    if (bound != NULL) {
        buf_printf(writer->out, "%cle=\"%s\"", before, bound);
        before = ',';
    }
    buf_append(writer->out, before == '{' ? STR(" ") : STR("} "));
}

static void put_number(struct buf *out, uint64_t value, enum metrics_unit unit)
{
    if (unit == UNIT_ONE) {
        buf_printf(out, "%llu\n", (unsigned long long) value);
    } else {
        buf_printf(out, "%llu.%06u\n", (unsigned long long) (value / 1000000),
                   (unsigned) (value % 1000000));
    }
}

static void put_text(struct metrics_writer *writer, const struct label *labels, uint64_t value,
                     enum metrics_unit unit)
{
    put_sample(writer, family_tail(writer->type), labels, NULL);
    put_number(writer->out, value, unit);
}

static void put_text_histogram(struct metrics_writer *writer, const struct label *labels,
                               const struct metrics_cell *cell)
{
    uint64_t counts[TIMES_CLASSIC];

    times_classic(cell->times, counts);
    for (unsigned i = 0; i < TIMES_CLASSIC; i++) {
        char end[16] = "+Inf";

        if (i < TIMES_CLASSIC - 1) {
            snprintf(end, sizeof(end), "%g%s", times_classic_ms[i] / 1000.0,
                     times_classic_ms[i] % 1000 == 0 ? ".0" : "");
        }
        put_sample(writer, "_bucket", labels, end);
        put_number(writer->out, counts[i], UNIT_ONE);
    }
    put_sample(writer, "_sum", labels, NULL);
    put_number(writer->out, cell->time_ms * 1000, UNIT_MICROSECOND);
    put_sample(writer, "_count", labels, NULL);
    put_number(writer->out, counts[TIMES_CLASSIC - 1], UNIT_ONE);
}

static void end_openmetrics(struct metrics_writer *writer)
{
    buf_append(writer->out, STR("# EOF\n"));
}

const struct metrics_form metrics_text = {
    .begin = begin_text,
    .put = put_text,
    .put_histogram = put_text_histogram,
};

const struct metrics_form metrics_openmetrics = {
    .begin = begin_openmetrics,
    .put = put_text,
    .put_histogram = put_text_histogram,
    .end = end_openmetrics,
};
