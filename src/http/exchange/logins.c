/* Logins that hold for a connection and not for a request (NTLM; Negotiate, RFC 4559): the
 * backend's connection that carried one belongs to the client's, so that nobody else speaks by it
 * in his name. */
#include "http/client/connection.h"
#include "http/exchange/internal.h"

/* Is one of the words of a list a scheme of such logins? What follows a scheme (RFC 9110, 11.4)
 * looks like none. */
static bool names_scheme(struct str value)
{
    while (value.data != NULL) {
        struct str item = str_trim(str_cut(&value, ','));
        struct str scheme = str_cut(&item, ' ');

        if (str_equal_nocase(scheme, STR("NTLM")) || str_equal_nocase(scheme, STR("Negotiate"))) {
            return true;
        }
    }
    return false;
}

static bool have_scheme(const struct fields *fields, uint64_t wanted)
{
    fields_each(field, fields) {
        if ((FIELD_BIT(field->id) & wanted) != 0 && names_scheme(field->value)) {
            return true;
        }
    }
    return false;
}

bool logins_are_asked_for(const struct exchange *x)
{
    return have_scheme(&x->request->headers, LOGIN_IDS);
}

void logins_bind(struct exchange *x)
{
    upstream_connection_bind(x->connection, &connection_details(x->request->connection)->pinned);
}

void logins_note_response(struct exchange *x)
{
    if (have_scheme(&x->response.fields,
                    FIELD_BIT(FIELD_WWW_AUTHENTICATE) | FIELD_BIT(FIELD_PROXY_AUTHENTICATE))) {
        logins_bind(x);
    }
}
