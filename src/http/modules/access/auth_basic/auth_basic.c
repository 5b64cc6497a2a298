/* ngx_http_auth_basic_module: access by user name and password (RFC 7617). */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "http/modules/access/auth_basic/password.h"
#include "http/modules/access/auth_basic/user_file.h"
#include "http/request/offload.h"
#include "http/request/request.h"
#include "http/routing/hooks.h"
#include "http/variables/variables.h"
#include "server/module.h"

/* Slow password hashes are computed on separate threads, so that they delay neither the loop nor
 * file operations. */
static struct offload_shares password_shares;
static const struct offload_pool password_pool = {.name = STR_INIT("auth_basic"),
                                                  .waiting = "passwords wait to be verified",
                                                  .threads = 2,
                                                  .queue = 128,
                                                  .shares = &password_shares};

struct auth_basic_settings {
    struct template *realm;     /* "off" = no authentication */
    struct template *user_file; /* full path; NULL = not set, no authentication */
};

static struct settings_key auth_basic_key;

TYPED_SETTINGS(auth_basic_settings_at, struct auth_basic_settings, auth_basic_key,
               struct http_location)

/* ---- verification ---- */

/* One verification; in the request's arena. */
struct password_check {
    struct str stored; /* both are NUL-terminated */
    struct str given;
    bool is_match;
};

static void verify_on_thread(void *arg)
{
    struct password_check *check = arg;

    check->is_match = password_matches_hash(check->stored, check->given);
}

/* MAY WAIT. HANDLER_ALLOW: the password matches; HANDLER_NEXT: it does not; HANDLER_FAIL: too many
 * verifications are pending. */
static enum handler_result verify_offloaded(struct request *request, struct str stored,
                                            struct str given)
{
    struct password_check *check = arena_new(&request->arena, struct password_check);

    check->stored = stored;
    check->given = (struct str){arena_cstr(&request->arena, given), given.len};
    enum handler_result result =
        offload_result(request, offload_run(&password_pool, request, verify_on_thread, check));

    return result == HANDLER_NEXT && check->is_match ? HANDLER_ALLOW : result;
}

/* ---- the user file ---- */

#define PIECE_SIZE (16 * 1024)

/* HANDLER_NEXT: search->is_found tells whether the user exists. HANDLER_FAIL: the file cannot be
 * read. */
static enum handler_result search_file(struct request *request, struct str path,
                                       struct user_search *search)
{
    static char piece[PIECE_SIZE]; /* shared by all requests: nothing waits while they are in use */
    static char line[USER_LINE_MAX];
    off_t offset = 0;
    ssize_t n;

    search->buffer = line;
    int fd = open(path.data, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd == -1) {
        bool is_missing = errno == ENOENT;
        log_at(&request->log, is_missing ? LOG_ERROR : LOG_CRIT, errno, "open() \"%.*s\" failed",
               STR_ARG(path));
        return request_fail(request, is_missing ? 403 : 500);
    }
    do {
        n = pread(fd, piece, sizeof(piece), offset);
        offset += n > 0 ? n : 0;
    } while ((n == -1 && errno == EINTR) ||
             (n >= 0 && !user_search_next(search, (struct str){piece, (size_t) n}) && n != 0));
    if (n == -1) {
        log_crit(&request->log, errno, "pread() \"%.*s\" failed", STR_ARG(path));
    }
    close(fd);
    if (search->is_found) {
        search->password =
            (struct str){arena_cstr(&request->arena, search->password), search->password.len};
    }
    return n == -1 ? request_fail(request, 500) : HANDLER_NEXT;
}

/* ---- the phase ---- */

/* MAY WAIT. */
static enum handler_result check_password(struct request *request, const struct credentials *given)
{
    struct str path =
        template_text(auth_basic_settings_at(request->location)->user_file, &request->env);
    struct user_search search = {.user = given->user};
    enum handler_result result = search_file(request, path, &search);

    if (result != HANDLER_NEXT) {
        return result;
    }
    if (!search.is_found) {
        log_error(&request->log, 0, "user \"%.*s\" was not found in \"%.*s\"", STR_ARG(given->user),
                  STR_ARG(path));
        return HANDLER_NEXT;
    }
    if (password_is_costly(search.password)) {
        result = verify_offloaded(request, search.password, given->password);
    } else if (password_matches(&request->arena, search.password, given->password)) {
        result = HANDLER_ALLOW;
    }
    if (result == HANDLER_NEXT) {
        log_error(&request->log, 0, "user \"%.*s\": password mismatch", STR_ARG(given->user));
    }
    return result;
}

/* MAY WAIT. */
static enum handler_result auth_basic_check(struct request *request)
{
    return request_check_credentials(request, auth_basic_settings_at(request->location)->realm,
                                     check_password);
}

static bool auth_basic_is_active(const struct http_location *location)
{
    const struct auth_basic_settings *settings = auth_basic_settings_at(location);

    return settings->user_file != NULL && realm_may_be_on(settings->realm);
}

/* ---- directives ---- */

static bool user_file_apply(struct conf_scope *scope, const struct directive *row,
                            struct conf_node *node, void *settings)
{
    template_make_path(((struct auth_basic_settings *) settings)->user_file, scope->conf->arena,
                       scope->conf->conf_prefix);
    return true;
}

#define S struct auth_basic_settings
static const struct directive auth_basic_rows[] = {
    {"auth_basic", IN_HTTP_ALL | IN_LIMIT_EXCEPT, TEMPLATE(S, realm), .initial = "off",
     .syntax = "string | off",
     .doc = "Enables authentication of clients with a name and a password from "
            "`auth_basic_user_file`. Other clients receive 401 with this realm, or 407 for "
            "a tunnel. `off` disables authentication."},
    {"auth_basic_user_file", IN_HTTP_ALL | IN_LIMIT_EXCEPT, TEMPLATE(S, user_file),
     .apply = user_file_apply, .syntax = "file",
     .doc = "File with names and passwords, one \"name:password\" per line; a relative path "
            "starts at the directory of the configuration. Passwords are hashed with the "
            "system's crypt() (bcrypt, yescrypt, SHA-512 ...), $apr1$ of htpasswd, {SSHA} "
            "or {SHA}, or are {PLAIN}. The file is read for each request. Hashes are "
            "computed in threads; `thread_pool auth_basic` sets the number of threads (2) "
            "and of requests that may wait (128); further requests receive 503."},
    {0},
};
#undef S

static const struct phase_hook auth_basic_phases[] = {
    {.phase = PHASE_ACCESS,
     .name = "auth_basic",
     .run = auth_basic_check,
     .is_active = auth_basic_is_active},
    {.run = NULL},
};
static const struct http_module auth_basic_hooks = {.phases = auth_basic_phases};

const struct module ngx_http_auth_basic_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_auth_basic_module",
    .kind = MODULE_HTTP,
    .table = {.key = &auth_basic_key,
              .rows = auth_basic_rows,
              .contexts = IN_HTTP_LOCATION_SETTINGS,
              .size = sizeof(struct auth_basic_settings)},
    .hooks = &auth_basic_hooks,
};
