/* Looks up methods by name. */
#include "http/message/methods.h"

#include <string.h>

static const struct {
    struct str name;
    unsigned method;
} methods[] = {
#define METHOD_NAME(method, name, bit) {STR_INIT(name), method},
    KNOWN_METHODS(METHOD_NAME)
#undef METHOD_NAME
};

#define COUNT (sizeof(methods) / sizeof(methods[0]))

unsigned method_named(struct str name)
{
    if (name.len == 3 && memcmp(name.data, "GET", 3) == 0) {
        return METHOD_GET; /* the most common case */
    }
    for (size_t i = 0; i < COUNT; i++) {
        if (str_equal(name, methods[i].name)) {
            return methods[i].method;
        }
    }
    return METHOD_OTHER;
}

unsigned method_named_nocase(struct str name)
{
    for (size_t i = 0; i < COUNT; i++) {
        if (str_equal_nocase(name, methods[i].name)) {
            return methods[i].method;
        }
    }
    return METHOD_OTHER;
}
