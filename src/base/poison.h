/* Marks memory as not to be touched, where AddressSanitizer is there to watch; costs nothing
 * elsewhere. */
#ifndef BASE_POISON_H
#define BASE_POISON_H

#include <stddef.h>

#if defined(__SANITIZE_ADDRESS__)
#define POISON_IS_ON 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define POISON_IS_ON 1
#endif
#endif

#ifdef POISON_IS_ON
#include <sanitizer/asan_interface.h>
#define POISON_REDZONE 16 /* bytes that stay poisoned behind each piece of an arena */
#else
#define POISON_REDZONE 0
#endif

/* Any access to these bytes is reported from now on. */
static inline void memory_poison(const void *start, size_t size)
{
#ifdef POISON_IS_ON
    __asm__(""
            : "+r"(start)); /* gcc would warn that the bytes, of which none is read, are not set */
    __asan_poison_memory_region(start, size);
#else
    (void) start;
    (void) size;
#endif
}

/* These bytes may be used again. */
static inline void memory_unpoison(const void *start, size_t size)
{
#ifdef POISON_IS_ON
    __asan_unpoison_memory_region(start, size);
#else
    (void) start;
    (void) size;
#endif
}

#endif
