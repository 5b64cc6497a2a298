/* Runs the phases of the engine: their input, their thread, and their results. */
#include "http/modules/access/modsecurity/transaction.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "http/client/connection.h"
#include "http/request/offload.h"
#include "http/request/body.h"
#include "http/routing/response_settings.h"
#include "server/generation.h"

/* Regular expressions over a body may take milliseconds, so the engine runs on separate threads. */
static struct offload_shares rules_shares;
static const struct offload_pool rules_pool = {.name = STR_INIT("modsecurity"),
                                               .waiting = "requests wait for the rules",
                                               .threads = 2,
                                               .queue = 512,
                                               .shares = &rules_shares};

#define READ_SIZE (64 * 1024)

static char data_key;

struct inspection *inspection_of(struct request *request)
{
    struct inspection **kept =
        request == request->main ? request_data(request, &data_key, 0) : NULL;

    return kept == NULL ? NULL : *kept;
}

/* ---- log lines of the engine ---- */

/* Called by the engine, on any thread. */
static void take_note(void *data, const void *text)
{
    struct inspection *inspection = data;
    struct note *note;

    if (inspection == NULL || text == NULL || inspection->notes_count++ >= NOTES_MAX) {
        return;
    }
    note = calloc(1, sizeof(*note));
    if (note != NULL) {
        note->text = strdup(text);
        *inspection->notes_end = note;
        inspection->notes_end = &note->next;
    }
}

void inspection_take_notes(void)
{
    if (rules_engine() != NULL) {
        msc_set_log_cb(rules_engine(), take_note);
    }
}

/* Writes the lines to the error log, or discards them. */
static void give_notes(struct inspection *inspection, bool is_logged)
{
    struct note *note = inspection->notes;

    while (note != NULL) {
        struct note *next = note->next;

        if (is_logged && note->text != NULL) {
            log_info(&inspection->request->log, 0, "%s", note->text);
        }
        free(note->text);
        free(note);
        note = next;
    }
    if (is_logged && inspection->notes_count > NOTES_MAX) {
        log_info(&inspection->request->log, 0, "%u more lines of the rules are not shown",
                 inspection->notes_count - NOTES_MAX);
    }
    inspection->notes = NULL;
    inspection->notes_end = &inspection->notes;
    inspection->notes_count = 0;
}

/* ---- making and freeing ---- */

static void free_texts(ModSecurityIntervention *verdict)
{
    free(verdict->url);
    free(verdict->log);
    *verdict = (ModSecurityIntervention){.status = 200};
}

static void end_transaction(void *arg)
{
    struct inspection *inspection = arg;

    if (inspection->transaction != NULL) {
        msc_transaction_cleanup(inspection->transaction);
        inspection->transaction = NULL;
    }
}

static void inspection_free(void *arg)
{
    struct inspection *inspection = arg;

    fiber_call_on_main(end_transaction, inspection);
    give_notes(inspection, false);
    free_texts(&inspection->verdict);
}

static const char *addr_text(struct request *request, const struct addr *addr)
{
    char text[ADDR_TEXT_MAX];

    /* cppcheck-suppress legacyUninitvar ; addr_format writes it */
    return arena_cstr(&request->arena, (struct str){text, addr_format(addr, false, text)});
}

static const char *version_text(enum http_version version)
{
    switch (version) {
    case HTTP_0_9:
        return "0.9";
    case HTTP_1_0:
        return "1.0";
    case HTTP_2:
        return "2.0";
    case HTTP_3:
        return "3.0";
    default:
        return "1.1";
    }
}

struct inspection *inspection_new(struct request *request, struct rule_set *set, const char *id)
{
    struct inspection *inspection = arena_new(&request->arena, struct inspection);
    struct inspection **kept = request_data(request, &data_key, sizeof(*kept));
    const struct addr *server = connection_local(request->connection);
    struct addr client;

    request_client(request, &client);
    *inspection = (struct inspection){
        .request = request,
        .set = set,
        .id = id,
        .client = arena_cstr(&request->arena, request_client_text(request)),
        .client_port = addr_port(&client),
        .server = addr_text(request, server),
        .server_port = addr_port(server),
        .uri = arena_cstr(&request->arena, request_origin_form(request)),
        .method = arena_cstr(&request->arena, request->method_name),
        .version = version_text(request->head.version),
        .verdict = {.status = 200},
    };
    inspection->notes_end = &inspection->notes;
    arena_on_free(&request->arena, inspection_free, inspection);
    *kept = inspection;
    return inspection;
}

