/* Values in SSI directives: variables, text with variables, and conditions. */
#include "base/buf.h"
#include "base/map.h"
#include "conf/regex.h"
#include "http/modules/filters/ssi/ssi.h"

/* State shared by a request and its subrequests; in the main request's arena. */
struct ssi_shared {
    struct map variables; /* struct str: set by `set`; by name, case-insensitive */
    struct vec groups;    /* struct regex_group: of the last match */
    struct map blocks;    /* struct ssi_block: the first of each name */
    size_t blocks_size;   /* total bytes of blocks, those still open included */
    unsigned work;        /* directives so far */
};

static const char shared_key;

static struct ssi_shared *shared_of(struct request *request)
{
    return request_data(request->main, &shared_key, sizeof(struct ssi_shared));
}

bool ssi_count_work(struct request *request)
{
    if (request->main->is_over_memory) {
        return false; /* checked here because directives rarely wait, so a page may never meet a
                         cancelled wait */
    }
    return ++shared_of(request)->work % SSI_WORK_AT_ONCE != 0 || fiber_yield() != WAIT_CANCELLED;
}

void ssi_set(struct request *request, struct str name, struct str value)
{
    struct ssi_shared *shared = shared_of(request);
    struct arena *arena = &request->main->arena;
    struct str *kept = map_get_nocase(&shared->variables, name);

    if (kept == NULL) {
        kept = arena_new(arena, struct str);
        map_put_nocase(&shared->variables, arena, arena_dup(arena, name), kept);
    }
    *kept = arena_dup(arena, value);
}

/* Stores the captures of the last expression that matched. */
static void set_captures(struct request *request, struct vec groups)
{
    shared_of(request)->groups = groups;
}

/* Looks a capture up by its number or by the name of its group. */
static bool get_capture(const struct ssi_shared *shared, struct str name, struct str *out)
{
    bool is_number = name.len == 1 && ascii_is_digit((unsigned char) name.data[0]);
    unsigned number = 0;

    vec_each(struct regex_group, group, &shared->groups) {
        if (is_number ? number == (unsigned) (name.data[0] - '0')
                      : group->name.len != 0 && str_equal_nocase(group->name, name)) {
            *out = group->value;
            return true;
        }
        number++;
    }
    return false;
}

bool ssi_get(struct request *request, struct str name, struct str *out)
{
    struct ssi_shared *shared = shared_of(request);
    const struct str *kept = map_get_nocase(&shared->variables, name);

    if (kept != NULL) {
        *out = *kept;
        return true;
    }
    return get_capture(shared, name, out) || variable_get_by_name(&request->env, name, out);
}

/* ---- blocks ---- */

static void free_block(void *arg)
{
    buf_free(&((struct ssi_block *) arg)->text);
}

void ssi_keep_block(struct request *request, struct ssi_block *block)
{
    struct ssi_shared *shared = shared_of(request);
    struct arena *arena = &request->main->arena;

    if (map_get(&shared->blocks, block->name) == NULL) {
        map_put(&shared->blocks, arena, block->name, block);
    }
    arena_on_free(arena, free_block, block);
}

const struct ssi_block *ssi_find_block(struct request *request, struct str name)
{
    return map_get(&shared_of(request)->blocks, name);
}

bool ssi_count_block_bytes(struct request *request, size_t size)
{
    struct ssi_shared *shared = shared_of(request);

    if (shared->blocks_size + size > SSI_BLOCKS_MAX) {
        return false;
    }
    shared->blocks_size += size;
    return true;
}

/* ---- text ---- */

static bool is_name_byte(char c)
{
    return c == '_' || ascii_is_digit((unsigned char) c) ||
           (unsigned char) (ascii_lower((unsigned char) c) - 'a') < 26;
}

static bool is_escapable(char c)
{
    return c == '\\' || c == '$' || c == '"' || c == '\'';
}

/* Takes the name after a '$', in braces or not; *at is advanced. False after an error. */
static bool take_name(struct request *request, struct str text, size_t *at, struct str *name)
{
    bool has_brace = *at < text.len && text.data[*at] == '{';
    size_t start = *at + has_brace;
    size_t end = start;

    while (end < text.len && is_name_byte(text.data[end])) {
        end++;
    }
    *name = (struct str){text.data + start, end - start};
    if (name->len == 0) {
        log_error(&request->log, 0, "invalid variable name in \"%.*s\"", STR_ARG(text));
        return false;
    }
    if (has_brace) {
        if (end == text.len || text.data[end] != '}') {
            log_error(&request->log, 0, "the closing bracket in \"%.*s\" variable is missing",
                      STR_ARG(*name));
            return false;
        }
        end++;
    }
    *at = end;
    return true;
}

