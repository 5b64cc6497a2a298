# The rules that compile and link, for one configured build directory, $(BUILD).

# ---- configuration: made on first use, and again when a part of configure has changed

CONFIGURE_PARTS = configure $(addprefix auto/,arguments modules options output probes registry version)

$(BUILD)/config.mk: $(CONFIGURE_PARTS)
	@if [ -x $(BUILD)/reconfigure ]; then $(BUILD)/reconfigure; \
	else ./configure --builddir=$(BUILD) $(CONFIGURE_ARGS); fi

include $(BUILD)/config.mk

# ---- what is built

PACKAGES = base fiber event $(addprefix net/,addr conn shards resolver tls datagram quic relay) conf \
    $(addprefix server/,process configuration worker master program) \
    $(addprefix upstream/,cells connections discovery peers picking health settings worker) cache store \
    $(addprefix shared/,access explain geo health keyval limit listen log metrics names tls upstream variables)
ifneq ($(findstring /modules/lua/,$(STATIC_SOURCES)),)
PACKAGES += $(addprefix lua/,vm values dict tasks sockets process tls config balancer upstream)
endif
# Tokens, for the modules that need them: only these need jansson.
ifneq ($(strip $(foreach folder,/access/auth_jwt/ /access/oidc/ /clients/acme/,$(findstring $(folder),$(STATIC_SOURCES)))),)
PACKAGES += shared/jose
endif
PACKAGES += $(addprefix stream/,words session config)
PACKAGES += $(addprefix mail/,words session auth backend config)
ifeq ($(WITH_HTTP),yes)
PACKAGES += $(addprefix http/,message routing client request files codings variables v1 v2 v3 $(addprefix exchange/,options probe) exchange $(addprefix exchange/,heads h2 h3 cache module) config)
endif

