/* Removes white space and comments from HTML, and from scripts and styles in it; byte by byte, with
 * state across pieces. Pure functions. */
#ifndef HTTP_MODULES_FILTERS_TRIM_TRIMMER_H
#define HTTP_MODULES_FILTERS_TRIM_TRIMMER_H

#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"

/* Bytes of a tag that are examined; a script or style with a longer tag is not trimmed. */
#define TRIM_TAG_MAX 48
/* Last bytes of the input that are remembered: the length of "<![endif]-->". */
#define TRIM_TAIL 12
#define TRIM_HELD 16 /* most bytes that are held until it is known what follows */

/* The state within HTML. */
enum trim_state {
    TRIM_TEXT,
    TRIM_LESS,    /* after '<', which is held */
    TRIM_MARK,    /* after "<!" or more of the beginning of a comment, which is held */
    TRIM_TAG,     /* in a tag, or a declaration */
    TRIM_QUOTED,  /* in a quoted value of a tag */
    TRIM_COMMENT, /* in a comment that is removed */
    TRIM_KEPT,    /* in a comment that stays */
    TRIM_RAW,     /* in an element whose text stays */
    TRIM_SCRIPT,  /* in JavaScript: script_feed */
    TRIM_STYLE,   /* in CSS: style_feed */
};

/* The state within a script or a style. */
enum trim_code {
    CODE_PLAIN,
    CODE_ESCAPE,       /* styles: after '\' */
    CODE_SLASH,        /* after '/', which is held */
    CODE_LINE_COMMENT, /* scripts only */
    CODE_COMMENT,
    CODE_STRING,
    CODE_STRING_ESCAPE,
    CODE_REGEX, /* scripts only */
    CODE_REGEX_ESCAPE,
    CODE_REGEX_CLASS, /* between [ and ] */
    CODE_REGEX_CLASS_ESCAPE,
    CODE_URL,  /* styles: after "url(" */
    CODE_HACK, /* styles: between the comments of the hack for IE 5 */
    CODE_REST, /* the remainder stays as it is */
};

/* Initially zero, except for the first two members. */
struct trimmer {
    bool trims_scripts;
    bool trims_styles;

    enum trim_state state;
    char last;              /* last byte written */
    char quote;             /* of TRIM_QUOTED and CODE_STRING */
    char tag[TRIM_TAG_MAX]; /* of TRIM_TAG: in lower case, white space as one space */
    size_t tag_length;      /* TRIM_TAG_MAX: the tag is longer */
    char mark[8];           /* of TRIM_MARK: the held bytes */
    size_t mark_length;
    struct str
        end; /* of TRIM_KEPT: the end of the comment; of an element: its end tag, up to the name */
    unsigned nested;      /* of `pre`: number of nested ones that are open */
    unsigned dashes;      /* of TRIM_COMMENT: how much of its end was matched; see feed_comment */
    char tail[TRIM_TAIL]; /* of an element, or a comment that stays: the last bytes of the input */

    enum trim_code code;
    char pending;            /* white space that may be needed before the next byte; or 0 */
    char before;             /* last byte of code written; 0 = none in this element */
    bool is_doubled;         /* the byte before it was the same: ++, -- */
    char word[12];           /* of a script: the last word */
    size_t word_length;      /* sizeof(word): the word is longer */
    bool is_glued;           /* a comment without white space follows `before` */
    unsigned comment_length; /* bytes of CODE_COMMENT so far, up to 4 */
    char comment[4];         /* the first of these bytes, and the last one */
    char comment_last;
    bool is_declaring;             /* of a style: a declaration follows */
    bool is_naming;                /* its name has not ended */
    bool is_grouping;              /* the current rule is an at-rule with nested rules */
    bool begins_rule, begins_name; /* nothing of it was written; for begins_name, only its '@' */

    char *out; /* output position while trimmer_feed runs */
};

/* Trims a piece and writes the result to `out`: at most piece.len + TRIM_HELD bytes; over all
 * pieces no more than the input. Returns the end of what was written. */
char *trimmer_feed(struct trimmer *trimmer, struct str piece, bool is_last, char *out);

/* ---- for script.c and style.c ---- */

static inline void trimmer_put(struct trimmer *trimmer, char c)
{
    *trimmer->out++ = c;
    trimmer->last = c;
}

static inline bool html_is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f';
}

/* Do the bytes before the next one end with this word, in any case? */
bool trimmer_ends(const struct trimmer *trimmer, struct str word);

/* Take the next byte of a script, or of a style. Implemented in script.c and style.c. */
void script_feed(struct trimmer *trimmer, char c);
void style_feed(struct trimmer *trimmer, char c);

#endif
