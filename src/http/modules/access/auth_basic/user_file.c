/* Searches a user file for a name. */
#include "http/modules/access/auth_basic/user_file.h"

#include <string.h>

/* "name:password", "name:password:comment"; lines that begin with # are comments. A line may end
 * with CR. */
static bool match_line(struct user_search *search, struct str line)
{
    struct str user = search->user;

    if (line.len <= user.len || line.data[0] == '#' || line.data[user.len] != ':' ||
        !str_starts(line, user)) {
        return false;
    }
    struct str password = str_skip(line, user.len + 1);
    size_t len = 0;
    while (len < password.len && password.data[len] != ':' && password.data[len] != '\r') {
        len++;
    }
    search->password = str_head(password, len);
    search->is_found = true;
    return true;
}

/* Processes the remainder of a line whose beginning is held, or was too long. */
static bool end_line(struct user_search *search, struct str rest)
{
    bool is_skipped = search->is_skipping || rest.len > USER_LINE_MAX - search->held;

    search->is_skipping = false;
    if (!is_skipped && rest.len != 0) {
        memcpy(search->buffer + search->held, rest.data, rest.len);
        search->held += rest.len;
    }
    struct str line = {search->buffer, search->held};
    search->held = 0;
    return !is_skipped && match_line(search, line);
}

/* Holds a line whose end has not been read. */
static void hold(struct user_search *search, struct str part)
{
    if (part.len > USER_LINE_MAX - search->held) {
        search->is_skipping = true;
    }
    if (!search->is_skipping && part.len != 0) {
        memcpy(search->buffer + search->held, part.data, part.len);
        search->held += part.len;
    }
}

bool user_search_next(struct user_search *search, struct str piece)
{
    if (piece.len == 0) {
        return search->is_found || end_line(search, piece);
    }
    while (!search->is_found && piece.len != 0) {
        const char *end = str_find_char(piece, '\n');
        if (end == NULL) {
            hold(search, piece);
            break;
        }
        struct str line = str_from(piece.data, end);
        if (search->held != 0 || search->is_skipping) {
            end_line(search, line);
        } else if (line.len <= USER_LINE_MAX) {
            match_line(search, line);
        }
        piece = str_skip(piece, line.len + 1);
    }
    return search->is_found;
}
