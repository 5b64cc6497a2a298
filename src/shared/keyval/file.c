/* The file that keeps the pairs of a zone over restarts. */
#include "shared/keyval/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/checksum.h"
#include "base/fs.h"
#include "shared/keyval/text.h"

/* What a zone of this size cannot hold is not read. Escapes take six bytes for one. */
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

/* A whole file of that name, or none. False with errno. */
static bool write_new(const char *name, struct str text)
{
    int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);

    if (fd == -1) {
        return false;
    }
    bool is_good = fs_write_all(fd, text);
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
 * The version is read first: a change that comes meanwhile is in the text, and written once more. The process names what it
 * writes, since the lock is the zone's: while the program is upgraded the processes of two, with a zone each, write the file.
 */
static bool write_pairs(struct keyval_zone *zone, struct arena *arena)
{
    const struct keyval_written written = written_now(zone);
    struct str name = arena_printf(arena, "%s.%d.new", zone->file.data, (int) getpid());
    struct buf out = {0};
    struct json json = {.out = &out, .arena = arena};

    json_open(&json, STR_NONE, '{');
    keyval_text_put(&json, zone->store, true);
    json_close(&json, '}');
    buf_append_char(&out, '\n');
    bool is_good = write_new(name.data, buf_str(&out)) && rename(name.data, zone->file.data) == 0;

    if (is_good) {
        *keyval_file_written(zone->store) = written;
    } else {
        log_error(log_main, errno, "cannot write \"%s\"", zone->file.data);
    }
    buf_free(&out);
    return is_good;
}

bool keyval_file_write(struct keyval_zone *zone)
{
    struct arena arena;
    bool is_good = true;

    arena_init(&arena);
    shm_lock_take(keyval_file_lock(zone->store));
    if (keyval_file_is_old(zone)) {
        is_good = write_pairs(zone, &arena);
    }
    shm_lock_release(keyval_file_lock(zone->store));
    arena_free(&arena);
    return is_good;
}
