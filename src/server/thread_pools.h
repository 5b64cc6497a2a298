/* The thread_pool directive. Private to this floor. */
#ifndef SERVER_THREAD_POOLS_H
#define SERVER_THREAD_POOLS_H

#include "conf/directive.h"

extern struct directive_table thread_pool_table;

/* struct thread_pool_settings, "default" among them, once the main level was applied. */
struct vec thread_pools_of(struct conf *conf);

#endif
