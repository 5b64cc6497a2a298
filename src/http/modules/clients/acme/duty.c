/* Operations that need the master's rights: on files of the directory, its lock, the program that
 * adds TXT records. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fs.h"
#include "http/modules/clients/acme/acme.h"

#define DIGEST_SIZE 43 /* SHA-256 in base64url */

/* ---- checks ---- */

static bool is_file(const struct acme_issuer *issuer, struct str name)
{
    if (str_is(name, "account.key") || str_is(name, "account.key.unusable") ||
        str_is(name, "account.url") || str_is(name, "challenge")) {
        return true;
    }
    vec_each(struct acme_certificate *, certificate, &issuer->certificates) {
        struct str own = (*certificate)->name;

        if (name.len == own.len + 4 && str_starts(name, own) && str_ends(name, STR(".pem"))) {
            return true;
        }
    }
    return false;
}

/* Is it "_acme-challenge.NAME" with a name of a certificate? */
static bool is_record(const struct acme_issuer *issuer, struct str record)
{
    static const struct str prefix = STR_INIT("_acme-challenge.");

    if (!str_starts(record, prefix)) {
        return false;
    }
    vec_each(struct acme_certificate *, certificate, &issuer->certificates) {
        vec_each(const struct acme_identifier, one, &(*certificate)->identifiers) {
            struct str name = one->value;

            if (str_starts(name, STR("*."))) {
                name = str_skip(name, 2);
            }
            if (!one->is_ip && str_equal(str_skip(record, prefix.len), name)) {
                return true;
            }
        }
    }
    return false;
}

bool acme_duty_is_allowed(const struct acme_issuer *issuer, const struct acme_duty *duty)
{
    const struct str *texts = duty->texts;
    bool has_folder = issuer->state_path.len != 0;

    switch (duty->kind) {
    case ACME_FILE_READ:
    case ACME_FILE_TIME:
        return (has_folder && is_file(issuer, texts[0])) ||
               (texts[0].len != 0 && str_equal(texts[0], issuer->account_key.file));
    case ACME_FILE_WRITE:
        return has_folder && is_file(issuer, texts[0]) && texts[1].len <= ACME_PEM_MAX;
    case ACME_LOCK:
    case ACME_UNLOCK:
        return has_folder;
    case ACME_STOP:
        return true;
    case ACME_RUN_HOOK:
        return str_starts(issuer->dns_hook, STR("/")) &&
               (str_is(texts[0], "add") || str_is(texts[0], "remove")) &&
               is_record(issuer, texts[1]) && texts[2].len == DIGEST_SIZE &&
               acme_is_base64url(texts[2]);
    }
    return false;
}

/* ---- files ---- */

/* The name of the account's key may be a full path. */
static const char *path_of(const struct acme_issuer *issuer, struct arena *arena, struct str name,
                           const char *suffix)
{
    const struct str parts[] = {issuer->state_path, STR("/"), name, str_of(suffix)};

    return arena_cstr(arena, str_starts(name, STR("/")) ? name : arena_join(arena, parts, 4));
}

static int64_t time_of(const char *path)
{
    struct stat status;

    return stat(path, &status) != 0
               ? 0
               : (int64_t) status.st_mtim.tv_sec * 1000000000 + status.st_mtim.tv_nsec;
}

static bool write_whole(const char *path, struct str text)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
    bool is_good = fd != -1 && fs_write_all(fd, text) && fsync(fd) == 0;
    int error = errno;

    if (fd != -1 && close(fd) != 0 && is_good) {
        error = errno;
        is_good = false;
    }
    errno = error;
    return is_good;
}

/* Makes a rename durable. */
static void sync_folder(const struct acme_issuer *issuer)
{
    int fd = open(issuer->state_path.data, O_DIRECTORY | O_RDONLY | O_CLOEXEC);

    if (fd != -1) {
        fsync(fd);
        close(fd);
    }
}

/* Replaces the file atomically: writes a temporary file next to it, and renames it. */
static int replace_file(const struct acme_issuer *issuer, struct arena *arena, struct str name,
                        struct str text)
{
    const char *path = path_of(issuer, arena, name, "");
    const char *beside = path_of(issuer, arena, name, ".new");

    if (!write_whole(beside, text) || rename(beside, path) != 0) {
        int error = errno;
        unlink(beside);
        return error;
    }
    sync_folder(issuer);
    return 0;
}

/* Reading any other kind of file could block; the caller is the master, at a reload, or the process
 * that orders. */
static bool is_regular(const char *path)
{
    struct stat status;

    return stat(path, &status) == 0 && S_ISREG(status.st_mode);
}

static int read_file(const struct acme_issuer *issuer, struct acme_duty *duty, struct arena *arena)
{
    const char *path = path_of(issuer, arena, duty->texts[0], "");

    duty->time_ns = time_of(path);
    if (duty->time_ns != 0 && !is_regular(path)) {
        return EINVAL;
    }
    return fs_read_all(arena, path, ACME_PEM_MAX, &duty->text) ? 0 : errno;
}

/* ---- the lock: released by the kernel when its process ends ---- */

/* EAGAIN: another process has it. */
static int take_lock(struct acme_issuer *issuer, struct arena *arena)
{
    const struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

    if (issuer->lock == -1) {
        issuer->lock = open(path_of(issuer, arena, STR("lock"), ""),
                            O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    }
    if (issuer->lock == -1) {
        return errno;
    }
    return fcntl(issuer->lock, F_OFD_SETLK, &whole) == 0 ? 0 : errno == EACCES ? EAGAIN : errno;
}

static void release_lock(struct acme_issuer *issuer)
{
    if (issuer->lock != -1) {
        close(issuer->lock);
        issuer->lock = -1;
    }
}

void acme_duty_perform(struct acme_issuer *issuer, struct acme_duty *duty, struct arena *arena)
{
    duty->error = 0;
    switch (duty->kind) {
    case ACME_FILE_READ:
        duty->error = read_file(issuer, duty, arena);
        break;
    case ACME_FILE_TIME:
        duty->time_ns = time_of(path_of(issuer, arena, duty->texts[0], ""));
        break;
    case ACME_FILE_WRITE:
        duty->error = replace_file(issuer, arena, duty->texts[0], duty->texts[1]);
        break;
    case ACME_LOCK:
        duty->error = take_lock(issuer, arena);
        break;
    case ACME_UNLOCK:
        release_lock(issuer);
        break;
    case ACME_RUN_HOOK:
        duty->error = acme_hook_program(issuer, duty);
        break;
    case ACME_STOP:
        atomic_store(&issuer->is_stopping, true);
        break;
    }
}
