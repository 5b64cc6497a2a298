/* TLS on the side of clients: rows that parse their arguments themselves. */
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/parse.h"
#include "server/generation.h"
#include "shared/tls/options.h"
#include "shared/tls/server.h"
#include "shared/tls/sessions_sync.h"
#include "shared/tls/tickets.h"

#define SESSION_ZONE_LEAST (8 * 4096)
#define SSL_BUILTIN_SESSIONS 20480 /* of a builtin cache without a size */

/* Their addresses identify the user of a shared zone: a zone cannot have users of different
   kinds. */
static char session_zone_tag;
static char ocsp_zone_tag;

/* ---- pass phrases and secrets ---- */

bool tls_server_password_file_apply(struct conf_scope *scope, const struct directive *row,
                                    struct conf_node *node, void *settings)
{
    struct tls_server_settings *ssl = settings;

    return tls_option_passwords(scope->conf, node, &ssl->passwords);
}

bool tls_server_key_log_apply(struct conf_scope *scope, const struct directive *row,
                              struct conf_node *node, void *settings)
{
    struct tls_server_settings *ssl = settings;

    ssl->key_log = tls_option_key_log(scope->conf, node);
    return true;
}

/* ssl_pass_phrase_dialog: OpenSSL prompts at the terminal ("builtin"), or a program prints the pass
 * phrase ("exec:PROGRAM"). */
bool tls_server_pass_phrase_dialog_apply(struct conf_scope *scope, const struct directive *row,
                                         struct conf_node *node, void *settings)
{
    struct conf *conf = scope->conf;
    struct tls_server_settings *ssl = settings;
    struct str value = node->args[1];
    char line[1024];

    if (str_is(value, "builtin")) {
        return true;
    }
    if (!str_starts(value, STR("exec:"))) {
        return conf_error(conf, node, "invalid parameter \"%.*s\"", STR_ARG(value));
    }
    struct str program = conf_full_name(conf, str_skip(value, 5), true);
    FILE *pipe = popen(arena_cstr(conf->arena, program), "re");
    if (pipe == NULL || fgets(line, sizeof(line), pipe) == NULL) {
        if (pipe != NULL) {
            pclose(pipe);
        }
        return conf_error(conf, node, "\"%.*s\" gave no pass phrase", STR_ARG(program));
    }
    pclose(pipe);
    struct str text = str_of(line);
    while (text.len != 0 && (text.data[text.len - 1] == '\n' || text.data[text.len - 1] == '\r')) {
        text.len--;
    }
    ssl->passwords = vec_copy(&ssl->passwords, conf->arena, sizeof(struct str));
    tls_option_add_password(conf, &ssl->passwords, text);
    explicit_bzero(line, sizeof(line));
    return true;
}

/* ---- lists ---- */

static bool ticket_key_is_good(struct conf *conf, const struct conf_node *node, struct str name)
{
    struct stat st;

    if (stat(arena_cstr(conf->arena, name), &st) == -1) {
        return conf_errno(conf, node, errno, "open() \"%.*s\" failed", STR_ARG(name));
    }
    if (st.st_size != 48 && st.st_size != 80) {
        return conf_error(conf, node, "\"%.*s\" must be 48 or 80 bytes", STR_ARG(name));
    }
    return true;
}

/* auto [time] [sync[=store]] [sync_interval=time] */
static bool read_auto(struct conf *conf, struct conf_node *node, struct tls_server_settings *ssl)
{
    struct store_sync_words words = {.is_wanted = false};
    uint64_t period_s = 0;
    bool is_sync;

    for (unsigned i = 2; i < node->count; i++) {
        if (!store_sync_read(conf, node, node->args[i], false, &words, &is_sync)) {
            return false;
        }
        if (!is_sync && (i != 2 || !parse_sec(node->args[i], &period_s) || period_s < 60)) {
            return conf_error(conf, node, "invalid value \"%.*s\"", STR_ARG(node->args[i]));
        }
    }
    ssl->ticket_period_s = period_s;
    return words.is_wanted ? tls_tickets_sync(conf, node, &words)
                           : store_sync_check(conf, node, &words);
}

bool tls_server_ticket_key_apply(struct conf_scope *scope, const struct directive *row,
                                 struct conf_node *node, void *settings)
{
    struct tls_server_settings *ssl = settings;
    struct conf *conf = scope->conf;

    if (str_is(node->args[1], "auto")) {
        return read_auto(conf, node, ssl) &&
               (ssl->ticket_keys.count == 0 ||
                conf_error(conf, node, "\"auto\" stands beside files"));
    }
    if (node->count > 2) {
        return conf_error(conf, node, "invalid value \"%.*s\"", STR_ARG(node->args[2]));
    }
    struct str name = conf_full_name(conf, node->args[1], true);
    *vec_add(&ssl->ticket_keys, scope->conf->arena, struct str) = name;
    return ticket_key_is_good(scope->conf, node, name);
}

