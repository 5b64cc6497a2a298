/* Temporary files: names by a running number, in subdirectories made when they are needed. */
#include "http/request/temp_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/checksum.h"
#include "base/parse.h"
#include "conf/conf.h"
#include "server/generation.h"

#define TRIES_MAX 64
#define NAME_DIGITS 10 /* of a file's name; the last ones make the subdirectories */

bool temp_path_read(struct conf_scope *scope, struct conf_node *node, struct wanted_path **out)
{
    unsigned levels[3] = {0, 0, 0};
    uint64_t left = NAME_DIGITS;

    for (unsigned i = 2; i < node->count; i++) {
        uint64_t level;
        if (!parse_uint(node->args[i], &level) || level == 0 || level > left) {
            return conf_error(scope->conf, node, "\"%.*s\" directive invalid value",
                              STR_ARG(node->args[0]));
        }
        levels[i - 2] = (unsigned) level;
        left -= level;
    }
    *out = generation_path(scope->conf->generation, node, node->args[1], levels);
    return *out != NULL;
}

/* As nginx spells them. */
static struct str next_name(struct request *request, const struct wanted_path *path)
{
    static uint32_t serial;
    char digits[NAME_DIGITS + 1];
    struct str name = path->name;
    size_t end = NAME_DIGITS;

    if (serial == 0) {
        serial = random_uint32() % 1000000;
    }
    snprintf(digits, sizeof(digits), "%010u", ++serial);
    for (unsigned i = 0; i < 3 && path->levels[i] != 0; i++) {
        end -= path->levels[i];
        name = arena_printf(&request->arena, "%.*s/%.*s", STR_ARG(name), (int) path->levels[i],
                            digits + end);
        if (mkdir(name.data, 0700) == -1 && errno != EEXIST) {
            break; /* the open tells */
        }
    }
    return arena_printf(&request->arena, "%.*s/%s", STR_ARG(name), digits);
}

int temp_file_open(struct request *request, const struct wanted_path *path, struct str *name)
{
    int fd = -1;

    for (unsigned tries = 0; tries < TRIES_MAX; tries++) {
        *name = next_name(request, path);
        fd = open(name->data, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (fd != -1 || errno != EEXIST) {
            break;
        }
    }
    if (fd == -1) {
        log_crit(&request->log, errno, "open() \"%.*s\" failed", STR_ARG(*name));
    }
    return fd;
}
