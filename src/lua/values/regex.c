/* Regular expressions for Lua: PCRE2, compiled and matched on the caller's stack. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <stdlib.h>

#include "base/buf.h"
#include "base/fatal.h"
#include "lua/values/ffi.h"

enum {
    DFA_WORKSPACE = 256, /* integers */
    JIT_STACK_FIRST = 32 << 10,
};

/* The JIT's stack; without, it uses 32 KB of the machine's. Of this thread. */
static __thread pcre2_match_context *context;
static __thread pcre2_jit_stack *jit_stack;

static const struct {
    int flag;
    uint32_t option;
} options[] = {
    {SCRIPT_REGEX_CASELESS, PCRE2_CASELESS},
    {SCRIPT_REGEX_MULTILINE, PCRE2_MULTILINE},
    {SCRIPT_REGEX_DOTALL, PCRE2_DOTALL},
    {SCRIPT_REGEX_EXTENDED, PCRE2_EXTENDED},
    {SCRIPT_REGEX_ANCHORED, PCRE2_ANCHORED},
    {SCRIPT_REGEX_UTF, PCRE2_UTF},
    {SCRIPT_REGEX_NO_UTF_CHECK, PCRE2_NO_UTF_CHECK},
    {SCRIPT_REGEX_DUPNAMES, PCRE2_DUPNAMES},
    {SCRIPT_REGEX_JAVASCRIPT, PCRE2_ALT_BSUX | PCRE2_MATCH_UNSET_BACKREF},
};

/* Gives the bytes of the message. */
static int script_regex_tell(struct str pattern, int error, size_t offset, char *out)
{
    unsigned char text[256] = "unknown error";
    struct writer writer = {out, out + SCRIPT_REGEX_ERROR + 2 * pattern.len};

    pcre2_get_error_message(error, text, sizeof(text));
    writer_printf(&writer, "pcre2_compile() failed: %s in \"%.*s\"", (const char *) text,
                  STR_ARG(pattern));
    if (offset < pattern.len) {
        writer_printf(&writer, " at \"%.*s\"", STR_ARG(str_skip(pattern, offset)));
    }
    return (int) (writer.at - out);
}

/* NULL: there is a message of so many bytes. */
static pcre2_code *compile(struct str pattern, int flags, char *message, int *len)
{
    uint32_t wanted = 0;
    int error;
    PCRE2_SIZE offset;

    for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
        wanted |= (flags & options[i].flag) != 0 ? options[i].option : 0;
    }
    pcre2_code *code =
        pcre2_compile((PCRE2_SPTR) pattern.data, pattern.len, wanted, &error, &offset, NULL);
    if (code == NULL) {
        *len = script_regex_tell(pattern, error, offset, message);
    }
    return code;
}

int script_ffi_regex_new(const char *pattern, size_t len, int flags, double match_limit,
                         struct script_regex **made, char *message)
{
    int message_len = 0;
    pcre2_code *code = compile((struct str){pattern, len}, flags, message, &message_len);
    uint32_t groups = 0, names = 0, name_size = 0;
    PCRE2_SPTR table = NULL;

    if (code == NULL) {
        return message_len;
    }
    pcre2_pattern_info(code, PCRE2_INFO_CAPTURECOUNT, &groups);
    pcre2_pattern_info(code, PCRE2_INFO_NAMECOUNT, &names);
    pcre2_pattern_info(code, PCRE2_INFO_NAMEENTRYSIZE, &name_size);
    pcre2_pattern_info(code, PCRE2_INFO_NAMETABLE, &table);
    struct script_regex *regex =
        calloc(1, sizeof(*regex) + 2 * (groups + 1) * sizeof(*regex->captures));
    if (regex == NULL) {
        fatal_no_memory(sizeof(*regex));
    }
    regex->captures = (int *) (void *) (regex + 1);
    regex->groups = (int) groups;
    regex->name_count = (int) names;
    regex->name_size = (int) name_size;
    regex->names = table;
    regex->code = code;
    regex->data = pcre2_match_data_create(groups + 1, NULL);
    regex->match_limit = (uint32_t) match_limit;
    regex->match_options = (flags & SCRIPT_REGEX_NO_UTF_CHECK) != 0 ? PCRE2_NO_UTF_CHECK : 0;
    regex->is_utf = (flags & SCRIPT_REGEX_UTF) != 0;
    regex->is_dfa = (flags & SCRIPT_REGEX_DFA) != 0;
    if (regex->data == NULL) {
        fatal_no_memory(groups);
    }
    if ((flags & SCRIPT_REGEX_JIT) != 0 && !regex->is_dfa &&
        pcre2_jit_compile(code, PCRE2_JIT_COMPLETE) == 0) {
        regex->is_fast =
            (flags & SCRIPT_REGEX_UTF) == 0 || (flags & SCRIPT_REGEX_NO_UTF_CHECK) != 0;
    }
    *made = regex;
    return 0;
}

void script_ffi_regex_free(struct script_regex *regex)
{
    pcre2_match_data_free(regex->data);
    pcre2_code_free(regex->code);
    free(regex);
}

