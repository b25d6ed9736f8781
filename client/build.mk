# The room of what a user's program links or imports: libevenstep, its example, the Python wheel.
ES_ABI     := $(shell sed -n 's/^\#define ES_ABI \([0-9]*\)/\1/p' client/include/evenstep.h)
ES_RELEASE := $(shell sed -n 's/^__version__ = "\(.*\)"/\1/p' client/python/evenstep/__init__.py)
es_objects := $(patsubst %.c,$(BUILD)/%.o,$(sort $(wildcard client/lib/*.c)))
es_library := $(BUILD)/libevenstep.so
$(BUILD)/client/lib/%.o: EXTRA = -fvisibility=hidden
$(BUILD)/client/examples/%.o: EXTRA = -Iclient/include

$(BUILD)/libclient.a: $(es_objects)
	@rm -f $@
	ar rcs $@ $^
$(es_library): $(es_objects) client/lib/evenstep.map
	$(CC) $(filter-out -pie,$(LDFLAGS)) -shared -Wl,-soname,libevenstep.so.$(ES_ABI) \
	    -Wl,--version-script=client/lib/evenstep.map \
	    -Wl,-z,defs -Wl,-z,relro,-z,now -o $@ $(es_objects)
	@ln -sf libevenstep.so $@.$(ES_ABI)
$(BUILD)/client/examples/%: $(BUILD)/client/examples/%.o $(es_library)
	$(CC) $(LDFLAGS) -o $@ $< -L$(BUILD) -levenstep -lm -Wl,-rpath,'$$ORIGIN/../..'
$(BUILD)/client/examples/digits-alone: $(BUILD)/client/examples/digits-alone.o
	$(CC) $(LDFLAGS) -o $@ $< -lm
es_examples := $(patsubst %.c,$(BUILD)/%,$(wildcard client/examples/*.c))

all: $(es_library) # `evenstep run` from the build folder needs it
.PHONY: client wheel check-client install-client
client: $(es_library) $(es_examples) ## libevenstep.so and the C example
wheel: $(es_library) ## the Python package, into build/dist
	@rm -f $(BUILD)/dist/evenstep-*.whl
	$(PYTHON) client/python/wheel --library $(es_library) --into $(BUILD)/dist
check-client: client ## a user's own programs, PyTorch and Keras too (deploy/setup own-program)
	tests/run client BUILD=$(BUILD)
install-client: $(es_library)
	install -d $(DESTDIR)$(PREFIX)/include $(DESTDIR)$(PREFIX)/lib/pkgconfig
	install -m 644 client/include/evenstep.h $(DESTDIR)$(PREFIX)/include/
	install -m 755 $(es_library) $(DESTDIR)$(PREFIX)/lib/libevenstep.so.$(ES_ABI)
	ln -sf libevenstep.so.$(ES_ABI) $(DESTDIR)$(PREFIX)/lib/libevenstep.so
	sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@RELEASE@|$(ES_RELEASE)|' client/evenstep.pc.in \
	    >$(DESTDIR)$(PREFIX)/lib/pkgconfig/evenstep.pc
	cd client/python && find evenstep -name '*.py' -exec install -D -m 644 {} \
	    $(abspath $(DESTDIR)$(PREFIX))/share/evenstep/python/{} ';'
