# SPDX-License-Identifier: GPL-3.0-or-later
# The man page is made by the program itself; it is kept in the tree so that it can be read and
# installed without a build, and a test compares the two. `make man` remakes it.
dist_man1_MANS = %D%/lull.1

man: lull$(EXEEXT)
	$(AM_V_GEN)./lull$(EXEEXT) man > $(srcdir)/docs/lull.1.tmp && \
	  mv -f $(srcdir)/docs/lull.1.tmp $(srcdir)/docs/lull.1
.PHONY: man

EXTRA_DIST += \
  %D%/calibration.md \
  %D%/checkpoints.md \
  %D%/closed-loop.md \
  %D%/devices.md \
  %D%/engine-speed.md \
  %D%/engines.md \
  %D%/generate.md \
  %D%/holdout.md \
  %D%/metrics.md \
  %D%/results.md \
  %D%/rules.md \
  %D%/scenarios.md \
  %D%/speed.md \
  %D%/traces.md \
  %D%/training.md \
  %D%/validate-cpu.md \
  %D%/validate.md
