/* Hints after an error message at the start. */
#define _GNU_SOURCE
#include "base/hint.h"

#include <errno.h>
#include <fcntl.h>

#include <pwd.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"

#define FOLDER_MAX 1024 /* longest path that is examined */

bool hints_are_shown;

void hint_say(const char *format, ...)
{
    va_list args;

    if (!hints_are_shown || !log_is_starting) {
        return;
    }
    va_start(args, format);
    dprintf(STDERR_FILENO, "    ");
    vdprintf(STDERR_FILENO, format, args);
    dprintf(STDERR_FILENO, "\n");
    va_end(args);
}

/* A user as it appears in messages. */
struct user_text {
    char text[64];
};

static struct user_text user_named(uid_t uid)
{
    const struct passwd *found = getpwuid(uid);
    struct user_text user;

    snprintf(user.text, sizeof(user.text), "%.40s (%u)", found == NULL ? "user" : found->pw_name,
             (unsigned) uid);
    return user;
}

/* Cuts the last component off, in place: "/a/b" of "/a/b/c", "/" of "/a". */
static void cut_last(char *path)
{
    char *slash = strrchr(path, '/');

    if (slash != NULL) {
        slash[slash == path] = '\0';
    }
}

/* If the user may not do that with this file or directory, prints so. */
static bool say_if_refused(const char *path, int mode, const char *what)
{
    struct stat st;

    if (faccessat(AT_FDCWD, path, mode, AT_EACCESS) == 0 || errno != EACCES) {
        return false;
    }
    if (stat(path, &st) != 0) {
        return false; /* a directory above it is the reason; those are checked first */
    }
    hint_say("the user %s may not %s \"%s\": it belongs to %s, mode %04o",
             user_named(geteuid()).text, what, path, user_named(st.st_uid).text,
             st.st_mode & 07777u);
    return true;
}

/* From the root down: prints the first directory that may not be searched, or does not exist. */
static bool say_of_folders(const char *path)
{
    char folder[FOLDER_MAX];
    struct stat st;

    for (const char *slash = strchr(path + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        snprintf(folder, sizeof(folder), "%.*s", (int) (slash - path), path);
        if (stat(folder, &st) != 0 && errno == ENOENT) {
            hint_say("there is no folder \"%s\"", folder);
            return true;
        }
        if (say_if_refused(folder, X_OK, "search")) {
            return true;
        }
    }
    return false;
}

void hint_path(const char *path, int error)
{
    char folder[FOLDER_MAX];
    int saved = errno;

    if (!hints_are_shown || (error != EACCES && error != ENOENT && error != EPERM) ||
        *path != '/' || strlen(path) >= sizeof(folder) || say_of_folders(path) || error == ENOENT) {
        errno = saved;
        return;
    }
    strcpy(folder, path);
    if (access(path, F_OK) == 0) {
        (void) say_if_refused(path, W_OK, "write to");
    } else {
        cut_last(folder);
        (void) say_if_refused(folder, W_OK, "make files in");
    }
    errno = saved;
}
