"""Shows fibers in gdb: what each waits for, and its backtrace. For a process and for a core; changes nothing in either.

    gdb -x auto/gdb_fibers.py -p PID              or: gdb -x auto/gdb_fibers.py objs/nginx CORE
    (gdb) fibers            one line for each fiber
    (gdb) fibers bt         and its backtrace
    (gdb) fiber 3           bt, up, frame and info locals show fiber 3 from now on
    (gdb) fiber off         and the worker's own stack again

docs/waiting.md has an example. gdb cannot change registers in a core, so a fiber is shown by an unwinder: it says that
the innermost frame was called by the function where the fiber waits.
"""

import gdb
import gdb.unwinder

MAGIC = 0xF1BE4F1B          # FIBER_MAGIC
REQUEST_MAGIC = 0x4E00E575
NEVER = 2 ** 64 - 1
RUNNING, WAITING, READY = range(3)   # enum fiber_state

# What a switch has saved where the stack pointer points (src/fiber/switch_*.c): registers in order, size of the frame.
SAVED = {
    "i386:x86-64": (["r15", "r14", "r13", "r12", "rbx", "rbp", "rip"], 56, "rsp", "rip"),
    "aarch64": (["x%d" % number for number in range(19, 31)], 160, "sp", "pc"),
}


def value(text):
    return gdb.parse_and_eval(text)


def constant(name):
    """An enumerator of stack.c."""
    return int(gdb.lookup_static_symbol(name).value())


def of_file(file, variable):
    return value("'%s'::%s" % (file, variable))


def member(struct, name):
    """Of a struct, or of a struct in it; None: it has none."""
    fields = struct.type.strip_typedefs().fields()
    for field in fields:
        if field.name == name:
            return struct[field]
    for field in fields:
        if field.type.strip_typedefs().code == gdb.TYPE_CODE_STRUCT:
            if any(inner.name == name for inner in field.type.strip_typedefs().fields()):
                return struct[field][name]
    return None


