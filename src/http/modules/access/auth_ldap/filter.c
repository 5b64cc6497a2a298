/* Search filters of LDAP (RFC 4515). Pure functions. */
#include "http/modules/access/auth_ldap/filter.h"

/* Bytes outside ASCII need no escape if they are UTF-8, but \XX is always allowed. */
static int is_plain(unsigned char c)
{
    return c > 0x1f && c < 0x7f && c != '*' && c != '(' && c != ')' && c != '\\';
}

char *ldap_filter_escape(char *at, struct str text)
{
    static const char digits[] = "0123456789abcdef";

    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char) text.data[i];
        if (is_plain(c)) {
            *at++ = (char) c;
        } else {
            *at++ = '\\';
            *at++ = digits[c >> 4];
            *at++ = digits[c & 15];
        }
    }
    return at;
}

int ldap_is_attribute(struct str name)
{
    for (size_t i = 0; i < name.len; i++) {
        unsigned char c = ascii_lower((unsigned char) name.data[i]);
        if (!ascii_is_digit(c) && !(c >= 'a' && c <= 'z') && c != '-' && c != ';' && c != '.') {
            return 0;
        }
    }
    return name.len != 0;
}
