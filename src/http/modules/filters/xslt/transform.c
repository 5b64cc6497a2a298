/* Transforms documents with libxml2 and libxslt. */
#include "http/modules/filters/xslt/transform.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include <libexslt/exslt.h>
#include <libxml/SAX2.h>
#include <libxml/parser.h>
#include <libxml/xmlerror.h>
#include <libxslt/imports.h>
#include <libxslt/security.h>
#include <libxslt/transform.h>
#include <libxslt/variables.h>
#include <libxslt/xslt.h>
#include <libxslt/xsltInternals.h>
#include <libxslt/xsltutils.h>

/* ---- loading of external files ---- */

static xmlExternalEntityLoader load_file; /* the library's own loader */
static _Thread_local bool may_load; /* external files are allowed for the job of this thread */

static xmlParserInputPtr load_confined(const char *url, const char *id, xmlParserCtxtPtr context)
{
    bool is_remote = url != NULL && strstr(url, "://") != NULL && strncmp(url, "file://", 7) != 0;

    return may_load && !is_remote ? load_file(url, id, context) : NULL;
}

static void say_nothing(void *context, const char *format, ...)
{
}

void xslt_confine(void)
{
    if (load_file == NULL) {
        load_file = xmlGetExternalEntityLoader();
        xmlSetExternalEntityLoader(load_confined);
    }
    xsltSetGenericErrorFunc(NULL, say_nothing);
    xmlSetGenericErrorFunc(NULL, say_nothing);
}

/* ---- files of the configuration ---- */

/* The types in the header hide the library's types from other files. */
static xsltStylesheetPtr style_of(const struct xslt_sheet *sheet)
{
    return (xsltStylesheetPtr) (uintptr_t) sheet;
}

struct xslt_sheet *xslt_sheet_load(const char *path)
{
    xmlInitParser();
    exsltRegisterAll();
    may_load = true;
    xmlDocPtr document = xmlReadFile(path, NULL, XSLT_PARSE_OPTIONS | XML_PARSE_NONET);
    xsltStylesheetPtr style = document == NULL ? NULL : xsltParseStylesheetDoc(document);
    may_load = false;
    if (style == NULL && document != NULL) {
        xmlFreeDoc(document);
    }
    if (style != NULL && style->errors != 0) {
        xsltFreeStylesheet(style);
        style = NULL;
    }
    return (struct xslt_sheet *) style;
}

void xslt_sheet_free(void *sheet)
{
    xsltFreeStylesheet(sheet);
}

struct xslt_dtd *xslt_dtd_load(const char *path)
{
    xmlInitParser();
    may_load = true;
    xmlDtdPtr dtd = xmlParseDTD(NULL, (const xmlChar *) path);
    may_load = false;
    return (struct xslt_dtd *) dtd;
}

void xslt_dtd_free(void *dtd)
{
    xmlFreeDtd(dtd);
}

struct str xslt_media_type(const struct xslt_sheet *sheet)
{
    xsltStylesheetPtr style = style_of(sheet);
    const xmlChar *type;

    XSLT_GET_IMPORT_PTR(type, style, mediaType);
    return str_of((const char *) type);
}

struct str xslt_encoding(const struct xslt_sheet *sheet)
{
    xsltStylesheetPtr style = style_of(sheet);
    const xmlChar *encoding;

    XSLT_GET_IMPORT_PTR(encoding, style, encoding);
    return str_of((const char *) encoding);
}

/* ---- a job, on a thread ---- */

/* Keeps the first message, as one line. */
static void keep_error(void *arg, xmlErrorPtr error)
{
    struct xslt_job *job = arg;

    if (job->message[0] == '\0' && error->message != NULL) {
        snprintf(job->message, sizeof(job->message), "%s", error->message);
        job->message[strcspn(job->message, "\r\n")] = '\0';
    }
}

static void keep_message(void *arg, const char *format, ...)
{
    struct xslt_job *job = arg;
    va_list args;

    if (job->message[0] == '\0') {
        va_start(args, format);
        vsnprintf(job->message, sizeof(job->message), format, args);
        va_end(args);
        if (strncmp(job->message, "runtime error", 13) == 0) {
            job->message[0] = '\0'; /* the first part is the location; the message itself follows */
        }
        job->message[strcspn(job->message, "\r\n")] = '\0';
    }
}

/* At the beginning of a document type: adds the configured entities to it. */
static void begin_type(void *arg, const xmlChar *name, const xmlChar *public_id,
                       const xmlChar *system_id)
{
    xmlParserCtxtPtr context = arg;
    const struct xslt_job *job = context->_private;

    xmlSAX2InternalSubset(arg, name, public_id, system_id);
    if (job->dtd == NULL || context->myDoc == NULL || context->myDoc->extSubset != NULL) {
        return;
    }
    xmlDtdPtr dtd = xmlCopyDtd((xmlDtdPtr) (uintptr_t) job->dtd);
    if (dtd != NULL) {
        xmlSetTreeDoc((xmlNodePtr) dtd, context->myDoc);
        dtd->parent = context->myDoc;
        context->myDoc->extSubset = dtd;
    }
}

