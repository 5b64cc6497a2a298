/* Trims HTML: tags, comments, and elements whose text is not HTML. */
#include "http/modules/filters/trim/trimmer.h"

#include <limits.h>

bool trimmer_ends(const struct trimmer *trimmer, struct str word)
{
    const struct str tail = {trimmer->tail + TRIM_TAIL - word.len, word.len};

    return str_equal_nocase(tail, word);
}

static void remember(struct trimmer *trimmer, char c)
{
    memmove(trimmer->tail, trimmer->tail + 1, TRIM_TAIL - 1);
    trimmer->tail[TRIM_TAIL - 1] = c;
}

static void forget(struct trimmer *trimmer)
{
    memset(trimmer->tail, 0, TRIM_TAIL);
}

/* ---- tags ---- */

static void note_tag(struct trimmer *trimmer, char c)
{
    if (trimmer->tag_length < TRIM_TAG_MAX) {
        trimmer->tag[trimmer->tag_length++] = (char) ascii_lower((unsigned char) c);
    }
}

static void begin_tag(struct trimmer *trimmer)
{
    trimmer->state = TRIM_TAG;
    trimmer->tag_length = 0;
    trimmer->before = trimmer->pending = '\0';
    note_tag(trimmer, '<');
    trimmer_put(trimmer, '<');
}

/* Is it `plain` without attributes, or with only this default type, in quotes or not? */
static bool is_plain(struct str tag, struct str plain, struct str type)
{
    if (!str_starts(tag, plain)) {
        return false;
    }
    struct str rest = str_skip(tag, plain.len);
    if (rest.len == 0) {
        return true;
    }
    if (!str_starts(rest, STR(" type="))) {
        return false;
    }
    rest = str_skip(rest, 6);
    char quote = rest.len > 1 ? rest.data[0] : '\0';
    if ((quote == '"' || quote == '\'') && rest.data[rest.len - 1] == quote) {
        rest = str_head(str_skip(rest, 1), rest.len - 2);
    }
    return str_equal(rest, type);
}

/* After the '>' of a tag: does an element begin whose text is not HTML? */
static void enter_element(struct trimmer *trimmer)
{
    static const struct str ends[] = {STR_INIT("</pre"), STR_INIT("</textarea"), STR_INIT("</xmp"),
                                      STR_INIT("</script"), STR_INIT("</style")};
    struct str tag = {trimmer->tag, trimmer->tag_length};

    trimmer->state = TRIM_TEXT;
    for (size_t i = 0; i < sizeof(ends) / sizeof(*ends); i++) {
        struct str name = str_skip(ends[i], 2);
        if (!str_starts(str_skip(tag, 1), name) ||
            (tag.len > name.len + 1 && tag.data[name.len + 1] != ' ' &&
             tag.data[name.len + 1] != '/')) {
            continue;
        }
        trimmer->state = TRIM_RAW;
        trimmer->end = ends[i];
        trimmer->nested = 0;
        trimmer->code = CODE_PLAIN;
        trimmer->before = trimmer->pending = '\0';
        trimmer->is_glued = false;
        trimmer->is_declaring = trimmer->is_naming = trimmer->is_grouping = false;
        trimmer->begins_rule = true;
        trimmer->begins_name = false;
        trimmer->word_length = 0;
        forget(trimmer);
    }
    if (trimmer->state == TRIM_TEXT || tag.len == TRIM_TAG_MAX) {
        return;
    }
    if (trimmer->trims_scripts && is_plain(tag, STR("<script"), STR("text/javascript"))) {
        trimmer->state = TRIM_SCRIPT;
    } else if (trimmer->trims_styles && is_plain(tag, STR("<style"), STR("text/css"))) {
        trimmer->state = TRIM_STYLE;
    }
}

/* Is it "<!DOCTYPE …"? Its quoted strings have no '=' before them. */
static bool is_declaration(const struct trimmer *trimmer)
{
    return trimmer->tag_length > 1 && trimmer->tag[1] == '!';
}

/* White space becomes one space before an attribute and before "/>", and is removed around '=' and
 * before '>'. */
