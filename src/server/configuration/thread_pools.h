/* The thread_pool directive. Private to this package. */
#ifndef SERVER_CONFIGURATION_THREAD_POOLS_H
#define SERVER_CONFIGURATION_THREAD_POOLS_H

#include "conf/directive.h"
#include "server/generation.h"

extern const struct directive_table thread_pool_table;

/* struct thread_pool_settings, including "default". Call it after the main level was applied. */
struct vec thread_pools_of(struct conf *conf);

/* Do all pools exist that generation_want_thread_pool was called for? False after a message. */
bool thread_pools_check(struct generation *generation);

#endif
