/* The worker's pipes for relays: few, since only a large flow uses one, and only while its bytes
 * move. */
#define _GNU_SOURCE
#include "net/relay/pipe.h"

#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"

#define PIPES_MOST 32          /* in use at one time; further relays use a buffer */
#define PIPES_KEPT 4           /* free ones */
#define PIPE_SIZE (256 * 1024) /* requested size */
/* A user above pipe-user-pages-soft gets less, which does not help. */
#define PIPE_SIZE_LEAST (64 * 1024)
#define RETRY_MS 1000 /* delay after a failure */

static struct relay_pipe *free_pipes;
static unsigned free_count;
static unsigned used_count;
static uint64_t retry_at_ms; /* no pipe is created before this time */

static void pipe_close(struct relay_pipe *pipe)
{
    close(pipe->read_fd);
    close(pipe->write_fd);
    free(pipe);
}

static struct relay_pipe *pipe_new(void)
{
    int fds[2];

    if (pipe2(fds, O_NONBLOCK | O_CLOEXEC) == -1) {
        return NULL;
    }
    struct relay_pipe *pipe = malloc(sizeof(*pipe));
    /* Above pipe-user-pages-soft this fails and the size is unchanged. */
    int size = fcntl(fds[1], F_SETPIPE_SZ, PIPE_SIZE);
    if (size == -1) {
        size = fcntl(fds[1], F_GETPIPE_SZ);
    }
    if (pipe == NULL || size < PIPE_SIZE_LEAST) {
        close(fds[0]);
        close(fds[1]);
        free(pipe);
        return NULL;
    }
    *pipe = (struct relay_pipe){.read_fd = fds[0], .write_fd = fds[1], .size = (uint32_t) size};
    return pipe;
}

struct relay_pipe *relay_pipe_take(void)
{
    struct relay_pipe *pipe = free_pipes;

    if (pipe != NULL) {
        free_pipes = pipe->next_free;
        free_count--;
    } else {
        if (used_count == PIPES_MOST || clock_now.now_ms < retry_at_ms) {
            return NULL;
        }
        pipe = pipe_new();
        if (pipe == NULL) {
            retry_at_ms = clock_now.now_ms + RETRY_MS;
            return NULL;
        }
    }
    used_count++;
    return pipe;
}

void relay_pipe_give(struct relay_pipe *pipe)
{
    used_count--;
    if (pipe->held != 0 || free_count == PIPES_KEPT) {
        pipe_close(pipe);
        return;
    }
    pipe->next_free = free_pipes;
    free_pipes = pipe;
    free_count++;
}
