/* ngx_http_rewrite_module inside: what its directives compile to. Implemented in rewrite.c and
 * run.c. */
#ifndef HTTP_REWRITE_H
#define HTTP_REWRITE_H

#include <stdbool.h>

#include "http/request/request.h"

/* What an `if` looks at. */
enum test_kind {
    TEST_TRUE,       /* value is neither empty nor "0" */
    TEST_EQUAL,      /* =, != */
    TEST_REGEX,      /* ~, ~*, !~, !~* */
    TEST_LESS,       /* <, and >= by negation: numbers, of Tengine */
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
    struct template *other; /* of TEST_EQUAL, TEST_LESS, TEST_GREATER */
    struct regex *regex;
};

enum instruction_kind { DO_REWRITE, DO_RETURN, DO_SET, DO_IF, DO_BREAK, DO_STEP };

enum rewrite_end {
    REWRITE_GOES_ON, /* no flag: the next directive sees the new URI */
    REWRITE_LAST,
    REWRITE_BREAK,
};

struct instruction;
struct rewrite_step;

/* The directives of one block in order, and what holds while they run. */
struct rewrite_settings {
    struct vec instructions; /* struct instruction *; never inherited */
    bool rewrite_log;
    bool uninitialized_variable_warn;
};

/* One directive. Which members count is said by kind. */
struct instruction {
    enum instruction_kind kind;

    /* rewrite */
    struct regex *regex;
    struct template *replacement; /* without the '?' at its end; also of return: text or URL */
    unsigned status;              /* of a redirect, or of return; 0 = none */
    enum rewrite_end end;
    bool keeps_args; /* old arguments are added */
    bool is_named;   /* replacement is "@name" */

    /* return */
    bool is_redirect; /* replacement is a URL */
    bool is_text;     /* replacement is a body */

    /* set */
    struct variable *variable; /* replacement is its value */

    /* a step of another module */
    const struct rewrite_step *step;

    /* if */
    struct test test;
    const struct rewrite_settings *inside; /* the block's own directives */
    const struct http_location *location;  /* its settings; NULL at the server level */
};

/* Phase handlers. */
enum handler_result rewrite_run_server(struct request *request);
enum handler_result rewrite_run_location(struct request *request);

/* Settings of this module at a location. */
const struct rewrite_settings *rewrite_settings_at(const struct http_location *location);

/* %XX of printable bytes above '%' decoded up to the first '?': how nginx shows a rewritten path to
 * the client. */
struct str rewrite_readable_path(struct arena *arena, struct str path);

#endif
