/* Trees of files: names in open directories are removed, copied and moved. All of it blocks: for
 * threads. */
#ifndef BASE_FS_TREE_H
#define BASE_FS_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

/* Directories inside each other that are followed; below, ENAMETOOLONG. */
#define FS_TREE_DEPTH_MAX 256

/* A name in a directory. */
struct fs_location {
    int directory;    /* open, O_PATH will do */
    const char *name; /* one component, NUL-terminated */
};

/* What is done with trees. */
struct fs_tree_rules {
    bool follows_links; /* what links to regular files lead to is copied; else links are left out */
    bool is_shallow;    /* of a directory itself alone, without what is in it */
};

/* Each gives false with errno. What was done before a failure is not undone. */

/* Removes a file, a link, or a directory with all that is in it. Links are not followed. */
bool fs_remove_tree(struct fs_location at);

/* Gives a file the attributes ("user.*") of another; as many as its file system takes. */
void fs_copy_attributes(int from, int to);

/*
 * Copies an open file to a name, with permissions, attributes and the time of its last change, in
 * one step as others see it: what had that name is replaced.
 */
bool fs_copy_open(int source, struct fs_location to);

/* The same of a regular file by name (EISDIR, EINVAL for others), or of a directory with what is in
 * it, to a name that nobody has (EEXIST). Files that are neither are left out of trees. */
bool fs_copy_tree(struct fs_location from, struct fs_location to,
                  const struct fs_tree_rules *rules);

/* By rename; to another file system by a copy, after which the first is removed. */
bool fs_move_tree(struct fs_location from, struct fs_location to,
                  const struct fs_tree_rules *rules);

/* Is it this directory (`of`), or inside of it? */
bool fs_is_inside(int directory, const struct stat *of);

/* Makes the directories of a relative path, but its last component. Links are not followed unless
 * follows_links. */
bool fs_make_parents(int directory, const char *path, mode_t mode, bool follows_links);

#endif
