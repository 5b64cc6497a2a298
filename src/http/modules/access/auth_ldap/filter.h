/* Search filters of LDAP (RFC 4515). Pure functions. */
#ifndef HTTP_MODULES_ACCESS_AUTH_LDAP_FILTER_H
#define HTTP_MODULES_ACCESS_AUTH_LDAP_FILTER_H

#include <stddef.h>

#include "base/str.h"

/* Writes the string with special characters of filters as \XX; the buffer must have 3 times its
 * length. Returns the end. */
char *ldap_filter_escape(char *at, struct str text);
/* Is it a valid attribute name: letters, digits, '-', ';' and '.'? */
int ldap_is_attribute(struct str name);

#endif
