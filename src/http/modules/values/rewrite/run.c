/* Runs the directives of ngx_http_rewrite_module for a request. */
#include <errno.h>

#include "base/parse.h"
#include "base/text.h"
#include "http/files/file.h"
#include "http/routing/hooks.h"
#include "http/modules/values/rewrite/rewrite.h"

/* One run of a list of directives. */
struct run {
    struct request *request;
    const struct rewrite_settings *settings; /* of the block with the directives */
    bool is_over;                            /* last, break: the remaining directives are skipped */
};

static enum handler_result run_list(struct run *run);

/* ---- if ---- */

/* Evaluates the path and tests the file. */
static bool test_path(struct request *request, const struct test *test)
{
    struct str path = template_text(test->value, &request->env);
    struct file *file = file_stat(request, path);
    bool is_met = false;

    if (file->error == 0) {
        switch (test->kind) {
        case TEST_FILE:
            is_met = file->is_file;
            break;
        case TEST_DIRECTORY:
            is_met = file->is_directory;
            break;
        case TEST_EXECUTABLE:
            is_met = file->is_executable;
            break;
        default:
            is_met = true;
            break;
        }
    } else if (file->error != ENOENT && file->error != ENOTDIR && file->error != ENAMETOOLONG) {
        log_crit(&request->log, file->error, "%s() \"%.*s\" failed", file->failed, STR_ARG(path));
    }
    file_release(file);
    return is_met;
}

/* The sign of a - b; false if one is not a number. */
static bool compare_numbers(struct request *request, const struct test *test, int *out)
{
    int64_t a;
    int64_t b;

    if (!parse_int(template_text(test->value, &request->env), &a) ||
        !parse_int(template_text(test->other, &request->env), &b)) {
        return false;
    }
    *out = (a > b) - (a < b);
    return true;
}

/* If the match fails, the captures of an earlier one are discarded as well. */
static bool match(const struct run *run, const struct regex *regex, struct str subject)
{
    struct request *request = run->request;
    bool is_match = regex_match(regex, subject, &request->env, &request->log);

    if (!is_match) {
        request->env.capture_count = 0;
    }
    if (run->settings->rewrite_log) {
        struct str pattern = regex_pattern(regex);
        log_notice(&request->log, 0, "\"%.*s\" %s \"%.*s\"", STR_ARG(pattern),
                   is_match ? "matches" : "does not match", STR_ARG(subject));
    }
    return is_match;
}

static bool is_met(const struct run *run, const struct test *test)
{
    struct request *request = run->request;
    struct str value;
    int sign;

    switch (test->kind) {
    case TEST_TRUE:
        value = template_text(test->value, &request->env);
        return value.len != 0 && !(value.len == 1 && *value.data == '0');
    case TEST_EQUAL:
        value = template_text(test->value, &request->env);
        return str_equal(value, template_text(test->other, &request->env)) != test->is_negated;
    case TEST_REGEX:
        value = template_text(test->value, &request->env);
        return match(run, test->regex, value) != test->is_negated;
    case TEST_LESS:
        return compare_numbers(request, test, &sign) && (sign < 0) != test->is_negated;
    case TEST_GREATER:
        return compare_numbers(request, test, &sign) && (sign > 0) != test->is_negated;
    default:
        return test_path(request, test) != test->is_negated;
    }
}

/* Makes the block the location of the request. If it has no handler, the handler that was found
 * before remains, unless that one passes requests to a backend: its target is a setting of the
 * former location. */
static void enter(struct request *request, const struct http_location *block)
{
    const struct http_location *former = request->answering;

    request_set_location(request, block);
    if (block->content.run != NULL) {
        request->answering = block;
    } else if (former != NULL && former->content.carries) {
        request->answering = NULL;
    }
}

/* If the condition is true, the block becomes the location of the request, and its directives run
 * at once. */
static enum handler_result run_if(struct run *run, const struct instruction *instruction)
{
    if (!is_met(run, &instruction->test)) {
        return HANDLER_NEXT;
    }
    if (instruction->location != NULL) {
        enter(run->request, instruction->location);
    }
    struct run inside = {.request = run->request, .settings = instruction->inside};
    enum handler_result result = run_list(&inside);
    run->is_over = inside.is_over;
    return result;
}

/* ---- rewrite ---- */

/* A new URI in parts: those of the path, then those of the arguments. */
struct target {
    struct str *path;
    struct str *args;
    unsigned path_count;
    unsigned args_count;
    bool has_args; /* a '?' was found */
};

