/* Documents made of documents, by libxml2 and libxslt. It takes CPU and memory: for threads. */
#ifndef HTTP_MODULES_FILTERS_XSLT_TRANSFORM_H
#define HTTP_MODULES_FILTERS_XSLT_TRANSFORM_H

#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"

struct xslt_sheet; /* a stylesheet, compiled; read by many threads */
struct xslt_dtd;   /* declarations of entities */

/* From files, while the configuration is read. NULL: it is none. What they include is read, from
 * files only. */
struct xslt_sheet *xslt_sheet_load(const char *path);
void xslt_sheet_free(void *sheet);
struct xslt_dtd *xslt_dtd_load(const char *path);
void xslt_dtd_free(void *dtd);

/* Of a stylesheet's result: "application/x-y", "utf-8"; empty = it says nothing. Valid as long as
 * the sheet. */
struct str xslt_media_type(const struct xslt_sheet *sheet);
struct str xslt_encoding(const struct xslt_sheet *sheet);

/* A parameter; NUL-terminated both. */
struct xslt_param {
    const char *name;
    const char *value;
    bool is_string; /* else an XPath expression */
};

/* One stylesheet with its parameters. */
struct xslt_step {
    struct xslt_sheet *sheet;
    const struct xslt_param *params;
    size_t param_count;
};

#define XSLT_MESSAGE_MAX 256

struct xslt_job {
    struct str document;        /* as it came */
    const struct xslt_dtd *dtd; /* or NULL */
    bool loads_entities;        /* of documents, from files */
    const struct xslt_step *steps;
    size_t step_count;
    char *result; /* to be given to xslt_free; NULL = it failed */
    size_t result_size;
    bool is_html;                   /* the result was written as HTML */
    const char *failed;             /* what failed, for the log */
    int error;                      /* number of libxml2's that belongs to it, or 0 */
    char message[XSLT_MESSAGE_MAX]; /* what the library said first; NUL-terminated */
};

void xslt_transform(struct xslt_job *job);
void xslt_free(void *result);

/* Once for a process: nothing is read from outside from here on but what a job allows. */
void xslt_confine(void);

#endif
