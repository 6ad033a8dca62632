/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A shared object that is no policy. */
int something_else(void);
int something_else(void)
{
  return 0;
}