/* Adds text of the replacement; its first '?' begins the arguments. */
static void rewrite_run_add_text(struct target *target, struct str text)
{
    const char *question = target->has_args ? NULL : str_find_char(text, '?');

    if (target->has_args) {
        target->args[target->args_count++] = text;
    } else if (question == NULL) {
        target->path[target->path_count++] = text;
    } else {
        target->has_args = true;
        target->path[target->path_count++] = str_from(text.data, question);
        target->args[target->args_count++] = str_from(question + 1, text.data + text.len);
    }
}

/* Captures are from the decoded URI: if the client had encoded something, they are encoded
 * again. */
static bool was_encoded(const struct request *request)
{
    return request->uri_has_quoted || str_find_char(request->uri, '+') != NULL;
}

static struct str capture_value(const struct request *request, unsigned number)
{
    return number < request->env.capture_count ? request->env.captures[number] : STR_NONE;
}

/* Evaluated before the captures are used, since a map may match another expression and replace
 * them. */
static struct str *evaluate_variables(struct request *request, const struct template *template)
{
    struct str *values = arena_array(&request->arena, template->count + 1, sizeof(struct str));

    for (unsigned i = 0; i < template->count; i++) {
        if (template->parts[i].kind == PART_VARIABLE &&
            !variable_get(&request->env, template->parts[i].variable, &values[i])) {
            values[i] = STR_NONE;
        }
    }
    return values;
}

static void evaluate(struct request *request, const struct instruction *instruction,
                     bool encodes_captures, struct target *target)
{
    const struct template *template = instruction->replacement;
    struct arena *arena = &request->arena;
    const struct str *values = evaluate_variables(request, template);

    /* A text may be split in two, and the current arguments add two parts. */
    target->path = arena_array(arena, 2 * template->count + 4, sizeof(struct str));
    target->args = arena_array(arena, 2 * template->count + 4, sizeof(struct str));
    for (unsigned i = 0; i < template->count; i++) {
        const struct template_part *part = &template->parts[i];
        struct str value = values[i];

        if (part->kind == PART_TEXT) {
            rewrite_run_add_text(target, part->text);
            continue;
        }
        if (part->kind == PART_CAPTURE) {
            value = capture_value(request, part->capture);
            if (encodes_captures && (target->has_args || instruction->status != 0)) {
                value = escape_str(arena, value, ESCAPE_ARGS);
            }
        }
        if (target->has_args) {
            target->args[target->args_count++] = value;
        } else {
            target->path[target->path_count++] = value;
        }
    }
    if (instruction->keeps_args && request->args.len != 0) {
        if (target->has_args) {
            target->args[target->args_count++] = STR("&");
        }
        target->has_args = true;
        target->args[target->args_count++] = request->args;
    }
}

static enum handler_result redirect_client(struct run *run, const struct instruction *instruction,
                                           const struct target *target)
{
    struct request *request = run->request;
    struct arena *arena = &request->arena;
    struct str path =
        rewrite_readable_path(arena, arena_join(arena, target->path, target->path_count));
    const struct str parts[] = {
        path,
        target->has_args ? STR("?") : STR_NONE,
        arena_join(arena, target->args, target->args_count),
    };
    struct str location = arena_join(arena, parts, 3);

    if (run->settings->rewrite_log) {
        log_notice(&request->log, 0, "rewritten redirect: \"%.*s\"", STR_ARG(location));
    }
    return response_redirect(request, instruction->status, location);
}

static enum handler_result change_uri(struct run *run, const struct instruction *instruction,
                                      const struct target *target)
{
    struct request *request = run->request;
    struct arena *arena = &request->arena;
    struct str path = arena_join(arena, target->path, target->path_count);

    /* Without new arguments the result is empty; if there were none before, $args remains unset. */
    struct str args = target->has_args ? arena_join(arena, target->args, target->args_count)
                      : instruction->keeps_args ? request->args
                                                : str_head(request->args, 0);

    if (run->settings->rewrite_log) {
        log_notice(&request->log, 0, "rewritten data: \"%.*s\", args: \"%.*s\"", STR_ARG(path),
                   STR_ARG(args));
    }
    if (path.len == 0) {
        log_error(&request->log, 0, "the rewritten URI has a zero length");
        return request_fail(request, 500);
    }
    request_set_uri(request, path, args);
    request->uri_state = instruction->end == REWRITE_BREAK ? URI_REWRITTEN : URI_MOVED;
    run->is_over = instruction->end != REWRITE_GOES_ON;
    return HANDLER_NEXT;
}