static void feed_tag(struct trimmer *trimmer, char c)
{
    if (html_is_space(c)) {
        trimmer->pending = ' ';
        return;
    }
    if (trimmer->pending != '\0' && c != '>' && c != '=' && trimmer->before != '=') {
        note_tag(trimmer, ' ');
        trimmer_put(trimmer, ' ');
    }
    trimmer->pending = '\0';
    trimmer_put(trimmer, c);
    if (c == '>') {
        enter_element(trimmer);
        return;
    }
    note_tag(trimmer, c);
    if ((c == '"' || c == '\'') && (trimmer->before == '=' || is_declaration(trimmer))) {
        trimmer->state = TRIM_QUOTED;
        trimmer->quote = c;
    }
    trimmer->before = c;
}

static void feed_quoted(struct trimmer *trimmer, char c)
{
    trimmer_put(trimmer, c);
    note_tag(trimmer, c);
    if (c == trimmer->quote) {
        trimmer->state = TRIM_TAG;
    } else if (c == '>' && is_declaration(trimmer)) { /* browsers end it here as well */
        trimmer->state = TRIM_TEXT;
    }
}

/* ---- comments ---- */

/* How much of the end of a comment was matched; "<!-->" and "<!--->" are complete comments as
 * well. */
enum { NOTHING, DASH, DASHES, DASHES_BANG, BEGINNING, BEGINNING_DASH };

static void feed_comment(struct trimmer *trimmer, char c)
{
    unsigned dashes = trimmer->dashes;

    if (c == '>' && dashes >= DASHES) {
        trimmer->state = TRIM_TEXT;
    } else if (c == '-') {
        trimmer->dashes = dashes == BEGINNING                          ? BEGINNING_DASH
                          : dashes == NOTHING || dashes == DASHES_BANG ? DASH
                                                                       : DASHES;
    } else {
        trimmer->dashes = c == '!' && dashes == DASHES ? DASHES_BANG : NOTHING;
    }
}

static void put_mark(struct trimmer *trimmer)
{
    for (size_t i = 0; i < trimmer->mark_length; i++) {
        trimmer_put(trimmer, trimmer->mark[i]);
    }
}

/* "<!" begins neither a comment that stays nor may it still become one: it is a comment to remove,
 * or a declaration. */
static void leave_mark(struct trimmer *trimmer)
{
    struct str mark = {trimmer->mark, trimmer->mark_length};

    if (str_starts(mark, STR("<!--"))) {
        trimmer->state = TRIM_COMMENT;
        trimmer->dashes = BEGINNING;
        for (size_t i = 4; i < mark.len && trimmer->state == TRIM_COMMENT; i++) {
            feed_comment(trimmer, mark.data[i]);
        }
        return;
    }
    begin_tag(trimmer);
    for (size_t i = 1; i < mark.len; i++) {
        feed_tag(trimmer, mark.data[i]);
    }
}

static void feed_mark(struct trimmer *trimmer, char c)
{
    static const struct {
        struct str begin, end;
    } kept[] = {
        {STR_INIT("<!--#"), STR_INIT("-->")},            /* SSI */
        {STR_INIT("<!--esi"), STR_INIT("-->")},          /* ESI */
        {STR_INIT("<!--[if"), STR_INIT("<![endif]-->")}, /* Internet Explorer */
    };

    trimmer->mark[trimmer->mark_length++] = c;
    struct str mark = {trimmer->mark, trimmer->mark_length};
    for (size_t i = 0; i < sizeof(kept) / sizeof(*kept); i++) {
        if (str_equal_nocase(mark, kept[i].begin)) {
            put_mark(trimmer);
            forget(trimmer);
            trimmer->state = TRIM_KEPT;
            trimmer->end = kept[i].end;
            return;
        }
        if (str_starts_nocase(kept[i].begin, mark)) {
            return;
        }
    }
    leave_mark(trimmer);
}

static void feed_kept(struct trimmer *trimmer, char c)
{
    trimmer_put(trimmer, c);
    remember(trimmer, c);
    if (trimmer_ends(trimmer, trimmer->end)) {
        trimmer->state = TRIM_TEXT;
    }
}

/* ---- text ---- */

static void feed_text(struct trimmer *trimmer, char c)
{
    if (c == '<') {
        trimmer->state = TRIM_LESS;
    } else if (c == ' ' || c == '\t') {
        if (trimmer->last != ' ') {
            trimmer_put(trimmer, ' ');
        }
    } else if (c == '\n') {
        if (trimmer->last != '\n') {
            trimmer_put(trimmer, '\n');
        }
    } else if (c != '\r') {
        trimmer_put(trimmer, c);
    }
}

