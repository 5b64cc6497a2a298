/* Files of a configuration: reading them, includes, full names. */
#include <errno.h>
#include <fnmatch.h>
#include <glob.h>
#include <stdlib.h>

#include "base/fs.h"
#include "conf/internal.h"

#define FILE_LIMIT (256u << 20) /* bytes of one file */

struct str conf_full_name(struct conf *conf, struct str name, bool is_conf_relative)
{
    return fs_full_name(conf->arena, is_conf_relative ? conf->conf_prefix : conf->prefix, name);
}

void *conf_state(struct conf *conf, const char *key, size_t size)
{
    void *state = map_get(&conf->state, str_of(key));

    if (state == NULL) {
        state = arena_zalloc(conf->arena, size == 0 ? 1 : size);
        map_put(&conf->state, conf->arena, arena_dup(conf->arena, str_of(key)), state);
    }
    return state;
}

/* Reads a whole file, from the disk or, for a rollback, from conf->kept, a record of
 * config_history. False with errno. */
static bool read_text(const struct conf *conf, struct str name, struct str *text)
{
    if (conf->kept == NULL) {
        return fs_read_all(conf->arena, name.data, FILE_LIMIT, text);
    }
    for (const struct conf_file *file = conf->kept; file != NULL; file = file->next) {
        if (str_equal(file->name, name)) {
            *text = file->text;
            return true;
        }
    }
    errno = ENOENT;
    return false;
}

/* The file with this full name; each is read only once. NULL after an error. */
static const struct conf_file *load_file(struct conf *conf, const struct conf_node *include,
                                         struct str name)
{
    struct conf_file **link = &conf->files;

    for (; *link != NULL; link = &(*link)->next) {
        if (str_equal((*link)->name, name)) {
            return *link;
        }
    }
    struct str text;
    if (!read_text(conf, name, &text)) {
        int error = errno;
        conf->grammar_error_count++;
        if (error == EISDIR) {
            conf_failure(conf, NULL, LOG_CRIT, error, "pread() \"%.*s\" failed", STR_ARG(name));
        } else if (error == EFBIG) {
            conf_failure(conf, include, LOG_EMERG, 0,
                         "\"%.*s\" is larger than %u bytes, the most that is read", STR_ARG(name),
                         FILE_LIMIT);
        } else {
            conf_failure(conf, include, LOG_EMERG, error, "open() \"%.*s\" failed", STR_ARG(name));
        }
        return NULL;
    }
    struct conf_file *file = arena_new(conf->arena, struct conf_file);
    file->name = name;
    file->text = text;
    *link = file;
    return file;
}

/* Reads one file that an include names. */
static bool include_file(struct conf *conf, const struct conf_reading *outer,
                         struct conf_node *block, const struct conf_node *include, struct str name)
{
    for (const struct conf_reading *reading = outer; reading != NULL; reading = reading->outer) {
        if (str_equal(reading->file->name, name)) {
            conf->grammar_error_count++;
            return conf_failure(conf, include, LOG_EMERG, 0, "file \"%.*s\" includes itself",
                                STR_ARG(name));
        }
    }
    unsigned depth = outer == NULL ? 0 : outer->depth + 1;
    if (depth >= INCLUDE_DEPTH) {
        conf->grammar_error_count++;
        return conf_failure(conf, include, LOG_EMERG, 0,
                            "includes are nested too deeply, at most %d are possible",
                            INCLUDE_DEPTH);
    }
    const struct conf_file *file = load_file(conf, include, name);
    if (file == NULL) {
        return false;
    }
    struct conf_reading reading = {.outer = outer, .file = file, .depth = depth};
    return conf_parse_into(conf, &reading, block);
}

static int compare_names(const void *a, const void *b)
{
    return str_compare(*(const struct str *) a, *(const struct str *) b);
}

/* Matches a glob against the files of the record, in the order of glob(3). */
static bool include_kept(struct conf *conf, const struct conf_reading *reading,
                         struct conf_node *block, const struct conf_node *include, struct str name)
{
    struct vec found = {0};
    bool is_good = true;

    for (const struct conf_file *file = conf->kept; file != NULL; file = file->next) {
        if (fnmatch(name.data, file->name.data, FNM_PATHNAME | FNM_PERIOD) == 0) {
            *vec_add(&found, conf->arena, struct str) = file->name;
        }
    }
    if (found.count != 0) {
        qsort(found.items, found.count, sizeof(struct str), compare_names);
    }
    for (size_t i = 0; i < found.count; i++) {
        is_good &= include_file(conf, reading, block, include, *vec_at(&found, struct str, i));
    }
    return is_good;
}

bool conf_include_into(struct conf *conf, const struct conf_reading *reading,
                       struct conf_node *block, const struct conf_node *include)
{
    struct str name = conf_full_name(conf, include->args[1], true);

    if (memchr(name.data, '\0', name.len) != NULL) {
        conf->grammar_error_count++;
        return conf_error(conf, include, "invalid file name in \"include\" directive");
    }
    if (strpbrk(name.data, "*?[") == NULL) {
        return include_file(conf, reading, block, include, name);
    }
    if (conf->kept != NULL) {
        return include_kept(conf, reading, block, include, name);
    }
    glob_t found = {0};
    int result = glob(name.data, 0, NULL, &found);
    bool is_good = true;
    if (result != 0 && result != GLOB_NOMATCH) {
        conf->grammar_error_count++;
        is_good = conf_errno(conf, include, errno, "glob() \"%.*s\" failed", STR_ARG(name));
    }
    for (size_t i = 0; result == 0 && i < found.gl_pathc; i++) {
        struct str match = str_of(arena_cstr(conf->arena, str_of(found.gl_pathv[i])));
        is_good &= include_file(conf, reading, block, include, match);
    }
    globfree(&found);
    return is_good;
}

bool conf_include(struct conf *conf, struct conf_node *parent, struct conf_node *include)
{
    if (include->count != 2) {
        return conf_error(conf, include, "invalid number of arguments in \"include\" directive");
    }
    struct conf_reading reading = {.file = include->file};
    return conf_include_into(conf, include->file == NULL ? NULL : &reading, parent, include);
}

bool conf_read(struct conf *conf, struct str file_name, struct str extra)
{
    bool is_good = true;

    if (conf->root == NULL) {
        conf->root = arena_new(conf->arena, struct conf_node);
        conf->root->is_block = true;
    }
    file_name = str_of(arena_cstr(conf->arena, file_name));
    if (str_is_empty(conf->file_name)) {
        conf->file_name = file_name;
    }
    if (str_is_empty(conf->conf_prefix)) {
        const char *slash = str_find_last_char(file_name, '/');
        conf->conf_prefix = slash == NULL ? STR("") : str_from(file_name.data, slash + 1);
    }
    if (!str_is_empty(extra)) {
        struct conf_file *command_line = arena_new(conf->arena, struct conf_file);
        command_line->text = arena_dup(conf->arena, extra);
        struct conf_reading reading = {.file = command_line};
        is_good &= conf_parse_into(conf, &reading, conf->root);
    }
    is_good &= include_file(conf, NULL, conf->root, NULL, file_name);
    return is_good;
}
