/* Accept: which of several media types a client prefers (RFC 9110, 12.5.1). */
#include "http/message/accept.h"

#include <stdbool.h>

#include "http/message/accept_encoding.h"

/* A client's preference for a type. */
struct liking {
    int weight;         /* in thousandths */
    unsigned exactness; /* how specific the matching range is; 0 = none matches */
    unsigned position;  /* index of that range in the field */
};

/* How specific a match is; each equal parameter adds one. */
enum { NAMES_DIFFER, NAMES_ANY, NAMES_KIND, NAMES_SAME };

static unsigned compare_names(struct str range, struct str type)
{
    struct str range_kind = str_cut(&range, '/');
    struct str kind = str_cut(&type, '/');
    bool is_any = str_is(range, "*");

    if (str_is(range_kind, "*")) {
        return is_any || range.data == NULL ? NAMES_ANY : NAMES_DIFFER;
    }
    if (!str_equal_nocase(range_kind, kind)) {
        return NAMES_DIFFER;
    }
    return is_any ? NAMES_KIND : str_equal_nocase(range, type) ? NAMES_SAME : NAMES_DIFFER;
}

/* Cuts off the next `name=value` of a list separated by semicolons; the value may be quoted. */
static struct str cut_parameter(struct str *rest, struct str *value)
{
    struct str name;

    *value = str_cut(rest, ';');
    name = str_trim(str_cut(value, '='));
    *value = str_trim(*value);
    if (value->len >= 2 && value->data[0] == '"' && value->data[value->len - 1] == '"') {
        *value = str_head(str_skip(*value, 1), value->len - 2);
    }
    return name;
}

static bool find_parameter(struct str parameters, struct str name, struct str *value)
{
    while (parameters.data != NULL) {
        if (str_equal_nocase(cut_parameter(&parameters, value), name)) {
            return true;
        }
    }
    return false;
}

/* How specifically a range matches a type; 0 = it does not. */
static unsigned compare(struct str range, struct str range_parameters, struct str type)
{
    struct str parameters = type;
    struct str names = str_trim(str_cut(&parameters, ';'));
    unsigned exactness = compare_names(range, names);

    while (exactness != NAMES_DIFFER && range_parameters.data != NULL) {
        struct str wanted;
        struct str value;
        struct str name = cut_parameter(&range_parameters, &wanted);

        if (find_parameter(parameters, name, &value)) {
            exactness = str_equal_nocase(wanted, value) ? exactness + 1 : NAMES_DIFFER;
        }
    }
    return exactness;
}

static struct liking liking_of(struct str accepted, struct str type)
{
    struct liking liking = {0, NAMES_DIFFER, 0};

    for (unsigned position = 0; accepted.data != NULL; position++) {
        struct str parameters = str_cut(&accepted, ',');
        struct str range = str_trim(str_cut(&parameters, ';'));
        unsigned exactness = compare(range, parameters, type);

        if (exactness > liking.exactness) {
            liking = (struct liking){accept_parameters_weight(parameters), exactness, position};
        }
    }
    return liking;
}

static bool is_liked_more(struct liking a, struct liking b)
{
    if (a.weight != b.weight) {
        return a.weight > b.weight;
    }
    return a.exactness != b.exactness ? a.exactness > b.exactness : a.position < b.position;
}

unsigned accept_choose(struct str accepted, const struct str *types, unsigned count)
{
    struct liking best = {0, 0, 0};
    unsigned chosen = count;

    for (unsigned i = 0; i < count; i++) {
        struct liking liking = liking_of(accepted, types[i]);

        if (liking.weight > 0 && (chosen == count || is_liked_more(liking, best))) {
            best = liking;
            chosen = i;
        }
    }
    return chosen;
}
