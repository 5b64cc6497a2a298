/* --history and --diff. */
#include "server/program/kept.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "base/fs.h"
#include "server/configuration/generation_life.h"
#include "server/configuration/history.h"
#include "server/process/server.h"

const struct conf_node *kept_row(const struct generation *peeked, const char *name)
{
    const struct conf_node *root = peeked->conf.root;
    const struct conf_node *found = NULL;

    for (const struct conf_node *node = root == NULL ? NULL : root->children; node != NULL;
         node = node->next) {
        if (node->count > 1 && str_is(node->args[0], name)) {
            found = node;
        }
    }
    return found;
}

/* The directory of records, according to the file on the disk, which may have errors; empty after a
   message. */
static struct str find_directory(struct generation *peeked)
{
    const struct conf_node *row = kept_row(peeked, "config_history");

    if (row == NULL) {
        log_write(log_main, LOG_STDERR, 0, "no configurations are kept, set \"config_history\"");
        return STR_NONE;
    }
    return conf_full_name(&peeked->conf, row->count > 2 ? row->args[2] : STR(HISTORY_DIRECTORY),
                          false);
}

static void put_out(struct buf *text)
{
    fs_write_all(STDOUT_FILENO, buf_str(text));
    buf_free(text);
}

int kept_list(void)
{
    struct generation *peeked = generation_peek();
    struct str directory = find_directory(peeked);
    struct buf text = {0};
    bool is_good = directory.len != 0 && history_list(directory, &text);

    put_out(&text);
    generation_free(peeked);
    return is_good ? 0 : 1;
}

struct generation *kept_read(unsigned number, bool is_verbose)
{
    struct generation *peeked = generation_peek();
    struct str directory = find_directory(peeked);
    struct generation *generation =
        directory.len == 0 ? NULL : generation_read_kept(NULL, directory, number, true, is_verbose);

    generation_free(peeked);
    return generation;
}

static const struct history_certificate *find_certificate(const struct history_certificate *list,
                                                          struct str name)
{
    while (list != NULL && !str_equal(list->name, name)) {
        list = list->next;
    }
    return list;
}

static unsigned put_certificates(struct buf *out, const struct history_certificate *of,
                                 const struct history_certificate *other, const char *absent)
{
    unsigned count = 0;

    for (; of != NULL; of = of->next) {
        const struct history_certificate *found = find_certificate(other, of->name);

        if (found == NULL) {
            buf_printf(out, "    %s %.*s\n", absent, STR_ARG(of->name));
        } else if (*absent == '+' && memcmp(found->hash, of->hash, sizeof(of->hash)) != 0) {
            buf_printf(out, "    ~ %.*s: the file has changed\n", STR_ARG(of->name));
        } else {
            continue;
        }
        count++;
    }
    return count;
}

static unsigned diff_certificates(struct buf *out, const struct history_certificate *old,
                                  const struct history_certificate *next)
{
    size_t start = out->len;

    buf_append(out, STR("certificates:\n"));
    unsigned count = put_certificates(out, next, old, "+") + put_certificates(out, old, next, "-");

    if (count == 0) {
        out->len = start;
    }
    return count;
}

/* Compares the file on the disk with a loaded record. */
static void diff_with(const struct history_entry *entry)
{
    struct generation *next = generation_peek(), *old;
    struct buf text = {0};

    old = generation_peek_kept(entry->files);
    unsigned count =
        diff_certificates(&text, entry->certificates, history_certificates(&next->conf)) +
        conf_diff(&old->conf, &next->conf, &text);

    if (count == 0) {
        buf_append(&text, STR("nothing would change\n"));
    }
    put_out(&text);
    generation_free(old);
    generation_free(next);
}

bool kept_diff(const struct generation *generation)
{
    struct str directory = generation->core->history_directory;
    struct history_entry entry;
    struct history_state state;
    struct arena arena;

    if (generation->core->history_count == 0) {
        log_write(log_main, LOG_STDERR, 0,
                  "it is not known which configuration runs, set \"config_history\"");
        return false;
    }
    if (!history_state_load(directory, &state) || state.running == 0) {
        log_write(log_main, LOG_STDERR, 0,
                  "it is not known which configuration runs: \"%s\" has no \"state\" that can be "
                  "read",
                  directory.data);
        return false;
    }
    arena_init(&arena);
    bool is_good = history_load(&arena, directory, state.running, &entry);

    if (is_good) {
        diff_with(&entry);
    }
    arena_free(&arena);
    return is_good;
}
