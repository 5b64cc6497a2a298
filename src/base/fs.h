/* Small helpers about files: whole reads, temporary files, directories.
 * Implemented in fs.c and fs_trusted.c. */
#ifndef BASE_FS_H
#define BASE_FS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/arena.h"
#include "base/str.h"

/* The whole of a file, at most limit bytes; false with errno (EFBIG above the limit). */
bool fs_read_all(struct arena *arena, const char *path, size_t limit, struct str *out);

/* prefix + name unless name is absolute; NUL-terminated. */
struct str fs_full_name(struct arena *arena, struct str prefix, struct str name);

/*
 * open(), that as root follows no symbolic link which belongs to neither root nor the user who runs
 * this: a worker may write in some directories, and what it lays there must not lead its master to
 * files of others. With O_DIRECTORY no link in such a directory is followed at all, since a worker
 * can rename root's. With O_DIRECTORY and O_CREAT a directory is made. -1 with errno, ELOOP for
 * such a link.
 */
int fs_open_trusted(const char *path, int flags, mode_t mode);

/* May users other than root and the one who runs this put other names, or other things under a
 * name, into this directory? */
bool fs_is_shared(int directory);

/* Makes the directory with this mode and owner (if uid is not -1); one that exists is fine. Links
 * of others are not followed (see fs_open_trusted). False with errno. */
bool fs_make_directory(const char *path, mode_t mode, uid_t uid);

/*
 * Moves a file to a name, in one step as others see it: rename, or a copy beside the target where
 * that is another file system. Missing directories above it are made with `mode`. False with errno;
 * the file is still at `from` then.
 */
bool fs_move(const char *from, const char *to, mode_t mode);

/*
 * The file has this text from now on, whole and on the disk, or what it had: the text goes to
 * `temporary`, in the same directory, which is renamed. For threads, too. 0, or an errno.
 */
int fs_replace(const char *file, const char *temporary, struct str text);

/* Writes all; false with errno. */
bool fs_write_all(int fd, struct str data);

#endif
