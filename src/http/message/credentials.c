/* Basic credentials: base64 of "user:password". */
#include "http/message/credentials.h"

#include "base/text.h"

bool credentials_parse(struct arena *arena, struct str value, struct credentials *out)
{
    struct str decoded;

    if (!str_starts_nocase(value, STR("Basic "))) {
        return false;
    }
    struct str text = str_trim(str_skip(value, 6));
    if (text.len == 0 || !base64_decode(arena, text, false, &decoded)) {
        return false;
    }
    const char *colon = str_find_char(decoded, ':');
    if (colon == NULL || colon == decoded.data || str_find_char(decoded, '\0') != NULL) {
        return false;
    }
    out->user = str_from(decoded.data, colon);
    out->password = str_from(colon + 1, decoded.data + decoded.len);
    return true;
}
