/* Finds SSI directives in a stream, and parses one: pure functions on slices. Implemented in scan.c
 * and directive.c. */
#ifndef HTTP_MODULES_FILTERS_SSI_SCAN_H
#define HTTP_MODULES_FILTERS_SSI_SCAN_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/str.h"

#define SSI_NAME_MAX 32       /* bytes in the name of a command or a parameter */
#define SSI_PARAMETERS_MAX 16 /* of one directive */

/* The state of the scanner. */
enum ssi_state {
    SSI_IN_TEXT,
    SSI_IN_OPENING,   /* inside an incomplete "<!--#" */
    SSI_IN_DIRECTIVE, /* inside a directive, whose text is gathered */
    SSI_IN_REST, /* inside the remainder of a directive that is too long, up to its closing mark,
                    even in quotes */
};

/* Scans a page that comes in pieces. Initially zero, except for value_max. */
struct ssi_scanner {
    enum ssi_state state;
    unsigned matched;     /* bytes of "<!--#" or "-->" that were matched last */
    size_t value_max;     /* most bytes of a value; more is an error */
    struct buf directive; /* text between the marks; bounded by value_max; owned */
    size_t value_size;    /* bytes of the current value */
    char quote;           /* its opening quote; 0 outside of values */
    bool is_escaped;      /* the last byte was a backslash, in a value */
    bool expects_value;   /* '=' was found, and only white space since */
    bool is_cut;          /* the last directive was too long, and is incomplete */
};

enum ssi_token {
    SSI_MORE,      /* the input is used up */
    SSI_TEXT,      /* *out is text to output: a part of the input, or of the opening mark */
    SSI_DIRECTIVE, /* *out is the text between the marks; valid until the next call */
};

/* Gives the next token of *input, which is advanced. */
enum ssi_token ssi_scan(struct ssi_scanner *scanner, struct str *input, struct str *out);

/* Ends the page; gives a partial opening mark, which is text, or an empty string. An unterminated
 * directive is dropped. */
struct str ssi_scan_end(struct ssi_scanner *scanner);

void ssi_scanner_free(struct ssi_scanner *scanner);

/* name="value"; both are slices of the directive, as written. */
struct ssi_parameter {
    struct str name;
    struct str value;
};

/* A parsed directive. */
struct ssi_directive {
    struct str command;
    unsigned count; /* of parameters */
    struct ssi_parameter parameters[SSI_PARAMETERS_MAX];
};

#define SSI_ERROR_MAX 1024 /* bytes of an error message; values in it are shortened */

/* Parses the text between the marks. False: *error has a message. */
bool ssi_read_directive(struct str text, size_t value_max, struct ssi_directive *out,
                        struct writer *error);

#endif
