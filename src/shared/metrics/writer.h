/* The interface of the forms that numbers are shown in: families of numbers go in, one after the
 * other. */
#ifndef SHARED_METRICS_WRITER_H
#define SHARED_METRICS_WRITER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/str.h"

struct metrics_cell;

enum family_type { FAMILY_COUNTER, FAMILY_GAUGE, FAMILY_HISTOGRAM, FAMILY_INFO };

/* How a whole number is shown. */
enum metrics_unit { UNIT_ONE, UNIT_MICROSECOND /* as seconds */ };

struct label {
    const char *name; /* NULL ends a list */
    struct str value; /* any bytes */
};

#define LABELS(...) ((const struct label[]){__VA_ARGS__, {NULL, STR_NONE}})

/* A document on its way. */
struct metrics_writer {
    const struct metrics_form *form;
    struct buf *out;
    enum family_type type; /* of the family that is being written */
    const char *name;      /* name of that family; NULL: there is none yet */
    size_t start;          /* where that family begins in `out` */
    bool is_empty;         /* that family has no sample yet */
};

struct metrics_form {
    /* The head of a family; its samples follow. */
    void (*begin)(struct metrics_writer *writer, const char *help);
    void (*put)(struct metrics_writer *writer, const struct label *labels, uint64_t value,
                enum metrics_unit unit);
    void (*put_histogram)(struct metrics_writer *writer, const struct label *labels,
                          const struct metrics_cell *cell);
    void (*end_family)(struct metrics_writer *writer); /* NULL: it needs no end */
    void (*end)(struct metrics_writer *writer);        /* ends all of it; NULL: it needs no end */
};

extern const struct metrics_form metrics_text;        /* 0.0.4 of Prometheus */
extern const struct metrics_form metrics_openmetrics; /* OpenMetrics 1.0 */
extern const struct metrics_form
    metrics_protobuf; /* MetricFamily of io.prometheus.client, delimited */

/* A family begins, and the one before ends. */
void family_begin(struct metrics_writer *writer, enum family_type type, const char *name,
                  const char *help);
/* A sample of it, of a histogram too. */
void family_put(struct metrics_writer *writer, const struct label *labels, uint64_t value,
                enum metrics_unit unit);
void family_put_histogram(struct metrics_writer *writer, const struct label *labels,
                          const struct metrics_cell *cell);
/* The document ends. */
void families_end(struct metrics_writer *writer);

/* ---- for the forms ---- */

/* What follows a family's name in its samples: "_total" of counters. */
const char *family_tail(enum family_type type);

/* The next character of a label's value; empty: there is none any more. Bytes that are no UTF-8 and
 * controls but '\n' are left out. */
struct str label_character(struct str *value);

#endif