/* ---- results of a phase ---- */

/* Gets the result at the end of a phase, on its thread. */
static void take_verdict(struct inspection *inspection)
{
    if (msc_intervention(inspection->transaction, &inspection->verdict) == 0) {
        free_texts(&inspection->verdict);
        return;
    }
    if (inspection->verdict.status != 200) {
        msc_update_status_code(inspection->transaction, inspection->verdict.status);
    }
}

/* The engine could not run: the request is rejected, because it was not checked. */
static bool modsecurity_transaction_fail(struct inspection *inspection, unsigned status,
                                         struct verdict *verdict)
{
    inspection->has_failed = true;
    *verdict = (struct verdict){.status = status};
    return false;
}

/* Evaluates the verdict of the rules. True: nothing was rejected. */
static bool modsecurity_transaction_judge(struct inspection *inspection, struct verdict *verdict)
{
    struct request *request = inspection->request;
    ModSecurityIntervention *said = &inspection->verdict;

    give_notes(inspection, inspection->uses_error_log);
    if (inspection->transaction == NULL) {
        log_crit(&request->log, 0, "no memory for the rules");
        return modsecurity_transaction_fail(inspection, 500, verdict);
    }
    if (said->disruptive == 0 || (said->status == 200 && said->url == NULL)) {
        return true;
    }
    inspection->is_refused = true;
    log_error(&request->log, 0, "%s",
              said->log != NULL ? said->log : "(no log message was specified)");
    *verdict = (struct verdict){.status = said->status < 300 || said->status > 999
                                              ? (said->url != NULL ? 302 : 403)
                                              : (unsigned) said->status};
    if (said->url != NULL) {
        verdict->location = arena_dup(&request->arena, (struct str){said->url, strlen(said->url)});
    }
    free_texts(said);
    return false;
}

/* Runs a phase on a thread. MAY WAIT. */
static bool run_offloaded(struct inspection *inspection, void (*phase)(void *arg),
                          struct verdict *verdict)
{
    switch (offload_run(&rules_pool, inspection->request, phase, inspection)) {
    case THREAD_CALL_DONE:
        return modsecurity_transaction_judge(inspection, verdict);
    case THREAD_CALL_CANCELLED:
        return modsecurity_transaction_fail(inspection, 499, verdict);
    default:
        return modsecurity_transaction_fail(inspection, 503, verdict);
    }
}

/* ---- requests ---- */

static void add_request_field(Transaction *transaction, struct str name, struct str value)
{
    msc_add_n_request_header(transaction, (const unsigned char *) name.data, name.len,
                             (const unsigned char *) (value.len == 0 ? "" : value.data), value.len);
}

/* On a thread: makes the transaction and runs phase 1. */
static void head_phase(void *arg)
{
    struct inspection *inspection = arg;
    const struct request *request = inspection->request;
    Transaction *transaction =
        inspection->id != NULL
            ? msc_new_transaction_with_id(rules_engine(), inspection->set->rules,
                                          (char *) (uintptr_t) inspection->id, inspection)
            : msc_new_transaction(rules_engine(), inspection->set->rules, inspection);

    if (transaction == NULL) {
        return;
    }
    inspection->transaction = transaction;
    msc_process_connection(transaction, inspection->client, inspection->client_port,
                           inspection->server, inspection->server_port);
    msc_process_uri(transaction, inspection->uri, inspection->method, inspection->version);
    take_verdict(inspection);
    if (inspection->verdict.disruptive != 0) {
        return;
    }
    if (fields_get(&request->headers, FIELD_HOST) == NULL && request->head.host.len != 0) {
        add_request_field(transaction, STR("Host"), request->head.host); /* HTTP/2 has :authority */
    }
    fields_each(field, &request->headers) {
        if (!field->is_removed) {
            add_request_field(transaction, field->name, field->value);
        }
    }
    msc_process_request_headers(transaction);
    take_verdict(inspection);
}

bool inspect_head(struct inspection *inspection, struct verdict *verdict)
{
    return run_offloaded(inspection, head_phase, verdict);
}

/* False: the file cannot be read. Bytes beyond the engine's limit are not read. */
static bool add_body_file(Transaction *transaction, const struct request_body *body)
{
    unsigned char *buffer = malloc(READ_SIZE);
    uint64_t at = 0;
    bool is_wanted = true;

    while (buffer != NULL && is_wanted && at < body->size) {
        ssize_t n = pread(body->fd, buffer, READ_SIZE, (off_t) at);

        if (n <= 0) {
            break;
        }
        at += (uint64_t) n;
        msc_append_request_body(transaction, buffer, (size_t) n);
        is_wanted = msc_get_request_body_length(transaction) >= at;
    }
    free(buffer);
    return !is_wanted || at == body->size;
}

