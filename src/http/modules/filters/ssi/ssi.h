/* Shared by the files of the ssi module: pages in progress, variables, expressions. */
#ifndef HTTP_MODULES_FILTERS_SSI_SSI_H
#define HTTP_MODULES_FILTERS_SSI_SSI_H

#include "base/buf.h"
#include "http/modules/filters/ssi/scan.h"
#include "http/request/body_filter.h"
#include "http/request/ordered.h"
#include "http/request/request.h"

#define SSI_IF_DEPTH_MAX 32 /* nested `if`s */
/* Total bytes of all blocks of a request and its subrequests. */
#define SSI_BLOCKS_MAX (1024 * 1024)
#define SSI_OUTPUT_SIZE 4096 /* bytes of small outputs that are combined */
#define SSI_WORK_AT_ONCE 16  /* directives before other requests get a turn */
#define SSI_DATE_MAX 2048    /* bytes of a formatted date */
#define SSI_DEFAULT_TIMEFMT "%A, %d-%b-%Y %H:%M:%S %Z"

/* How echo writes a value. */
enum ssi_encoding { SSI_ENTITY, SSI_URL, SSI_NONE };

/* Settings of a location. */
struct ssi_settings {
    bool is_on;
    bool is_silent;           /* ssi_silent_errors */
    bool keeps_last_modified; /* ssi_last_modified */
    bool ignores_recycled;    /* accepted and ignored: no memory is recycled here */
    uint64_t min_file_chunk;  /* accepted and ignored: pages are read into memory */
    uint64_t value_length;    /* most bytes of a value */
    struct type_set *types;
};

/* A text stored by `block`, for the `stub` of an include in any page of the request. */
struct ssi_block {
    struct str name;
    struct buf text; /* as written; freed with the main request's arena once it is stored */
};

/* An open `if`. */
struct ssi_if {
    bool is_taken;  /* the current branch is output */
    bool was_taken; /* this branch or an earlier one was taken */
    bool had_else;
    bool is_dead; /* it is inside a branch that was not taken, so no branch of it is */
};

/* A page in progress: the body of a response, or a stub. Its own output and that of its includes
 * leave through filter.next. In the request's arena. */
struct ssi_page {
    struct body_filter filter;
    struct request *request; /* whose directives are executed */
    const struct ssi_settings *settings;
    struct ssi_scanner scanner;
    struct ssi_block
        *open_block;      /* the block that is being read, or NULL; owned until it is stored */
    unsigned block_depth; /* blocks that began inside it */
    struct ssi_if ifs[SSI_IF_DEPTH_MAX];
    unsigned if_count;
    enum ssi_encoding encoding; /* set by `echo`, for it and later ones */
    struct str error_message;   /* of `config errmsg` */
    struct str timefmt;         /* of `config timefmt`; NUL-terminated */
    char *output;               /* SSI_OUTPUT_SIZE bytes; NULL until needed */
    size_t output_size;         /* bytes in `output` */
    struct ordered *ordered;    /* set from the first include on; else NULL */
    bool is_dead;               /* the client is gone: nothing more is output */
};

/* ---- page.c ---- */

/* Begins a page. Its memory is freed with the request's arena. */
void ssi_page_begin(struct ssi_page *page, struct request *request,
                    const struct ssi_settings *settings);
/* Adds input to the page. MAY WAIT. */
void ssi_page_put(struct ssi_page *page, struct str input);
/* Ends the page; buffered output stays in page->output. MAY WAIT. */
void ssi_page_end(struct ssi_page *page);
/* Frees the memory of the page; also called by the arena. */
void ssi_page_free(void *page);
/* Outputs text that may be gone after the call: it is copied. MAY WAIT. */
void ssi_output(struct ssi_page *page, struct str text);
/* Sends the buffered output. MAY WAIT. */
void ssi_output_flush(struct ssi_page *page, bool is_flush, bool is_last);
/* Sends a piece, after the output of includes that have not ended. MAY WAIT. */
void ssi_send_piece(struct ssi_page *page, const struct body_piece *piece, bool is_last);
/* Is text skipped now, because of an `if`? */
bool ssi_is_skipping(const struct ssi_page *page);

/* ---- commands.c ---- */

/* Executes a directive; an error is logged, and the error message is output. MAY WAIT. */
void ssi_run(struct ssi_page *page, const struct ssi_directive *directive);
/* Outputs the error message, unless ssi_silent_errors is on. MAY WAIT. */
void ssi_fail(struct ssi_page *page);

/* ---- include.c ---- */

/* Puts the response of another location in place of the directive, concurrently with the page, or
 * in a variable. False: an error was logged. MAY WAIT. */
struct ssi_include {
    const struct str *virtual; /* each NULL if absent */
    const struct str *file;
    const struct str *wait;
    const struct str *set;
    const struct str *stub;
};
bool ssi_include(struct ssi_page *page, const struct ssi_include *include);

/* ---- values.c ---- */

/* Counts a directive; gives other requests a turn from time to time. False: cancelled, or over
 * request_memory_limit. MAY WAIT. */
bool ssi_count_work(struct request *request);
/* Sets a variable of the main request and all its subrequests; the value is copied. */
void ssi_set(struct request *request, struct str name, struct str value);
/* Stores a complete block. */
void ssi_keep_block(struct request *request, struct ssi_block *block);
/* The first block of this name; NULL = none. */
const struct ssi_block *ssi_find_block(struct request *request, struct str name);
/* Counts bytes of blocks; false: too many. */
bool ssi_count_block_bytes(struct request *request, size_t size);
/* Looks a name up: variables of `set`, captures, variables of the configuration. False = not
 * found. */
bool ssi_get(struct request *request, struct str name, struct str *out);
/* Evaluates text: expands variables and removes backslashes. False after an error was logged. */
bool ssi_evaluate(struct request *request, struct str text, struct str *out);
/* Evaluates `$a`, `$a = text`, `$a != text`, `$a = /regex/`. False after an error was logged. */
bool ssi_evaluate_condition(struct request *request, struct str text, bool *is_true);

/* ---- ssi.c ---- */

const struct ssi_settings *ssi_settings_at(const struct http_location *location);

#endif
