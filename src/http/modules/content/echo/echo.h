/* Inside ngx_http_echo_module: what its files share.
 * Implemented in module.c, run.c and subrequests.c. */
#ifndef HTTP_MODULES_CONTENT_ECHO_ECHO_H
#define HTTP_MODULES_CONTENT_ECHO_ECHO_H

#include "http/request/body_filter.h"
#include "http/request/ordered.h"
#include "http/request/request.h"

enum echo_kind {
    ECHO_TEXT,
    ECHO_DUPLICATE,
    ECHO_FLUSH,
    ECHO_SLEEP,
    ECHO_RESET_TIMER,
    ECHO_READ_BODY,
    ECHO_BODY,
    ECHO_SUBREQUEST,
    ECHO_EXEC,
    ECHO_FOREACH,
    ECHO_END,
    ECHO_ABORT_PARENT,
};

/* A line of the configuration; templates that a kind does not use are NULL. */
struct echo_command {
    enum echo_kind kind;
    bool is_async;    /* SUBREQUEST: beside what follows */
    const char *name; /* of the directive, for the log */
    struct template
        *text; /* TEXT with its line end; DUPLICATE, FOREACH: the text; BODY of a SUBREQUEST */
    struct template *
        word; /* DUPLICATE: count; SLEEP: seconds; FOREACH: separator; SUBREQUEST, EXEC: where to */
    struct template *args;   /* SUBREQUEST, EXEC: arguments in place of those in `word` */
    struct template *method; /* SUBREQUEST; NULL = GET */
    struct template *file;   /* SUBREQUEST: its body is this file; a full path */
};

struct echo_settings {
    struct vec commands;                 /* struct echo_command: what answers here */
    struct vec before;                   /* struct template *: before bodies */
    struct vec after;                    /* struct template *: after bodies */
    const struct conf_node *commands_of; /* the block that the commands were written in */
    bool reads_body; /* one of them needs it: echo_read_request_body, subrequests */
    int64_t status;  /* of answers */
};

extern struct settings_key echo_key;

/* What a request knows, in its arena. Of a main request: incr. */
struct echo_state {
    struct str it;       /* the item of the loop that runs */
    uint64_t started_ms; /* by echo_reset_timer; 0 = never */
    uint64_t incr;       /* how often $echo_incr was asked for */
};

struct echo_state *echo_state_of(struct request *request);

/* A run over the commands; on the stack of the request's fiber. */
struct echo_run {
    struct request *request;
    const struct echo_settings *settings;
    bool has_begun;            /* the head was sent */
    struct ordered *ordered;   /* once something runs beside; in the arena */
    struct body_filter outlet; /* after which all of that goes */
    struct vec pending;        /* struct echo_sub *: that are to begin */

    /* The loop that runs. */
    bool is_looping;
    size_t loop_start; /* index of its first command */
    struct str separator;
    struct str rest; /* items that are left; data NULL = none */
};

/* The handler. MAY WAIT. */
enum handler_result echo_answer(struct request *request);

/* Sends the head unless it was. HANDLER_NEXT: go on; else what the handler returns. MAY WAIT. */
enum handler_result echo_begin(struct echo_run *run);
/* Gives a piece, after all that came before. MAY WAIT. False: the client is gone. */
bool echo_give(struct echo_run *run, const struct body_piece *piece, bool is_last);

/* Asks another location, and waits unless it is to run beside. HANDLER_NEXT: go on. MAY WAIT. */
enum handler_result echo_subrequest(struct echo_run *run, const struct echo_command *command);
/* Begins those that are to run beside. MAY WAIT. False: the client is gone. */
bool echo_begin_pending(struct echo_run *run);

#endif
