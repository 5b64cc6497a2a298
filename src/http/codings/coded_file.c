/* Precompressed files: FILE.br, FILE.zst, FILE.gz next to FILE. */
#include "http/codings/coded_file.h"

#include <errno.h>

#include "http/codings/choice.h"
#include "http/codings/rules.h"
#include "http/files/absent.h"
#include "http/files/file.h"
#include "http/request/request.h"

/* clang-format off */
const struct directive_word coded_file_words[] = {
    {"off", CODED_FILES_OFF},
    {"on", CODED_FILES_ON},
    {"always", CODED_FILES_ALWAYS},
    {NULL, 0},
};
/* clang-format on */

#define CANDIDATES_MAX 8 /* more than there are codings */

/* The codings of the location, the client's preferred one first. */
struct candidates {
    const struct coding_hook *hooks[CANDIDATES_MAX];
    int weights[CANDIDATES_MAX]; /* 0: sent to all clients (`always`), or only checked for Vary */
    unsigned count;
};

static struct candidates list_candidates(struct request *request)
{
    struct candidates list = {.count = 0};

    for (const struct coding_hook **hook = request->location->coded_files;
         *hook != NULL && list.count < CANDIDATES_MAX; hook++) {
        int weight = request_coding_weight(request, (*hook)->coding);
        unsigned at = list.count++;

        for (; at > 0 && list.weights[at - 1] < weight; at--) {
            list.hooks[at] = list.hooks[at - 1];
            list.weights[at] = list.weights[at - 1];
        }
        list.hooks[at] = *hook;
        list.weights[at] = weight;
    }
    return list;
}

/* The client's highest weight for what filters could make of the file. */
static int encoder_weight(struct request *request)
{
    int best = 0;

    if (request->location->encoders == NULL) {
        return 0;
    }
    response_set_type(request);
    for (const struct coding_hook **hook = request->location->encoders; *hook != NULL; hook++) {
        if ((*hook)->fits(request)) {
            int weight = request_coding_weight(request, (*hook)->coding);
            best = weight > best ? weight : best;
        }
    }
    return best;
}

/* Opens the file in this coding, or NULL. Skips what is not a regular file, and what is known to be
 * absent. */
static struct file *open_coded(struct request *request, struct str path,
                               const struct content_coding *coding, struct absent_names *absent)
{
    unsigned bit = 1u << coding->rank;

    if ((absent->known & bit) != 0) {
        return NULL;
    }
    const struct str parts[] = {path, coding->suffix, STR("\0")};
    struct str coded = arena_join(&request->arena, parts, 3);

    coded.len--;
    struct file *file = file_open(request, coded);
    if (file->error == 0 && file->is_file) {
        return file;
    }
    if (file->error == 0 && !file->is_directory) {
        log_crit(&request->log, 0, "\"%.*s\" is not a regular file", STR_ARG(coded));
    } else if (file->error != 0 && file->error != ENOENT && file->error != ENOTDIR) {
        file_failure(request, file);
    }
    if (file->error == ENOENT) {
        absent_add(absent, coded, bit);
    }
    file_release(file);
    return NULL;
}

/* The uncompressed file is sent: adds Vary if there is a precompressed one, for caches. */
static void tell_of_coded_file(struct request *request, struct str path,
                               const struct candidates *list, struct absent_names *absent)
{
    for (unsigned i = 0; i < list->count; i++) {
        struct file *file = open_coded(request, path, list->hooks[i]->coding, absent);

        if (file != NULL) {
            file_release(file);
            response_varies_by_encoding(request);
            return;
        }
    }
}

enum handler_result response_coded_file(struct request *request, struct str path)
{
    struct response *response = &request->response;
    struct candidates list = list_candidates(request);
    int made_weight = encoder_weight(request);
    bool is_asked = gzip_varies(request);
    struct absent_names absent = absent_names(request, path);

    for (unsigned i = 0; i < list.count; i++) {
        const struct coding_hook *hook = list.hooks[i];
        bool is_forced = hook->is_forced(request->location);

        if (!is_forced && (list.weights[i] == 0 || list.weights[i] < made_weight)) {
            continue;
        }
        struct file *file = open_coded(request, path, hook->coding, &absent);
        if (file != NULL) {
            if (!is_forced) {
                response_varies_by_encoding(request);
            }
            fields_set(&response->fields, &request->arena, FIELD_CONTENT_ENCODING,
                       hook->coding->token);
            response->is_coded_file = true;
            return response_file(request, file);
        }
    }
    if (is_asked) {
        tell_of_coded_file(request, path, &list, &absent);
    }
    return HANDLER_NEXT;
}