/* Uses the push parser like nginx: its errors differ from those of the parser for whole
 * documents. */
static xmlDocPtr parse(struct xslt_job *job)
{
    xmlParserCtxtPtr context =
        job->document.len > INT_MAX ? NULL : xmlCreatePushParserCtxt(NULL, NULL, NULL, 0, NULL);

    job->failed = "xmlParseChunk() failed";
    if (context == NULL) {
        return NULL;
    }
    xmlCtxtUseOptions(context, XML_PARSE_NOENT | XML_PARSE_NONET | XML_PARSE_NOWARNING);
    context->_private = job;
    context->sax->internalSubset = begin_type;
    may_load = job->loads_entities;
    xmlParseChunk(context, job->document.data, (int) job->document.len, 0);
    if (context->wellFormed) {
        xmlParseChunk(context, NULL, 0, 1);
    }
    may_load = false;
    xmlDocPtr document = context->myDoc;
    if (!context->wellFormed) {
        job->error = context->errNo;
        xmlFreeDoc(document);
        document = NULL;
    }
    xmlFreeParserCtxt(context);
    return document;
}

/* Forbids access to files and the network, whatever the stylesheet contains. */
static bool confine(xsltTransformContextPtr context, xsltSecurityPrefsPtr prefs)
{
    static const xsltSecurityOption options[] = {
        XSLT_SECPREF_READ_FILE,    XSLT_SECPREF_WRITE_FILE,    XSLT_SECPREF_CREATE_DIRECTORY,
        XSLT_SECPREF_READ_NETWORK, XSLT_SECPREF_WRITE_NETWORK,
    };

    for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
        if (xsltSetSecurityPrefs(prefs, options[i], xsltSecurityForbid) != 0) {
            return false;
        }
    }
    return xsltSetCtxtSecurityPrefs(prefs, context) == 0;
}

static bool set_params(xsltTransformContextPtr context, const struct xslt_step *step)
{
    for (size_t i = 0; i < step->param_count; i++) {
        const xmlChar *name = (const xmlChar *) step->params[i].name;
        const xmlChar *value = (const xmlChar *) step->params[i].value;
        if ((step->params[i].is_string ? xsltQuoteOneUserParam(context, name, value)
                                       : xsltEvalOneUserParam(context, name, value)) != 0) {
            return false;
        }
    }
    return true;
}

/* Takes over the document. */
static xmlDocPtr apply(struct xslt_job *job, const struct xslt_step *step, xmlDocPtr document)
{
    xsltSecurityPrefsPtr prefs = xsltNewSecurityPrefs();
    xsltTransformContextPtr context = xsltNewTransformContext(style_of(step->sheet), document);
    xmlDocPtr result = NULL;

    job->failed = "xsltApplyStylesheet() failed";
    if (context != NULL && prefs != NULL) {
        xsltSetTransformErrorFunc(context, job, keep_message);
        context->initialContextDoc = document; /* the context of XPath expressions in parameters */
        context->initialContextNode = (xmlNodePtr) document;
        if (confine(context, prefs) && set_params(context, step)) {
            result =
                xsltApplyStylesheetUser(style_of(step->sheet), document, NULL, NULL, NULL, context);
        }
        if (result != NULL && context->state != XSLT_STATE_OK) {
            xmlFreeDoc(result);
            result = NULL;
        }
    }
    if (context != NULL) {
        xsltFreeTransformContext(context);
    }
    if (prefs != NULL) {
        xsltFreeSecurityPrefs(prefs);
    }
    xmlFreeDoc(document);
    return result;
}

static void save(struct xslt_job *job, xmlDocPtr document)
{
    xsltStylesheetPtr style = style_of(job->steps[job->step_count - 1].sheet);
    const xmlChar *method;
    xmlChar *text = NULL;
    int size = 0;

    XSLT_GET_IMPORT_PTR(method, style, method);
    job->is_html = method != NULL ? xmlStrEqual(method, (const xmlChar *) "html")
                                  : document->type == XML_HTML_DOCUMENT_NODE;
    job->failed = "xsltSaveResultToString() failed";
    if (xsltSaveResultToString(&text, &size, document, style) == 0) {
        job->failed = "xsltSaveResultToString() returned zero-length result";
        job->result = (char *) text; /* NULL for an empty result: an error, as in nginx */
        job->result_size = size > 0 ? (size_t) size : 0;
    }
    xmlFreeDoc(document);
}

void xslt_transform(struct xslt_job *job)
{
    xmlSetStructuredErrorFunc(job, keep_error);
    xmlDocPtr document = parse(job);
    for (size_t i = 0; i < job->step_count && document != NULL; i++) {
        document = apply(job, &job->steps[i], document);
    }
    if (document != NULL) {
        save(job, document);
    }
    xmlSetStructuredErrorFunc(NULL, NULL);
}

void xslt_free(void *result)
{
    xmlFree(result);
}
