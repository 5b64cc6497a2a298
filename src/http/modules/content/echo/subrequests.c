/* echo_location, echo_subrequest and their asynchronous forms: output of other locations in this
 * response. */
#include "http/modules/content/echo/echo.h"
#include "http/request/body.h"
#include "http/request/subrequest.h"

/* A pending subrequest, in the arena of the request. */
struct echo_sub {
    struct subrequest sub;
    struct ordered_slot *slot; /* its position in the output; until the subrequest has ended */
    struct body_filter begin;  /* the filter of the subrequest; the filter after it is the slot */
};

static void sub_answered(struct subrequest *sub)
{
    struct echo_sub *echo = container_of(sub, struct echo_sub, sub);

    ordered_end(echo->slot);
    echo->slot = NULL;
}

static uint64_t sub_backlog(const struct subrequest *sub)
{
    return ordered_backlog(container_of(sub, struct echo_sub, sub)->slot);
}

/* The body of a SUBREQUEST command; *out is NULL if it has none. An empty text counts as none. */
static bool body_of(struct request *request, const struct echo_command *command,
                    struct request_body **out)
{
    struct str text =
        command->text == NULL ? STR_NONE : template_text(command->text, &request->env);

    *out = NULL;
    if (text.len == 0 && (command->text != NULL || command->file == NULL)) {
        return true;
    }
    struct request_body *body = arena_new(&request->main->arena, struct request_body);
    body->fd = -1;
    *out = body;
    if (command->text == NULL) {
        return request_body_from_file(request, template_text(command->file, &request->env), body);
    }
    body->bytes = text;
    body->size = text.len;
    return true;
}

static bool aim(struct request *request, const struct echo_command *command, struct subrequest *sub)
{
    struct str text = template_text(command->word, &request->env);

    if (!subrequest_aim(request, text, sub) || sub->uri.len == 0) {
        log_warn(&request->log, 0, "%s sees unsafe uri: \"%.*s\"", command->name, STR_ARG(text));
        return false;
    }
    if (command->args != NULL) {
        sub->args = template_text(command->args, &request->env);
    }
    if (command->method != NULL) {
        sub->method = template_text(command->method, &request->env);
    }
    return body_of(request, command, &sub->given);
}

static void take_slot(struct echo_run *run, struct echo_sub *echo)
{
    struct request *request = run->request;

    if (run->ordered == NULL) {
        struct body_filter *outlet = arena_new(&request->arena, struct body_filter);
        outlet->next = request->response.filters;
        run->ordered = arena_new(&request->arena, struct ordered);
        ordered_init(run->ordered, outlet, request);
    }
    echo->slot = ordered_slot(run->ordered);
    echo->begin.next = &echo->slot->filter;
    echo->sub.filter = &echo->begin;
    echo->sub.answered = sub_answered;
    echo->sub.backlog = sub_backlog;
}

bool echo_begin_pending(struct echo_run *run)
{
    struct vec pending = run->pending;
    bool is_sound = true;

    run->pending = (struct vec){0};
    vec_each(struct echo_sub *, echo, &pending) {
        enum handler_result result =
            is_sound ? subrequest_begin(run->request, &(*echo)->sub) : HANDLER_FAIL;
        if (result != HANDLER_DONE) {
            ordered_end((*echo)->slot);
        }
        is_sound = is_sound && result != HANDLER_CLOSED;
    }
    return is_sound;
}

enum handler_result echo_subrequest(struct echo_run *run, const struct echo_command *command)
{
    struct request *request = run->request;
    struct echo_sub *echo = arena_new(&request->arena, struct echo_sub);

    if (!aim(request, command, &echo->sub)) {
        return request_fail(request, 500);
    }
    echo->sub.output = SUBREQUEST_INLINE;
    echo->sub.own_variables = true; /* as in nginx: it has its own request line and arguments */
    enum handler_result result =
        echo_begin(run); /* it reads the body, which the subrequests use as well */
    if (result != HANDLER_NEXT) {
        return result;
    }
    echo->sub.passes_body = request->incoming.body != NULL;
    if (run->ordered != NULL || command->is_async) {
        take_slot(run, echo);
    }
    if (command->is_async) {
        *vec_add(&run->pending, &request->arena, struct echo_sub *) = echo;
        return HANDLER_NEXT;
    }
    if (!echo_begin_pending(run)) {
        return HANDLER_CLOSED;
    }
    result = subrequest_begin(request, &echo->sub);
    if (result == HANDLER_DONE) {
        result = subrequest_wait(&echo->sub);
    } else if (echo->slot != NULL) {
        ordered_end(echo->slot);
    }
    return result == HANDLER_CLOSED || result == HANDLER_CUT ? result : HANDLER_NEXT;
}
