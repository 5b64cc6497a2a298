"""conf/resty: scripts without a server, in a timer of a single process."""

import contextlib
import os
import signal
import subprocess

import pytest

from harness import binaries

RESTY = os.path.abspath(os.path.join(os.path.dirname(__file__), "../../conf/resty"))


@pytest.fixture(name="resty")
def _resty(tmp_path):
    """Runs resty with arguments and standard input; its temporary folder must be gone afterwards."""
    if "ngx_http_lua_module" not in binaries.version_text(binaries.under_test()):
        pytest.skip("built without Lua")
    scratch = tmp_path / "scratch"
    scratch.mkdir()

    def call(*arguments, stdin="", **variables):
        done = subprocess.run([RESTY, "--nginx", binaries.under_test(), *arguments], input=stdin, text=True, timeout=60,
                              capture_output=True, check=False, cwd=tmp_path,
                              env={**os.environ, "TMPDIR": str(scratch), **variables})
        assert not list(scratch.iterdir())
        return done

    yield call


def output(done):
    assert (done.returncode, done.stderr) == (0, ""), done
    return done.stdout


def test_code_of_the_command_line(resty):
    assert output(resty("-e", 'print("hi")')) == "hi\n"
    assert output(resty("-e", "x = 1", "-e", 'print(x, "second")')) == "1\tsecond\n"


def test_it_runs_in_a_timer_and_may_wait(resty):
    assert output(resty("-e", "ngx.sleep(0.001) ngx.say(ngx.get_phase())")) == "timer\n"


def test_say_and_print_take_what_they_take_in_a_request(resty):
    assert output(resty("-e", 'ngx.print("a", 1, {2, {"b"}}, nil, true, ngx.null) ngx.say()')) == "a12bniltruenull\n"


def test_a_file_with_arguments(resty, tmp_path):
    (tmp_path / "script.lua").write_text('#!/usr/bin/env resty\nprint(arg[0], #arg, ...)')
    assert output(resty("script.lua", "-e", "a b", "it's \"$x\"\\\n", "")) == \
        "script.lua\t4\t-e\ta b\tit's \"$x\"\\\n\t\n"


def test_standard_input_is_the_script_without_a_file(resty):
    assert output(resty(stdin="print(1 + 1)")) == "2\n"


def test_standard_input_is_left_to_the_script(resty):
    assert output(resty("-e", 'print(io.read("*l"))', stdin="one\ntwo\n")) == "one\n"


def test_folders_of_modules(resty, tmp_path):
    for name in ("first", "second dir"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "place.lua").write_text('return {name = "%s"}' % name)
    (tmp_path / "second dir/other").mkdir()
    (tmp_path / "second dir/other/init.lua").write_text("return 7")
    code = 'print(place.name, require("other"))'
    assert output(resty("-I", "first", "-Isecond dir", "-l", "place", "-e", code)) == "first\t7\n"


def test_shared_dictionaries_and_directives(resty, tmp_path):
    (tmp_path / "more.conf").write_text("lua_shared_dict cats 1m;")
    code = 'for _, name in ipairs {"dogs", "cats", "birds"} do ngx.shared[name]:set("k", name) ngx.say(ngx.shared[name]:get("k")) end'
    assert output(resty("--shdict", "dogs 1m", "--http-include", "more.conf", "--http-conf=lua_shared_dict birds 1m;",
                        "-e", code)) == "dogs\ncats\nbirds\n"


def test_the_environment_is_inherited(resty):
    assert output(resty("-e", 'print(os.getenv("GREETING"))', GREETING="good morning")) == "good morning\n"


def test_the_level_of_the_log(resty):
    code = 'ngx.log(ngx.NOTICE, "a notice") ngx.log(ngx.ERR, "an error")'
    quiet = resty("-e", code)
    assert "an error" in quiet.stderr and "a notice" not in quiet.stderr
    assert "a notice" in resty("--errlog-level", "notice", "-e", code).stderr


@pytest.mark.parametrize("code, status", [("os.exit(7)", 7), ("os.exit(true)", 0), ("os.exit(false)", 1), ("ngx.exit(3)", 3),
                                          ("ngx.thread.wait(ngx.thread.spawn(function() os.exit(4) end))", 4)])
def test_exit_status(resty, code, status):
    assert resty("-e", code).returncode == status


def test_an_error_has_a_traceback(resty):
    done = resty("-e", 'print("before") error("boom")')
    assert done.returncode == 1 and done.stdout == "before\n"
    assert done.stderr.startswith("ERROR: (command line -e):1: boom\nstack traceback:\n")


def test_an_error_of_the_syntax_names_the_line(resty):
    done = resty("-e", "local x =")
    assert done.returncode == 1 and done.stderr.startswith("ERROR: (command line -e):1: ")


@pytest.mark.parametrize("arguments, text", [(["--bad"], "unknown option --bad"), (["-e"], "option -e needs a value"),
                                             (["absent.lua"], "cannot read absent.lua")])
def test_wrong_use(resty, arguments, text):
    done = resty(*arguments)
    assert done.returncode == 2 and text in done.stderr


def test_wrong_directives_are_an_error(resty):
    done = resty("--errlog-level", "loud", "-e", "print(1)")
    assert done.returncode == 1 and 'invalid log level "loud"' in done.stderr and not done.stdout


def test_versions_and_help(resty):
    assert "Portunus" in resty("-v").stderr or "nginx version" in resty("-v").stderr
    assert "--shdict" in output(resty("--help"))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_script_that_never_waits(tmp_path, number):
    process = subprocess.Popen([RESTY, "--nginx", binaries.under_test(), "-e",
                                'print(1) io.stdout:flush() while true do end'],
                               stdout=subprocess.PIPE, text=True, env={**os.environ, "TMPDIR": str(tmp_path)},
                               start_new_session=True)
    try:
        assert process.stdout.readline() == "1\n"
        process.send_signal(number)
        assert process.wait(30) == 128 + number
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # the script, too, where it was left behind
        process.stdout.close()
    assert not list(tmp_path.iterdir())
