/* The fields X-Forwarded-For of a request: see forwarded.h. */
#include "http/client/forwarded.h"

void forwarded_follow_all(const struct forwarded *forwarded, const struct fields *fields,
                          struct addr *client)
{
    for (uint32_t i = fields->count; i-- > 0;) {
        const struct field *field = &fields->items[i];

        if (field->id == FIELD_X_FORWARDED_FOR && !field->is_removed &&
            !forwarded_follow(forwarded, field->value, client)) {
            return;
        }
    }
}
