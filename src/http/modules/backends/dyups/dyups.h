/* Tengine's dyups: upstream groups that change while the service runs, as a worker has them
 * (groups.c), and the interface that changes them (interface.c). */
#ifndef HTTP_MODULES_BACKENDS_DYUPS_DYUPS_H
#define HTTP_MODULES_BACKENDS_DYUPS_DYUPS_H

#include "conf/directive.h"
#include "http/routing/settings.h"
#include "store/store.h"
#include "upstream/upstream.h"

struct store_table;
struct zone;

#define DYUPS_NAME_MAX 255 /* most bytes of a group's name */

/* Settings of the http block. */
struct dyups_settings {
    uint64_t read_ms;               /* dyups_read_msg_timeout */
    uint64_t zone_size;             /* dyups_shm_zone_size */
    bool trylock;                   /* dyups_trylock */
    bool logs_reads;                /* dyups_read_msg_log */
    const struct conf_scope *outer; /* the http block: the scope in which new groups are read */
    struct conf_node *node; /* the first dyups_interface; NULL: there is none, so nothing changes */
    struct variable_set *variables; /* those of http */
    struct zone *zone;              /* shared memory with the changes */
    struct store_sync_words sync;   /* parameters of dyups_interface */
    struct store_table *table;      /* shares changes with other nodes; NULL: not shared */
};

/* The settings in this worker; NULL without dyups_interface. (groups.c) */
extern struct dyups_settings *dyups_now;

/* Applies changes that other workers have made. Cheap if there are none. */
void dyups_sync(void);

/* Finds a group that was changed. False: it was never changed. *out NULL: it was deleted. The
 * find_changed of the set. */
bool dyups_find(struct str name, struct upstream_group **out);

/* Visits the groups that were changed and not deleted. */
void dyups_each(void (*visit)(struct upstream_group *group, void *arg), void *arg);

/* Is the text a valid body of an `upstream` block? False: *why has a message. */
bool dyups_check(struct str name, struct str text, struct buf *why);

/* Replaces the group by a block with this text; NULL deletes it. Returns the status and the body
 * for the response of dyups_interface. The `change` of the set. (interface.c) */
unsigned dyups_change(struct str name, const struct str *text, const struct log *log,
                      struct str *said);

/* Shares the groups with other nodes. Called after the configuration was read. False after
 * conf_error. (sync.c) */
bool dyups_table_new(struct conf *conf, struct conf_node *node, struct dyups_settings *own);
/* Sends a change of this node to the other nodes. MAY WAIT, for the store's timeout at most. */
void dyups_table_note(struct str name);

/* Start and end of a worker. */
void dyups_start(struct dyups_settings *settings, struct upstream_set *set);
void dyups_quit(void);
void dyups_end(void);

/* The content handler of dyups_interface. MAY WAIT for a request body. */
enum handler_result dyups_answer(struct request *request);

#endif
