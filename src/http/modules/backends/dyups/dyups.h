/* Tengine's dyups: groups that change while the service runs, as a worker has them (groups.c), and
 * who changes them (interface.c). */
#ifndef HTTP_MODULES_BACKENDS_DYUPS_DYUPS_H
#define HTTP_MODULES_BACKENDS_DYUPS_DYUPS_H

#include "conf/directive.h"
#include "http/routing/settings.h"
#include "store/store.h"
#include "upstream/upstream.h"

struct store_table;
struct zone;

#define DYUPS_NAME_MAX 255 /* bytes of a group's name */

/* Of the http block. */
struct dyups_settings {
    uint64_t read_ms;               /* dyups_read_msg_timeout */
    uint64_t zone_size;             /* dyups_shm_zone_size */
    bool trylock;                   /* dyups_trylock */
    bool logs_reads;                /* dyups_read_msg_log */
    const struct conf_scope *outer; /* the http block, for groups that come */
    struct conf_node *node; /* of the first dyups_interface; NULL: nobody changes anything */
    struct variable_set *variables; /* of http */
    struct zone *zone;              /* of the store */
    struct store_sync_words sync;   /* of a dyups_interface */
    struct store_table *table;      /* other nodes have what this one changes; NULL: they do not */
};

/* What holds in this worker; NULL where nobody changes anything. (groups.c) */
extern struct dyups_settings *dyups_now;

/* Takes over what other workers have changed. Cheap when nobody has. */
void dyups_sync(void);

/* Is there word of this group? *out NULL: it was deleted. The find_changed of the set. */
bool dyups_find(struct str name, struct upstream_group **out);

/* Walks the groups that were changed, and are there. */
void dyups_each(void (*visit)(struct upstream_group *group, void *arg), void *arg);

/* Is it the inside of an `upstream` block? False: *why says why not. */
bool dyups_check(struct str name, struct str text, struct buf *why);

/*
 * The group is the block of this text from now on; NULL: it goes. Gives a status, and what is said
 * with it: the answer of dyups_interface. The `change` of the set. (interface.c)
 */
unsigned dyups_change(struct str name, const struct str *text, const struct log *log,
                      struct str *said);

/* Other nodes have the groups, too. When all was read. False after conf_error. (sync.c) */
bool dyups_table_new(struct conf *conf, struct conf_node *node, struct dyups_settings *own);
/* This node has changed the group: other nodes get it. MAY WAIT, for the store's timeout at most.
 */
void dyups_table_note(struct str name);

/* The life of a worker. */
void dyups_start(struct dyups_settings *settings, struct upstream_set *set);
void dyups_quit(void);
void dyups_end(void);

/* The content handler of dyups_interface. MAY WAIT, for a body. */
enum handler_result dyups_answer(struct request *request);

#endif
