/* TLS towards backends, when the configuration is read: rows that read their arguments themselves, and
 * contexts, one for all places that say the same. */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/map.h"
#include "base/parse.h"
#include "http/exchange/settings.h"
#include "http/settings.h"

#define PASSWORD_FILE_MAX (64 * 1024) /* bytes */

const struct directive_word exchange_tls_words[] = {
    {"SSLv2", TLS_SSLV2}, {"SSLv3", TLS_SSLV3}, {"TLSv1", TLS_1_0}, {"TLSv1.1", TLS_1_1},
    {"TLSv1.2", TLS_1_2}, {"TLSv1.3", TLS_1_3}, {NULL, 0},
};

/* ---- rows ---- */

/* At most `size` bytes of a file; -1 after conf_error. */
static ssize_t read_file(struct conf *conf, const struct conf_node *node, struct str name,
                         char *bytes, size_t size)
{
    int fd = open(name.data, O_RDONLY | O_CLOEXEC);
    size_t length = 0;
    ssize_t n;

    if (fd == -1) {
        conf_errno(conf, node, errno, "open() \"%.*s\" failed", STR_ARG(name));
        return -1;
    }
    while (length < size && (n = read(fd, bytes + length, size - length)) != 0) {
        if (n == -1 && errno != EINTR) {
            conf_errno(conf, node, errno, "read() \"%.*s\" failed", STR_ARG(name));
            close(fd);
            return -1;
        }
        length += n == -1 ? 0 : (size_t) n;
    }
    close(fd);
    return (ssize_t) length;
}

/* Passwords do not stay in memory that somebody else gets. */
static void clear_text(void *arg)
{
    struct str *text = arg;

    explicit_bzero((char *) (uintptr_t) text->data, text->len);
}

static void add_password(struct conf *conf, struct vec *passwords, struct str line)
{
    struct str *kept = arena_new(conf->arena, struct str);

    *kept = arena_dup(conf->arena, line);
    arena_on_free(conf->arena, clear_text, kept);
    *(struct str *) vec_push(passwords, conf->arena, sizeof(*kept)) = *kept;
}

bool exchange_password_file_apply(struct conf_scope *scope, const struct directive *row,
                                  struct conf_node *node, void *settings)
{
    static char bytes[PASSWORD_FILE_MAX];
    struct exchange_settings *own = settings;
    struct str name = conf_full_name(scope->conf, node->args[1], true);
    ssize_t length = read_file(scope->conf, node, name, bytes, sizeof(bytes));

    (void) row;
    own->tls.passwords = (struct vec){0};
    if (length == -1) {
        return false;
    }
    struct str rest = {bytes, (size_t) length};
    while (rest.data != NULL && rest.len != 0) {
        struct str line = str_cut(&rest, '\n');

        if (str_ends(line, STR("\r"))) {
            line.len--;
        }
        if (line.len != 0) {
            add_password(scope->conf, &own->tls.passwords, line);
        }
    }
    explicit_bzero(bytes, (size_t) length);
    return (size_t) length < sizeof(bytes) ||
           conf_error(scope->conf, node, "\"%.*s\" is too big", STR_ARG(name));
}

bool exchange_conf_command_apply(struct conf_scope *scope, const struct directive *row,
                                 struct conf_node *node, void *settings)
{
    struct exchange_settings *own = settings;

    (void) row;
    for (unsigned i = 1; i <= 2; i++) {
        *(struct str *) vec_push(&own->tls.commands, scope->conf->arena, sizeof(struct str)) =
            node->args[i];
    }
    return true;
}

bool exchange_certificate_cache_apply(struct conf_scope *scope, const struct directive *row,
                                      struct conf_node *node, void *settings)
{
    struct exchange_settings *own = settings;
    uint64_t max = 0, inactive_s = 10, valid_s = 60;

    own->tls.certificate_cache = NULL;
    for (unsigned i = 1; i < node->count; i++) {
        struct str word = node->args[i];
        bool is_good = false;

        if (node->count == 2 && str_is(word, "off")) {
            return true;
        }
        if (str_starts(word, STR("max="))) {
            is_good = parse_uint(str_skip(word, 4), &max) && max != 0 && max <= INT32_MAX;
        } else if (str_starts(word, STR("inactive="))) {
            is_good = parse_sec(str_skip(word, 9), &inactive_s);
        } else if (str_starts(word, STR("valid="))) {
            is_good = parse_sec(str_skip(word, 6), &valid_s);
        }
        if (!is_good) {
            return conf_error(scope->conf, node, "invalid parameter \"%.*s\"", STR_ARG(word));
        }
    }
    if (max == 0) {
        return conf_error(scope->conf, node, "\"%s\" must have the \"max\" parameter", row->name);
    }
    own->tls.certificate_cache =
        tls_certificate_cache_new(scope->conf->arena, (unsigned) max, inactive_s, valid_s);
    return true;
}

