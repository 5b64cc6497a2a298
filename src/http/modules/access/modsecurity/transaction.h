/* What the rules say of a request and its response: one transaction of the engine, phase by phase.
 */
#ifndef HTTP_MODULES_ACCESS_MODSECURITY_TRANSACTION_H
#define HTTP_MODULES_ACCESS_MODSECURITY_TRANSACTION_H

#include <modsecurity/transaction.h>

#include "base/buf.h"
#include "http/modules/access/modsecurity/rules.h"
#include "http/request/request.h"

#define NOTES_MAX 64 /* lines of the engine for one phase that are kept for the error log */

/* A line that the engine wants to be logged. */
struct note {
    struct note *next;
    char *text; /* malloc'ed, as the note is */
};

/* Of a client's request, in its arena; made where the rules look at it first. */
struct inspection {
    struct request *request;
    struct rule_set *set;
    Transaction
        *transaction; /* NULL until the first phase; a thread's while the fiber waits for that */

    /* Texts for the engine, NUL-terminated, in the request's arena. */
    const char *id; /* NULL: the engine makes one */
    const char *client;
    const char *server;
    const char *uri;
    const char *method;
    const char *version;
    uint16_t client_port;
    uint16_t server_port;

    struct str response_body; /* for phase 4: what is held of it */

    /* What a phase came to. */
    ModSecurityIntervention verdict; /* its texts are malloc'ed */
    struct note *notes;              /* in order */
    struct note **notes_end;         /* where the next one goes */
    unsigned notes_count;            /* of this phase, those that were lost included */

    unsigned uses_error_log : 1; /* modsecurity_use_error_log */
    unsigned is_refused : 1;     /* the rules have spoken: no further phase but the last */
    unsigned has_failed : 1;     /* the engine could not be asked: the same */
    unsigned has_seen_body : 1;
    unsigned has_seen_response : 1;
    unsigned has_seen_response_body : 1;
};

/* The request's own, or NULL. A subrequest has none. */
struct inspection *inspection_of(struct request *request);

/* Makes it. `id` as in struct inspection. */
struct inspection *inspection_new(struct request *request, struct rule_set *set, const char *id);

/*
 * Phases 1, 2, 3 and 4. True: nothing against it. False: `status` and `location` (empty = none) are
 * the answer; the reason was logged. 1, 2 and 4 run on a thread: they MAY WAIT. A fiber that was
 * cancelled gets status 499.
 */
struct verdict {
    unsigned status;
    struct str location;
};
bool inspect_head(struct inspection *inspection, struct verdict *verdict);
/* The body was read. */
bool inspect_body(struct inspection *inspection, struct verdict *verdict);
bool inspect_response_head(struct inspection *inspection, struct verdict *verdict);
bool inspect_response_body(struct inspection *inspection, struct str body, struct verdict *verdict);

/* Phase 5, the engine's own logs. Never waits. */
void inspection_log(struct inspection *inspection);

/* Keeps the lines that the engine wants logged; once for a process. */
void inspection_take_notes(void);

#endif