static void script_regex_prepare(const struct script_regex *regex)
{
    if (context == NULL) {
        context = pcre2_match_context_create(NULL);
        if (context == NULL) {
            fatal_no_memory(sizeof(context));
        }
        if (jit_stack != NULL) {
            pcre2_jit_stack_assign(context, NULL, jit_stack);
        }
    }
    pcre2_set_match_limit(context, regex->match_limit != 0 ? regex->match_limit : 10000000);
}

static void take_captures(const struct script_regex *regex)
{
    const PCRE2_SIZE *offsets = pcre2_get_ovector_pointer(regex->data);
    int count = regex->is_dfa ? 1 : regex->groups + 1;

    for (int i = 0; i < 2 * count; i++) {
        regex->captures[i] = offsets[i] == PCRE2_UNSET ? -1 : (int) offsets[i];
    }
}

static int match_dfa(const struct script_regex *regex, struct str subject, size_t from)
{
    int workspace[DFA_WORKSPACE];

    return pcre2_dfa_match(regex->code, (PCRE2_SPTR) subject.data, subject.len, from,
                           regex->match_options, regex->data, context, workspace, DFA_WORKSPACE);
}

int script_ffi_regex_match(struct script_regex *regex, const char *subject, size_t len, size_t from)
{
    int result;

    if (from > len) {
        return PCRE2_ERROR_BADOFFSET;
    }
    script_regex_prepare(regex);
    if (regex->is_dfa) {
        result = match_dfa(regex, (struct str){subject, len}, from);
        result = result == 0
                     ? 1
                     : result; /* more matches than there is room for: the longest is the first */
    } else if (regex->is_fast) {
        result =
            pcre2_jit_match(regex->code, (PCRE2_SPTR) subject, len, from, 0, regex->data, context);
    } else {
        result = pcre2_match(regex->code, (PCRE2_SPTR) subject, len, from, regex->match_options,
                             regex->data, context);
    }
    if (result > 0) {
        take_captures(regex);
        return result;
    }
    return result == PCRE2_ERROR_NOMATCH ? 0 : result;
}

/* A part of a template: a text, or what a group has matched. */
static struct str part_of(const struct script_regex *regex, const char *subject, const char *text,
                          const int *pair)
{
    if (pair[0] >= 0) {
        return (struct str){text + pair[0], (size_t) pair[1]};
    }
    if (pair[1] > regex->groups || (regex->is_dfa && pair[1] != 0)) {
        return STR("");
    }
    int from = regex->captures[2 * pair[1]], to = regex->captures[2 * pair[1] + 1];
    return from < 0 || to <= from ? STR("") : str_from(subject + from, subject + to);
}

/* Where to look next after the match that was looked for from `from`: on, in any case. */
static size_t next_from(const struct script_regex *regex, struct str subject, size_t from)
{
    size_t first = (size_t) regex->captures[0], last = (size_t) regex->captures[1];

    if (last > first && last > from) {
        return last;
    }
    last = last < from ? from : last;
    do {
        last++;
    } while (regex->is_utf && last < subject.len &&
             ((unsigned char) subject.data[last] & 0xc0) == 0x80);
    return last;
}

/* What comes out of a replacement: bytes that have no room are only counted. */
struct replaced {
    char *out;
    size_t size, len;
};

static void replaced_append(struct replaced *replaced, struct str text)
{
    if (text.len <= replaced->size && replaced->len <= replaced->size - text.len) {
        str_put(replaced->out + replaced->len, text);
    }
    replaced->len += text.len;
}

int script_ffi_regex_replace(struct script_regex *regex, const char *subject, size_t len,
                             const struct script_template *template, int most, char *out, int size)
{
    struct replaced replaced = {out, (size_t) size, 0};
    size_t copied = 0, from = 0;
    int result;

    regex->replaced = 0;
    while (regex->replaced < most && from <= len &&
           (result = script_ffi_regex_match(regex, subject, len, from)) != 0) {
        if (result < 0) {
            return result;
        }
        size_t first = (size_t) regex->captures[0], last = (size_t) regex->captures[1];

        if (first > copied) {
            replaced_append(&replaced, str_from(subject + copied, subject + first));
        }
        for (int i = 0; i < template->count; i++) {
            replaced_append(&replaced,
                            part_of(regex, subject, template->text, template->list + 2 * i));
        }
        copied = last > copied ? last : copied;
        from = next_from(regex, (struct str){subject, len}, from);
        regex->replaced++;
    }
    if (regex->replaced == 0) {
        return 0;
    }
    replaced_append(&replaced, str_from(subject + copied, subject + len));
    return replaced.len > INT32_MAX ? INT32_MAX : (int) replaced.len;
}

int script_ffi_regex_jit_stack(size_t size)
{
    pcre2_jit_stack *stack =
        pcre2_jit_stack_create(size < JIT_STACK_FIRST ? size : JIT_STACK_FIRST, size, NULL);

    if (stack == NULL) {
        return 0;
    }
    pcre2_match_context_free(context);
    pcre2_jit_stack_free(jit_stack);
    context = NULL;
    jit_stack = stack;
    return 1;
}
