# SPDX-License-Identifier: GPL-3.0-or-later
# Every test prints TAP: the Check suites through Check's own TAP log, the scripts themselves.
# A suite is one file check_ROOM.c and one program.
suites = \
  $(engine_suites) \
  %D%/check_autograd \
  %D%/check_base \
  %D%/check_base_hist \
  %D%/check_base_units \
  %D%/check_calibrate \
  %D%/check_calibration \
  %D%/check_adapter \
  %D%/check_config \
  %D%/check_conformance \
  %D%/check_cost \
  %D%/check_cost_tables \
  %D%/check_engine \
  %D%/check_engine_equal \
  %D%/check_engine_steps \
  %D%/check_experiment \
  %D%/check_ledger \
  %D%/check_order \
  %D%/check_measured \
  %D%/check_grad \
  %D%/check_grad_step \
  %D%/check_importers \
  %D%/check_kernel_tables \
  %D%/check_operators \
  %D%/check_pair \
  %D%/check_plan \
  %D%/check_policies \
  %D%/check_policies_plan \
  %D%/check_problems \
  %D%/check_recording \
  %D%/check_report \
  %D%/check_requests \
  %D%/check_safetensors \
  %D%/check_scenario \
  %D%/check_tokenizer \
  %D%/check_tokenizer_files \
  %D%/check_tiny \
  %D%/check_trace \
  %D%/check_trace_ids \
  %D%/check_train \
  %D%/check_validate \
  %D%/check_weights \
  %D%/check_world \
  %D%/check_world_files \
  %D%/check_world_jobs \
  %D%/check_world_late \
  %D%/check_world_prefix \
  %D%/check_world_property \
  %D%/check_world_queue

# The suites of the engine, which run under ThreadSanitizer too: `make check-engine`.
engine_suites = \
  %D%/check_device \
  %D%/check_device_adapters \
  %D%/check_device_train \
  %D%/check_device_world \
  %D%/check_engine \
  %D%/check_engine_equal \
  %D%/check_engine_steps \
  %D%/check_grad \
  %D%/check_grad_step \
  %D%/check_ops \
  %D%/check_ops_attention \
  %D%/check_ops_batch \
  %D%/check_ops_sample \
  %D%/check_train
check-engine:
	$(MAKE) $(AM_MAKEFLAGS) check TESTS='$(engine_suites)' check_PROGRAMS='$(engine_suites)' check_DATA=
.PHONY: check-engine

# What several suites stand on: the naive world, random scenarios, a policy that is nasty.
check_LIBRARIES = libtesting.a
libtesting_a_SOURCES = \
  %D%/changed_json.h \
  %D%/engine_fixture.c \
  %D%/engine_fixture.h \
  %D%/engine_requests.c \
  %D%/engine_requests.h \
  %D%/fuzz_device.c \
  %D%/fuzz_device.h \
  %D%/fuzz_rows.c \
  %D%/fuzz_rows.h \
  %D%/grad_stage.h \
  %D%/naive_host.c \
  %D%/naive_inner.h \
  %D%/naive_jobs.c \
  %D%/naive_ledger.c \
  %D%/naive_plan.c \
  %D%/naive_prefix.c \
  %D%/naive_requests.c \
  %D%/naive_world.c \
  %D%/naive_world.h \
  %D%/nasty_policy.c \
  %D%/nasty_policy.h \
  %D%/ops_fixture.h \
  %D%/outcome.c \
  %D%/outcome.h \
  %D%/random_scenario.c \
  %D%/random_scenario.h \
  %D%/random_scenario_write.c \
  %D%/scratch.h \
  %D%/suite.h \
  %D%/tiny_model.h \
  %D%/report_fixture.h \
  %D%/script_policy.c \
  %D%/script_policy.h \
  %D%/toy_tables.h \
  %D%/train_fixture.h

# Lessons are of the command line, not of the library.
%C%_check_problems_SOURCES = %D%/check_problems.c cli/lesson.c cli/lesson.h
%C%_check_tiny_SOURCES = %D%/check_tiny.c cli/lesson.c cli/lesson.h
%C%_check_device_train_SOURCES = %D%/check_device_train.c cli/device_train.c cli/device_train.h \
  cli/lesson.c cli/lesson.h
# The real device on an engine of the suites' own.
%C%_check_device_SOURCES = %D%/check_device.c %D%/toy_engine.c %D%/toy_engine.h
%C%_check_device_world_SOURCES = %D%/check_device_world.c %D%/toy_engine.c %D%/toy_engine.h

