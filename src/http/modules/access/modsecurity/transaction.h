/* One transaction of the engine: checks a request and its response, phase by phase. */
#ifndef HTTP_MODULES_ACCESS_MODSECURITY_TRANSACTION_H
#define HTTP_MODULES_ACCESS_MODSECURITY_TRANSACTION_H

#include <modsecurity/transaction.h>

#include "base/buf.h"
#include "http/modules/access/modsecurity/rules.h"
#include "http/request/request.h"

#define NOTES_MAX 64 /* log lines of the engine that are kept per phase */

/* A log line of the engine. */
struct note {
    struct note *next;
    char *text; /* malloc'ed, like the note */
};

/* The transaction of a client's request, in its arena; made for the first phase. */
struct inspection {
    struct request *request;
    struct rule_set *set;
    Transaction *
        transaction; /* NULL until the first phase; used by a thread while the fiber waits for it */

    /* Strings for the engine, NUL-terminated, in the request's arena. */
    const char *id; /* NULL: the engine generates one */
    const char *client;
    const char *server;
    const char *uri;
    const char *method;
    const char *version;
    uint16_t client_port;
    uint16_t server_port;

    struct str response_body; /* for phase 4: the held body */

    /* The result of a phase. */
    ModSecurityIntervention verdict; /* its strings are malloc'ed */
    struct note *notes;              /* in order */
    struct note **notes_end;         /* where to append the next one */
    unsigned notes_count;            /* of this phase, including discarded ones */

    unsigned uses_error_log : 1; /* modsecurity_use_error_log */
    unsigned is_refused : 1;     /* rejected: only the logging phase follows */
    unsigned has_failed : 1;     /* the engine failed: likewise */
    unsigned has_seen_body : 1;
    unsigned has_seen_response : 1;
    unsigned has_seen_response_body : 1;
};

/* That of the request, or NULL. A subrequest has none. */
struct inspection *inspection_of(struct request *request);

/* Makes it. `id` as in struct inspection. */
struct inspection *inspection_new(struct request *request, struct rule_set *set, const char *id);

/* Phases 1, 2, 3 and 4. True: passed. False: respond with `status` and `location` (empty = none);
 * the reason was logged. 1, 2 and 4 run on a thread: they MAY WAIT. A fiber that was cancelled gets
 * status 499. */
struct verdict {
    unsigned status;
    struct str location;
};
bool inspect_head(struct inspection *inspection, struct verdict *verdict);
/* Called after the body was read. */
bool inspect_body(struct inspection *inspection, struct verdict *verdict);
bool inspect_response_head(struct inspection *inspection, struct verdict *verdict);
bool inspect_response_body(struct inspection *inspection, struct str body, struct verdict *verdict);

/* Phase 5, the engine's own logs. Never waits. */
void inspection_log(struct inspection *inspection);

/* Installs the callback that collects log lines of the engine; once per process. */
void inspection_take_notes(void);

#endif
