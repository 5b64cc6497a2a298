/* Accept-Encoding: the weight of a content coding (RFC 9110, 12.4.2 and 12.5.3). */
#include "http/message/accept_encoding.h"

#include <stdbool.h>

#define WEIGHT_MOST 1000
#define WEIGHT_TEXT_MAX 5 /* length of "0.125" */

/* Parses "0.5", "1", "1.000"; 0 for malformed values: "", "1.5", "0.1234". */
static int weight_parse(struct str text)
{
    int weight = text.len != 0 && text.data[0] == '1' ? WEIGHT_MOST : 0;
    char most = weight != 0 ? '0' : '9';
    int position = WEIGHT_MOST / 10;

    if (text.len == 0 || text.len > WEIGHT_TEXT_MAX || (text.data[0] != '0' && weight == 0) ||
        (text.len > 1 && text.data[1] != '.')) {
        return 0;
    }
    for (size_t i = 2; i < text.len; i++) {
        if (text.data[i] < '0' || text.data[i] > most) {
            return 0;
        }
        weight += (text.data[i] - '0') * position;
        position /= 10;
    }
    return weight;
}

int accept_parameters_weight(struct str parameters)
{
    int least = WEIGHT_MOST;

    while (parameters.data != NULL) {
        struct str value = str_cut(&parameters, ';');
        struct str name = str_trim(str_cut(&value, '='));
        int weight = str_equal_nocase(name, STR("q")) ? weight_parse(str_trim(value)) : least;

        least = weight < least ? weight : least;
    }
    return least;
}

int accept_encoding_weight(struct str accepted, struct str coding)
{
    while (accepted.data != NULL) {
        struct str parameters = str_cut(&accepted, ',');
        struct str names = str_trim(str_cut(&parameters, ';'));

        while (names.data != NULL) {
            if (str_equal_nocase(str_cut(&names, ' '), coding)) {
                /* In "gzip br;q=0" the weight applies to the last coding. */
                return names.data != NULL ? WEIGHT_MOST : accept_parameters_weight(parameters);
            }
        }
    }
    return WEIGHT_NONE;
}
