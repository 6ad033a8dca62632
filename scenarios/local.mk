# SPDX-License-Identifier: GPL-3.0-or-later
scenariosdir = $(pkgdatadir)/scenarios
dist_scenarios_DATA = \
  %D%/c4-azure-conv.xml \
  %D%/c4-live-batch.xml \
  %D%/ci-live-batch-cpu.xml \
  %D%/ci-train-cpu.xml \
  %D%/lull-scenario-1.xsd \
  %D%/md1.xml \
  %D%/mm1.xml \
  %D%/stress-token-budget.xml \
  %D%/validate-vllm-rtxpro6000.xml
# The default scenario and the schema are inside the program too.
embedded += \
  %D%/c4-live-batch.xml \
  %D%/lull-scenario-1.xsd
