/* The file that keeps the pairs of a zone over restarts. */
#include "shared/keyval/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/checksum.h"
#include "base/fs.h"
#include "shared/keyval/text.h"

/* Largest file that can fit into a zone of this size: an escape needs six bytes for one. */
static size_t most_bytes(const struct keyval_zone *zone)
{
    return zone->zone->size * 6;
}

static struct keyval_written written_now(const struct keyval_zone *zone)
{
    return (struct keyval_written){keyval_version(zone->store), keyed_hash(zone->file)};
}

bool keyval_file_read(struct conf *conf, const struct conf_node *node, struct keyval_zone *zone)
{
    const struct keyval_text_form form = {.expiry = STR("expires")};
    struct vec changes = {0};
    struct str text;

    if (!fs_read_all(conf->arena, zone->file.data, most_bytes(zone), &text)) {
        *keyval_file_written(zone->store) = written_now(zone); /* there is nothing to write yet */
        return errno == ENOENT ||
               conf_errno(conf, node, errno, "cannot read \"%s\"", zone->file.data);
    }
    if (!keyval_text_read(text, &form, conf->arena, &changes)) {
        return conf_error(conf, node, "\"%s\" is no object of JSON with keys and values",
                          zone->file.data);
    }
    vec_each(const struct keyval_change, change, &changes) {
        if (change->is_deleted || change->keeps_value) {
            return conf_error(conf, node, "a key in \"%s\" has no value", zone->file.data);
        }
    }
    switch (keyval_make(zone->store, &changes)) {
    case KEYVAL_DONE:
        *keyval_file_written(zone->store) = written_now(zone);
        return true;
    case KEYVAL_BAD_KEY:
        return conf_error(conf, node, "a key in \"%s\" is none for this type of zone",
                          zone->file.data);
    default:
        return conf_error(conf, node, "the zone is too small for \"%s\"", zone->file.data);
    }
}

bool keyval_file_is_old(const struct keyval_zone *zone)
{
    if (zone->file.len == 0) {
        return false;
    }
    const struct keyval_written *written = keyval_file_written(zone->store);
    const struct keyval_written now = written_now(zone);

    return written->version != now.version || written->name != now.name;
}

/* Writes all pairs, some at a time, so that others can use the zone meanwhile. False with errno. */
static bool write_text(int fd, struct keyval_store *store)
{
    struct buf out = {0};
    struct json json = {.out = &out};
    uint32_t cursor = 0;
    bool has_more = true, is_good = true;

    json_open(&json, STR_NONE, '{');
    while (has_more && is_good) {
        has_more = keyval_text_put(&json, store, &cursor, true);
        if (!has_more) {
            json_close(&json, '}');
            buf_append_char(&out, '\n');
        }
        is_good = fs_write_all(fd, buf_str(&out));
        out.len = 0;
    }
    int error = errno;
    buf_free(&out);
    errno = error;
    return is_good;
}

/* Writes a complete file, or none. False with errno. */
static bool write_new(const char *name, struct keyval_store *store)
{
    int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);

    if (fd == -1) {
        return false;
    }
    bool is_good = write_text(fd, store);
    int error = errno;
    if (close(fd) != 0 && is_good) {
        is_good = false;
        error = errno;
    }
    if (!is_good) {
        unlink(name);
    }
    errno = error;
    return is_good;
}

/*
 * The version is read first: the file may have only a part of a change that is made meanwhile, and
 * is written again because of it. The name contains the process id since the lock belongs to the
 * zone: during an upgrade the processes of two programs, each with its own zone, write the file.
 */
static int write_pairs(const struct keyval_zone *zone)
{
    const struct keyval_written written = written_now(zone);
    struct buf name = {0};
    int error = 0;

    buf_printf(&name, "%s.%d.new", zone->file.data, (int) getpid());
    buf_append_char(&name, '\0');
    if (!write_new(name.data, zone->store) || rename(name.data, zone->file.data) != 0) {
        error = errno;
    } else {
        *keyval_file_written(zone->store) = written;
    }
    buf_free(&name);
    return error;
}

int keyval_file_write(const struct keyval_zone *zone)
{
    int error = 0;

    shm_lock_take(keyval_file_lock(zone->store));
    if (keyval_file_is_old(zone)) {
        error = write_pairs(zone);
    }
    shm_lock_release(keyval_file_lock(zone->store));
    return error;
}
