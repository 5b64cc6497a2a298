/* Regular expressions: one PCRE2 pattern. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/fatal.h"
#include "conf/internal.h"
#include "conf/regex.h"
#include "conf/regex_internal.h"
#include "fiber/fiber.h"

#define MATCH_LIMIT 500000          /* steps of one match, after which it is abandoned */
#define HEAP_LIMIT_KIB 16384        /* memory of one match without JIT */
#define JIT_STACK_MIN (32 * 1024)   /* bytes */
#define JIT_STACK_MAX (1024 * 1024) /* bytes; only the part that a match needs is touched */
#define SUBJECT_SHOWN 256           /* bytes of a subject that are logged */

/* A named group, and the variable that it sets. */
struct regex_name {
    unsigned group;
    const struct variable *variable;
};

struct regex {
    pcre2_code *code;       /* freed with the arena */
    struct str pattern;     /* NUL-terminated */
    unsigned capture_count; /* groups, without $0 */
    bool is_nocase;
    bool is_jit;              /* pcre2_jit_match may be called */
    struct regex_name *names; /* those that set variables; NULL when there are none */
    unsigned name_count;
};

/*
 * The memory that a match needs: one for each process, shared by all patterns, since a match never
 * waits. It is made while the configuration is read, and inherited by the workers.
 */
static struct {
    pcre2_match_context *context; /* limits and the JIT stack */
    pcre2_match_data *data;       /* has space for the groups of the largest pattern */
    unsigned groups;              /* number of groups that fit into data, including $0 */
} matcher;

static bool use_jit = true;

void regex_use_jit(bool on)
{
    use_jit = on;
}

static void free_code(void *code)
{
    pcre2_code_free(code);
}

/* Makes space for the groups of one more pattern. */
static void prepare_matcher(unsigned groups)
{
    if (matcher.context == NULL) {
        matcher.context = pcre2_match_context_create(NULL);
        pcre2_jit_stack *stack = pcre2_jit_stack_create(JIT_STACK_MIN, JIT_STACK_MAX, NULL);
        if (matcher.context == NULL) {
            fatal_no_memory(JIT_STACK_MIN);
        }
        pcre2_set_match_limit(matcher.context, MATCH_LIMIT);
        pcre2_set_heap_limit(matcher.context, HEAP_LIMIT_KIB);
        if (stack != NULL) {
            pcre2_jit_stack_assign(matcher.context, NULL, stack);
        }
    }
    if (groups > matcher.groups) {
        pcre2_match_data_free(matcher.data);
        matcher.data = pcre2_match_data_create(groups, NULL);
        if (matcher.data == NULL) {
            fatal_no_memory(groups * sizeof(size_t));
        }
        matcher.groups = groups;
    }
}

/* Defines a variable for each named group. False after an error. */
static bool define_names(struct conf *conf, const struct conf_node *node, struct regex *regex)
{
    uint32_t count = 0;
    uint32_t entry_size = 0;
    PCRE2_SPTR entry = NULL;
    struct variable_set *set = conf_variables(conf);

    pcre2_pattern_info(regex->code, PCRE2_INFO_NAMECOUNT, &count);
    if (count == 0 || set == NULL) {
        return true;
    }
    pcre2_pattern_info(regex->code, PCRE2_INFO_NAMEENTRYSIZE, &entry_size);
    pcre2_pattern_info(regex->code, PCRE2_INFO_NAMETABLE, &entry);
    regex->names = arena_array(conf->arena, count, sizeof(*regex->names));
    regex->name_count = count;
    /* An entry has the group's number in two bytes, then its name and a NUL. */
    for (uint32_t i = 0; i < count; i++, entry += entry_size) {
        struct str name = str_of((const char *) entry + 2);
        struct variable *variable = variable_define(conf, node, set, name, VARIABLE_CHANGEABLE);
        if (variable == NULL) {
            return false;
        }
        regex->names[i].group = (unsigned) (entry[0] << 8 | entry[1]);
        regex->names[i].variable = variable;
    }
    return true;
}

