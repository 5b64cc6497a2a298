/* Values of TLS directives that are shared by clients' and backends' side. */
#include "shared/tls/options.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/parse.h"
#include "server/generation.h"

#define PASSWORD_FILE_MAX (64 * 1024) /* bytes */

/* clang-format off */
const struct directive_word tls_protocol_words[] = {
    {"SSLv2", TLS_SSLV2},
    {"SSLv3", TLS_SSLV3},
    {"TLSv1", TLS_1_0},
    {"TLSv1.1", TLS_1_1},
    {"TLSv1.2", TLS_1_2},
    {"TLSv1.3", TLS_1_3},
    {NULL, 0},
};
/* clang-format on */

/* ---- pass phrases ---- */

/* Reads at most `size` bytes of a file; -1 after conf_error. */
static ssize_t options_read_file(struct conf *conf, const struct conf_node *node, struct str name,
                                 char *bytes, size_t size)
{
    int fd = open(arena_cstr(conf->arena, name), O_RDONLY | O_CLOEXEC);
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

/* Wipes pass phrases before their memory is reused. */
static void clear_text(void *arg)
{
    struct str *text = arg;

    explicit_bzero((char *) (uintptr_t) text->data, text->len);
}

void tls_option_add_password(struct conf *conf, struct vec *passwords, struct str text)
{
    struct str *kept = arena_new(conf->arena, struct str);

    *kept = arena_dup(conf->arena, text);
    arena_on_free(conf->arena, clear_text, kept);
    *vec_add(passwords, conf->arena, struct str) = *kept;
}

bool tls_option_passwords(struct conf *conf, struct conf_node *node, struct vec *passwords)
{
    static char bytes[PASSWORD_FILE_MAX];
    struct str name = conf_full_name(conf, node->args[1], true);
    ssize_t length = options_read_file(conf, node, name, bytes, sizeof(bytes));

    *passwords = (struct vec){0};
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
            tls_option_add_password(conf, passwords, line);
        }
    }
    explicit_bzero(bytes, (size_t) length);
    if (passwords->count == 0) {
        tls_option_add_password(conf, passwords, STR("")); /* an empty one, so that OpenSSL does not
                                                              prompt at the terminal */
    }
    return (size_t) length < sizeof(bytes) ||
           conf_error(conf, node, "\"%.*s\" is too big", STR_ARG(name));
}

/* ---- the others ---- */

bool tls_option_certificate_cache(struct conf *conf, struct conf_node *node,
                                  struct tls_certificate_cache **cache)
{
    uint64_t max = 0, inactive_s = 10, valid_s = 60;

    *cache = NULL;
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
            return conf_error(conf, node, "invalid parameter \"%.*s\"", STR_ARG(word));
        }
    }
    if (max == 0) {
        return conf_error(conf, node, "\"%.*s\" must have the \"max\" parameter",
                          STR_ARG(node->args[0]));
    }
    *cache = tls_certificate_cache_new(conf->arena, (unsigned) max, inactive_s, valid_s);
    return true;
}

struct log_file *tls_option_key_log(struct conf *conf, struct conf_node *node)
{
    struct log_file *file = generation_log_file(conf->generation, node->args[1]);

    file->is_secret = true;
    return file;
}

struct str tls_option_full_name(struct arena *arena, struct str directory, struct str name)
{
    if (name.len == 0 || str_starts(name, STR("data:")) || str_starts(name, STR("engine:")) ||
        str_starts(name, STR("store:"))) {
        return name;
    }
    return fs_full_name(arena, directory, name);
}

#define HOST_KEY_MIN 32 /* bytes of the file */
#define HOST_KEY_MAX 4096

bool tls_option_quic_host_key(struct conf *conf, const struct conf_node *node, struct str path,
                              struct str *key)
{
    const char *name = arena_cstr(conf->arena, path);

    if (!fs_read_all(conf->arena, name, HOST_KEY_MAX, key)) {
        return conf_error(conf, node, "cannot read \"%s\" (%d: %s)", name, errno, strerror(errno));
    }
    if (key->len < HOST_KEY_MIN) {
        return conf_error(conf, node, "\"%s\" must be at least %d bytes", name, HOST_KEY_MIN);
    }
    return true;
}

void tls_option_pair(const struct template *certificate_text, const struct template *key_text,
                     struct variable_env *env, struct str *certificate, struct str *key)
{
    enum { ATTEMPTS_MOST = 4 };
    struct str now = template_text(certificate_text, env);
    unsigned attempts = 0;

    do {
        *certificate = now;
        *key = template_text(key_text, env);
        if (str_starts(*certificate, STR("data:"))) {
            now = template_text(certificate_text, env);
        }
    } while (++attempts < ATTEMPTS_MOST && !str_equal(now, *certificate));
}