class Fiber:
    """One that lives, by the number of its stack."""

    def __init__(self, number, pointer):
        self.number = number
        self.pointer = pointer
        self.object = pointer.dereference()
        self.state = int(self.object["state"])

    def is_self(self):
        return int(value("fiber_running")) == int(self.pointer)

    def stack_pointer(self, others):
        """Where its saved registers lie; 0 for the one that runs."""
        if self.is_self():
            return 0
        if self.state != RUNNING:
            return int(self.object["stack_pointer"])
        for other in others:   # it has started another one, and goes on when that waits
            if other.state == RUNNING and int(other.object["resumer"]) == int(self.pointer):
                return int(other.object["resumer_pointer"])
        return 0

    def run(self):
        """The function that it was started with."""
        block = gdb.block_for_pc(int(self.object["run"]))
        while block is not None and block.function is None:
            block = block.superblock
        return block.function.name if block is not None else "%#x" % int(self.object["run"])

    def waits(self):
        if self.is_self():
            return "runs"
        if self.state == RUNNING:
            return "has started another"
        if self.state == READY:
            return "was woken"
        deadline = int(self.object["deadline_ms"])
        left = ""
        if deadline != NEVER:
            left = ", %.1f s left" % ((deadline - int(value("clock_now.now_ms"))) / 1000)
        return ("waits" if int(self.object["point"]) != 0 else "sleeps") + left

    def request(self):
        """The request that it works on, as its line and its client; or nothing."""
        subject = int(self.object["subject"])
        if subject == 0:
            return ""
        kind = gdb.lookup_type("struct request")
        offset = next(field.bitpos // 8 for field in kind.fields() if field.name == "log")
        request = gdb.Value(subject - offset).cast(kind.pointer())
        line = member(request.dereference(), "line")
        if int(request["magic"]) != REQUEST_MAGIC or line is None:
            return ""
        text = line["data"].string("latin-1", length=min(int(line["len"]), 60)) if int(line["len"]) else ""
        return '(struct request *) %#x "%s"' % (int(request), text)


def fibers():
    """All that live."""
    size = int(value("stack_pool.stack_size"))
    region = int(value("stack_pool.region"))
    kind = gdb.lookup_type("struct fiber")
    found = []
    for number in range(int(value("stack_pool.prepared"))):
        place = region + (number + 1) * size - number % constant("COLORS") * constant("COLOR_STEP") - kind.sizeof
        pointer = gdb.Value(place).cast(kind.pointer())
        try:
            if int(pointer["magic"]) == MAGIC:
                found.append(Fiber(number, pointer))
        except gdb.MemoryError:   # a stack that was never used is not in a core
            pass
    return found


class FrameId:
    def __init__(self, sp, pc):
        self.sp = sp
        self.pc = pc


class FiberUnwinder(gdb.unwinder.Unwinder):
    """Lets the innermost frame return into the fiber that was chosen."""

    def __init__(self):
        super().__init__("fiber")
        self.enabled = False
        self.stack_pointer = 0

    def choose(self, stack_pointer):
        self.stack_pointer = stack_pointer
        self.enabled = stack_pointer != 0
        gdb.invalidate_cached_frames()

    def __call__(self, pending):
        name = pending.architecture().name()
        if name not in SAVED:
            return None
        registers, size, sp, pc = SAVED[name]
        # Only the innermost frame has the thread's own stack pointer.
        if self.own is None:
            self.own = int(pending.read_register(sp))
        if int(pending.read_register(sp)) != self.own:
            return None
        word = gdb.lookup_type("unsigned long")
        # Its identity is a place on the fiber's stack: gdb wants those of the frames to grow.
        info = pending.create_unwind_info(FrameId(gdb.Value(self.stack_pointer).cast(word),
                                                  pending.read_register(pc)))
        for index, register in enumerate(registers):
            place = gdb.Value(self.stack_pointer + 8 * index).cast(word.pointer())
            info.add_saved_register(pc if register == "x30" else register, place.dereference())
        info.add_saved_register(sp, gdb.Value(self.stack_pointer + size).cast(word))
        return info

    own = None


UNWINDER = FiberUnwinder()
gdb.unwinder.register_unwinder(None, UNWINDER, replace=True)


def show(fiber, others):
    """From now on frames are those of this fiber."""
    UNWINDER.own = None
    UNWINDER.choose(fiber.stack_pointer(others) if fiber is not None else 0)


def backtrace(fiber, others):
    """Without the frame of the worker's own stack, which stands for none of the fiber's."""
    show(fiber, others)
    try:
        lines = gdb.execute("bt", to_string=True).rstrip().split("\n")
    finally:
        show(None, others)
    if fiber.stack_pointer(others) != 0:
        lines = [line for line in lines if not line.startswith("#0 ")]
    return "\n".join("    " + line for line in lines)


class Fibers(gdb.Command):
    """fibers [bt]: the fibers that live, and where each of them waits."""

    def __init__(self):
        super().__init__("fibers", gdb.COMMAND_STACK)

    def invoke(self, argument, _from_tty):
        if gdb.lookup_global_symbol("fiber_switch_start") is not None:   # one in C: src/fiber/switch_ucontext.c
            raise gdb.GdbError("the saved registers of ucontext are not known here")
        found = fibers()
        for fiber in found:
            print("%3d  %s: %s  %s" % (fiber.number, fiber.run(), fiber.waits(), fiber.request()))
            if argument.strip() == "bt":
                print(backtrace(fiber, found))
        print("%d fibers" % len(found))


class FiberCommand(gdb.Command):
    """fiber NUMBER | off: whose frames bt, up and info locals show. Frame 0 stays that of the thread."""

    def __init__(self):
        super().__init__("fiber", gdb.COMMAND_STACK)

    def invoke(self, argument, _from_tty):
        found = fibers()
        if argument.strip() == "off":
            show(None, found)
            return
        for fiber in found:
            if str(fiber.number) == argument.strip():
                show(fiber, found)
                return
        raise gdb.GdbError("no such fiber; `fibers` lists them")


Fibers()
FiberCommand()
