# SPDX-License-Identifier: GPL-3.0-or-later
# models/simdev.c: F1, completions of one moment come from the highest lane down
/^static int report_all/,/^}/s/for (int i = 0; i < d->nlanes; i++)/for (int i = d->nlanes - 1; i >= 0; i--)/
