/* Transforms documents with libxml2 and libxslt. Uses much CPU and memory: for threads. */
#ifndef HTTP_MODULES_FILTERS_XSLT_TRANSFORM_H
#define HTTP_MODULES_FILTERS_XSLT_TRANSFORM_H

#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"

struct xslt_sheet; /* a compiled stylesheet; read by many threads */
struct xslt_dtd;   /* entity declarations */

/* Loads a stylesheet while the configuration is read, with its includes, from files only. NULL:
 * failed. */
struct xslt_sheet *xslt_sheet_load(const char *path);
void xslt_sheet_free(void *sheet);
struct xslt_dtd *xslt_dtd_load(const char *path);
void xslt_dtd_free(void *dtd);

/* Media type and charset of the result, as the stylesheet sets them; empty = not set. Valid as long
 * as the sheet. */
struct str xslt_media_type(const struct xslt_sheet *sheet);
struct str xslt_encoding(const struct xslt_sheet *sheet);

/* A parameter; both strings are NUL-terminated. */
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
    struct str document;        /* the input */
    const struct xslt_dtd *dtd; /* or NULL */
    bool loads_entities;        /* external entities are loaded from files */
    const struct xslt_step *steps;
    size_t step_count;
    char *result; /* the caller passes it to xslt_free; NULL = failed */
    size_t result_size;
    bool is_html;                   /* the result is HTML */
    const char *failed;             /* the step that failed, for the log */
    int error;                      /* error number of libxml2, or 0 */
    char message[XSLT_MESSAGE_MAX]; /* first message of the library; NUL-terminated */
};

void xslt_transform(struct xslt_job *job);
void xslt_free(void *result);

/* Forbids loading of external resources, except as a job allows it. Called once per process. */
void xslt_confine(void);

#endif
