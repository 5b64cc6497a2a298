"""Prints what the reference answers, for those who write tables:

    cd tests && python3 -m oracle.dump NAME [NAME ...] [-v]
"""

import sys

from harness import Server, binaries

from . import engine, tables


def main(words):
    verbose = "-v" in words
    names = [word for word in words if word != "-v"]
    for config in tables.CONFIGS:
        if names and config.name not in names:
            continue
        http = config.http if config.plain else engine.FRAME + config.http
        server = Server(http, main=config.main, files=config.files, binary=binaries.reference())
        if config.prepare:
            config.prepare(server)
        result = engine.run(config, server)
        print("==", config.name, result.failure or "")
        for row, got in zip(config.rows, result.exchanges):
            statuses = " ".join(str(response.status) for response in got.responses)
            body = repr(got.responses[-1].text[:100]) if got.responses else ""
            print("%-70s %s %s %s%s" % (row.text[:70], statuses, got.ending, body,
                                        "  (%s)" % row.expect.mismatch(got.responses, got.ending)
                                        if row.expect else ""))
            if verbose:
                print("    " + "\n    ".join(got.render()))
        for line in result.error_lines:
            print("  error log:", line)
        server.close(check=False)


if __name__ == "__main__":
    main(sys.argv[1:])
