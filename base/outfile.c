/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Output files that are whole or absent; whole input files; digests. */
#include "base/outfile.h"

#include <errno.h>
#include <fcntl.h>
#include <nettle/sha2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TMP_TRIES = 1000 };

/* Devices and descriptors by name are written as they are, even where they lead to a file: that
 * file is somebody else's, open, and must not be replaced. */
static int is_special(const char *path)
{
  return !strncmp(path, "/dev/", 5) || !strncmp(path, "/proc/", 6);
}

/* Opens the target itself. Standard output and error share their descriptor's position. */
static int open_direct(const char *path)
{
  if (!strcmp(path, "/dev/stdout"))
    return fflush(stdout) ? -1 : dup(STDOUT_FILENO);
  if (!strcmp(path, "/dev/stderr"))
    return dup(STDERR_FILENO);
  return open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
}

/* Creates a new file beside o->path; o->tmp is its name. Returns a descriptor or -1. */
static int open_tmp(struct base_outfile *o, mode_t mode, struct base_error *e)
{
  size_t size = strlen(o->path) + 16;
  int fd = -1;
  o->tmp = malloc(size);
  if (!o->tmp)
    return base_fail_memory(e);
  for (int i = 0; fd < 0 && i < TMP_TRIES; i++) {
    snprintf(o->tmp, size, "%s.tmp%d", o->path, i);
    fd = open(o->tmp, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (fd < 0 && errno != EEXIST)
      break;
  }
  if (fd < 0) {
    base_fail_errno(e, "cannot create a file beside '%s'", o->path);
    free(o->tmp);
    o->tmp = NULL;
  }
  return fd;
}

/* The file that `path` leads to, through links, if it is there and regular: it is replaced, not
 * the link. Sets *mode to its permissions. New string. */
static char *resolve(const char *path, mode_t *mode, int *direct, struct base_error *e)
{
  struct stat st;
  char *name = NULL;
  int there = !stat(path, &st);
  *direct = is_special(path) || (there && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode));
  *mode = 0666;
  if (there && S_ISDIR(st.st_mode)) {
    base_fail(e, BASE_ENV, "cannot write '%s': it is a folder", path);
    return NULL;
  }
  if (there && !*direct) {
    *mode = st.st_mode & 0777;
    if (access(path, W_OK)) {
      base_fail_errno(e, "cannot write '%s'", path);
      return NULL;
    }
    name = realpath(path, NULL);
  }
  if (!name)
    name = strdup(path);
  if (!name)
    base_fail_memory(e);
  return name;
}

int base_outfile_open(struct base_outfile *o, const char *path, struct base_error *e)
{
  int direct;
  mode_t mode;
  *o = (struct base_outfile){0};
  o->path = resolve(path, &mode, &direct, e);
  if (!o->path)
    return -1;
  int fd = direct ? open_direct(path) : open_tmp(o, mode, e);
  if (fd >= 0)
    o->f = fdopen(fd, "w");
  if (o->f)
    return 0;
  base_fail_errno(e, "cannot open '%s' for writing", path);
  if (fd >= 0)
    close(fd);
  base_outfile_abandon(o);
  return -1;
}

/* Everything that was written is on its way to the disk; pipes and devices cannot be synced. */
static int flush(struct base_outfile *o, struct base_error *e)
{
  int earlier = ferror(o->f);
  if (fflush(o->f))
    return base_fail_errno(e, "cannot write '%s'", o->path);
  if (earlier)
    return base_fail(e, BASE_ENV, "cannot write '%s': a write failed", o->path);
  if (o->tmp && fsync(fileno(o->f)))
    return base_fail_errno(e, "cannot write '%s' to disk", o->path);
  return 0;
}

int base_outfile_commit(struct base_outfile *o, struct base_error *e)
{
  int bad = flush(o, e);
  FILE *f = o->f;
  o->f = NULL;
  if (fclose(f) && !bad)
    bad = base_fail_errno(e, "cannot close '%s'", o->path);
  if (!bad && o->tmp && rename(o->tmp, o->path))
    bad = base_fail_errno(e, "cannot rename '%s' to '%s'", o->tmp, o->path);
  if (!bad) {
    free(o->tmp);
    o->tmp = NULL;
  }
  base_outfile_abandon(o);
  return bad ? -1 : 0;
}

void base_outfile_abandon(struct base_outfile *o)
{
  if (!o)
    return;
  if (o->f)
    fclose(o->f);
  if (o->tmp)
    unlink(o->tmp);
  free(o->tmp);
  free(o->path);
  *o = (struct base_outfile){0};
}

/* A file that the user named: a wrong name is bad input, a failing disk is not. */
static int fail_open(const char *path, struct base_error *e)
{
  if (errno != ENOENT && errno != EACCES && errno != ENOTDIR && errno != EISDIR &&
      errno != ENAMETOOLONG && errno != ELOOP)
    return base_fail_errno(e, "cannot read '%s'", path);
  return base_fail(e, BASE_INPUT, "cannot read '%s': %s", path, strerror(errno));
}

static FILE *open_for_reading(const char *path, struct base_error *e)
{
  struct stat st;
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd >= 0 && !fstat(fd, &st) && S_ISDIR(st.st_mode)) {
    close(fd);
    fd = -1;
    errno = EISDIR;
  }
  FILE *f = fd >= 0 ? fdopen(fd, "r") : NULL;
  if (!f) {
    fail_open(path, e);
    if (fd >= 0)
      close(fd);
  }
  return f;
}

/* Reads to the end of f, at most max bytes, NUL behind. */
static char *read_all(FILE *f, const char *path, size_t max, size_t *size, struct base_error *e)
{
  size_t room = 1 << 16, n = 0;
  char *buf = malloc(room);
  while (buf) {
    n += fread(buf + n, 1, room - 1 - n, f);
    if (n < room - 1 || n > max)
      break;
    char *more = room <= SIZE_MAX / 2 ? realloc(buf, room * 2) : NULL;
    if (!more)
      free(buf);
    buf = more;
    room *= 2;
  }
  if (!buf) {
    base_fail_memory(e);
    return NULL;
  }
  if (!ferror(f) && n <= max) {
    buf[n] = 0;
    *size = n;
    return buf;
  }
  if (ferror(f))
    base_fail_errno(e, "cannot read '%s'", path);
  else
    base_fail(e, BASE_INPUT, "'%s' is larger than %zu bytes", path, max);
  free(buf);
  return NULL;
}

char *base_read_file(const char *path, size_t max, size_t *size, struct base_error *e)
{
  size_t n = 0;
  FILE *f = open_for_reading(path, e);
  if (!f)
    return NULL;
  char *buf = read_all(f, path, max, &n, e);
  fclose(f);
  if (buf && size)
    *size = n;
  return buf;
}

int base_sha256_file(const char *path, char hex[65], struct base_error *e)
{
  uint8_t block[1 << 14], digest[SHA256_DIGEST_SIZE];
  struct sha256_ctx ctx;
  FILE *f = open_for_reading(path, e);
  if (!f)
    return -1;
  sha256_init(&ctx);
  for (size_t n; (n = fread(block, 1, sizeof block, f)) > 0;)
    sha256_update(&ctx, n, block);
  int bad = ferror(f) ? base_fail_errno(e, "cannot read '%s'", path) : 0;
  fclose(f);
  if (bad)
    return -1;
  sha256_digest(&ctx, sizeof digest, digest);
  for (unsigned i = 0; i < sizeof digest; i++)
    snprintf(hex + 2 * i, 3, "%02x", digest[i]);
  return 0;
}