# The policies of nasty_policy.c once more, each as a module that a scenario can name.
nasty_modules = \
  %D%/nasty-random.so \
  %D%/nasty-greedy.so \
  %D%/nasty-harvest.so \
  %D%/nasty-swapper.so
nasty_compile = $(AM_V_CC)$(MKDIR_P) %D% && $(CC) -I$(top_srcdir) -I$(top_srcdir)/include \
  $(LULL_OPTIMIZE) $(LULL_CFLAGS) $(CFLAGS) $(LULL_LDFLAGS) -shared -fPIC -o $@ \
  $(srcdir)/%D%/nasty_policy.c
$(nasty_modules): %D%/nasty_policy.c %D%/nasty_policy.h include/lull/policy.h
%D%/nasty-random.so:
	$(nasty_compile) -Dnasty_random=lull_policy
%D%/nasty-greedy.so:
	$(nasty_compile) -Dnasty_greedy=lull_policy
%D%/nasty-harvest.so:
	$(nasty_compile) -Dnasty_harvest=lull_policy
%D%/nasty-swapper.so:
	$(nasty_compile) -Dnasty_swapper=lull_policy
check_DATA += $(nasty_modules)
EXTRA_%C%_check_world_files_DEPENDENCIES = $(nasty_modules)
CLEANFILES += $(nasty_modules)

LDADD = libtesting.a liblull.a $(CHECK_LIBS) $(library_libs)
AM_CPPFLAGS += $(CHECK_CFLAGS)

# In the order in which they start: the longest first.
scripts = \
  %D%/commandline.sh \
  %D%/livetrain.sh \
  %D%/live.sh \
  %D%/headers.sh \
  %D%/arrows.sh \
  %D%/bench.sh \
  %D%/corpus.sh \
  %D%/readme.sh \
  %D%/reproduce.sh \
  %D%/samebytes.sh

TESTS += $(scripts)
# A mutation proves no more under sanitizers.
EXTRA_DIST += %D%/mutations.sh
if !SANITIZED
TESTS += %D%/mutations.sh
endif
if HAVE_CHECK
check_PROGRAMS += $(suites)
TESTS += $(suites)
else
check-local:
	@echo "The test suites need Check: install it (Debian: check) and configure again" >&2; exit 1
endif
TEST_EXTENSIONS = .sh

# What the speed of lull is measured against, and the measurement: `make bench` prints the table of
# docs/speed.md, `make instructions` what callgrind counts, `make speed-page` runs both and renews the
# page and the figures on record.
check_PROGRAMS += %D%/bench/bareloop
%C%_bench_bareloop_SOURCES = %D%/bench/bareloop.c cli/speed_load.c cli/speed_load.h
%C%_bench_bareloop_LDADD = liblull.a $(library_libs)
bench_programs = LULL=$(abs_builddir)/lull$(EXEEXT) \
  BARELOOP=$(abs_builddir)/%D%/bench/bareloop$(EXEEXT) CC='$(CC)'

# The engine's linear layers beside OpenBLAS, if there is one, and the rate of memory.
check_PROGRAMS += %D%/bench/ops
%C%_bench_ops_SOURCES = %D%/bench/ops.c
%C%_bench_ops_LDADD = liblull.a $(library_libs)
bench-engine: %D%/bench/ops$(EXEEXT)
	@%D%/bench/ops$(EXEEXT)
.PHONY: bench-engine

# How well the published tables are met, and predictions against measured points of servers: pages
# that are made from the public data sets in $LULL_DATA.
EXTRA_PROGRAMS += %D%/pages/holdout
%C%_pages_holdout_SOURCES = %D%/pages/holdout.c
%C%_pages_holdout_LDADD = liblull.a $(library_libs)
CLEANFILES += %D%/pages/holdout$(EXEEXT)
holdout-page: lull$(EXEEXT) %D%/pages/holdout$(EXEEXT)
	@LULL=$(abs_builddir)/lull$(EXEEXT) HOLDOUT=$(abs_builddir)/%D%/pages/holdout$(EXEEXT) \
	  $(SHELL) $(srcdir)/%D%/pages/holdout.sh $(srcdir)/docs/holdout.md
closed-loop-page: lull$(EXEEXT)
	@LULL=$(abs_builddir)/lull$(EXEEXT) $(SHELL) $(srcdir)/%D%/pages/closedloop.sh $(srcdir)/docs/closed-loop.md