/* Does this value alone exceed what a request may use? One directive can insert a large value
 * thousands of times. */
static bool is_too_long(const struct request *request, size_t len)
{
    size_t limit = request->main->memory.limit;

    if (limit == 0 || len <= limit) {
        return false;
    }
    log_error(&request->log, 0, "an SSI value is longer than request_memory_limit: %zu bytes", len);
    return true;
}

/* Appends the evaluated text to out. False after an error. */
static bool evaluate_into(struct request *request, struct str text, struct buf *out)
{
    for (size_t i = 0; i < text.len;) {
        char c = text.data[i];

        if (c == '\\' && i + 1 < text.len && is_escapable(text.data[i + 1])) {
            buf_append_char(out, text.data[i + 1]);
            i += 2;
            continue;
        }
        i++;
        if (c != '$') {
            buf_append_char(out, c);
            continue;
        }
        struct str name;
        struct str value;
        if (!take_name(request, text, &i, &name)) {
            return false;
        }
        if (!ssi_get(request, name, &value)) {
            continue;
        }
        if (is_too_long(request, out->len + value.len)) {
            return false;
        }
        buf_append(out, value);
    }
    return true;
}

bool ssi_evaluate(struct request *request, struct str text, struct str *out)
{
    struct buf buf = {0};
    bool is_sound;

    *out = text;
    if (str_find_char(text, '$') == NULL && str_find_char(text, '\\') == NULL) {
        return true;
    }
    is_sound = evaluate_into(request, text, &buf);
    if (is_sound) {
        *out = arena_dup(&request->arena, buf_str(&buf));
    }
    buf_free(&buf);
    return is_sound;
}

/* ---- conditions ---- */

static struct str ssi_values_skip_spaces(struct str text)
{
    while (text.len != 0 && text.data[0] == ' ') {
        text = str_skip(text, 1);
    }
    return text;
}

/* Matches the left side with "/pattern/". False after an error. */
static bool match(struct request *request, struct str left, struct str right, bool *is_match)
{
    struct str pattern = {right.data + 1, right.len - 2};
    struct vec groups;

    if (!ssi_evaluate(request, pattern, &pattern)) {
        return false;
    }
    enum regex_result result =
        regex_match_once(&request->main->arena, pattern, arena_dup(&request->main->arena, left),
                         &request->log, &groups);
    if (result == REGEX_MATCH) {
        set_captures(request, groups);
    }
    *is_match = result == REGEX_MATCH;
    return result != REGEX_INVALID;
}

static bool refuse_expression(struct request *request, struct str text)
{
    log_error(&request->log, 0, "invalid expression in \"%.*s\"", STR_ARG(text));
    return false;
}

/* Compares the evaluated left side with what follows the operator. */
static bool compare_values(struct request *request, struct str text, struct str left,
                           struct str right, bool *is_equal)
{
    right = ssi_values_skip_spaces(right);
    if (right.len > 1 && right.data[0] == '/') {
        if (right.data[right.len - 1] != '/') {
            return refuse_expression(request, text);
        }
        return match(request, left, right, is_equal);
    }
    if (!ssi_evaluate(request, right, &right)) {
        return false;
    }
    *is_equal = str_equal(left, right);
    return true;
}

bool ssi_evaluate_condition(struct request *request, struct str text, bool *is_true)
{
    struct str rest = ssi_values_skip_spaces(text);
    size_t n = 0;

    if (rest.len > 1 && rest.data[0] == '/') {
        return refuse_expression(request, text);
    }
    while (n < rest.len && rest.data[n] != ' ' && rest.data[n] != '=' && rest.data[n] != '!') {
        n++;
    }
    struct str left = str_head(rest, n);
    rest = ssi_values_skip_spaces(str_skip(rest, n));
    bool is_negated = rest.len != 0 && rest.data[0] == '!';
    bool has_operator = str_starts(rest, is_negated ? STR("!=") : STR("="));
    if (rest.len != 0 && !has_operator) {
        return refuse_expression(request, text);
    }
    if (!ssi_evaluate(request, left, &left)) {
        return false;
    }
    if (!has_operator) {
        *is_true = left.len != 0;
        return true;
    }
    if (!compare_values(request, text, left, str_skip(rest, is_negated ? 2 : 1), is_true)) {
        return false;
    }
    *is_true ^= is_negated;
    return true;
}
