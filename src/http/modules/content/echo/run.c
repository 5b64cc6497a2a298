/* Runs the commands of a location from top to bottom. */
#include "base/clock.h"
#include "base/parse.h"
#include "base/text.h"
#include "http/files/file.h"
#include "http/message/uri.h"
#include "http/modules/content/echo/echo.h"
#include "http/request/body.h"

#define PIECE_SIZE 16384                  /* bytes of repeated text that are written at once */
#define DUPLICATE_MAX (UINT64_C(1) << 30) /* most bytes that one echo_duplicate writes */

/* ---- output ---- */

enum handler_result echo_begin(struct echo_run *run)
{
    struct request *request = run->request;
    enum handler_result result = HANDLER_NEXT;

    if (run->has_begun) {
        return HANDLER_NEXT;
    }
    if (run->settings->reads_body) {
        result = request_read_body(
            request); /* before the response begins, so that an error can still set the status */
    }
    if (result == HANDLER_NEXT) {
        request->response.status = (unsigned) run->settings->status;
        request->response.content_length = -1;
        if (run->settings->status != 204 || request != request->main) {
            response_set_type(request);
        }
        result = response_start(request);
    }
    run->has_begun = result == HANDLER_NEXT;
    return result;
}

bool echo_give(struct echo_run *run, const struct body_piece *piece, bool is_last)
{
    return run->ordered == NULL ? response_send(run->request, piece, is_last)
                                : ordered_send(run->ordered, piece, is_last);
}

static enum handler_result give_text(struct echo_run *run, struct str text, bool is_flush)
{
    struct body_piece piece = {.bytes = text, .fd = -1, .is_flush = is_flush};
    enum handler_result result = echo_begin(run);

    if (result != HANDLER_NEXT || (text.len == 0 && !is_flush)) {
        return result;
    }
    return echo_give(run, &piece, false) ? HANDLER_NEXT : HANDLER_CLOSED;
}

/* Parses a number whose digits may be grouped: 10_000. */
static bool parse_count(struct arena *arena, struct str text, uint64_t *out)
{
    char *digits = arena_text(arena, text.len);
    size_t len = 0;

    for (size_t i = 0; i < text.len; i++) {
        if (text.data[i] != '_') {
            digits[len++] = text.data[i];
        }
    }
    return parse_uint((struct str){digits, len}, out);
}

/* Writes piece by piece, so that the memory does not depend on the count. */
static enum handler_result duplicate(struct echo_run *run, const struct echo_command *command)
{
    struct request *request = run->request;
    struct str count_text = template_text(command->word, &request->env);
    struct str text = template_text(command->text, &request->env);
    uint64_t count;

    if (!parse_count(&request->arena, count_text, &count)) {
        log_error(&request->log, 0, "invalid size specified: \"%.*s\"", STR_ARG(count_text));
        return request_fail(request, 500);
    }
    if (text.len != 0 && count > DUPLICATE_MAX / text.len) {
        log_error(&request->log, 0, "too much is asked for: \"%.*s\" times %zu bytes",
                  STR_ARG(count_text), text.len);
        return request_fail(request, 500);
    }
    size_t in_piece = text.len == 0 || text.len >= PIECE_SIZE ? 1 : PIECE_SIZE / text.len;
    in_piece = in_piece < count ? in_piece : (size_t) count;
    char *buffer = arena_text(&request->arena, in_piece * text.len);
    for (size_t i = 0; i < in_piece; i++) {
        str_put(buffer + i * text.len, text);
    }
    enum handler_result result = echo_begin(run);
    for (uint64_t left = text.len == 0 ? 0 : count; result == HANDLER_NEXT && left != 0;) {
        size_t now = left < in_piece ? (size_t) left : in_piece;
        result = give_text(run, (struct str){buffer, now * text.len}, false);
        left -= now;
        if (left != 0 && result == HANDLER_NEXT && fiber_yield() == WAIT_CANCELLED) {
            result = HANDLER_CLOSED;
        }
    }
    return result;
}

/* echo_request_body: writes the part of the body that was read. */
static enum handler_result give_body(struct echo_run *run)
{
    struct request *request = run->request;
    enum handler_result result = echo_begin(run);
    const struct request_body *body = request->incoming.body;

    if (result != HANDLER_NEXT || body == NULL || body->size == 0) {
        return result;
    }
    if (body->fd == -1) {
        return give_text(run, body->bytes, false);
    }
    struct body_piece piece = {.fd = body->fd, .size = body->size};
    return echo_give(run, &piece, false) ? HANDLER_NEXT : HANDLER_CLOSED;
}

/* ---- waiting, internal redirects ---- */

static enum handler_result sleep_for(struct echo_run *run, const struct echo_command *command)
{
    struct request *request = run->request;
    struct str text = template_text(command->word, &request->env);
    uint64_t pause_ms;

    if (!parse_fixed_point(text, 3, &pause_ms) || pause_ms > INT64_MAX / 2) {
        log_error(&request->log, 0, "invalid sleep duration \"%.*s\"", STR_ARG(text));
        return request_fail(request, 400);
    }
    if (!echo_begin_pending(run) || fiber_sleep(clock_now.now_ms + pause_ms) == WAIT_CANCELLED) {
        return HANDLER_CLOSED;
    }
    return HANDLER_NEXT;
}

static enum handler_result go_elsewhere(struct echo_run *run, const struct echo_command *command)
{
    struct request *request = run->request;
    struct str text = template_text(command->word, &request->env);
    struct str args =
        command->args == NULL ? STR_NONE : template_text(command->args, &request->env);
    const char *question = str_find_char(text, '?');
    struct str uri = question == NULL ? text : str_from(text.data, question);

