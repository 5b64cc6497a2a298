/* The compiled directives of ngx_http_rewrite_module. Implemented in rewrite.c and run.c. */
#ifndef HTTP_REWRITE_H
#define HTTP_REWRITE_H

#include <stdbool.h>

#include "http/request/request.h"

/* The condition of an `if`. */
enum test_kind {
    TEST_TRUE,       /* the value is neither empty nor "0" */
    TEST_EQUAL,      /* =, != */
    TEST_REGEX,      /* ~, ~*, !~, !~* */
    TEST_LESS,       /* <, and >= by negation: numbers (Tengine's) */
    TEST_GREATER,    /* >, and <= by negation */
    TEST_FILE,       /* -f */
    TEST_DIRECTORY,  /* -d */
    TEST_EXISTS,     /* -e */
    TEST_EXECUTABLE, /* -x */
};

struct test {
    enum test_kind kind;
    bool is_negated;
    struct template *value; /* the variable, or the path */
    struct template *other; /* with TEST_EQUAL, TEST_LESS, TEST_GREATER */
    struct regex *regex;
};

enum instruction_kind { DO_REWRITE, DO_RETURN, DO_SET, DO_IF, DO_BREAK, DO_STEP };

enum rewrite_end {
    REWRITE_GOES_ON, /* no flag: the next directive uses the new URI */
    REWRITE_LAST,
    REWRITE_BREAK,
};

struct instruction;
struct rewrite_step;

/* The directives of one block in order, and settings for running them. */
struct rewrite_settings {
    struct vec instructions; /* struct instruction *; never inherited */
    bool rewrite_log;
    bool uninitialized_variable_warn;
};

/* One directive. `kind` determines which members are used. */
struct instruction {
    enum instruction_kind kind;

    /* rewrite */
    struct regex *regex;
    struct template *replacement; /* without a trailing '?'; for return: the body or the URL */
    unsigned status;              /* of a redirect, or of return; 0 = none */
    enum rewrite_end end;
    bool keeps_args; /* the current arguments are appended */
    bool is_named;   /* replacement is "@name" */

    /* return */
    bool is_redirect; /* replacement is a URL */
    bool is_text;     /* replacement is a body */

    /* set */
    struct variable *variable; /* replacement is its value */

    /* An instruction of another module */
    const struct rewrite_step *step;

    /* if */
    struct test test;
    const struct rewrite_settings *inside; /* directives of the block */
    const struct http_location *location;  /* settings of the block; NULL in a server */
};

/* Phase handlers. */
enum handler_result rewrite_run_server(struct request *request);
enum handler_result rewrite_run_location(struct request *request);

/* Settings of this module at a location. */
const struct rewrite_settings *rewrite_settings_at(const struct http_location *location);

/* Decodes %XX of printable bytes above '%' up to the first '?': how nginx shows a rewritten path to
 * the client. */
struct str rewrite_readable_path(struct arena *arena, struct str path);

#endif
