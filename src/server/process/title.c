/* The title that ps shows, written over argv and the environment. */
#include "server/process/title.h"

#include <stddef.h>

#include "base/buf.h"

static struct {
    char *start; /* of argv[0] */
    char *end;   /* one past the last byte of the strings that follow it without a gap */
} title;

void title_init(int argc, char **argv, char **environment)
{
    if (argc < 1) {
        return;
    }
    title.start = argv[0];
    title.end = argv[0];
    for (int i = 0; i < argc; i++) {
        if (argv[i] == title.end) {
            title.end += strlen(argv[i]) + 1;
        }
    }
    for (char **variable = environment; *variable != NULL; variable++) {
        if (*variable == title.end) {
            title.end += strlen(*variable) + 1;
        }
    }
    argv[1] = NULL;
}

void title_set(struct str text)
{
    if (title.start == NULL) {
        return;
    }
    struct writer writer = {title.start, title.end - 1};

    writer_put(&writer, STR("nginx: "));
    writer_put(&writer, text);
    memset(writer.at, 0, (size_t) (title.end - writer.at));
}
