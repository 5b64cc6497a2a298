/* Records of configurations: written whole or not at all, read with their checksum. */
#include "server/configuration/history.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/checksum.h"
#include "base/fs.h"
#include "base/hint.h"
#include "base/parse.h"

enum {
    NUMBER_DIGITS = 8,          /* in names of records */
    CERTIFICATE_MOST = 1 << 20, /* bytes of a file that is hashed */
    RECORD_MOST = 64 << 20,     /* bytes of a record */
};

#define STATE_NAME "state"
#define WORK_NAME "new" /* the file that is being written */

/* ---- the directory */

/* Opens the directory; -1 with errno. */
static int open_directory(struct str name, int flags)
{
    int fd = fs_open_trusted(name.data, O_RDONLY | O_DIRECTORY | O_CLOEXEC | flags, 0700);

    if (fd >= 0 && fs_is_shared(fd)) {
        close(fd);
        errno = EPERM; /* files read from here become the configuration of root */
        return -1;
    }
    return fd;
}

/* The same, and logs the reason of a failure. */
static int want_directory(struct str name, int flags)
{
    int fd = open_directory(name, flags);

    if (fd < 0 && errno == EPERM) {
        log_error(log_main, 0,
                  "the directory \"%s\" of \"config_history\" is writable by other users, "
                  "it is not used",
                  name.data);
    } else if (fd < 0) {
        log_error(log_main, errno, "open() \"%s\" failed", name.data);
        hint_path(name.data, errno);
    }
    return fd;
}