validate: lull$(EXEEXT)
	@LULL=$(abs_builddir)/lull$(EXEEXT) RUN='$(RUN)' $(SHELL) $(srcdir)/%D%/pages/validate.sh $(srcdir)/docs/validate-cpu.md

bench: lull$(EXEEXT) %D%/bench/bareloop$(EXEEXT)
	@$(bench_programs) $(SHELL) $(srcdir)/%D%/bench/table.sh
instructions: lull$(EXEEXT)
	@$(bench_programs) $(SHELL) $(srcdir)/%D%/bench/instructions.sh
speed-page: lull$(EXEEXT) %D%/bench/bareloop$(EXEEXT)
	@$(bench_programs) $(SHELL) $(srcdir)/%D%/bench/page.sh $(srcdir)/docs/speed.md
.PHONY: bench instructions speed-page holdout-page closed-loop-page validate

# The whole program once more, not optimised: its results must be the same bytes.
if !SANITIZED
check_PROGRAMS += lull-O0
endif
lull_O0_SOURCES = $(lull_SOURCES) $(liblull_a_SOURCES)
nodist_lull_O0_SOURCES = embedded.c
lull_O0_CFLAGS = -O0 $(LULL_CFLAGS) $(library_cflags)
lull_O0_LDADD = $(library_libs)

# A mutated copy of a source file stands in for the one of the library.
mutant_flags = -I$(top_srcdir) -I$(top_srcdir)/include $(library_cflags) $(LULL_OPTIMIZE) $(LULL_CFLAGS) $(CFLAGS) $(LULL_LDFLAGS)

tap = env AM_TAP_AWK='$(AWK)' $(SHELL) $(top_srcdir)/build-aux/tap-driver.sh
LOG_DRIVER = $(tap)
SH_LOG_DRIVER = $(tap)
SH_LOG_COMPILER = $(SHELL)
AM_TESTS_ENVIRONMENT = LC_ALL=C; CK_TAP_LOG_FILE_NAME=-; CK_VERBOSITY=normal; \
  LULL=$(abs_builddir)/lull$(EXEEXT); BARELOOP=$(abs_builddir)/%D%/bench/bareloop$(EXEEXT); \
  FUZZ_TARGETS='$(fuzz_targets)'; CC='$(CC)'; CXX='$(CXX_OF_TEST)'; \
  MUTANT_COMPILE='$(CC) $(mutant_flags)'; MUTANT_LIBS='$(CHECK_LIBS) $(library_libs) $(LIBS)'; \
  export MUTANT_COMPILE MUTANT_LIBS; \
  ASAN_OPTIONS=allocator_may_return_null=1:$$ASAN_OPTIONS; export ASAN_OPTIONS; \
  export LC_ALL CK_TAP_LOG_FILE_NAME CK_VERBOSITY LULL BARELOOP FUZZ_TARGETS CC CXX;

# Fuzz targets: fuzz_X.c runs on the corpus as a program of `make check`, and under libFuzzer in a
# build with --enable-fuzzing by `make fuzz`, FUZZ_SECONDS each.
FUZZ_SECONDS = 20
fuzz_targets = checkpoint measured recording safetensors scenario tables tokenizer trace
replays = \
  %D%/fuzz/replay_checkpoint \
  %D%/fuzz/replay_measured \
  %D%/fuzz/replay_recording \
  %D%/fuzz/replay_safetensors \
  %D%/fuzz/replay_scenario \
  %D%/fuzz/replay_tables \
  %D%/fuzz/replay_tokenizer \
  %D%/fuzz/replay_trace
check_PROGRAMS += $(replays)
%C%_fuzz_replay_checkpoint_SOURCES = %D%/fuzz/fuzz_checkpoint.c %D%/fuzz/replay.c
%C%_fuzz_replay_measured_SOURCES = %D%/fuzz/fuzz_measured.c %D%/fuzz/replay.c
%C%_fuzz_replay_recording_SOURCES = %D%/fuzz/fuzz_recording.c %D%/fuzz/replay.c
%C%_fuzz_replay_safetensors_SOURCES = %D%/fuzz/fuzz_safetensors.c %D%/fuzz/replay.c
%C%_fuzz_replay_scenario_SOURCES = %D%/fuzz/fuzz_scenario.c %D%/fuzz/replay.c
%C%_fuzz_replay_tables_SOURCES = %D%/fuzz/fuzz_tables.c %D%/fuzz/replay.c
%C%_fuzz_replay_tokenizer_SOURCES = %D%/fuzz/fuzz_tokenizer.c %D%/fuzz/replay.c
%C%_fuzz_replay_trace_SOURCES = %D%/fuzz/fuzz_trace.c %D%/fuzz/replay.c

