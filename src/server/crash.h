/* A fatal signal in a worker leaves a line in the error log. Private to this floor. */
#ifndef SERVER_CRASH_H
#define SERVER_CRASH_H

/* Takes SIGSEGV and SIGBUS; the signal then does what it always does. */
void crash_watch(void);

#endif
