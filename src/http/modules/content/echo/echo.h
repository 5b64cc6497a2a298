/* Shared by the files of ngx_http_echo_module. Implemented in module.c, run.c and subrequests.c. */
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

/* One directive of the configuration; templates that its kind does not use are NULL. */
struct echo_command {
    enum echo_kind kind;
    bool is_async;    /* SUBREQUEST: runs concurrently with the commands after it */
    const char *name; /* name of the directive, for the log */
    /* TEXT: the text with its line end; DUPLICATE, FOREACH: the text; SUBREQUEST: the body. */
    struct template *text;
    /* DUPLICATE: the count; SLEEP: seconds; FOREACH: the separator; SUBREQUEST, EXEC: the
     * target. */
    struct template *word;
    struct template *args;   /* SUBREQUEST, EXEC: arguments in place of those in `word` */
    struct template *method; /* SUBREQUEST; NULL = GET */
    struct template *file;   /* SUBREQUEST: full path of the file that is its body */
};

struct echo_settings {
    struct vec commands;                 /* struct echo_command: the content of the location */
    struct vec before;                   /* struct template *: output before the body */
    struct vec after;                    /* struct template *: output after the body */
    const struct conf_node *commands_of; /* the block that contains the commands */
    bool reads_body; /* some command needs the request body: echo_read_request_body, subrequests */
    int64_t status;  /* of the response */
};

extern struct settings_key echo_key;

/* Per request, in its arena. `incr` is kept in the main request only. */
struct echo_state {
    struct str it;       /* the current item of the loop */
    uint64_t started_ms; /* set by echo_reset_timer; 0 = never */
    uint64_t incr;       /* how often $echo_incr was evaluated */
};

struct echo_state *echo_state_of(struct request *request);

/* One run of the commands; on the stack of the request's fiber. */
struct echo_run {
    struct request *request;
    const struct echo_settings *settings;
    bool has_begun;            /* the response header was sent */
    struct ordered *ordered;   /* set once something runs concurrently; in the arena */
    struct body_filter outlet; /* all ordered output passes through this filter */
    struct vec pending;        /* struct echo_sub *: not started yet */

    /* The current loop. */
    bool is_looping;
    size_t loop_start; /* index of its first command */
    struct str separator;
    struct str rest; /* remaining items; data NULL = none */
};

/* The handler. MAY WAIT. */
enum handler_result echo_answer(struct request *request);

/* Sends the response header if it was not sent. HANDLER_NEXT: continue; else what the handler
 * returns. MAY WAIT. */
enum handler_result echo_begin(struct echo_run *run);
/* Writes a piece after all earlier output. MAY WAIT. False: the client is gone. */
bool echo_give(struct echo_run *run, const struct body_piece *piece, bool is_last);

/* Runs a subrequest, and waits for it unless it is asynchronous. HANDLER_NEXT: continue. MAY
 * WAIT. */
enum handler_result echo_subrequest(struct echo_run *run, const struct echo_command *command);
/* Starts the pending asynchronous subrequests. MAY WAIT. False: the client is gone. */
bool echo_begin_pending(struct echo_run *run);

#endif