void exchange_needs_tls(const struct conf_scope *scope, const struct directive_table *family,
                        bool is_needed)
{
    struct exchange_settings *own = conf_settings(scope, family);
    struct http_location *location = scope_location(scope);

    own->tls.is_needed = is_needed;
    if (is_needed) {
        location->pass_tls = &own->tls;
    } else if (location->pass_tls == &own->tls) {
        location->pass_tls = NULL;
    }
}

/* ---- contexts ---- */

/* Contexts of this reading, by all that they are made of. */
struct context_list {
    struct map by_settings; /* struct tls_context * */
};

/* A certificate or key: what is no file stays as it is. */
static struct str full_name(struct conf *conf, struct str name)
{
    if (str_starts(name, STR("data:")) || str_starts(name, STR("engine:")) ||
        str_starts(name, STR("store:"))) {
        return name;
    }
    return conf_full_name(conf, name, true);
}

/* What is constant of our certificate goes into the context. */
static void use_certificate(struct conf *conf, struct exchange_tls *own, struct tls_settings *made)
{
    if (own->certificate == NULL) {
        return;
    }
    own->is_certificate_late = !own->certificate->is_constant || !own->certificate_key->is_constant;
    if (!own->is_certificate_late) {
        struct tls_certificate *pair =
            vec_push(&made->certificates, conf->arena, sizeof(struct tls_certificate));
        pair->certificate = full_name(conf, own->certificate->constant);
        pair->key = full_name(conf, own->certificate_key->constant);
    }
}

static struct tls_settings settings_of(struct conf *conf, struct exchange_tls *own)
{
    struct tls_settings made = {
        .is_client = true,
        .directory = conf->conf_prefix,
        .passwords = own->passwords,
        .protocols = own->protocols,
        .ciphers = own->ciphers,
        .commands = own->commands,
        .verify_depth = (unsigned) own->verify_depth,
    };

    use_certificate(conf, own, &made);
    if (own->verify) {
        made.verify = TLS_VERIFY_ON;
        made.trusted_certificate = own->trusted_certificate;
        made.crl = own->crl;
    }
    return made;
}

/* One text of all that makes a context. */
static struct str text_of(struct arena *arena, const struct tls_settings *made)
{
    struct str text =
        arena_printf(arena, "%u %u %u", made->protocols, made->verify, made->verify_depth);
    struct vec words = {0};

    *(struct str *) vec_push(&words, arena, sizeof(struct str)) = made->ciphers;
    *(struct str *) vec_push(&words, arena, sizeof(struct str)) = made->trusted_certificate;
    *(struct str *) vec_push(&words, arena, sizeof(struct str)) = made->crl;
    vec_each(const struct tls_certificate, pair, &made->certificates) {
        *(struct str *) vec_push(&words, arena, sizeof(struct str)) = pair->certificate;
        *(struct str *) vec_push(&words, arena, sizeof(struct str)) = pair->key;
    }
    text = arena_printf(arena, "%.*s %zu", STR_ARG(text), made->commands.count);
    vec_each(const struct str, word, &made->commands) {
        *(struct str *) vec_push(&words, arena, sizeof(struct str)) = *word;
    }
    vec_each(const struct str, word, &made->passwords) {
        *(struct str *) vec_push(&words, arena, sizeof(struct str)) = *word;
    }
    vec_each(const struct str, word, &words) {
        text = arena_printf(arena, "%.*s %zu:%.*s", STR_ARG(text), word->len, STR_ARG(*word));
    }
    return text;
}

static bool check(struct conf_scope *scope, const struct exchange_settings *own)
{
    const struct exchange_tls *tls = &own->tls;

    if (tls->certificate != NULL && tls->certificate_key == NULL) {
        return conf_error(scope->conf, scope->node,
                          "no \"%s_ssl_certificate_key\" is defined for certificate \"%.*s\"",
                          own->prefix, STR_ARG(tls->certificate->source));
    }
    if (tls->verify && tls->trusted_certificate.len == 0) {
        return conf_error(scope->conf, scope->node,
                          "no %s_ssl_trusted_certificate for %s_ssl_verify", own->prefix,
                          own->prefix);
    }
    return true;
}

bool exchange_tls_finish(struct conf_scope *scope, struct exchange_settings *own)
{
    struct conf *conf = scope->conf;
    struct context_list *list = conf_state(conf, "exchange tls", sizeof(*list));
    struct arena scratch;
    struct str error;

    own->tls.context = NULL;
    if (!own->tls.is_needed || !check(scope, own)) {
        return !own->tls.is_needed;
    }
    struct tls_settings made = settings_of(conf, &own->tls);
    arena_init(&scratch);
    struct str text = text_of(&scratch, &made);
    own->tls.context = map_get(&list->by_settings, text);
    if (own->tls.context == NULL) {
        own->tls.context = tls_context_new(&made, conf->arena, log_main, &error);
        if (own->tls.context == NULL) {
            arena_free(&scratch);
            return conf_error(conf, scope->node, "%.*s", STR_ARG(error));
        }
        map_put(&list->by_settings, conf->arena, arena_dup(conf->arena, text), own->tls.context);
    }
    arena_free(&scratch);
    return true;
}
