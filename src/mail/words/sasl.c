/* Parsers of PLAIN and CRAM-MD5, and names of all methods. */
#include "mail/words/sasl.h"

#include "base/text.h"

/* clang-format off */
const struct sasl_name sasl_names[] = {
    {MAIL_PLAIN, STR_INIT("PLAIN")},
    {MAIL_LOGIN, STR_INIT("LOGIN")},
    {MAIL_CRAM_MD5, STR_INIT("CRAM-MD5")},
    {MAIL_EXTERNAL, STR_INIT("EXTERNAL")},
    {0, STR_INIT("")},
};
/* clang-format on */

enum { DIGEST_LENGTH = 32 }; /* hex digits of an MD5 */

unsigned sasl_method_named(struct str name)
{
    for (const struct sasl_name *known = sasl_names; known->method != 0; known++) {
        if (str_equal_nocase(known->name, name)) {
            return known->method;
        }
    }
    return 0;
}

/* [authorization identity] NUL login NUL password */
const char *sasl_plain_read(struct str text, struct str *login, struct str *password)
{
    str_cut(&text, '\0');
    if (text.data == NULL) {
        return "invalid login";
    }
    *login = str_cut(&text, '\0');
    *password = text;
    return text.data == NULL ? "invalid password" : NULL;
}

/* login, a space, the digest; a login may contain spaces */
const char *sasl_cram_md5_read(struct str text, struct str *login, struct str *digest)
{
    const char *blank = str_find_last_char(text, ' ');

    if (blank == NULL) {
        return "invalid CRAM-MD5 hash";
    }
    *login = str_from(text.data, blank);
    *digest = str_from(blank + 1, text.data + text.len);
    return digest->len == DIGEST_LENGTH ? NULL : "invalid CRAM-MD5 hash";
}

static bool is_plain_byte(unsigned char c)
{
    return c > ' ' && c < 0x7f && c != '+' && c != '=';
}

struct str xtext_encode(struct arena *arena, struct str s)
{
    static const char digits[] = "0123456789ABCDEF";
    size_t escaped = 0;

    for (size_t i = 0; i < s.len; i++) {
        escaped += !is_plain_byte((unsigned char) s.data[i]);
    }
    if (escaped == 0) {
        return s;
    }
    char *text = arena_text(arena, s.len + escaped * 2);
    char *at = text;
    for (size_t i = 0; i < s.len; i++) {
        unsigned char c = (unsigned char) s.data[i];

        if (is_plain_byte(c)) {
            *at++ = (char) c;
        } else {
            *at++ = '+';
            *at++ = digits[c >> 4];
            *at++ = digits[c & 15];
        }
    }
    return str_from(text, at);
}
