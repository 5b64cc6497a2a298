/* The folder of an issuer: account, certificates, and a lock for the processes that share it. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fs.h"
#include "http/modules/clients/acme/acme.h"

static const char *path_of(const struct acme_issuer *issuer, struct arena *arena, struct str name,
                           const char *suffix)
{
    const struct str parts[] = {issuer->state_path, STR("/"), name, str_of(suffix)};

    return arena_cstr(arena, arena_join(arena, parts, 4));
}

bool acme_state_open(const struct acme_issuer *issuer, const struct log *log)
{
    if (issuer->state_path.len == 0) {
        return true;
    }
    if (!fs_make_directory(issuer->state_path.data, 0700, (uid_t) -1)) {
        log_emerg(log, errno, "mkdir() \"%s\" failed", issuer->state_path.data);
        return false;
    }
    int fd = fs_open_trusted(issuer->state_path.data, O_DIRECTORY | O_RDONLY | O_CLOEXEC, 0);
    if (fd == -1) {
        log_emerg(log, errno, "open() \"%s\" failed", issuer->state_path.data);
        return false;
    }
    bool is_shared = fs_is_shared(fd);
    close(fd);
    if (is_shared) {
        log_emerg(log, 0,
                  "other users may write in \"%s\", which has the keys of certificates: chmod 700",
                  issuer->state_path.data);
    }
    return !is_shared;
}

/* ---- files ---- */

static int64_t time_of(const struct stat *status)
{
    return (int64_t) status->st_mtim.tv_sec * 1000000000 + status->st_mtim.tv_nsec;
}

int64_t acme_state_time(const struct acme_issuer *issuer, struct str name)
{
    struct arena arena;
    struct stat status;

    if (issuer->state_path.len == 0) {
        return 0;
    }
    arena_init(&arena);
    bool is_there = stat(path_of(issuer, &arena, name, ""), &status) == 0;
    arena_free(&arena);
    return is_there ? time_of(&status) : 0;
}

bool acme_state_read(const struct acme_issuer *issuer, struct str name, struct arena *arena,
                     struct str *out, int64_t *time_ns)
{
    if (issuer->state_path.len == 0) {
        return false;
    }
    const char *path = path_of(issuer, arena, name, "");
    if (time_ns != NULL) {
        *time_ns = acme_state_time(issuer, name);
    }
    if (!fs_read_all(arena, path, ACME_PEM_MAX, out)) {
        if (errno != ENOENT) {
            log_error(log_main, errno, "cannot read \"%s\"", path);
        }
        return false;
    }
    return true;
}

static bool write_whole(const char *path, struct str text)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    bool is_good = fd != -1 && fs_write_all(fd, text) && fsync(fd) == 0;
    int error = errno;

    if (fd != -1 && close(fd) != 0 && is_good) {
        error = errno;
        is_good = false;
    }
    errno = error;
    return is_good;
}

/* So that a rename is on the disk, too. */
static void sync_folder(const struct acme_issuer *issuer)
{
    int fd = open(issuer->state_path.data, O_DIRECTORY | O_RDONLY | O_CLOEXEC);

    if (fd != -1) {
        fsync(fd);
        close(fd);
    }
}

bool acme_state_write(const struct acme_issuer *issuer, struct str name, struct str text,
                      const struct log *log)
{
    struct arena arena;

    if (issuer->state_path.len == 0) {
        return true;
    }
    arena_init(&arena);
    const char *path = path_of(issuer, &arena, name, "");
    const char *beside = path_of(issuer, &arena, name, ".new");
    bool is_good = write_whole(beside, text) && rename(beside, path) == 0;
    if (is_good) {
        sync_folder(issuer);
    } else {
        log_error(log, errno, "cannot write \"%s\"", path);
        unlink(beside);
    }
    arena_free(&arena);
    return is_good;
}

/* ---- the lock: gone with the process that has it ---- */

