/* The settings of stream that a reading has: where they are found. */
#include "stream/session/settings.h"

#include "conf/conf.h"

struct settings_key stream_main_key;
struct settings_key stream_server_key;

struct stream_main *stream_main_of(struct conf *conf)
{
    const struct generation *generation = conf->generation;

    return generation->stream;
}
