/* Finding SSI directives in a stream, and reading one: pure functions on slices.
 * Implemented in scan.c and directive.c. */
#ifndef HTTP_MODULES_FILTERS_SSI_SCAN_H
#define HTTP_MODULES_FILTERS_SSI_SCAN_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/str.h"

#define SSI_NAME_MAX 32       /* bytes of the name of a command or a parameter */
#define SSI_PARAMETERS_MAX 16 /* of one directive */

/* Where the text stands. */
enum ssi_state {
    SSI_IN_TEXT,
    SSI_IN_OPENING,   /* some bytes of "<!--#" came, not all */
    SSI_IN_DIRECTIVE, /* its text is gathered */
    SSI_IN_REST, /* of a directive that is too long: up to its end, whatever stands in quotes */
};

/* Reads a page that comes in pieces. All zero but for value_max is the start. */
struct ssi_scanner {
    enum ssi_state state;
    unsigned matched;     /* bytes of "<!--#" or of "-->" that came last */
    size_t value_max;     /* bytes of a value; more is an error */
    struct buf directive; /* what stands between the marks; bounded by value_max; owned */
    size_t value_size;    /* bytes of the value that is being gathered */
    char quote;           /* that began it; 0 outside of values */
    bool is_escaped;      /* a backslash came last, in a value */
    bool expects_value;   /* '=' came, and nothing but blanks since */
    bool is_cut; /* the directive that was given last is too long: not all of it is there */
};

enum ssi_token {
    SSI_MORE,      /* the input is used up */
    SSI_TEXT,      /* *out is text that goes through: a part of the input, or of the opening mark */
    SSI_DIRECTIVE, /* *out stands between the marks; valid until the next call */
};

/* The next token of *input, which moves on after it. */
enum ssi_token ssi_scan(struct ssi_scanner *scanner, struct str *input, struct str *out);

/* The page ended: the part of an opening mark that turned out to be text; else empty. A directive
 * that has no end is dropped. */
struct str ssi_scan_end(struct ssi_scanner *scanner);

void ssi_scanner_free(struct ssi_scanner *scanner);

/* name="value"; both are slices of the directive, as written. */
struct ssi_parameter {
    struct str name;
    struct str value;
};

/* A directive that was read. */
struct ssi_directive {
    struct str command;
    unsigned count; /* of parameters */
    struct ssi_parameter parameters[SSI_PARAMETERS_MAX];
};

#define SSI_ERROR_MAX 1024 /* bytes of a message; values in it are cut */

/* What stood between the marks, without them. False: *error says what is wrong with it. */
bool ssi_read_directive(struct str text, size_t value_max, struct ssi_directive *out,
                        struct writer *error);

#endif
