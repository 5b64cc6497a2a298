/* What the files of the ssi module share: pages that are worked on, variables, expressions. */
#ifndef HTTP_MODULES_FILTERS_SSI_SSI_H
#define HTTP_MODULES_FILTERS_SSI_SSI_H

#include "base/buf.h"
#include "http/modules/filters/ssi/scan.h"
#include "http/request/body_filter.h"
#include "http/request/ordered.h"
#include "http/request/request.h"

#define SSI_IF_DEPTH_MAX 32          /* `if` inside `if` */
#define SSI_BLOCKS_MAX (1024 * 1024) /* bytes of all blocks of a request and its subrequests */
#define SSI_OUTPUT_SIZE 4096         /* bytes of small outputs that are gathered */
#define SSI_WORK_AT_ONCE 16          /* directives between two turns of others */
#define SSI_DATE_MAX 2048            /* bytes of a date */
#define SSI_DEFAULT_TIMEFMT "%A, %d-%b-%Y %H:%M:%S %Z"

/* How echo writes a value. */
enum ssi_encoding { SSI_ENTITY, SSI_URL, SSI_NONE };

/* Settings of one location. */
struct ssi_settings {
    bool is_on;
    bool is_silent;           /* ssi_silent_errors */
    bool keeps_last_modified; /* ssi_last_modified */
    bool ignores_recycled;    /* understood: nothing is kept back in memory that others want */
    uint64_t min_file_chunk;  /* understood: pages are read into memory */
    uint64_t value_length;    /* bytes of a value, at most */
    struct type_set *types;
};

/* A text put aside by `block`, for `stub` of an include in any page of the request. */
struct ssi_block {
    struct str name;
    struct buf text; /* as written; freed with the main request's arena, once it is kept */
};

/* An `if` that has not ended yet. */
struct ssi_if {
    bool is_taken;  /* text goes through now */
    bool was_taken; /* this branch or one before it was */
    bool had_else;
    bool is_dead; /* it stands in a branch that was not taken: no branch of it is */
};

/*
 * A page: the body of a response that is worked on, or a stub. Its filter is where output leaves
 * (filter.next), and what includes stand for. In the request's arena.
 */
struct ssi_page {
    struct body_filter filter;
    struct request *request; /* in whose name directives are carried out */
    const struct ssi_settings *settings;
    struct ssi_scanner scanner;
    struct ssi_block *open_block; /* that is being gathered, or NULL; owned until it is kept */
    unsigned block_depth;         /* blocks that were begun inside it */
    struct ssi_if ifs[SSI_IF_DEPTH_MAX];
    unsigned if_count;
    enum ssi_encoding encoding; /* of the last echo that said one, and of those after it */
    struct str error_message;   /* config errmsg */
    struct str timefmt;         /* config timefmt; NUL-terminated */
    char *output;               /* SSI_OUTPUT_SIZE bytes, or NULL until they are needed */
    size_t output_size;         /* bytes gathered there */
    struct ordered *ordered;    /* output from the first include on; or NULL */
    bool is_dead;               /* the client is gone: nothing more is done */
};

/* ---- page.c ---- */

/* Begins a page. What it owns is freed with the request's arena. */
void ssi_page_begin(struct ssi_page *page, struct request *request,
                    const struct ssi_settings *settings);
/* A part of it. MAY WAIT. */
void ssi_page_put(struct ssi_page *page, struct str input);
/* No more comes. What was gathered is left in page->output. MAY WAIT. */
void ssi_page_end(struct ssi_page *page);
/* Frees what the page owns; called by the arena, too. */
void ssi_page_free(void *page);
/* Text of the page, out of the server. It is copied. MAY WAIT. */
void ssi_output(struct ssi_page *page, struct str text);
/* What was gathered leaves. MAY WAIT. */
void ssi_output_flush(struct ssi_page *page, bool is_flush, bool is_last);
/* A piece of output, after that of includes that have not ended. MAY WAIT. */
void ssi_send_piece(struct ssi_page *page, const struct body_piece *piece, bool is_last);
/* Is the text dropped now, because of an `if`? */
bool ssi_is_skipping(const struct ssi_page *page);

/* ---- commands.c ---- */

/* Carries a directive out; what is wrong with it is logged, and the error message put in its place.
 * MAY WAIT. */
void ssi_run(struct ssi_page *page, const struct ssi_directive *directive);
/* The error message, unless ssi_silent_errors is on. MAY WAIT. */
void ssi_fail(struct ssi_page *page);

/* ---- include.c ---- */

/* Another place's answer in the place of the directive, which runs in parallel to the page, or in a
 * variable; true, or a failure that was logged. MAY WAIT. */
struct ssi_include {
    const struct str *virtual; /* each NULL where it was not written */
    const struct str *file;
    const struct str *wait;
    const struct str *set;
    const struct str *stub;
};
bool ssi_include(struct ssi_page *page, const struct ssi_include *include);

/* ---- values.c ---- */

/* Counts a directive; now and then others get a turn. False: cancelled, or over
 * request_memory_limit. MAY WAIT. */
bool ssi_count_work(struct request *request);
/* Keeps a variable for the main request and all its subrequests; the value is copied. */
void ssi_set(struct request *request, struct str name, struct str value);
/* A block that ended. */
void ssi_keep_block(struct request *request, struct ssi_block *block);
/* The first of this name; NULL = none. */
const struct ssi_block *ssi_find_block(struct request *request, struct str name);
/* Counts bytes of blocks; false: there are too many. */
bool ssi_count_block_bytes(struct request *request, size_t size);
/* By name: variables of `set`, captures, those of the configuration. False = there is none. */
bool ssi_get(struct request *request, struct str name, struct str *out);
/* Text with its variables and without its backslashes. False after an error was logged. */
bool ssi_evaluate(struct request *request, struct str text, struct str *out);
/* `$a`, `$a = text`, `$a != text`, `$a = /regex/`. False after an error was logged. */
bool ssi_evaluate_condition(struct request *request, struct str text, bool *is_true);

/* ---- ssi.c ---- */

const struct ssi_settings *ssi_settings_at(const struct http_location *location);

#endif
