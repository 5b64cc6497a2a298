/* White space and comments out of HTML, and out of the scripts and styles in it; byte by byte, with
 * a state over pieces. Pure. */
#ifndef HTTP_MODULES_FILTERS_TRIM_TRIMMER_H
#define HTTP_MODULES_FILTERS_TRIM_TRIMMER_H

#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"

#define TRIM_TAG_MAX                                                                               \
    48 /* bytes of a tag that are looked at; longer ones are no script and no style that is        \
          trimmed */
#define TRIM_TAIL 12 /* bytes of the input that are remembered: "<![endif]-->" is as long */
#define TRIM_HELD 16 /* bytes that wait for what follows them, at most */

/* Where in HTML the next byte stands. */
enum trim_state {
    TRIM_TEXT,
    TRIM_LESS,    /* after '<', which waits */
    TRIM_MARK,    /* after "<!" and more of the beginnings of comments, which wait */
    TRIM_TAG,     /* in a tag, or a declaration */
    TRIM_QUOTED,  /* in a quoted value of it */
    TRIM_COMMENT, /* in a comment that goes */
    TRIM_KEPT,    /* in one that stays */
    TRIM_RAW,     /* in an element whose text stays */
    TRIM_SCRIPT,  /* in one of JavaScript: script_feed */
    TRIM_STYLE,   /* in one of CSS: style_feed */
};

/* Where in a script, or in a style, it stands. */
enum trim_code {
    CODE_PLAIN,
    CODE_ESCAPE,       /* of a style: after '\' */
    CODE_SLASH,        /* after '/', which waits */
    CODE_LINE_COMMENT, /* of a script */
    CODE_COMMENT,
    CODE_STRING,
    CODE_STRING_ESCAPE,
    CODE_REGEX, /* of a script */
    CODE_REGEX_ESCAPE,
    CODE_REGEX_CLASS, /* between [ and ] */
    CODE_REGEX_CLASS_ESCAPE,
    CODE_URL,  /* of a style: after "url(" */
    CODE_HACK, /* of a style: between the comments of the hack for IE 5 */
    CODE_REST, /* to its end it stays as it is */
};

/* All zero, but for the first two, is a beginning. */
struct trimmer {
    bool trims_scripts;
    bool trims_styles;

    enum trim_state state;
    char last;              /* byte that went out last */
    char quote;             /* of TRIM_QUOTED and CODE_STRING */
    char tag[TRIM_TAG_MAX]; /* of TRIM_TAG: in small letters, white space as one blank */
    size_t tag_length;      /* TRIM_TAG_MAX: it was longer */
    char mark[8];           /* of TRIM_MARK: what waits */
    size_t mark_length;
    struct str end;  /* of TRIM_KEPT: what ends it; of an element: its end tag, up to the name */
    unsigned nested; /* of `pre`: elements of that name in it that have not ended */
    unsigned dashes; /* of TRIM_COMMENT: how much of its end has come; see feed_comment */
    char tail[TRIM_TAIL]; /* of an element, or a comment that stays: the last bytes of the input */

    enum trim_code code;
    char pending;            /* white space that goes out before the next byte, perhaps; or 0 */
    char before;             /* last byte of code that went out; 0 = none in this element */
    bool is_doubled;         /* the same stood before it: ++, -- */
    char word[12];           /* of a script: the word that ends there */
    size_t word_length;      /* sizeof(word): it is longer */
    bool is_glued;           /* a comment went out after `before`, without white space */
    unsigned comment_length; /* bytes of CODE_COMMENT so far, up to 4 */
    char comment[4];         /* the first of these, and the last one */
    char comment_last;
    bool is_declaring;             /* of a style: what comes is a declaration */
    bool is_naming;                /* the name of that declaration has not ended */
    bool is_grouping;              /* what comes is an at-rule with rules in its block */
    bool begins_rule, begins_name; /* nothing of it has come; its '@' alone has */

    char *out; /* where the next byte goes, while trimmer_feed runs */
};

/*
 * Takes all of a piece, and writes what comes of it to `out`: no more than piece.len + TRIM_HELD
 * bytes; over all pieces no more than came in. Gives the end of what was written.
 */
char *trimmer_feed(struct trimmer *trimmer, struct str piece, bool is_last, char *out);

/* ---- for its parts ---- */

static inline void trimmer_put(struct trimmer *trimmer, char c)
{
    *trimmer->out++ = c;
    trimmer->last = c;
}

static inline bool html_is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f';
}

/* Do the bytes before the next one end in this word, in any case? */
bool trimmer_ends(const struct trimmer *trimmer, struct str word);

/* script.c, style.c: the next byte of a script, or of a style. */
void script_feed(struct trimmer *trimmer, char c);
void style_feed(struct trimmer *trimmer, char c);

#endif
