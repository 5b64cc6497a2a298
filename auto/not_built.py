"""Writes src/server/configuration/not_built_rows.h: whose the directives are that this build may not know.

    /usr/bin/python3 auto/not_built.py PATH/reference

The catalogue that it reads (directives.tsv and modules.tsv) is kept outside of the repository. A row
is a module of nginx, of Tengine or of their well-known companions that a build can be without, with
those of its directives that may stand where this server reads. Rows of modules that were built in the
meantime do no harm: a directive that is known is not looked up, and one that is not is one that the
module lacks. To these come the modules of our own that a build can be without, as docs/directives/ lists them:
write that one first (`make docs`).
"""

import csv
import glob
import os
import re
import sys
import textwrap

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
TARGET = os.path.join(ROOT, "src/server/configuration/not_built_rows.h")
CONTEXTS = {"main", "events", "dso", "http", "server", "location", "server-if", "location-if",
            "limit_except", "upstream", "any", "stream", "stream-server", "stream-upstream", "mail",
            "mail-server"}
PROTOCOLS = ("ngx_stream_", "ngx_mail_", "")    # beginnings of modules' names; each has names of its own
ORIGINS = ["nginx-oss", "tengine", "echo", "headers-more", "redis2", "slowfs", "cache_purge", "lua",
           "brotli", "nginx-commercial"]  # who is named when several have the directive

# Directives of modules that are always there, and that these lack.
LACKING = {"rr_discarded_range", "state", "upstream_change_no_server_status"}

HEAD = """\
/* Modules that a build can be without, and their directives. Written by auto/not_built.py out of the
 * catalogue of facts, not by hand. Read by not_built.c alone. */
#ifndef SERVER_NOT_BUILT_ROWS_H
#define SERVER_NOT_BUILT_ROWS_H

/* One module. */
struct not_built_row {
    const char *module;
    const char *names; /* of its directives, a blank between two; those inside of blocks of its own
                          are left out, so that it may be empty */
};

/* clang-format off */
static const struct not_built_row not_built_rows[] = {
"""
TAIL = """\
};
/* clang-format on */

#endif
"""


def table(path):
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def always_there():
    with open(os.path.join(ROOT, "auto/modules"), encoding="utf-8") as rows:
        words = [row.split() for row in rows if row.strip() and not row.startswith("#")]
    # These two of the catalogue are parts of our core module.
    return {row[0] for row in words if row[2] == "always"} | {"ngx_thread_pool_module",
                                                              "ngx_dso_module"}


def owners(directives, there):
    """Protocol and directive: module."""
    chosen = {}
    for origin in ORIGINS:
        for row in directives:
            name, module = row["directive"], row["module"]
            if row["origin"] == origin and (module not in there or name in LACKING) \
                    and not name.startswith("(") and CONTEXTS & set(row["contexts"].split(",")):
                protocol = next(one for one in PROTOCOLS if module.startswith(one))
                chosen.setdefault((protocol, name), module)
    return chosen


def ours(there):
    """Of our manual: each module that a build can be without, with its directives."""
    for path in sorted(glob.glob(os.path.join(ROOT, "docs/directives/ngx_*.md"))):
        module = os.path.basename(path)[:-3]
        if module in there:
            continue
        with open(path, encoding="utf-8") as page:
            for name in re.findall(r"^## (.*)$", page.read(), re.M):
                yield module, name.strip()


def main():
    there = always_there()
    directives = table(os.path.join(sys.argv[1], "directives.tsv"))
    names = {row["module"]: [] for row in table(os.path.join(sys.argv[1], "modules.tsv"))
             if row["module"] not in there}
    chosen = owners(directives, there)
    for module, name in ours(there):
        chosen.setdefault((next(one for one in PROTOCOLS if module.startswith(one)), name), module)
    for (_, name), module in sorted(chosen.items()):
        names.setdefault(module, []).append(name)
    with open(TARGET, "w", encoding="utf-8") as out:
        out.write(HEAD)
        for module in sorted(names):
            lines = textwrap.wrap(" ".join(names[module]), 88) or [""]
            lines = [line + " " for line in lines[:-1]] + lines[-1:]
            is_short = len(lines) == 1 and len(module) + len(lines[0]) < 86
            out.write('    {"%s",%s' % (module, " " if is_short else "\n     "))
            out.write("\n     ".join('"%s"' % line for line in lines) + "},\n")
        out.write(TAIL)
    print("%d modules, %d directives" % (len(names), sum(map(len, names.values()))))


if __name__ == "__main__":
    main()
