/* ngx_http_auth_pam_module: access by user name and password, verified by PAM. */
#include <security/pam_appl.h>
#include <stdlib.h>
#include <string.h>

#include "http/request/offload.h"
#include "http/request/request.h"
#include "http/routing/hooks.h"
#include "http/variables/variables.h"
#include "server/module.h"

struct pam_settings {
    struct template *realm; /* "off" = no authentication */
    struct str service;     /* PAM service name; NUL-terminated */
    /* Directory of the service's configuration, NUL-terminated; empty = the system's default. */
    struct str directory;
    bool sets_environment; /* HOST and REQUEST are passed to PAM modules */
};

static struct settings_key pam_key;

static struct offload_shares pam_shares;
static const struct offload_pool pam_pool = {.name = STR_INIT("auth_pam"),
                                             .waiting = "passwords wait for PAM",
                                             .threads = 4,
                                             .queue = 128,
                                             .shares = &pam_shares,
                                             .may_stall = true};

TYPED_SETTINGS(auth_pam_settings_at, struct pam_settings, pam_key, struct http_location)

/* ---- on a thread ---- */

#define REASON_SIZE 256

/* One authentication; on the stack of the fiber that waits for it. Strings are NUL-terminated. */
struct pam_question {
    const struct pam_settings *settings;
    const char *user;
    const char *password;
    const char *client;
    const char *environment[2]; /* "NAME=value", or NULL */
    enum { PAM_SAID_YES, PAM_SAID_NO, PAM_NO_ACCOUNT, PAM_BROKEN } answer;
    char reason[REASON_SIZE]; /* why it was rejected */
};

static void free_answers(struct pam_response *answers, int count)
{
    for (int i = 0; i < count; i++) {
        free(answers[i].resp);
    }
    free(answers);
}

/* The conversation with PAM modules: a prompt without echo gets the password, one with echo the
 * user name. */
static int converse(int count, const struct pam_message **messages, struct pam_response **out,
                    void *arg)
{
    const struct pam_question *question = arg;
    struct pam_response *answers;

    if (count <= 0 || count > PAM_MAX_NUM_MSG ||
        (answers = calloc((size_t) count, sizeof(*answers))) == NULL) {
        return PAM_CONV_ERR;
    }
    for (int i = 0; i < count; i++) {
        int style = messages[i]->msg_style;
        const char *text = style == PAM_PROMPT_ECHO_OFF  ? question->password
                           : style == PAM_PROMPT_ECHO_ON ? question->user
                                                         : NULL;
        if (text != NULL && (answers[i].resp = strdup(text)) == NULL) {
            free_answers(answers, count);
            return PAM_CONV_ERR;
        }
    }
    *out = answers;
    return PAM_SUCCESS;
}

static void auth_pam_tell(struct pam_question *question, pam_handle_t *pam, int error)
{
    const char *text = pam == NULL ? "pam_start() failed" : pam_strerror(pam, error);

    strncpy(question->reason, text, REASON_SIZE - 1);
}

static int auth_pam_prepare(struct pam_question *question, pam_handle_t *pam)
{
    int error = pam_set_item(pam, PAM_RHOST, question->client);

    for (unsigned i = 0; i < 2 && error == PAM_SUCCESS; i++) {
        if (question->environment[i] != NULL) {
            error = pam_putenv(pam, question->environment[i]);
        }
    }
    return error;
}

static void ask_on_thread(void *arg)
{
    struct pam_question *question = arg;
    const struct pam_settings *settings = question->settings;
    const struct pam_conv conversation = {.conv = converse, .appdata_ptr = question};
    const char *directory = settings->directory.len == 0 ? NULL : settings->directory.data;
    pam_handle_t *pam = NULL;

    question->answer = PAM_BROKEN;
    int error =
        pam_start_confdir(settings->service.data, question->user, &conversation, directory, &pam);
    if (error == PAM_SUCCESS) {
        error = auth_pam_prepare(question, pam);
    }
    if (error == PAM_SUCCESS) {
        error = pam_authenticate(pam, PAM_SILENT | PAM_DISALLOW_NULL_AUTHTOK);
        question->answer = error == PAM_SUCCESS ? PAM_NO_ACCOUNT : PAM_SAID_NO;
    }
    if (error == PAM_SUCCESS) {
        error = pam_acct_mgmt(pam, PAM_SILENT | PAM_DISALLOW_NULL_AUTHTOK);
    }
    if (error == PAM_SUCCESS) {
        question->answer = PAM_SAID_YES;
    } else {
        auth_pam_tell(question, pam, error);
    }
    if (pam != NULL) {
        pam_end(pam, error);
    }
}

