/*
 * The geoip2 block: variables from databases of MaxMind's format. A file is read into memory and
 * not mapped, so that truncation while it is in use does no harm. With auto_reload each worker
 * checks from time to time whether the file has changed, and reads it on a thread.
 */
#include "shared/geo/geoip2.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/parse.h"
#include "event/loop.h"
#include "server/generation.h"
#include "shared/geo/mmdb.h"
#include "shared/variables/give.h"

#define FILE_LIMIT ((off_t) 4 << 30) /* bytes of a database */

/* A database in memory, and the identity of its file. */
struct geoip2_file {
    struct geo_mmdb db;
    char *bytes; /* malloc'ed */
    ino_t inode;
    off_t size;
    struct timespec mtime;
    const char *error; /* why it could not be read; NULL = it was read */
};

/* A `geoip2` block. Lives as long as its generation. */
struct geoip2_database {
    struct str path; /* full, NUL-terminated */
    const struct geo_clients *clients;
    const struct forwarded *forwarded;
    struct geoip2_file file;
    time_t checked;          /* last check whether the file has changed, in this worker */
    time_t changed;          /* when it was last read */
    uint64_t reload_after_s; /* auto_reload; 0 = never */
    bool is_being_checked;
};

enum geoip2_metadata { METADATA_NONE, METADATA_BUILD, METADATA_CHECK, METADATA_CHANGE };

/* A variable of a block. */
struct geoip2_variable {
    struct geoip2_database *database;
    const struct variable *source; /* has the address; NULL = the client's */
    struct vec path;               /* struct str: keys of maps and numbers of arrays */
    struct str initial;            /* default=; NULL data: none */
    enum geoip2_metadata metadata;
    bool is_metadata;
};

/* ---- files ---- */

static bool read_bytes(int fd, char *bytes, size_t size)
{
    for (size_t got = 0; got < size;) {
        ssize_t n = pread(fd, bytes + got, size - got, (off_t) got);

        if (n == -1 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            return false;
        }
        got += (size_t) n;
    }
    return true;
}

static const char *read_open_file(int fd, struct geoip2_file *out)
{
    struct stat status;

    if (fstat(fd, &status) == -1 || !S_ISREG(status.st_mode) || status.st_size > FILE_LIMIT) {
        return "Error opening the specified MaxMind DB file";
    }
    size_t size = (size_t) status.st_size;
    out->inode = status.st_ino;
    out->size = status.st_size;
    out->mtime = status.st_mtim;
    out->bytes = malloc(size + 1);
    if (out->bytes == NULL || !read_bytes(fd, out->bytes, size)) {
        return "An attempt to read data from the MaxMind DB file failed";
    }
    return geo_mmdb_open((struct str){out->bytes, size}, &out->db);
}

/* Reads a file. Waits for the disk. out->error has the reason of a failure. Safe from any
   thread. */
static void geo_geoip2_read_file(const char *path, struct geoip2_file *out)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

    *out = (struct geoip2_file){.bytes = NULL};
    if (fd == -1) {
        out->error = "Error opening the specified MaxMind DB file";
        return;
    }
    out->error = read_open_file(fd, out);
    close(fd);
    if (out->error != NULL) {
        free(out->bytes);
        out->bytes = NULL;
    }
}

static void free_file(void *arg)
{
    struct geoip2_file *file = arg;

    free(file->bytes);
    file->bytes = NULL;
}

/* ---- auto_reload ---- */

/* A check of the file on a thread. It has its own data, since the generation may be gone when it is
 * done. */
struct check_job {
    struct thread_job job;
    struct geoip2_database *database; /* of that generation; used by the loop only */
    uint32_t generation; /* its number: another generation may be at the same address later */
    char *path;
    struct geoip2_file file; /* the known file, then the one that was read */
    bool is_changed;
};

static void check_on_thread(struct thread_job *job)
{
    struct check_job *check = container_of(job, struct check_job, job);
    struct stat status;

    if (stat(check->path, &status) == 0 && status.st_ino == check->file.inode &&
        status.st_size == check->file.size && status.st_mtim.tv_sec == check->file.mtime.tv_sec &&
        status.st_mtim.tv_nsec == check->file.mtime.tv_nsec) {
        return;
    }
    check->is_changed = true;
    geo_geoip2_read_file(check->path, &check->file);
}

static void take_file(struct geoip2_database *database, const struct geoip2_file *file)
{
    const struct log *log = &generation_now->log;

    if (file->error != NULL) {
        log_error(log, 0, "MMDB_open(\"%.*s\") failed to reload - %s", STR_ARG(database->path),
                  file->error);
        return;
    }
    log_notice(log, 0, "Reload MMDB \"%.*s\"", STR_ARG(database->path));
    free_file(&database->file);
    database->file = *file;
    database->changed = clock_now.seconds;
}