static void tell_compile_error(struct conf *conf, const struct conf_node *node, struct str pattern,
                               int error, size_t offset)
{
    unsigned char text[256] = "unknown error";

    pcre2_get_error_message(error, text, sizeof(text));
    if (offset >= pattern.len) {
        conf_error(conf, node, "pcre2_compile() failed: %s in \"%.*s\"", (const char *) text,
                   STR_ARG(pattern));
        return;
    }
    struct str rest = str_skip(pattern, offset);
    conf_error(conf, node, "pcre2_compile() failed: %s in \"%.*s\" at \"%.*s\"",
               (const char *) text, STR_ARG(pattern), STR_ARG(rest));
}

static void compile_jit(struct regex *regex)
{
    uint32_t options = 0;

    pcre2_pattern_info(regex->code, PCRE2_INFO_ALLOPTIONS, &options);
    /*
     * pcre2_jit_match does not check that the subject is UTF-8, so patterns with PCRE2_UTF use
     * pcre2_match.
     */
    regex->is_jit = use_jit && pcre2_jit_compile(regex->code, PCRE2_JIT_COMPLETE) == 0 &&
                    (options & PCRE2_UTF) == 0;
}

struct regex *regex_compile(struct conf *conf, const struct conf_node *node, struct str pattern,
                            bool is_nocase, bool has_variables)
{
    int error = 0;
    PCRE2_SIZE offset = 0;
    struct regex *regex = arena_new(conf->arena, struct regex);
    uint32_t groups = 0;

    regex->pattern = str_of(arena_cstr(conf->arena, pattern));
    regex->pattern.len = pattern.len;
    regex->is_nocase = is_nocase;
    regex->code = pcre2_compile((PCRE2_SPTR) regex->pattern.data, pattern.len,
                                is_nocase ? PCRE2_CASELESS : 0, &error, &offset, NULL);
    if (regex->code == NULL) {
        tell_compile_error(conf, node, pattern, error, offset);
        return NULL;
    }
    arena_on_free(conf->arena, free_code, regex->code);
    compile_jit(regex);
    pcre2_pattern_info(regex->code, PCRE2_INFO_CAPTURECOUNT, &groups);
    regex->capture_count = groups;
    prepare_matcher(groups + 1);
    if (has_variables && !define_names(conf, node, regex)) {
        return NULL;
    }
    return regex;
}

unsigned regex_capture_count(const struct regex *regex)
{
    return regex->capture_count;
}

struct str regex_pattern(const struct regex *regex)
{
    return regex->pattern;
}

bool regex_is_nocase(const struct regex *regex)
{
    return regex->is_nocase;
}

/* Sets captures from groups, and variables from named ones. An unset group is empty. */
static void set_captures(const struct regex *regex, struct str subject, struct variable_env *env)
{
    const PCRE2_SIZE *offsets = pcre2_get_ovector_pointer(matcher.data);
    unsigned count = regex->capture_count + 1;
    struct str *captures = arena_alloc(env->arena, count * sizeof(*captures));

    for (unsigned i = 0; i < count; i++) {
        PCRE2_SIZE start = offsets[2 * i];
        PCRE2_SIZE end = offsets[2 * i + 1];
        /* With \K in a lookahead, a match may start after its end. */
        bool is_set = start != PCRE2_UNSET && start <= end;
        captures[i] = is_set ? (struct str){subject.data + start, end - start} : STR_NONE;
    }
    env->captures = captures;
    env->capture_count = count;
    for (unsigned i = 0; i < regex->name_count; i++) {
        struct str capture = captures[regex->names[i].group];

        variable_assign(env, regex->names[i].variable, capture.data != NULL ? capture : STR(""));
    }
}

static __attribute__((cold)) void tell_match_error(const struct regex *regex, struct str subject,
                                                   int error, const struct log *log)
{
    struct str shown = str_head(subject, SUBJECT_SHOWN);

    log_error(log, 0, "pcre2_match() failed: %d on \"%.*s\" using \"%.*s\"", error, STR_ARG(shown),
              STR_ARG(regex->pattern));
}

bool regex_match(const struct regex *regex, struct str subject, struct variable_env *env,
                 const struct log *log)
{
    PCRE2_SPTR text = (PCRE2_SPTR) (subject.data == NULL ? "" : subject.data);
    int result;

    if (regex->is_jit) {
        result =
            pcre2_jit_match(regex->code, text, subject.len, 0, 0, matcher.data, matcher.context);
    } else {
        result = pcre2_match(regex->code, text, subject.len, 0, 0, matcher.data, matcher.context);
    }
    if (result < 0) {
        if (result != PCRE2_ERROR_NOMATCH) {
            tell_match_error(regex, subject, result, log);
        }
        return false;
    }
    if (env != NULL) {
        set_captures(regex, str_from((const char *) text, (const char *) text + subject.len), env);
    }
    return true;
}