/* ---- the phase ---- */

static char *environment_of(struct request *request, const char *name, struct str value)
{
    const struct str parts[] = {str_of(name), STR("="), value};

    return arena_cstr(&request->arena, arena_join(&request->arena, parts, 3));
}

/* MAY WAIT. */
static enum handler_result auth_pam_ask(struct request *request, const struct credentials *given)
{
    const struct field *host = fields_get(&request->headers, FIELD_HOST);
    struct arena *arena = &request->arena;
    struct pam_question *question = arena_new(arena, struct pam_question);

    question->settings = auth_pam_settings_at(request->location);
    question->user = arena_cstr(arena, given->user);
    question->password = arena_cstr(arena, given->password);
    question->client = arena_cstr(arena, request_client_text(request));

    if (question->settings->sets_environment) {
        question->environment[0] =
            environment_of(request, "HOST", host == NULL ? STR_NONE : host->value);
        question->environment[1] = environment_of(request, "REQUEST", request->head.line);
    }
    enum handler_result result =
        offload_result(request,
                       offload_run_for(&pam_pool, request, question->settings->service.data,
                                       ask_on_thread, question));
    if (result != HANDLER_NEXT) {
        return result;
    }
    switch (question->answer) {
    case PAM_SAID_YES:
        return HANDLER_ALLOW;
    case PAM_BROKEN:
        log_error(&request->log, 0, "PAM: Could not start pam service: %s", question->reason);
        return request_fail(request, 500);
    case PAM_SAID_NO:
        log_error(&request->log, 0, "PAM: user '%.*s' - not authenticated: %s",
                  STR_ARG(given->user), question->reason);
        break;
    case PAM_NO_ACCOUNT:
        log_error(&request->log, 0, "PAM: user '%.*s' - invalid account: %s", STR_ARG(given->user),
                  question->reason);
        break;
    }
    return HANDLER_NEXT;
}

/* MAY WAIT. */
static enum handler_result auth_pam_check(struct request *request)
{
    return request_check_credentials(request, auth_pam_settings_at(request->location)->realm,
                                     auth_pam_ask);
}

static bool auth_pam_is_active(const struct http_location *location)
{
    return realm_may_be_on(auth_pam_settings_at(location)->realm);
}

/* ---- directives ---- */

#define IN_ALL IN_HTTP_ALL | IN_LIMIT_EXCEPT
#define S struct pam_settings

static bool service_apply(struct conf_scope *scope, const struct directive *row,
                          struct conf_node *node, void *settings)
{
    S *pam = settings;

    if (node->args[1].len == 0 || str_find_char(node->args[1], '/') != NULL) {
        return conf_error(scope->conf, node, "\"%s\" directive invalid value", row->name);
    }
    pam->service = (struct str){arena_cstr(scope->conf->arena, node->args[1]), node->args[1].len};
    return true;
}

static const struct directive pam_rows[] = {
    {"auth_pam", IN_ALL, TEMPLATE(S, realm), .initial = "off", .syntax = "string | off",
     .doc = "Enables authentication of clients with a name and a password that are verified "
            "by PAM. Other clients receive 401 with this realm. PAM runs in threads; "
            "`thread_pool auth_pam` sets the number of threads (4) and of requests that may "
            "wait (128); further requests receive 503. One client may use half of the "
            "threads at a time."},
    {"auth_pam_service_name", IN_ALL, CUSTOM_FIELD(S, service, service_apply), ARGS(1, 1),
     .initial = "nginx", .syntax = "name", .doc = "Name of the PAM service: a file in /etc/pam.d."},
    {"auth_pam_set_pam_env", IN_ALL, FLAG(S, sets_environment), .initial = "off",
     .doc = "Whether the variables HOST (the Host field) and REQUEST (the request line) are "
            "set for PAM modules."},
    {"auth_pam_config_directory", IN_ALL, CONF_PATH(S, directory), .syntax = "path",
     .doc = "Directory of the PAM configuration, in place of /etc/pam.d."},
    {0},
};
#undef S

static const struct phase_hook pam_phases[] = {
    {.phase = PHASE_ACCESS,
     .name = "auth_pam",
     .after = "auth_basic",
     .run = auth_pam_check,
     .is_active = auth_pam_is_active},
    {.run = NULL},
};
static const struct http_module pam_hooks = {.phases = pam_phases};

const struct module ngx_http_auth_pam_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_auth_pam_module",
    .kind = MODULE_HTTP,
    .table = {.key = &pam_key,
              .rows = pam_rows,
              .contexts = IN_HTTP_LOCATION_SETTINGS,
              .size = sizeof(struct pam_settings)},
    .hooks = &pam_hooks,
};
