/* lua_capture_error_log: lines of the error log, kept for scripts. */
#include "lua/process/capture.h"

#include "base/parse.h"
#include "lua/config/rows.h"

#define SIZE_LEAST 4096 /* bytes */

bool script_capture_apply(struct conf_scope *scope, const struct directive *row,
                          struct conf_node *node, void *settings)
{
    struct str word = node->args[1];
    uint64_t size;

    if (!parse_size(word, &size) || size < SIZE_LEAST || size > UINT32_MAX) {
        return conf_error(scope->conf, node,
                          "invalid capture error log size \"%.*s\", minimum size is %d",
                          STR_ARG(word), SIZE_LEAST);
    }
    *(struct script_capture **) (void *) ((char *) settings + row->offset) =
        script_capture_new(scope->conf->arena, size);
    return true;
}
