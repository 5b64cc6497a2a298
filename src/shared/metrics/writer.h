/* The interface of the output formats: families of numbers are written one after the other. */
#ifndef SHARED_METRICS_WRITER_H
#define SHARED_METRICS_WRITER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/str.h"

struct metrics_cell;

enum family_type { FAMILY_COUNTER, FAMILY_GAUGE, FAMILY_HISTOGRAM, FAMILY_INFO };

/* The unit of an integer. */
enum metrics_unit { UNIT_ONE, UNIT_MICROSECOND /* written in seconds */ };

struct label {
    const char *name; /* NULL ends a list */
    struct str value; /* any bytes */
};

#define LABELS(...) ((const struct label[]){__VA_ARGS__, {NULL, STR_NONE}})

/* A document that is being written. */
struct metrics_writer {
    const struct metrics_form *form;
    struct buf *out;
    enum family_type type; /* of the current family */
    const char *name;      /* name of the current family; NULL: there is none yet */
    size_t start;          /* where the current family begins in `out` */
    bool is_empty;         /* the current family has no sample yet */
};

struct metrics_form {
    /* Writes the head of a family; its samples follow. */
    void (*begin)(struct metrics_writer *writer, const char *help);
    void (*put)(struct metrics_writer *writer, const struct label *labels, uint64_t value,
                enum metrics_unit unit);
    void (*put_histogram)(struct metrics_writer *writer, const struct label *labels,
                          const struct metrics_cell *cell);
    void (*end_family)(struct metrics_writer *writer); /* NULL: not needed */
    void (*end)(struct metrics_writer *writer);        /* ends the document; NULL: not needed */
};

extern const struct metrics_form metrics_text;        /* text format 0.0.4 of Prometheus */
extern const struct metrics_form metrics_openmetrics; /* OpenMetrics 1.0 */
extern const struct metrics_form
    metrics_protobuf; /* MetricFamily of io.prometheus.client, delimited */

/* Begins a family, and ends the one before. */
void family_begin(struct metrics_writer *writer, enum family_type type, const char *name,
                  const char *help);
/* Writes a sample of the current family; the second function those of a histogram. */
void family_put(struct metrics_writer *writer, const struct label *labels, uint64_t value,
                enum metrics_unit unit);
void family_put_histogram(struct metrics_writer *writer, const struct label *labels,
                          const struct metrics_cell *cell);
/* Ends the document. */
void families_end(struct metrics_writer *writer);

/* ---- for the formats ---- */

/* The suffix of a family's name in its samples: "_total" for counters. */
const char *family_tail(enum family_type type);

/* Takes the next character of a label's value; empty: the value has ended. Invalid UTF-8 and
 * control characters other than '\n' are left out. */
struct str label_character(struct str *value);

#endif
