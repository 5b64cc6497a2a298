/* Shared memory and robust locks in it. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/log.h"
#include "base/shm.h"

_Static_assert(sizeof(pthread_mutex_t) <= sizeof(struct shm_lock), "a mutex fits in a lock");
_Static_assert(_Alignof(pthread_mutex_t) <= _Alignof(struct shm_lock), "and is aligned there");

enum {
    SPINS = 100
}; /* attempts before futex(2) is called; locks are held for less time than that */

static pthread_mutex_t *mutex_of(struct shm_lock *lock)
{
    return (pthread_mutex_t *) (void *) lock->opaque;
}

static inline void cpu_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* A lock that cannot be taken means that memory was overwritten: to continue would do more
 * damage. */
static _Noreturn void shm_give_up(const char *call, int error)
{
    log_emerg(log_main, error, "%s failed", call);
    abort();
}

void shm_lock_init(struct shm_lock *lock)
{
    pthread_mutexattr_t attributes;

    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    int error = pthread_mutex_init(mutex_of(lock), &attributes);
    pthread_mutexattr_destroy(&attributes);
    if (error != 0) {
        shm_give_up("pthread_mutex_init()", error);
    }
}

bool shm_lock_take(struct shm_lock *lock)
{
    pthread_mutex_t *mutex = mutex_of(lock);
    int error = pthread_mutex_trylock(mutex);

    for (int i = 0; error == EBUSY && i < SPINS; i++) {
        cpu_relax();
        error = pthread_mutex_trylock(mutex);
    }
    if (error == EBUSY) {
        error = pthread_mutex_lock(mutex);
    }
    if (error == 0) {
        return false;
    }
    if (error != EOWNERDEAD) {
        shm_give_up("pthread_mutex_lock()", error);
    }
    /* If this process dies as well before the data is repaired, the next one gets EOWNERDEAD
       again. */
    pthread_mutex_consistent(mutex);
    return true;
}

void shm_lock_release(struct shm_lock *lock)
{
    int error = pthread_mutex_unlock(mutex_of(lock));

    if (error != 0) {
        shm_give_up("pthread_mutex_unlock()", error);
    }
}

void *shm_map(size_t size)
{
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    return memory == MAP_FAILED ? NULL : memory;
}

void shm_unmap(void *memory, size_t size)
{
    if (munmap(memory, size) != 0) {
        log_alert(log_main, errno, "munmap(%p, %zu) failed", memory, size);
    }
}