static int open_lock(const struct acme_issuer *issuer)
{
    struct arena arena;

    arena_init(&arena);
    int fd = open(path_of(issuer, &arena, STR("lock"), ""),
                  O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    arena_free(&arena);
    return fd;
}

bool acme_state_lock(struct acme_issuer *issuer, const struct log *log)
{
    const struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

    if (issuer->state_path.len == 0) {
        return true;
    }
    if (issuer->lock == -1) {
        issuer->lock = open_lock(issuer);
    }
    if (issuer->lock != -1 && fcntl(issuer->lock, F_OFD_SETLK, &whole) == 0) {
        issuer->has_logged_wait = false;
        return true;
    }
    if (!issuer->has_logged_wait) { /* it is tried again each second */
        issuer->has_logged_wait = true;
        if (issuer->lock != -1 && (errno == EAGAIN || errno == EACCES)) {
            log_notice(log, 0,
                       "acme_issuer \"%.*s\": another process has the lock of \"%.*s\" and orders",
                       STR_ARG(issuer->name), STR_ARG(issuer->state_path));
        } else {
            log_error(log, errno, "acme_issuer \"%.*s\": cannot lock \"%.*s/lock\"",
                      STR_ARG(issuer->name), STR_ARG(issuer->state_path));
        }
    }
    return false;
}

void acme_state_unlock(struct acme_issuer *issuer)
{
    if (issuer->lock != -1) {
        close(issuer->lock);
        issuer->lock = -1;
    }
}

/* ---- to the zone ---- */

static bool take(struct acme_certificate *certificate, struct arena *arena, struct str text,
                 const struct log *log)
{
    struct zone *zone = certificate->issuer->main->zone;
    EVP_PKEY *key = acme_key_read(text);
    struct acme_chain chain;
    const char *why = "it has no key";
    struct acme_facts facts = acme_facts_get(zone, certificate->entry);
    struct acme_pair pair;

    if (key == NULL || !acme_chain_read(arena, text, key, certificate, &chain, &why) ||
        !acme_key_write(key, arena, &pair.key)) {
        log_error(log, 0, "\"%.*s/%.*s.pem\" is not used: %s",
                  STR_ARG(certificate->issuer->state_path), STR_ARG(certificate->name), why);
        EVP_PKEY_free(key);
        return false;
    }
    EVP_PKEY_free(key);
    pair.value = chain.pem;
    if (!acme_entry_put(zone, certificate->entry, &pair,
                        certificate->issuer->main->generation->number)) {
        log_error(log, 0, "acme_shared_zone \"%.*s\" is full: give it more memory",
                  STR_ARG(zone->name));
        return false;
    }
    if (facts.is_self_signed || facts.not_after != chain.not_after) {
        facts.failures = 0;
        facts.not_until_s = 0;
    }
    facts.not_before = chain.not_before;
    facts.not_after = chain.not_after;
    facts.is_self_signed = false;
    acme_facts_put(zone, certificate->entry, &facts);
    return true;
}

bool acme_state_load(struct acme_certificate *certificate, const struct log *log)
{
    struct arena arena;
    struct str text;
    bool is_good = false;

    arena_init(&arena);
    struct str name = arena_concat(&arena, certificate->name, STR(".pem"));
    int64_t time_ns = acme_state_time(certificate->issuer, name);
    if (time_ns != 0 && time_ns != certificate->file_time_ns &&
        acme_state_read(certificate->issuer, name, &arena, &text, NULL)) {
        certificate->file_time_ns = time_ns;
        is_good = take(certificate, &arena, text, log);
    }
    arena_free(&arena);
    return is_good;
}

/* The first line of the file, where the second is the directory of this issuer. */
static struct str account_url(const struct acme_issuer *issuer, struct arena *arena)
{
    struct str text;

    if (!acme_state_read(issuer, STR("account.url"), arena, &text, NULL)) {
        return STR("");
    }
    struct str url = str_cut(&text, '\n');
    return text.data != NULL && str_equal(str_cut(&text, '\n'), issuer->uri) ? url : STR("");
}

bool acme_state_load_account(struct acme_issuer *issuer, const struct log *log)
{
    struct arena arena;
    struct acme_pair pair;
    const char *file = issuer->account_key.file.data;
    bool is_good = true;

    arena_init(&arena);
    if (file != NULL) {
        is_good = fs_read_all(&arena, file, ACME_PEM_MAX, &pair.key);
        if (!is_good) {
            log_emerg(log, errno, "cannot read \"%s\"", file);
        }
    } else if (!acme_state_read(issuer, STR("account.key"), &arena, &pair.key, NULL)) {
        arena_free(&arena);
        return true; /* it is made with the account */
    }
    if (is_good) {
        EVP_PKEY *key = acme_key_read(pair.key);

        is_good = key != NULL && acme_key_fits(key);
        EVP_PKEY_free(key);
        if (!is_good) {
            log_emerg(
                log, 0,
                "the account key of acme_issuer \"%.*s\" is none of P-256, P-384, P-521 or RSA "
                "with 2048 bits",
                STR_ARG(issuer->name));
        }
    }
    if (is_good) {
        pair.value = account_url(issuer, &arena);
        is_good = acme_entry_put(issuer->main->zone, issuer->account, &pair,
                                 issuer->main->generation->number);
    }
    arena_free(&arena);
    return is_good;
}
