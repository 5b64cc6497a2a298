/* Small helpers about files: whole reads, temporary files, directories.
 * Implemented in fs.c and fs_trusted.c. */
#ifndef BASE_FS_H
#define BASE_FS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/arena.h"
#include "base/str.h"

/* Reads the whole file, at most limit bytes; false with errno (EFBIG above the limit). */
bool fs_read_all(struct arena *arena, const char *path, size_t limit, struct str *out);

/* prefix + name unless name is absolute; NUL-terminated. */
struct str fs_full_name(struct arena *arena, struct str prefix, struct str name);

/*
 * open() which, as root, follows no symbolic link that belongs to neither root nor the effective
 * user: workers may write in some directories, and a link that one creates there must not lead the
 * master to other files. With O_DIRECTORY no link in such a directory is followed at all, since a
 * worker can rename root's links. With O_DIRECTORY and O_CREAT a directory is created. -1 with
 * errno, ELOOP for such a link.
 */
int fs_open_trusted(const char *path, int flags, mode_t mode);

/* May users other than root and the effective user create or rename entries in this directory? */
bool fs_is_shared(int directory);

/* Creates the directory with this mode and owner (if uid is not -1); an existing one is no error.
 * Links of other users are not followed (see fs_open_trusted). False with errno. */
bool fs_make_directory(const char *path, mode_t mode, uid_t uid);

/*
 * Moves a file to a name, atomically for other processes: by rename, or by a copy beside the target
 * if that is on another file system. Missing parent directories are created with `mode`. False with
 * errno; the file is still at `from` then.
 */
bool fs_move(const char *from, const char *to, mode_t mode);

/*
 * Replaces the contents of a file, atomically and durably: the text is written to `temporary`, in
 * the same directory, which is renamed. May be called on threads. Gives 0 or an errno.
 */
int fs_replace(const char *file, const char *temporary, struct str text);

/* Writes all data; false with errno. */
bool fs_write_all(int fd, struct str data);

#endif
