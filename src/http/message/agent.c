/* Recognizes old browsers by User-Agent. */
#include "http/message/agent.h"

/* The text after "MSIE ", at least three bytes: "6.0". Empty: it is another browser. */
static struct str msie_version(struct str agent)
{
    const struct str token = STR("MSIE ");
    const char *at = str_find(agent, token);

    if (at == NULL || str_find(agent, STR("Opera")) != NULL) {
        return STR_NONE;
    }
    struct str version = str_skip(str_from(at, agent.data + agent.len), token.len);
    return version.len < 3 ? STR_NONE : version;
}

bool agent_is_msie(struct str agent)
{
    return msie_version(agent).len != 0;
}

bool agent_is_msie6(struct str agent)
{
    struct str version = msie_version(agent);

    if (version.len == 0 || version.data[0] < '4' || version.data[0] > '6' ||
        version.data[1] != '.') {
        return false;
    }
    return version.data[0] != '6' || str_find(version, STR("SV1")) == NULL;
}