static void body_phase(void *arg)
{
    struct inspection *inspection = arg;
    const struct request_body *body = inspection->request->incoming.body;
    Transaction *transaction = inspection->transaction;

    if (body->fd != -1) {
        inspection->has_failed = !add_body_file(transaction, body);
    } else if (body->bytes.len != 0) {
        msc_append_request_body(transaction, (const unsigned char *) body->bytes.data,
                                body->bytes.len);
    }
    take_verdict(inspection); /* a body that is too long may be rejected */
    if (inspection->verdict.disruptive == 0 && !inspection->has_failed) {
        msc_process_request_body(transaction);
        take_verdict(inspection);
    }
}

bool inspect_body(struct inspection *inspection, struct verdict *verdict)
{
    bool is_sound = run_offloaded(inspection, body_phase, verdict);

    if (is_sound && inspection->has_failed) {
        log_crit(&inspection->request->log, 0, "the request body's file cannot be read");
        return modsecurity_transaction_fail(inspection, 500, verdict);
    }
    return is_sound;
}

/* ---- responses ---- */

static void add_response_field(Transaction *transaction, struct str name, struct str value)
{
    if (value.len != 0) {
        msc_add_n_response_header(transaction, (const unsigned char *) name.data, name.len,
                                  (const unsigned char *) value.data, value.len);
    }
}

/* Adds fields that are generated only when the header is sent. */
static void add_described(Transaction *transaction, struct request *request)
{
    const struct response *response = &request->response;
    struct arena *arena = &request->arena;

    if (fields_get(&response->fields, FIELD_SERVER) == NULL) {
        add_response_field(transaction, STR("Server"), request->location->responses->server_text);
    }
    add_response_field(transaction, STR("Content-Type"),
                       response->charset.len == 0
                           ? response->content_type
                           : arena_join(arena,
                                        (const struct str[]){response->content_type,
                                                             STR("; charset="), response->charset},
                                        3));
    if (response->content_length >= 0) {
        add_response_field(transaction, STR("Content-Length"),
                           arena_printf(arena, "%lld", (long long) response->content_length));
    }
    add_response_field(transaction, STR("ETag"), response->etag);
    add_response_field(transaction, STR("Location"), response->location);
}

static void response_head_phase(void *arg)
{
    struct inspection *inspection = arg;
    struct request *request = inspection->request;
    Transaction *transaction = inspection->transaction;

    add_described(transaction, request);
    fields_each(field, &request->response.fields) {
        if (!field->is_removed) {
            add_response_field(transaction, field->name, field->value);
        }
    }
    msc_process_response_headers(transaction, (int) request->response.status,
                                 request->head.version == HTTP_2 ? "HTTP/2.0" : "HTTP/1.1");
    take_verdict(inspection);
}

bool inspect_response_head(struct inspection *inspection, struct verdict *verdict)
{
    fiber_call_on_main(response_head_phase, inspection);
    return modsecurity_transaction_judge(inspection, verdict);
}

static void response_body_phase(void *arg)
{
    struct inspection *inspection = arg;
    Transaction *transaction = inspection->transaction;

    if (inspection->response_body.len != 0) {
        msc_append_response_body(transaction,
                                 (const unsigned char *) inspection->response_body.data,
                                 inspection->response_body.len);
        take_verdict(inspection); /* a body that is too long may be rejected */
    }
    if (inspection->verdict.disruptive == 0) {
        msc_process_response_body(transaction);
        take_verdict(inspection);
    }
}

bool inspect_response_body(struct inspection *inspection, struct str body, struct verdict *verdict)
{
    inspection->response_body = body;
    return run_offloaded(inspection, response_body_phase, verdict);
}

/* ---- the end ---- */

static void last_phase(void *arg)
{
    struct inspection *inspection = arg;

    msc_update_status_code(inspection->transaction, (int) request_status(inspection->request));
    msc_process_logging(inspection->transaction);
}

void inspection_log(struct inspection *inspection)
{
    if (inspection->transaction != NULL) {
        fiber_call_on_main(last_phase, inspection);
        give_notes(inspection, inspection->uses_error_log);
    }
}