bool tls_server_ech_file_apply(struct conf_scope *scope, const struct directive *row,
                               struct conf_node *node, void *settings)
{
    struct tls_server_settings *ssl = settings;
    struct str name = conf_full_name(scope->conf, node->args[1], true);

    *vec_add(&ssl->ech_files, scope->conf->arena, struct str) = name;
    return true;
}

bool tls_server_conf_command_apply(struct conf_scope *scope, const struct directive *row,
                                   struct conf_node *node, void *settings)
{
    struct tls_server_settings *ssl = settings;

    for (unsigned i = 1; i <= 2; i++) {
        *vec_add(&ssl->commands, scope->conf->arena, struct str) = node->args[i];
    }
    return true;
}

/* ---- caches ---- */

/* The zone of "shared:NAME:SIZE"; NULL after conf_error, with messages for the directive `what`. */
static struct zone *shared_zone(struct conf *conf, struct conf_node *node, struct str text,
                                const char *what, const void *tag)
{
    struct str rest = str_skip(text, 7);
    struct str name = str_cut(&rest, ':');
    uint64_t size;

    if (name.len == 0 || rest.data == NULL || !parse_size(rest, &size)) {
        conf_error(conf, node, "invalid %s \"%.*s\"", what, STR_ARG(text));
        return NULL;
    }
    if (size < SESSION_ZONE_LEAST) {
        conf_error(conf, node, "%s \"%.*s\" is too small", what, STR_ARG(text));
        return NULL;
    }
    return generation_zone(conf->generation, node, name, size, tag);
}

static bool session_cache_word(struct conf *conf, struct conf_node *node, struct str word,
                               struct tls_server_settings *ssl)
{
    uint64_t count;

    ssl->has_session_cache = true;
    if (str_is(word, "off")) {
        ssl->has_session_cache = false;
        return true;
    }
    if (str_is(word, "none")) {
        return true;
    }
    if (str_is(word, "builtin")) {
        ssl->builtin_sessions = SSL_BUILTIN_SESSIONS;
        return true;
    }
    if (str_starts(word, STR("builtin:")) && parse_uint(str_skip(word, 8), &count) &&
        count <= INT32_MAX) {
        ssl->builtin_sessions = count == 0 ? SSL_BUILTIN_SESSIONS : (unsigned) count;
        return true;
    }
    if (str_starts(word, STR("shared:"))) {
        ssl->session_zone = shared_zone(conf, node, word, "session cache", &session_zone_tag);
        return ssl->session_zone != NULL;
    }
    return conf_error(conf, node, "invalid session cache \"%.*s\"", STR_ARG(word));
}

bool tls_server_session_cache_apply(struct conf_scope *scope, const struct directive *row,
                                    struct conf_node *node, void *settings)
{
    struct tls_server_settings *ssl = settings;
    struct store_sync_words sync = {0};
    bool is_sync;

    ssl->session_zone = NULL;
    ssl->session_sharing = NULL;
    ssl->builtin_sessions = 0;
    for (unsigned i = 1; i < node->count; i++) {
        if (!store_sync_read(scope->conf, node, node->args[i], false, &sync, &is_sync) ||
            (!is_sync && !session_cache_word(scope->conf, node, node->args[i], ssl))) {
            return false;
        }
    }
    if (!store_sync_check(scope->conf, node, &sync)) {
        return false;
    }
    if (!sync.is_wanted) {
        return true;
    }
    if (ssl->session_zone == NULL) {
        return conf_error(scope->conf, node, "\"sync\" needs \"shared:name:size\"");
    }
    ssl->session_sharing = tls_sessions_sync(scope->conf, node, ssl->session_zone, &sync);
    return ssl->session_sharing != NULL;
}

bool tls_server_ocsp_cache_apply(struct conf_scope *scope, const struct directive *row,
                                 struct conf_node *node, void *settings)
{
    struct tls_server_settings *ssl = settings;
    struct str word = node->args[1];

    ssl->ocsp_zone = NULL;
    if (str_is(word, "off")) {
        return true;
    }
    if (!str_starts(word, STR("shared:"))) {
        return conf_error(scope->conf, node, "invalid OCSP cache \"%.*s\"", STR_ARG(word));
    }
    ssl->ocsp_zone = shared_zone(scope->conf, node, word, "OCSP cache", &ocsp_zone_tag);
    return ssl->ocsp_zone != NULL;
}

bool tls_server_certificate_cache_apply(struct conf_scope *scope, const struct directive *row,
                                        struct conf_node *node, void *settings)
{
    struct tls_server_settings *ssl = settings;

    return tls_option_certificate_cache(scope->conf, node, &ssl->certificate_cache);
}
