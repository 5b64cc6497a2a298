/* Search filters of LDAP (RFC 4515). Pure functions. */
#ifndef HTTP_MODULES_ACCESS_AUTH_LDAP_FILTER_H
#define HTTP_MODULES_ACCESS_AUTH_LDAP_FILTER_H

#include <stddef.h>

#include "base/str.h"

/* Writes the text with all that means something in a filter as \XX; needs room for 3 times its
 * length. Gives the end. */
char *ldap_filter_escape(char *at, struct str text);
/* Is it the name of an attribute: letters, digits, '-', ';' and '.'? */
int ldap_is_attribute(struct str name);

#endif