static void check_is_done(struct thread_job *job)
{
    struct check_job *check = container_of(job, struct check_job, job);
    bool is_wanted = check->generation == generation_now->number;

    if (is_wanted) {
        check->database->is_being_checked = false;
        check->database->checked = clock_now.seconds;
    }
    if (check->is_changed && is_wanted) {
        take_file(check->database, &check->file);
    } else if (check->is_changed) {
        free_file(&check->file);
    }
    free(check->path);
    free(check);
}

/* Starts a check of the file when it is due. */
static void check_now_and_then(struct geoip2_database *database)
{
    if (database->reload_after_s == 0 || database->is_being_checked ||
        (uint64_t) (clock_now.seconds - database->checked) < database->reload_after_s) {
        return;
    }
    struct thread_pool *pool = worker_thread_pool(STR("default"));
    struct check_job *check = calloc(1, sizeof(*check));
    char *path = strdup(database->path.data);
    if (check == NULL || path == NULL || pool == NULL) {
        free(check);
        free(path);
        return;
    }
    *check = (struct check_job){.job = {.work = check_on_thread, .done = check_is_done},
                                .database = database,
                                .generation = generation_now->number,
                                .path = path,
                                .file = database->file};
    database->is_being_checked = thread_pool_submit(pool, &check->job);
    if (!database->is_being_checked) {
        free(path);
        free(check);
    }
}

/* ---- variables ---- */

/* A value as text, in the request's memory, since the file may be replaced later. A container has
   no text. */
static bool give_value(struct variable_env *env, const struct geo_value *value, struct str *out)
{
    switch (value->kind) {
    case GEO_VALUE_STRING:
    case GEO_VALUE_BYTES:
        return variable_give(out, arena_dup(env->arena, value->bytes));
    case GEO_VALUE_DOUBLE:
    case GEO_VALUE_FLOAT:
        return variable_give(out, arena_printf(env->arena, "%.5f", value->real + 0.0));
    case GEO_VALUE_INT32:
        return variable_give(out,
                             arena_printf(env->arena, "%lld", (long long) (int64_t) value->number));
    case GEO_VALUE_UINT128:
        return variable_give(out, arena_printf(env->arena, "0x%016llx%016llx",
                                               (unsigned long long) value->number_high,
                                               (unsigned long long) value->number));
    case GEO_VALUE_UINT16:
    case GEO_VALUE_UINT32:
    case GEO_VALUE_UINT64:
    case GEO_VALUE_BOOLEAN:
        return variable_give_number(env, out, value->number);
    case GEO_VALUE_POINTER:
    case GEO_VALUE_MAP:
    case GEO_VALUE_ARRAY:
        break;
    }
    return false;
}

static bool give_metadata(struct variable_env *env, const struct geoip2_variable *wanted,
                          struct str *out)
{
    const struct geoip2_database *database = wanted->database;

    switch (wanted->metadata) {
    case METADATA_BUILD:
        return variable_give_number(env, out, database->file.db.build_epoch);
    case METADATA_CHECK:
        return variable_give_number(env, out, (uint64_t) database->checked);
    case METADATA_CHANGE:
        return variable_give_number(env, out, (uint64_t) database->changed);
    case METADATA_NONE:
        break;
    }
    return false;
}

static void find_address(struct variable_env *env, const struct geoip2_variable *wanted,
                         struct addr *out)
{
    struct str text;

    if (wanted->source == NULL) {
        const struct geo_clients *clients = wanted->database->clients;

        clients->find(env, out);
        if (clients->follow != NULL) {
            clients->follow(env, wanted->database->forwarded, out);
        }
    } else if (variable_get(env, wanted->source, &text) && text.len != 0 && *text.data != '[') {
        addr_parse_ip(text, out);
    }
}

static bool geo_geoip2_get_value(struct variable_env *env, const struct variable *variable,
                                 struct str *out)
{
    const struct geoip2_variable *wanted = (const struct geoip2_variable *) variable->data;
    struct addr addr = {.len = 0};
    struct geo_value value;
    size_t position;

    check_now_and_then(wanted->database);
    if (wanted->is_metadata) {
        return give_metadata(env, wanted, out);
    }
    const struct geo_mmdb *db = &wanted->database->file.db;
    find_address(env, wanted, &addr);
    return (geo_mmdb_find(db, &addr, &position) &&
            geo_mmdb_value(db, position, wanted->path.items, wanted->path.count, &value) &&
            give_value(env, &value, out)) ||
           (wanted->initial.data != NULL && variable_give(out, wanted->initial));
}

/* ---- directives ---- */

