# SPDX-License-Identifier: GPL-3.0-or-later

# LULL_REQUIRE(VARIABLE, MODULES, DEBIAN-PACKAGE): pkg-config modules that lull cannot do without.
AC_DEFUN([LULL_REQUIRE],
[PKG_CHECK_MODULES([$1], [$2], [],
  [AC_MSG_ERROR([$2 is missing: install its development package (Debian: $3). ./bootstrap does it for you])])])

# LULL_TRY_CFLAG(VARIABLE, FLAG): appends FLAG to VARIABLE if the compiler takes it silently.
AC_DEFUN([LULL_TRY_CFLAG],
[AC_MSG_CHECKING([whether $CC takes $2])
lull_saved_CFLAGS=$CFLAGS
CFLAGS="$CFLAGS -Werror $2"
AC_COMPILE_IFELSE([AC_LANG_PROGRAM([], [])],
  [AC_MSG_RESULT([yes]); $1="$$1 $2"], [AC_MSG_RESULT([no])])
CFLAGS=$lull_saved_CFLAGS])

# LULL_COMPILER_FLAGS: LULL_CFLAGS and LULL_LDFLAGS by compiler and by the --enable switches.
# -ffp-contract=off keeps results equal with and without fused multiply-add.
AC_DEFUN([LULL_COMPILER_FLAGS],
[LULL_CFLAGS=
LULL_LDFLAGS=
for flag in -std=gnu17 -ffp-contract=off -Wall -Wextra -Wshadow -Wstrict-prototypes \
            -Wmissing-prototypes -Wno-unused-parameter; do
  LULL_TRY_CFLAG([LULL_CFLAGS], [$flag])
done
AS_CASE([" $LULL_CFLAGS "], [*" -std=gnu17 "*], [],
  [AC_MSG_ERROR([$CC does not know -std=gnu17: use gcc 8 or clang 6, or later])])
AS_IF([test "$enable_werror" != no], [LULL_CFLAGS="$LULL_CFLAGS -Werror"])
AS_IF([test "$enable_sanitizers" != no],
  [sanitize="-fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer"
   LULL_CFLAGS="$LULL_CFLAGS $sanitize"
   LULL_LDFLAGS="$LULL_LDFLAGS $sanitize"
   LULL_CHECK_LINK([the sanitizers], [libasan and libubsan])])
AS_IF([test "$enable_tsan" != no],
  [AS_IF([test "$enable_sanitizers" != no || test "$enable_fuzzing" != no],
     [AC_MSG_ERROR([--enable-tsan cannot be had together with the other sanitizers])])
   sanitize="-fsanitize=thread -fno-omit-frame-pointer"
   LULL_CFLAGS="$LULL_CFLAGS $sanitize"
   LULL_LDFLAGS="$LULL_LDFLAGS $sanitize"
   LULL_CHECK_LINK([ThreadSanitizer], [libtsan])])
AS_IF([test "$enable_fuzzing" != no],
  [sanitize="-fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all"
   LULL_CFLAGS="$LULL_CFLAGS $sanitize"
   LULL_LDFLAGS="$LULL_LDFLAGS $sanitize"
   LULL_CHECK_LINK([libFuzzer], [clang and its runtime (Debian: clang libclang-rt-14-dev), with CC=clang])])
AC_SUBST([LULL_CFLAGS])
AC_SUBST([LULL_LDFLAGS])])

# LULL_CHECK_LINK(WHAT, REMEDY): stops unless a program links with LULL_CFLAGS and LULL_LDFLAGS.
AC_DEFUN([LULL_CHECK_LINK],
[AC_MSG_CHECKING([whether $CC links with $1])
lull_saved_CFLAGS=$CFLAGS
lull_saved_LDFLAGS=$LDFLAGS
CFLAGS="$CFLAGS $LULL_CFLAGS"
LDFLAGS="$LDFLAGS $LULL_LDFLAGS"
AC_LINK_IFELSE([AC_LANG_PROGRAM([], [])], [AC_MSG_RESULT([yes])],
  [AC_MSG_RESULT([no]); AC_MSG_ERROR([$CC cannot link with $1: install $2])])
CFLAGS=$lull_saved_CFLAGS
LDFLAGS=$lull_saved_LDFLAGS])

# LULL_CHECK_CUDA: --with-cuda=auto|yes|no|DIR. A guess may miss, a request must not: with "auto"
# an absent toolkit is silently no toolkit, with "yes" or a folder it is an error.
AC_DEFUN([LULL_CHECK_CUDA],
[AC_ARG_WITH([cuda],
  [AS_HELP_STRING([--with-cuda=auto|yes|no|DIR], [look for the CUDA toolkit (default: auto)])],
  [], [with_cuda=auto])
AC_ARG_VAR([NVCC], [the CUDA compiler])
AS_CASE([$with_cuda],
  [no], [NVCC=],
  [auto|yes], [AC_PATH_PROG([NVCC], [nvcc], [],
    [$PATH$PATH_SEPARATOR${CUDA_HOME:-/usr/local/cuda}/bin$PATH_SEPARATOR/usr/local/cuda/bin])],
  [AC_PATH_PROG([NVCC], [nvcc], [], [$with_cuda/bin])])
AS_IF([test -n "$NVCC"], [have_cuda=yes], [have_cuda=no])
AS_CASE([$with_cuda:$have_cuda],
  [auto:no|no:no|*:yes], [],
  [yes:no], [AC_MSG_ERROR([--with-cuda: no nvcc in PATH, CUDA_HOME or /usr/local/cuda])],
  [AC_MSG_ERROR([--with-cuda=$with_cuda: no nvcc in $with_cuda/bin])])
AM_CONDITIONAL([HAVE_CUDA], [test "$have_cuda" = yes])])