EXTRA_PROGRAMS += \
  %D%/fuzz/fuzz_checkpoint \
  %D%/fuzz/fuzz_measured \
  %D%/fuzz/fuzz_recording \
  %D%/fuzz/fuzz_safetensors \
  %D%/fuzz/fuzz_scenario \
  %D%/fuzz/fuzz_tables \
  %D%/fuzz/fuzz_tokenizer \
  %D%/fuzz/fuzz_trace
%C%_fuzz_fuzz_checkpoint_SOURCES = %D%/fuzz/fuzz_checkpoint.c
%C%_fuzz_fuzz_checkpoint_LDFLAGS = $(AM_LDFLAGS) -fsanitize=fuzzer
%C%_fuzz_fuzz_measured_SOURCES = %D%/fuzz/fuzz_measured.c
%C%_fuzz_fuzz_measured_LDFLAGS = $(AM_LDFLAGS) -fsanitize=fuzzer
%C%_fuzz_fuzz_recording_SOURCES = %D%/fuzz/fuzz_recording.c
%C%_fuzz_fuzz_recording_LDFLAGS = $(AM_LDFLAGS) -fsanitize=fuzzer
%C%_fuzz_fuzz_safetensors_SOURCES = %D%/fuzz/fuzz_safetensors.c
%C%_fuzz_fuzz_safetensors_LDFLAGS = $(AM_LDFLAGS) -fsanitize=fuzzer
%C%_fuzz_fuzz_scenario_SOURCES = %D%/fuzz/fuzz_scenario.c
%C%_fuzz_fuzz_scenario_LDFLAGS = $(AM_LDFLAGS) -fsanitize=fuzzer
%C%_fuzz_fuzz_tables_SOURCES = %D%/fuzz/fuzz_tables.c
%C%_fuzz_fuzz_tables_LDFLAGS = $(AM_LDFLAGS) -fsanitize=fuzzer
%C%_fuzz_fuzz_tokenizer_SOURCES = %D%/fuzz/fuzz_tokenizer.c
%C%_fuzz_fuzz_tokenizer_LDFLAGS = $(AM_LDFLAGS) -fsanitize=fuzzer
%C%_fuzz_fuzz_trace_SOURCES = %D%/fuzz/fuzz_trace.c
%C%_fuzz_fuzz_trace_LDFLAGS = $(AM_LDFLAGS) -fsanitize=fuzzer

if FUZZING
fuzz: $(fuzz_targets:%=fuzz-%)
fuzz-%: %D%/fuzz/fuzz_%$(EXEEXT)
	@rm -rf %D%/fuzz/new_$*; $(MKDIR_P) %D%/fuzz/new_$*; \
	  if $< -seed=1 -verbosity=0 -print_final_stats=1 -timeout=10 \
	    -max_total_time=$(FUZZ_SECONDS) -artifact_prefix=%D%/fuzz/$*- \
	    %D%/fuzz/new_$* $(srcdir)/tests/fuzz/corpus/$*; \
	  then echo "fuzz: $*: ok"; else echo "fuzz: $*: failed"; exit 1; fi
else
fuzz:
	@echo "configure a build with CC=clang and --enable-fuzzing first" >&2; exit 1
endif

EXTRA_DIST += $(scripts) %D%/limits.h %D%/real.sh %D%/tap.sh %D%/installcheck.sh %D%/mutants %D%/cli %D%/data %D%/fixtures %D%/policies %D%/fuzz/corpus \
  %D%/pages/closedloop.awk %D%/pages/closedloop.sh %D%/pages/holdout.sh %D%/pages/validate.sh \
  %D%/bench/page.sh %D%/bench/table.sh %D%/bench/instructions.sh %D%/bench/instructions.csv

CLEANFILES += $(EXTRA_PROGRAMS)
clean-local:
	rm -rf $(fuzz_targets:%=%D%/fuzz/new_%) failing-*

# Once more with the sizes that take minutes.
check-long:
	LULL_TEST_LONG=1 $(MAKE) $(AM_MAKEFLAGS) check

# What was installed is enough to build a policy outside of the tree and to run it.
installcheck-local:
	CC='$(CC)' $(SHELL) $(srcdir)/tests/installcheck.sh '$(DESTDIR)' '$(bindir)' \
	  '$(libdir)/pkgconfig' '$(pkgdatadir)/scenarios' $(srcdir)/tests
