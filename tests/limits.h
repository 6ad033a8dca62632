/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Little memory, and a disk that is full. Included by the suites that use it. */
#ifndef TESTS_LIMITS_H
#define TESTS_LIMITS_H

#include <check.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* A sanitizer keeps freed memory: what a run needs cannot be measured then. */
#if defined __SANITIZE_ADDRESS__
enum { SANITIZED = 1 };
#elif defined __has_feature
#if __has_feature(address_sanitizer)
enum { SANITIZED = 1 };
#else
enum { SANITIZED = 0 };
#endif
#else
enum { SANITIZED = 0 };
#endif

/* Peak memory of a process that does something, KiB. */
static inline long peak(void (*work)(int), int argument)
{
  struct rusage usage;
  int status;
  pid_t pid = fork();
  ck_assert_int_ge(pid, 0);
  if (!pid) {
    work(argument);
    _exit(0);
  }
  ck_assert_int_eq(wait4(pid, &status, 0, &usage), pid);
  ck_assert_int_eq(status, 0);
  return usage.ru_maxrss;
}

/* Ten times the work must do with as much memory, within 4 MiB. */
static inline void check_peaks(void (*work)(int), int size)
{
  const long slack = 4096;
  long little = peak(work, size), much = peak(work, 10 * size);
  ck_assert_msg(SANITIZED || much <= little + slack, "%ld KiB, but %ld KiB for ten times as much",
                little, much);
}

/* No file of more than `bytes` can be written by this process. */
static inline void limit_files(rlim_t bytes)
{
  const struct rlimit limit = {bytes, bytes};
  signal(SIGXFSZ, SIG_IGN);
  ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

#endif
