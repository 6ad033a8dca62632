# SPDX-License-Identifier: GPL-3.0-or-later
# backend/engine_step.c: a stopped step counts
# noticed by check_engine_steps
s/if (aborted || bad)$/if (bad)/
