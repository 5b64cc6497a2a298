/* Marks memory as inaccessible for AddressSanitizer; costs nothing without it. */
#ifndef BASE_POISON_H
#define BASE_POISON_H

#if defined(__SANITIZE_ADDRESS__)
#define POISON_IS_ON 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define POISON_IS_ON 1
#endif
#endif

#ifdef POISON_IS_ON
#include <sanitizer/asan_interface.h>
#include <stddef.h>

#define POISON_REDZONE 16 /* bytes that stay poisoned after each piece of an arena */

/* From now on any access to these bytes is reported. */
static inline void memory_poison(const void *start, size_t size)
{
    __asm__("" : "+r"(start)); /* gcc would warn that the bytes are uninitialised; none is read */
    __asan_poison_memory_region(start, size);
}

/* The bytes may be used again. */
static inline void memory_unpoison(const void *start, size_t size)
{
    __asan_unpoison_memory_region(start, size);
}

#else
#define POISON_REDZONE 0
#define memory_poison(start, size) ((void) 0)
#define memory_unpoison(start, size) ((void) 0)
#endif

#endif
