/* Trees of files: removes, copies and moves names in open directories. All functions block: call
 * them on threads. */
#ifndef BASE_FS_TREE_H
#define BASE_FS_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

/* Most nested directories; deeper ones give ENAMETOOLONG. */
#define FS_TREE_DEPTH_MAX 256

/* A name in a directory. */
struct fs_location {
    int directory;    /* open; O_PATH is enough */
    const char *name; /* one component, NUL-terminated */
};

/* How trees are copied and moved. */
struct fs_tree_rules {
    bool follows_links; /* the targets of links to regular files are copied; otherwise links are
                           left out */
    bool is_shallow;    /* only the directory itself, without its contents */
};

/* Each gives false with errno. Changes made before a failure are not undone. */

/* Removes a file, a link, or a directory with its contents. Links are not followed. */
bool fs_remove_tree(struct fs_location at);

/* Copies the attributes ("user.*") of a file to another, as many as the target's file system
 * takes. */
void fs_copy_attributes(int from, int to);

/*
 * Copies an open file to a name, with permissions, attributes and modification time, atomically for
 * other processes: an existing file of that name is replaced.
 */
bool fs_copy_open(int source, struct fs_location to);

/* The same for a regular file by name (EISDIR or EINVAL for other types), or for a directory with
 * its contents, to a name that must not exist (EEXIST). In trees, entries of other types are left
 * out. */
bool fs_copy_tree(struct fs_location from, struct fs_location to,
                  const struct fs_tree_rules *rules);

/* Moves by rename or, to another file system, by copying and then removing the original. */
bool fs_move_tree(struct fs_location from, struct fs_location to,
                  const struct fs_tree_rules *rules);

/* Is it the directory `of`, or inside it? */
bool fs_is_inside(int directory, const struct stat *of);

/* Creates the directories of a relative path, except its last component. Links are not followed
 * unless follows_links. */
bool fs_make_parents(int directory, const char *path, mode_t mode, bool follows_links);

#endif