static void feed_less(struct trimmer *trimmer, char c)
{
    unsigned char letter = ascii_lower((unsigned char) c);

    if (c == '!') {
        trimmer->state = TRIM_MARK;
        memcpy(trimmer->mark, "<!", 2);
        trimmer->mark_length = 2;
    } else if (c == '/' || c == '?' || (letter >= 'a' && letter <= 'z')) {
        begin_tag(trimmer);
        feed_tag(trimmer, c);
    } else {
        trimmer_put(trimmer, '<');
        trimmer->state = TRIM_TEXT;
        feed_text(trimmer, c);
    }
}

/* After a tag name in an element: is it the end tag of the element? `pre` may be nested. */
static bool ends_element(struct trimmer *trimmer)
{
    if (!trimmer_ends(trimmer, trimmer->end)) {
        trimmer->nested += str_equal(trimmer->end, STR("</pre")) &&
                           trimmer_ends(trimmer, STR("<pre")) && trimmer->nested < UINT_MAX;
        return false;
    }
    if (trimmer->nested != 0) {
        trimmer->nested--;
        return false;
    }
    return true;
}

/* Text of an element: its end tag is effective even inside a comment of the code. */
static void feed_element(struct trimmer *trimmer, char c)
{
    if ((c == '>' || c == '/' || html_is_space(c)) && ends_element(trimmer)) {
        bool is_dropped = trimmer->state != TRIM_RAW &&
                          (trimmer->code == CODE_COMMENT || trimmer->code == CODE_LINE_COMMENT);
        for (size_t i = is_dropped ? TRIM_TAIL - trimmer->end.len : TRIM_TAIL; i < TRIM_TAIL; i++) {
            trimmer_put(trimmer, trimmer->tail[i]);
        }
        trimmer->state = TRIM_TAG;
        trimmer->tag_length = 0;
        trimmer->before = trimmer->pending = '\0';
        note_tag(trimmer, '<');
        note_tag(trimmer, '/');
        feed_tag(trimmer, c);
        return;
    }
    if (trimmer->state == TRIM_SCRIPT) {
        script_feed(trimmer, c);
    } else if (trimmer->state == TRIM_STYLE) {
        style_feed(trimmer, c);
    } else {
        trimmer_put(trimmer, c);
    }
    remember(trimmer, c);
}

static void feed(struct trimmer *trimmer, char c)
{
    switch (trimmer->state) {
    case TRIM_TEXT:
        feed_text(trimmer, c);
        break;
    case TRIM_LESS:
        feed_less(trimmer, c);
        break;
    case TRIM_MARK:
        feed_mark(trimmer, c);
        break;
    case TRIM_TAG:
        feed_tag(trimmer, c);
        break;
    case TRIM_QUOTED:
        feed_quoted(trimmer, c);
        break;
    case TRIM_COMMENT:
        feed_comment(trimmer, c);
        break;
    case TRIM_KEPT:
        feed_kept(trimmer, c);
        break;
    case TRIM_RAW:
    case TRIM_SCRIPT:
    case TRIM_STYLE:
        feed_element(trimmer, c);
        break;
    }
}

/* Writes held bytes at the end of the input. */
static void trimmer_finish(struct trimmer *trimmer)
{
    if (trimmer->state == TRIM_LESS) {
        trimmer_put(trimmer, '<');
    } else if (trimmer->state == TRIM_MARK) {
        put_mark(trimmer);
    } else if ((trimmer->state == TRIM_SCRIPT || trimmer->state == TRIM_STYLE) &&
               trimmer->code == CODE_SLASH) {
        if (trimmer->pending != '\0') {
            trimmer_put(trimmer, trimmer->pending);
        }
        trimmer_put(trimmer, '/');
    }
}

char *trimmer_feed(struct trimmer *trimmer, struct str piece, bool is_last, char *out)
{
    trimmer->out = out;
    for (size_t i = 0; i < piece.len; i++) {
        feed(trimmer, piece.data[i]);
    }
    if (is_last) {
        trimmer_finish(trimmer);
    }
    return trimmer->out;
}