    if (run->has_begun) {
        log_error(&request->log, 0, "echo_exec \"%.*s\" comes after output", STR_ARG(text));
        return HANDLER_CLOSED;
    }
    if (text.len == 0) {
        return request_fail(request, 400);
    }
    if (*text.data == '@') {
        if (args.len != 0) {
            log_warn(&request->log, 0, "querystring %.*s ignored when exec'ing named location %.*s",
                     STR_ARG(args), STR_ARG(text));
        }
        return request_redirect_named(request, text);
    }
    uri = percent_decode(&request->arena, uri);
    if (!uri_is_safe(uri)) {
        log_warn(&request->log, 0, "echo_exec sees unsafe uri: \"%.*s\"", STR_ARG(uri));
        return request_fail(request, 500);
    }
    if (command->args == NULL && question != NULL) {
        args = str_from(question + 1, text.data + text.len);
    }
    return request_redirect(request, uri, args);
}

/* ---- loops ---- */

/* Advances to the next item that is not empty. False: there is none. */
static bool next_item(struct echo_run *run)
{
    while (run->rest.data != NULL) {
        struct str rest = run->rest;
        const char *end = run->separator.len == 0 ? NULL : str_find(rest, run->separator);
        struct str item = end == NULL ? rest : str_from(rest.data, end);

        run->rest = end == NULL ? STR_NONE : str_skip(rest, item.len + run->separator.len);
        if (item.len != 0) {
            echo_state_of(run->request)->it = item;
            return true;
        }
    }
    return false;
}

static enum handler_result loop_begin(struct echo_run *run, const struct echo_command *command,
                                      size_t *at)
{
    struct request *request = run->request;
    const struct vec *commands = &run->settings->commands;

    if (run->is_looping) {
        log_error(&request->log, 0, "Nested echo_foreach not supported yet.");
        return request_fail(request, 500);
    }
    run->separator = template_text(command->word, &request->env);
    run->rest = template_text(command->text, &request->env);
    run->loop_start = *at;
    run->is_looping = next_item(run);
    while (!run->is_looping && *at < commands->count &&
           vec_at(commands, struct echo_command, *at)->kind != ECHO_END) {
        ++*at;
    }
    run->is_looping = true;
    return HANDLER_NEXT;
}

static enum handler_result loop_end(struct echo_run *run, size_t *at)
{
    struct request *request = run->request;

    if (!run->is_looping) {
        log_error(&request->log, 0,
                  "Found a echo_end that has no corresponding echo_foreach before it.");
        return request_fail(request, 500);
    }
    if (next_item(run)) {
        *at = run->loop_start;
    } else {
        run->is_looping = false;
    }
    return HANDLER_NEXT;
}

/* echo_duplicate and echo_foreach_split with options instead of their arguments: such a
 * configuration is accepted, and each request fails. */
static enum handler_result fail_for_words(struct echo_run *run, const struct echo_command *command)
{
    bool is_loop = command->kind == ECHO_FOREACH;

    log_error(&run->request->log, 0,
              "%s should take at least two arguments. (if your %s starts with \"-\", preceding it "
              "with a \"--\".)",
              is_loop ? "echo_foreach" : "echo_duplicate", is_loop ? "delimiter" : "count");
    return request_fail(run->request, 500);
}

/* ---- the run ---- */

/* Runs one command; *at becomes the index of the next one. MAY WAIT. */
static enum handler_result run_command(struct echo_run *run, const struct echo_command *command,
                                       size_t *at)
{
    struct request *request = run->request;

    switch (command->kind) {
    case ECHO_TEXT:
        return give_text(run, template_text(command->text, &request->env), false);
    case ECHO_DUPLICATE:
        return command->text == NULL ? fail_for_words(run, command) : duplicate(run, command);
    case ECHO_FLUSH:
        return give_text(run, STR(""), true);
    case ECHO_SLEEP:
        return sleep_for(run, command);
    case ECHO_RESET_TIMER:
        echo_state_of(request)->started_ms = clock_now.now_ms;
        return HANDLER_NEXT;
    case ECHO_READ_BODY:
        return request_read_body(request);
    case ECHO_BODY:
        return give_body(run);
    case ECHO_SUBREQUEST:
        return echo_subrequest(run, command);
    case ECHO_EXEC:
        return go_elsewhere(run, command);
    case ECHO_FOREACH:
        return command->text == NULL ? fail_for_words(run, command) : loop_begin(run, command, at);
    case ECHO_END:
        return loop_end(run, at);
    case ECHO_ABORT_PARENT:
        break;
    }
    log_error(&request->log, 0, "echo_abort_parent is not supported");
    return request_fail(request, 500);
}

enum handler_result echo_answer(struct request *request)
{
    struct echo_run run = {.request = request,
                           .settings = location_settings(request->location, &echo_key)};
    const struct vec *commands = &run.settings->commands;
    enum handler_result result = HANDLER_NEXT;

    for (size_t at = 0; result == HANDLER_NEXT && at < commands->count;) {
        const struct echo_command *command = vec_at(commands, struct echo_command, at);
        at++;
        result = run_command(&run, command, &at);
    }
    if (result == HANDLER_NEXT) {
        result = echo_begin(&run);
    }
    if (result != HANDLER_NEXT) {
        return result == HANDLER_FAIL && run.has_begun ? HANDLER_CUT : result;
    }
    return echo_begin_pending(&run) && echo_give(&run, NULL, true) ? HANDLER_DONE : HANDLER_CLOSED;
}