static enum handler_result run_rewrite(struct run *run, const struct instruction *instruction)
{
    struct request *request = run->request;
    struct target target = {0};

    if (!match(run, instruction->regex, request->uri)) {
        return HANDLER_NEXT;
    }
    if (instruction->is_named) {
        return request_redirect_named(request,
                                      template_text(instruction->replacement, &request->env));
    }
    evaluate(request, instruction, was_encoded(request), &target);
    return instruction->status != 0 ? redirect_client(run, instruction, &target)
                                    : change_uri(run, instruction, &target);
}

struct str rewrite_readable_path(struct arena *arena, struct str path)
{
    if (str_find_char(path, '%') == NULL) {
        return path;
    }
    char *start = arena_text(arena, path.len);
    char *at = start;
    bool is_decoding = true;
    for (size_t i = 0; i < path.len; i++) {
        unsigned char c = (unsigned char) path.data[i];
        if (c == '%' && is_decoding && path.len - i > 2) {
            int high = hex_value[(unsigned char) path.data[i + 1]];
            int low = hex_value[(unsigned char) path.data[i + 2]];
            int code = high < 0 || low < 0 ? 0 : high << 4 | low;
            if (code > '%' && code < 127) {
                c = (unsigned char) code;
                i += 2;
            }
        }
        is_decoding = is_decoding && c != '?';
        *at++ = (char) c;
    }
    return str_from(start, at);
}

/* ---- return, set ---- */

static enum handler_result run_return(struct request *request,
                                      const struct instruction *instruction)
{
    const struct template *text = instruction->replacement;

    if (instruction->is_text) {
        request->response.status = instruction->status; /* the text may use $status */
        struct str body = text == NULL ? STR("") : template_text(text, &request->env);
        response_set_type(request);
        struct str type = instruction->status == 204 && request == request->main
                              ? STR_NONE
                              : request->response.content_type;
        return response_memory(request, instruction->status, type, body);
    }
    if (!instruction->is_redirect) {
        return request_fail(request, instruction->status);
    }
    struct str location = text == NULL ? STR("") : template_text(text, &request->env);
    if (location.len == 0) {
        /* An empty reference means the same URI: nginx sends it as well. */
        fields_add_known(&request->response.fields, &request->arena, FIELD_LOCATION, STR(""));
        return request_fail(request, instruction->status);
    }
    return response_redirect(request, instruction->status, location);
}

/* ---- lists ---- */

static enum handler_result run_one(struct run *run, const struct instruction *instruction)
{
    struct request *request = run->request;

    switch (instruction->kind) {
    case DO_RETURN:
        return run_return(request, instruction);
    case DO_REWRITE:
        return run_rewrite(run, instruction);
    case DO_IF:
        return run_if(run, instruction);
    case DO_SET:
        variable_assign(&request->env, instruction->variable,
                        template_text(instruction->replacement, &request->env));
        return HANDLER_NEXT;
    case DO_STEP:
        return instruction->step->run(request, instruction->step);
    case DO_BREAK:
        if (request->uri_state == URI_MOVED) {
            request->uri_state = URI_REWRITTEN;
        }
        run->is_over = true;
        return HANDLER_NEXT;
    }
    return HANDLER_NEXT;
}

static enum handler_result run_list(struct run *run)
{
    struct instruction **items = run->settings->instructions.items;
    size_t count = run->settings->instructions.count;

    const struct fetched_values *fetched = run->request->server->main->hooks->fetched_values;

    for (size_t i = 0; i < count && !run->is_over; i++) {
        if (fetched != NULL && i != 0) {
            fetched->fetch(run->request); /* the key may have been set by the previous directive */
        }
        enum handler_result result = run_one(run, items[i]);
        if (result != HANDLER_NEXT) {
            return result;
        }
    }
    return HANDLER_NEXT;
}

static enum handler_result run_at(struct request *request, const struct http_location *location)
{
    struct run run = {.request = request, .settings = rewrite_settings_at(location)};
    struct instruction **items = run.settings->instructions.items;

    /* Lists are not empty, else is_active would have excluded this hook. */
    if (items[0]->kind == DO_RETURN) {
        return run_return(request, items[0]);
    }
    return run_list(&run);
}

enum handler_result rewrite_run_server(struct request *request)
{
    return run_at(request, request->server->root);
}

/* If no location matches, the server's root location is used, whose directives have run. */
enum handler_result rewrite_run_location(struct request *request)
{
    return request->location == request->server->root ? HANDLER_NEXT
                                                      : run_at(request, request->location);
}