/* Reads a regular file of ours. False with errno. */
static bool read_at(struct arena *arena, int directory, const char *name, struct str *out)
{
    struct stat info;
    int fd = openat(directory, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    bool is_good = false;

    if (fd < 0) {
        return false;
    }
    if (fstat(fd, &info) == 0 && S_ISREG(info.st_mode) &&
        (info.st_uid == 0 || info.st_uid == geteuid()) && info.st_size <= RECORD_MOST) {
        size_t size = (size_t) info.st_size;
        char *text = arena_text(arena, size == 0 ? 1 : size);
        ssize_t n = pread(fd, text, size, 0);

        *out = (struct str){text, size};
        is_good = n == (ssize_t) size;
    }
    close(fd);
    if (!is_good) {
        errno = EINVAL;
    }
    return is_good;
}

/* Writes a file so that it appears complete or not at all, also after a crash of the machine. False
   with errno. */
static bool write_at(int directory, const char *name, struct str text)
{
    unlinkat(directory, WORK_NAME, 0); /* left by a process that died while it wrote */
    int fd =
        openat(directory, WORK_NAME, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);

    if (fd < 0) {
        return false;
    }
    bool is_good = fs_write_all(fd, text) && fsync(fd) == 0;
    int error = errno;

    close(fd);
    if (is_good) {
        is_good = renameat(directory, WORK_NAME, directory, name) == 0;
        error = errno;
    }
    if (is_good) {
        fsync(directory);
    } else {
        unlinkat(directory, WORK_NAME, 0);
    }
    errno = error;
    return is_good;
}

static void record_name(char out[16], unsigned number)
{
    snprintf(out, 16, "%0*u", NUMBER_DIGITS, number);
}

/* The number of a record, from the name of its file; 0: another file. */
static unsigned number_of(const char *name)
{
    uint64_t number;
    struct str text = str_of(name);

    return text.len == NUMBER_DIGITS && parse_uint(text, &number) ? (unsigned) number : 0;
}

static int compare_numbers(const void *a, const void *b)
{
    unsigned left = *(const unsigned *) a, right = *(const unsigned *) b;

    return left < right ? -1 : left > right;
}

/* All numbers in the directory, sorted: struct vec of unsigned. */
static struct vec list_numbers(struct arena *arena, int directory)
{
    struct vec numbers = {0};
    int fd = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *entries = fd < 0 ? NULL : fdopendir(fd);

    if (entries == NULL) {
        if (fd >= 0) {
            close(fd);
        }
        return numbers;
    }
    for (const struct dirent *entry; (entry = readdir(entries)) != NULL;) {
        unsigned number = number_of(entry->d_name);

        if (number != 0) {
            *vec_add(&numbers, arena, unsigned) = number;
        }
    }
    closedir(entries);
    if (numbers.count != 0) {
        qsort(numbers.items, numbers.count, sizeof(unsigned), compare_numbers);
    }
    return numbers;
}

/* ---- reading */

static bool load_at(struct arena *arena, int directory, unsigned number, struct history_entry *out)
{
    char name[16];
    struct str text;

    record_name(name, number);
    if (!read_at(arena, directory, name, &text)) {
        return false;
    }
    if (!history_strip_checksum(&text) || !history_parse(arena, text, out) ||
        out->number != number) {
        errno = EINVAL;
        return false;
    }
    return true;
}

bool history_load(struct arena *arena, struct str directory, unsigned number,
                  struct history_entry *out)
{
    int fd = want_directory(directory, 0);

    if (fd < 0) {
        return false;
    }
    bool is_good = load_at(arena, fd, number, out);
    int error = errno;

    close(fd);
    if (!is_good) {
        log_error(log_main, error == EINVAL ? 0 : error, "configuration %u in \"%s\" %s", number,
                  directory.data, error == EINVAL ? "is damaged" : "cannot be read");
    }
    return is_good;
}

static bool state_at(struct arena *arena, int directory, struct history_state *out)
{
    uint64_t running, return_to;
    struct str text;

    if (!read_at(arena, directory, STATE_NAME, &text) ||
        !history_take_number(&text, "running", HISTORY_NUMBER_MOST, &running) ||
        !history_take_number(&text, "return", HISTORY_NUMBER_MOST, &return_to)) {
        return false;
    }
    *out = (struct history_state){(unsigned) running, (unsigned) return_to};
    return true;
}

bool history_state_load(struct str directory, struct history_state *out)
{
    struct arena arena;
    int fd = open_directory(directory, 0);

    *out = (struct history_state){0};
    if (fd < 0) {
        return false;
    }
    arena_init(&arena);
    bool is_good = state_at(&arena, fd, out);

    arena_free(&arena);
    close(fd);
    return is_good;
}

bool history_list(struct str directory, struct buf *out)
{
    struct arena arena;
    struct history_state state = {0};
    int fd = want_directory(directory, 0);

    if (fd < 0) {
        return false;
    }
    arena_init(&arena);
    state_at(&arena, fd, &state);
    struct vec numbers = list_numbers(&arena, fd);

    for (size_t i = 0; i < numbers.count; i++) {
        unsigned number = *vec_at(&numbers, unsigned, i);
        struct history_entry entry;
        char when[32] = "damaged";

        if (load_at(&arena, fd, number, &entry)) {
            time_t time_s = (time_t) entry.time_s;
            struct tm parts;

            gmtime_r(&time_s, &parts);
            strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%SZ", &parts);
        }
        buf_printf(out, "%u %s%s%s\n", number, when, number == state.running ? " runs" : "",
                   number == state.running && state.return_to != 0 ? ", not confirmed" : "");
    }
    arena_free(&arena);
    close(fd);
    return true;
}

/* ---- writing */

/* Is it the name of a directive whose file is public: a certificate or a revocation list? */
static bool names_certificate(struct str name)
{
    return str_ends(name, STR("certificate")) || str_ends(name, STR("_crl"));
}

static void add_certificate(struct conf *conf, struct str name, struct history_certificate **list)
{
    struct str full = conf_full_name(conf, name, true), text;

    for (; *list != NULL; list = &(*list)->next) {
        if (str_equal((*list)->name, full)) {
            return;
        }
    }
    *list = arena_new(conf->arena, struct history_certificate);
    (*list)->name = full;
    if (fs_read_all(conf->arena, full.data, CERTIFICATE_MOST, &text)) {
        sha256_of(text, (*list)->hash);
    }
}

static void gather_certificates(struct conf *conf, const struct conf_node *block,
                                struct history_certificate **list)
{
    for (const struct conf_node *node = block->children; node != NULL; node = node->next) {
        if (node->is_block) {
            gather_certificates(conf, node, list);
        } else if (node->count == 2 && names_certificate(node->args[0]) &&
                   str_find_char(node->args[1], '$') == NULL &&
                   !str_starts(node->args[1], STR("data:")) &&
                   !str_starts(node->args[1], STR("engine:")) &&
                   !str_starts(node->args[1], STR("store:"))) {
            add_certificate(conf, node->args[1], list);
        }
    }
}

struct history_certificate *history_certificates(struct conf *conf)
{
    struct history_certificate *list = NULL;

    gather_certificates(conf, conf->root, &list);
    return list;
}

static const struct conf_file *next_named(const struct conf_file *file)
{
    while (file != NULL && file->name.len == 0) {
        file = file->next;
    }
    return file;
}

static bool has_same_files(const struct conf_file *a, const struct conf_file *b)
{
    for (;; a = a->next, b = b->next) {
        a = next_named(a);
        b = next_named(b);
        if (a == NULL || b == NULL) {
            return a == b;
        }
        if (!str_equal(a->name, b->name) || !str_equal(a->text, b->text)) {
            return false;
        }
    }
}

static bool store(int directory, const struct history_entry *entry)
{
    struct buf text = {0};
    char name[16];
    bool is_good = false;

    history_write(&text, entry);
    record_name(name, entry->number);
    if (text.len <= RECORD_MOST) {
        is_good = write_at(directory, name, buf_str(&text));
    } else {
        errno = EFBIG;
    }
    buf_free(&text);
    return is_good;
}

/* Removes the oldest records until `count` are left, except those in `spared`. */
static void prune(struct arena *arena, int directory, size_t count, const unsigned spared[3])
{
    struct vec numbers = list_numbers(arena, directory);

    for (size_t i = 0; i + count < numbers.count; i++) {
        unsigned number = *vec_at(&numbers, unsigned, i);

        if (number != spared[0] && number != spared[1] && number != spared[2]) {
            char name[16];

            record_name(name, number);
            unlinkat(directory, name, 0);
        }
    }
}

/* Stores the files that a generation was read from, as the successor of `before`; sets
 * generation->kept. False with errno. */
static bool keep_at(int directory, struct str name, struct generation *generation, unsigned before)
{
    struct history_entry former;
    struct history_entry entry = {
        .before = before,
        .time_s = generation->read_ms / 1000,
        .files = generation->conf.files,
        .certificates = history_certificates(&generation->conf),
    };
    struct arena arena;

    arena_init(&arena);
    if (before != 0 && load_at(&arena, directory, before, &former) &&
        has_same_files(former.files, entry.files)) {
        entry.number = before; /* written again: certificates may have changed */
        entry.before = former.before;
        entry.time_s = former.time_s;
    } else {
        struct vec numbers = list_numbers(&arena, directory);

        entry.number = numbers.count == 0 ? 1 : *vec_at(&numbers, unsigned, numbers.count - 1) + 1;
    }
    bool is_good = entry.number <= HISTORY_NUMBER_MOST && store(directory, &entry);
    int error = entry.number > HISTORY_NUMBER_MOST ? EOVERFLOW : errno;

    if (is_good) {
        generation->kept.number = entry.number;
        generation->kept.before = entry.before;
        generation->kept.directory = name;
    }
    arena_free(&arena);
    errno = error;
    return is_good;
}

static bool write_state(int directory, const struct history_state *state)
{
    char text[64];
    int len =
        snprintf(text, sizeof(text), "running %u\nreturn %u\n", state->running, state->return_to);

    return write_at(directory, STATE_NAME, (struct str){text, (size_t) len});
}

void history_state_keep(const struct generation *generation, unsigned return_to)
{
    if (generation->kept.number == 0) {
        return;
    }
    const struct history_state state = {generation->kept.number, return_to};
    int fd = want_directory(generation->kept.directory, 0);

    if (fd >= 0 && !write_state(fd, &state)) {
        log_error(log_main, errno, "the state of \"config_history\" in \"%s\" cannot be written",
                  generation->kept.directory.data);
    }
    if (fd >= 0) {
        close(fd);
    }
}

/*
 * The record that ran before. During a reload: that of the running generation, which is stored now
 * if it was not. At the start: that of the last start; *return_to is then the record that it
 * returns to unless it is confirmed, in this binary or in the one that is being upgraded.
 */
static unsigned find_before(int directory, struct str name, struct generation *old,
                            unsigned *return_to)
{
    struct history_state state = {0};
    struct arena arena;

    if (old != NULL && (old->kept.number == 0 || !str_equal(old->kept.directory, name))) {
        keep_at(directory, str_of(arena_cstr(&old->arena, name)), old, 0);
    }
    if (old != NULL) {
        return old->kept.number;
    }
    arena_init(&arena);
    state_at(&arena, directory, &state);
    arena_free(&arena);
    *return_to = state.return_to;
    return state.running;
}

void history_keep(struct generation *next, struct generation *old, unsigned return_to)
{
    struct str name = next->core->history_directory;
    struct arena arena;

    if (next->core->history_count == 0) {
        if (old != NULL && old->kept.number != 0) { /* the next one can still roll back to it */
            next->kept.before = old->kept.number;
            next->kept.directory = str_of(arena_cstr(&next->arena, old->kept.directory));
        }
        return;
    }
    int fd = want_directory(name, O_CREAT);

    if (fd < 0) {
        return;
    }
    unsigned before = find_before(fd, name, old, &return_to);

    if (!keep_at(fd, name, next, before)) {
        log_error(log_main, errno, "the configuration cannot be kept in \"%s\"", name.data);
    } else {
        const unsigned spared[3] = {next->kept.number, next->kept.before, return_to};

        arena_init(&arena);
        prune(&arena, fd, (size_t) next->core->history_count + 1, spared);
        arena_free(&arena);
    }
    close(fd);
}