MAIN = server/program/main.c
# A file that has several modules is listed by each.
SOURCES := $(sort $(patsubst src/%,%,$(wildcard $(PACKAGES:%=src/%/*.c) src/fiber/*.S)) $(STATIC_SOURCES))
OBJECTS := $(addsuffix .o,$(basename $(addprefix $(BUILD)/,$(SOURCES)))) $(BUILD)/modules.o $(BUILD)/interface.o
MAIN_OBJECT := $(filter $(BUILD)/$(MAIN:.c=.o),$(OBJECTS))
LIBRARY_OBJECTS := $(filter-out $(MAIN_OBJECT),$(OBJECTS))
LIBRARY = $(BUILD)/libportunus.a
PROGRAM = $(BUILD)/nginx
SHARED := $(SHARED_MODULES:%=$(BUILD)/%.so)

UNIT_SOURCES := $(wildcard $(addsuffix /test_*.c,tests/* tests/*/* tests/*/*/*))
ifneq ($(WITH_HTTP),yes)
UNIT_SOURCES := $(filter-out tests/http/%,$(UNIT_SOURCES))
endif
ifeq ($(findstring /clients/acme/,$(STATIC_SOURCES)),)
UNIT_SOURCES := $(filter-out tests/http/modules/test_acme_%,$(UNIT_SOURCES))
endif
ifeq ($(findstring /modules/lua/,$(STATIC_SOURCES)),)
UNIT_SOURCES := $(filter-out tests/lua/% tests/simulation/%,$(UNIT_SOURCES))
endif
FUZZ_SOURCES := $(wildcard tests/fuzz/fuzz_*.c)
ifeq ($(filter shared/jose,$(PACKAGES)),)
FUZZ_SOURCES := $(filter-out tests/fuzz/fuzz_jose.c,$(FUZZ_SOURCES))
UNIT_SOURCES := $(filter-out tests/shared/jose/% tests/http/modules/test_jwt_%,$(UNIT_SOURCES))
endif
UNIT_PROGRAMS := $(UNIT_SOURCES:%.c=$(BUILD)/%)
ifeq ($(findstring /clients/acme/,$(STATIC_SOURCES)),)
FUZZ_SOURCES := $(filter-out tests/fuzz/fuzz_acme.c,$(FUZZ_SOURCES))
endif
ifeq ($(findstring /access/oidc/,$(STATIC_SOURCES)),)
FUZZ_SOURCES := $(filter-out tests/fuzz/fuzz_oidc.c,$(FUZZ_SOURCES))
endif
FUZZ_PROGRAMS := $(FUZZ_SOURCES:%.c=$(BUILD)/%)

# ---- how: what was configured comes after ours, CFLAGS and LDFLAGS of the command line last

# Callbacks leave arguments unused.
WARNINGS = -Wall -Wextra -Wno-unused-parameter -Wvla -Werror=vla \
    -Wstrict-prototypes -Wmissing-prototypes
# A level of fortification on the command line is the only one: a second definition would be a warning in every file.
ifneq ($(findstring _FORTIFY_SOURCE,$(CFLAGS)),)
CONFIGURED_CFLAGS := $(filter-out -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=%,$(CONFIGURED_CFLAGS))
endif
# A test starts a server with sanitizers, and most of its time is the start. Nothing is relocated, and the library that writes
# of undefined behaviour is left out where an illegal instruction reports it: its 6 MB are looked through for leaks.
ifneq ($(SANITIZER),)
comma := ,
CONFIGURED_LDFLAGS := $(patsubst -pie,-no-pie,$(CONFIGURED_LDFLAGS))
ifneq ($(filter -fsanitize-undefined-trap-on-error,$(CONFIGURED_CFLAGS)),)
CONFIGURED_LDFLAGS := $(filter-out -fsanitize=undefined,$(subst $(comma)undefined,,$(CONFIGURED_LDFLAGS)))
endif
endif
COMPILE = $(CC) -std=gnu17 $(WARNINGS) -Isrc -I$(BUILD) -MMD -MP $(CONFIGURED_CFLAGS)
LINKING = $(LINK) $(CONFIGURED_LDFLAGS)
# Tests may hold large arrays.
COMPILE_TEST = $(filter-out -Werror=frame-larger-than% -Wframe-larger-than%,$(COMPILE)) -Itests

# V=1 shows the commands in full.
ifeq ($(V),)
.SILENT:
say = @echo "$(1)	$(2)"
endif

.DELETE_ON_ERROR:
.SUFFIXES:
.PHONY: all all-objects unit unit-programs fuzz-programs install

all: $(if $(MAIN_OBJECT),$(PROGRAM),$(LIBRARY)) $(SHARED)

all-objects: $(OBJECTS) $(SHARED)

# Loadable modules need every symbol, so the program is linked from objects, not from the archive.
$(PROGRAM): $(OBJECTS) $(ADDON_LINKED)
	$(call say,LINK,$@)
	$(LINKING) -rdynamic -o $@ $^ $(LDFLAGS) $(LIBS)

$(LIBRARY): $(LIBRARY_OBJECTS) $(ADDON_LINKED)
	$(call say,AR,$@)
	@rm -f $@
	$(AR) rcs $@ $^

$(BUILD)/modules.o: $(BUILD)/modules.c $(BUILD)/flags
	$(call say,CC,$@)
	$(COMPILE) -fPIE $(CFLAGS) -c -o $@ $<

# What an object was compiled with, in the program and in each loadable module: load_module compares them.
$(BUILD)/interface.c: auto/interface $(BUILD)/config.h $(shell find src -name '*.h')
	auto/interface $(BUILD) > $@

$(BUILD)/interface.o $(BUILD)/interface.pic.o: $(BUILD)/interface.c $(BUILD)/flags
	$(call say,CC,$@)
	$(COMPILE) $(if $(findstring .pic.,$@),-fPIC -DINTERFACE=loaded_interface,-fPIE -DINTERFACE=module_interface) $(CFLAGS) -c -o $@ $<

$(BUILD)/%.o: src/%.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(call say,CC,$@)
	$(COMPILE) -fPIE $(CFLAGS) -c -o $@ $<

$(BUILD)/%.o: src/%.S $(BUILD)/flags
	@mkdir -p $(@D)
	$(call say,CC,$@)
	$(COMPILE) -fPIE $(CFLAGS) -c -o $@ $<

$(BUILD)/%.pic.o: src/%.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(call say,CC,$@)
	$(COMPILE) -fPIC $(CFLAGS) -c -o $@ $<

# Sources from outside: config.mk says which belongs to which object.
$(ADDON_OBJECTS): $(BUILD)/flags
	@mkdir -p $(@D)
	$(call say,CC,$@)
	$(COMPILE) -fPIC $(CFLAGS) -c -o $@ $(filter %.c,$^)

# What the assembler takes in is read by it alone.
LUA_TEXTS := $(wildcard $(addprefix src/,lua/library/*.lua lua/library/*/*.lua lua/library/*/*/*.lua http/modules/lua/*.lua stream/modules/lua/*.lua))
$(BUILD)/http/modules/status/metrics/page.o: src/http/modules/status/metrics/page.html

$(filter $(BUILD)/lua/% $(BUILD)/http/modules/lua/% $(BUILD)/stream/modules/lua/%,$(OBJECTS)): $(LUA_TEXTS)


# A loadable module leaves the symbols of the program open: no -z defs.
$(SHARED): $(BUILD)/interface.pic.o
	$(call say,SHARED,$@)
	$(filter-out -pie -no-pie,$(LINKING)) -shared -o $@ $(filter %.o,$^) $(LDFLAGS) $(MODULE_LIBS)

# ---- tests

$(BUILD)/tests/lua/test_waits: tests/lua/waits.lua

# It stands in for the store, the fibers and the clock of the code that it runs.
# Also where the command line has LDFLAGS, as that of `make coverage`.
$(BUILD)/tests/simulation/test_simulation: override LDFLAGS += -Wl,-z,muldefs

unit-programs: $(UNIT_PROGRAMS)

unit: $(UNIT_PROGRAMS)
	@auto/unit $(UNIT_PROGRAMS)

$(UNIT_PROGRAMS): $(BUILD)/%: %.c $(LIBRARY) $(BUILD)/flags
	@mkdir -p $(@D)
	$(call say,TEST,$@)
	$(COMPILE_TEST) -fPIE $(CFLAGS) -o $@ $< $(CONFIGURED_LDFLAGS) $(LDFLAGS) $(LIBRARY) \
	    -lcmocka $(LIBS)

fuzz-programs: $(FUZZ_PROGRAMS)

# They have a QUIC of their own (tests/http/fake_quic.h), which stands in for ours.
$(BUILD)/tests/fuzz/fuzz_h3_server $(BUILD)/tests/fuzz/fuzz_h3_backend: tests/http/fake_quic.h
$(BUILD)/tests/fuzz/fuzz_h3_server $(BUILD)/tests/fuzz/fuzz_h3_backend: override LDFLAGS += -Wl,-z,muldefs

$(BUILD)/tests/fuzz/fuzz_h2_server $(BUILD)/tests/fuzz/fuzz_h3_server: tests/fuzz/http_server.h

$(FUZZ_PROGRAMS): $(BUILD)/%: %.c $(LIBRARY) $(BUILD)/flags
	@mkdir -p $(@D)
	$(call say,TEST,$@)
	$(COMPILE_TEST) -fPIE $(CFLAGS) -fsanitize=fuzzer -o $@ $< $(CONFIGURED_LDFLAGS) $(LDFLAGS) \
	    $(LIBRARY) $(LIBS)

# Loaded before a program whose functions say when they are entered (make doors); itself it says nothing.
$(BUILD)/doors_trace.so: tests/lint/doors_trace.c $(BUILD)/flags
	$(call say,SHARED,$@)
	$(COMPILE) -fPIC -shared -o $@ $<

# ---- installation

install: all
	@DESTDIR='$(DESTDIR)' PREFIX='$(PREFIX)' SBIN_PATH='$(SBIN_PATH)' CONF_PATH='$(CONF_PATH)' \
	    MODULES_PATH='$(MODULES_PATH)' PID_PATH='$(PID_PATH)' ERROR_LOG_PATH='$(ERROR_LOG_PATH)' \
	    HTTP_LOG_PATH='$(HTTP_LOG_PATH)' auto/install $(PROGRAM) $(SHARED)

-include $(OBJECTS:.o=.d) $(ADDON_OBJECTS:.o=.d) $(UNIT_PROGRAMS:=.d) $(FUZZ_PROGRAMS:=.d)
-include $(foreach layer,server http stream mail,$(wildcard $(addprefix $(BUILD)/$(layer)/modules/,*.pic.d */*.pic.d */*/*.pic.d)))