/* ---- patterns that are compiled at run time */

/* Arguments and result of regex_match_once, which runs on the worker's own stack. */
struct match_once {
    struct arena *arena;
    struct str pattern;
    struct str subject;
    const struct log *log;
    struct vec *groups;
    enum regex_result result;
};

static void tell_invalid(const struct match_once *match, int error, size_t offset)
{
    unsigned char text[256] = "unknown error";

    pcre2_get_error_message(error, text, sizeof(text));
    if (offset >= match->pattern.len) {
        log_error(match->log, 0, "pcre2_compile() failed: %s in \"%.*s\"", (const char *) text,
                  STR_ARG(match->pattern));
        return;
    }
    struct str rest = str_skip(match->pattern, offset);
    log_error(match->log, 0, "pcre2_compile() failed: %s in \"%.*s\" at \"%.*s\"",
              (const char *) text, STR_ARG(match->pattern), STR_ARG(rest));
}

static void take_groups(struct match_once *match, const pcre2_code *code, unsigned count)
{
    const PCRE2_SIZE *offsets = pcre2_get_ovector_pointer(matcher.data);
    uint32_t names = 0;
    uint32_t entry_size = 0;
    PCRE2_SPTR entry = NULL;

    *match->groups = (struct vec){0};
    for (unsigned i = 0; i < count; i++) {
        struct regex_group *group = vec_add(match->groups, match->arena, struct regex_group);
        PCRE2_SIZE start = offsets[2 * i];
        PCRE2_SIZE end = offsets[2 * i + 1];
        bool is_set = start != PCRE2_UNSET && start <= end;
        group->value = is_set ? (struct str){match->subject.data + start, end - start} : STR("");
    }
    pcre2_pattern_info(code, PCRE2_INFO_NAMECOUNT, &names);
    pcre2_pattern_info(code, PCRE2_INFO_NAMEENTRYSIZE, &entry_size);
    pcre2_pattern_info(code, PCRE2_INFO_NAMETABLE, &entry);
    for (uint32_t i = 0; i < names; i++, entry += entry_size) {
        unsigned number = (unsigned) (entry[0] << 8 | entry[1]);
        vec_at(match->groups, struct regex_group, number)->name =
            arena_dup(match->arena, str_of((const char *) entry + 2));
    }
}

static void match_now(void *arg)
{
    struct match_once *match = arg;
    int error = 0;
    PCRE2_SIZE offset = 0;
    uint32_t groups = 0;
    pcre2_code *code = pcre2_compile((PCRE2_SPTR) match->pattern.data, match->pattern.len, 0,
                                     &error, &offset, NULL);

    if (code == NULL) {
        tell_invalid(match, error, offset);
        match->result = REGEX_INVALID;
        return;
    }
    pcre2_pattern_info(code, PCRE2_INFO_CAPTURECOUNT, &groups);
    prepare_matcher(groups + 1);
    error = pcre2_match(code, (PCRE2_SPTR) match->subject.data, match->subject.len, 0, 0,
                        matcher.data, matcher.context);
    match->result = error < 0 ? REGEX_NO_MATCH : REGEX_MATCH;
    if (error >= 0) {
        take_groups(match, code, groups + 1);
    } else if (error != PCRE2_ERROR_NOMATCH) {
        struct str shown = str_head(match->subject, SUBJECT_SHOWN);
        log_error(match->log, 0, "pcre2_match() failed: %d on \"%.*s\" using \"%.*s\"", error,
                  STR_ARG(shown), STR_ARG(match->pattern));
    }
    pcre2_code_free(code);
}

enum regex_result regex_match_once(struct arena *arena, struct str pattern, struct str subject,
                                   const struct log *log, struct vec *groups)
{
    struct match_once match = {.arena = arena,
                               .pattern = pattern.data == NULL ? STR("") : pattern,
                               .subject = subject.data == NULL ? STR("") : subject,
                               .log = log,
                               .groups = groups};

    fiber_call_on_main(match_now, &match);
    return match.result;
}