static bool read_default(struct conf *conf, const struct conf_node *node, struct str value,
                         struct geoip2_variable *out)
{
    if (out->initial.data != NULL) {
        return conf_error(conf, node, "default has already been declared for  \"%.*s\"",
                          STR_ARG(node->args[0]));
    }
    out->initial = value;
    return true;
}

static bool read_source(struct conf *conf, const struct conf_node *node, struct str name,
                        struct geoip2_variable *out)
{
    if (out->source != NULL) {
        return conf_error(conf, node, "source has already been declared for  \"%.*s\"",
                          STR_ARG(node->args[0]));
    }
    if (name.len < 2 || *name.data != '$') {
        return conf_error(conf, node, "invalid source variable name \"%.*s\"", STR_ARG(name));
    }
    out->source = variable_use(conf, node, conf_variables(conf), str_skip(name, 1));
    return out->source != NULL;
}

static bool geo_geoip2_read_word(struct conf *conf, const struct conf_node *node, struct str word,
                                 struct geoip2_variable *out)
{
    struct str value = word;
    bool is_default = str_starts(word, STR("default="));

    if (!is_default && !str_starts(word, STR("source="))) {
        *vec_add(&out->path, conf->arena, struct str) = word;
        return true;
    }
    str_cut(&value, '=');
    if (value.len == 0) {
        return conf_error(conf, node, "invalid setting \"%.*s\" for \"%.*s\"", STR_ARG(word),
                          STR_ARG(node->args[0]));
    }
    return is_default ? read_default(conf, node, value, out) : read_source(conf, node, value, out);
}

/* "$variable metadata build_epoch": other words are never found. After a default=, `metadata` is an
 * ordinary key. */
static void read_metadata(const struct conf_node *node, struct geoip2_variable *out)
{
    static const char *const words[] = {"", "build_epoch", "last_check", "last_change"};
    const struct str *path = out->path.items;

    out->is_metadata = node->count > 1 && str_is(node->args[1], "metadata");
    for (unsigned i = METADATA_BUILD;
         out->is_metadata && out->path.count == 2 && i <= METADATA_CHANGE; i++) {
        if (str_is(path[1], words[i])) {
            out->metadata = i;
        }
    }
}

static bool read_variable(struct conf *conf, const struct conf_node *node,
                          struct geoip2_database *database)
{
    struct geoip2_variable *wanted = arena_new(conf->arena, struct geoip2_variable);
    struct variable *variable = variable_define_word(conf, node, node->args[0]);

    wanted->database = database;
    if (variable == NULL) {
        return false;
    }
    for (unsigned i = 1; i < node->count; i++) {
        if (!geo_geoip2_read_word(conf, node, node->args[i], wanted)) {
            return false;
        }
    }
    read_metadata(node, wanted);
    variable_compute(variable, geo_geoip2_get_value, wanted);
    return true;
}

static bool geo_geoip2_read_line(struct conf *conf, const struct conf_node *node,
                                 struct geoip2_database *database)
{
    struct str name = node->args[0];

    if (name.len != 0 && *name.data == '$') {
        return read_variable(conf, node, database);
    }
    if (!str_is(name, "auto_reload")) {
        return conf_error(conf, node, "invalid setting \"%.*s\"", STR_ARG(name));
    }
    if (node->count != 2) {
        return conf_error(conf, node, "invalid number of arguments for auto_reload");
    }
    if (!parse_sec(node->args[1], &database->reload_after_s)) {
        return conf_error(conf, node, "invalid interval for auto_reload \"%.*s\"",
                          STR_ARG(node->args[1]));
    }
    return true;
}

bool geoip2_read(struct conf *conf, const struct conf_node *node, struct geoip2_settings *geoip2,
                 const struct geo_clients *clients)
{
    struct geoip2_database *database = arena_new(conf->arena, struct geoip2_database);
    bool is_good = true;

    database->path = conf_full_name(conf, node->args[1], false);
    database->clients = clients;
    database->forwarded = &geoip2->forwarded;
    database->checked = database->changed = clock_now.seconds;
    vec_each(struct geoip2_database *, other, &geoip2->databases) {
        if (str_equal((*other)->path, database->path)) {
            return conf_error(conf, node, "Duplicate GeoIP2 mmdb - %.*s", STR_ARG(database->path));
        }
    }
    *vec_add(&geoip2->databases, conf->arena, struct geoip2_database *) = database;
    geo_geoip2_read_file(database->path.data, &database->file);
    if (database->file.error != NULL) {
        return conf_error(conf, node, "MMDB_open(\"%.*s\") failed - %s", STR_ARG(database->path),
                          database->file.error);
    }
    arena_on_free(conf->arena, free_file, &database->file);
    for (const struct conf_node *line = node->children; line != NULL; line = line->next) {
        is_good &= geo_geoip2_read_line(conf, line, database);
    }
    return is_good;
}
