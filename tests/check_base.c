/* SPDX-License-Identifier: GPL-3.0-or-later */
/* base/: errors, random streams, files. */
#include <check.h>
#include <dirent.h>
#include <errno.h>
#include <gsl/gsl_randist.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/outfile.h"
#include "base/rng.h"
#include "tests/suite.h"

/* ----------------------------------------------------------------------------------- errors --- */

START_TEST(error_is_one_line)
{
  struct base_error e = {0};
  base_fail(&e, BASE_INPUT, "the key \"%s\"\n", "a\nb\033[2J\x7f\tü");
  ck_assert_str_eq(e.text, "the key \"a?b?[2J??ü\"");
}
END_TEST

START_TEST(error_first_wins)
{
  struct base_error e = {0};
  char buf[128];
  ck_assert_int_eq(base_fail_at(&e, BASE_INPUT, "a.xml", 7, "bad %d\n", 3), -1);
  ck_assert_int_eq(base_fail(&e, BASE_ENV, "later"), -1);
  errno = ENOSPC;
  ck_assert_int_eq(base_fail_errno(&e, "later"), -1);
  ck_assert_int_eq(e.code, BASE_INPUT);
  ck_assert_str_eq(base_error_format(&e, buf, sizeof buf), "a.xml:7: error: bad 3");
  e.column = 2;
  ck_assert_str_eq(base_error_format(&e, buf, sizeof buf), "a.xml:7:2: error: bad 3");
  ck_assert_str_eq(base_error_format(&e, buf, 6), "a.xml");
  ck_assert_int_eq(base_fail(NULL, BASE_ENV, "nobody listens"), -1);
}
END_TEST

START_TEST(error_errno_and_long_names)
{
  struct base_error e = {0}, m = {0}, n = {0};
  char name[600], buf[2000];
  errno = ENOSPC;
  base_fail_errno(&e, "cannot write '%s'", "x");
  ck_assert_int_eq(e.code, BASE_ENV);
  ck_assert_str_eq(e.text, "cannot write 'x': No space left on device");
  ck_assert_str_eq(base_error_format(&e, buf, sizeof buf),
                   "error: cannot write 'x': No space left on device");
  base_fail_memory(&m);
  ck_assert_str_eq(m.text, "out of memory");
  memset(name, 'd', sizeof name);
  strcpy(name + sizeof name - 10, "/last.xml");
  base_fail_at(&n, BASE_INPUT, name, 1, "%s%s", name, name);
  ck_assert_uint_eq(strlen(n.file), sizeof n.file - 1);
  ck_assert_int_eq(strncmp(n.file, "...d", 4), 0);
  ck_assert_str_eq(n.file + strlen(n.file) - 9, "/last.xml");
  ck_assert_uint_eq(strlen(n.text), sizeof n.text - 1);
}
END_TEST

START_TEST(error_lists)
{
  struct base_errors list = {0};
  struct base_error e = {.code = BASE_ENV, .line = 3};
  for (unsigned i = 0; i < 70; i++)
    ck_assert_int_eq(base_errors_at(&list, BASE_INPUT, "f", i + 1, "n%u", i), -1);
  ck_assert_int_eq(base_errors_add(&list, &e), -1);
  ck_assert_uint_eq(list.n, BASE_ERRORS_MAX);
  ck_assert_uint_eq(list.total, 71);
  ck_assert_str_eq(list.item[49].text, "n49");
  base_errors_free(&list);
  base_errors_add(&list, &e);
  ck_assert_uint_eq(list.n, 1);
  ck_assert_uint_eq(list.item[0].line, 3);
  base_errors_free(&list);
  base_errors_free(NULL);
}
END_TEST

START_TEST(error_nearest)
{
  static const char *const names[] = {"fcfs", "priority", "dedicated", "cap"};
  ck_assert_str_eq(base_nearest("fcsf", names, 4), "fcfs");
  ck_assert_str_eq(base_nearest("FCFS", names, 4), "fcfs");
  ck_assert_str_eq(base_nearest("prioritty", names, 4), "priority");
  ck_assert_str_eq(base_nearest("dedikated", names, 4), "dedicated");
  ck_assert_str_eq(base_nearest("cp", names, 4), "cap");
  static const char *const models[] = {"llama-2-7b", "llama-3.1-70b", "llama-3.1-8b"};
  ck_assert_str_eq(base_nearest("llama-3-8b", models, 3), "llama-3.1-8b");
  ck_assert_ptr_null(base_nearest("zebra", names, 4));
  ck_assert_ptr_null(base_nearest("", names, 4));
  ck_assert_ptr_null(base_nearest("fcfs", names, 0));
  char longname[200];
  memset(longname, 'a', sizeof longname - 1);
  longname[sizeof longname - 1] = 0;
  ck_assert_ptr_null(base_nearest(longname, names, 4));
}
END_TEST

/* -------------------------------------------------------------------------------------- rng --- */

/* Known answers of the Random123 distribution. */
START_TEST(rng_known_answers)
{
  static const uint32_t kat[3][10] = {
      {0, 0, 0, 0, 0, 0, 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8},
      {~0u, ~0u, ~0u, ~0u, ~0u, ~0u, 0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd},
      {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344, 0xa4093822, 0x299f31d0, 0xd16cfe09,
       0x94fdcceb, 0x5001e420, 0x24126ea1}};
  uint32_t out[4];
  base_philox4x32(kat[_i], kat[_i] + 4, out);
  ck_assert_mem_eq(out, kat[_i] + 6, sizeof out);
}
END_TEST

START_TEST(rng_gsl_seed_is_key)
{
  gsl_rng *r = gsl_rng_alloc(base_rng_philox);
  gsl_rng_set(r, 0);
  ck_assert_uint_eq(gsl_rng_get(r), 0x6627e8d5);
  ck_assert_uint_eq(gsl_rng_get(r), 0xe169c58d);
  ck_assert_str_eq(gsl_rng_name(r), "philox4x32-10");
  ck_assert_uint_eq(gsl_rng_max(r), 0xFFFFFFFFul);
  gsl_rng_free(r);
}
END_TEST

/* What an entity draws depends on nothing drawn before, on its seed, its name and its number. */
START_TEST(rng_entities)
{
  gsl_rng *r = base_rng_open(17, "prompt/live"), *s = base_rng_open(17, "prompt/live");
  unsigned long first[6], other;
  for (int i = 0; i < 6; i++)
    first[i] = gsl_rng_get(r);
  base_rng_entity(r, 5);
  other = gsl_rng_get(r);
  ck_assert_uint_ne(other, first[0]);
  gsl_rng_uniform(r);
  base_rng_entity(r, 0);
  for (int i = 0; i < 6; i++) {
    ck_assert_uint_eq(gsl_rng_get(r), first[i]);
    ck_assert_uint_eq(gsl_rng_get(s), first[i]);
  }
  base_rng_entity(s, (uint64_t)5 << 32);
  ck_assert_uint_ne(gsl_rng_get(s), other);
  gsl_rng_free(s);
  s = base_rng_open(18, "prompt/live");
  ck_assert_uint_ne(gsl_rng_get(s), first[0]);
  gsl_rng_free(s);
  s = base_rng_open(17, "prompt/batch");
  ck_assert_uint_ne(gsl_rng_get(s), first[0]);
  gsl_rng_free(s);
  gsl_rng_free(r);
}
END_TEST

/* The key is XXH3-64 of the name, whose published value for the empty string with seed 0 is
 * 2d06800538d394c2; the entity is in the high words of the counter. */
START_TEST(rng_key_and_counter)
{
  static const uint32_t key[2] = {0x38d394c2, 0x2d068005}, ctr[4] = {0, 0, 0x89abcdef, 0x01234567};
  uint32_t out[4];
  gsl_rng *r = base_rng_open(0, "");
  base_rng_entity(r, 0x0123456789abcdef);
  base_philox4x32(ctr, key, out);
  for (int i = 0; i < 4; i++)
    ck_assert_uint_eq(gsl_rng_get(r), out[i]);
  gsl_rng_free(r);
}
END_TEST

START_TEST(rng_uniform)
{
  enum { N = 50000, CELLS = 64 };
  unsigned cell[CELLS] = {0};
  double chi = 0;
  int fine = 0;
  gsl_rng *r = base_rng_open(3, "uniform");
  for (int i = 0; i < N; i++) {
    double u = gsl_rng_uniform(r);
    ck_assert(u >= 0 && u < 1);
    ck_assert(ldexp(u, 53) == floor(ldexp(u, 53)));
    fine += ldexp(u, 52) != floor(ldexp(u, 52));
    cell[(int)(u * CELLS)]++;
  }
  for (int i = 0; i < CELLS; i++)
    chi += pow(cell[i] - (double)N / CELLS, 2) / ((double)N / CELLS);
  ck_assert_msg(chi > 30 && chi < 115, "chi square %g of 63", chi);
  ck_assert(fine > N * 0.49 && fine < N * 0.51); /* the 53rd bit is alive */
  double sum = 0;
  for (int i = 0; i < N; i++) {
    base_rng_entity(r, (uint64_t)i);
    sum += gsl_ran_gaussian(r, 1);
  }
  ck_assert(fabs(sum / N) < 4 / sqrt(N));
  gsl_rng_free(r);
}
END_TEST

/* ------------------------------------------------------------------------------------ files --- */

static char folder[] = "check_base_XXXXXX";

static void in_folder(void)
{
  ck_assert_ptr_nonnull(mkdtemp(folder));
  ck_assert_int_eq(chdir(folder), 0);
}

/* Names in the present folder, and removes them. */
static int count_and_remove(void)
{
  int n = 0;
  DIR *d = opendir(".");
  ck_assert_ptr_nonnull(d);
  for (struct dirent *f; (f = readdir(d));)
    if (f->d_name[0] != '.') {
      n++;
      ck_assert_int_eq(remove(f->d_name), 0);
    }
  closedir(d);
  return n;
}

static void out_of_folder(void)
{
  count_and_remove();
  ck_assert_int_eq(chdir(".."), 0);
  ck_assert_int_eq(rmdir(folder), 0);
}

static void content_is(const char *path, const char *text)
{
  struct base_error e = {0};
  size_t n = 0;
  char *s = base_read_file(path, 1000, &n, &e);
  ck_assert_msg(s != NULL, "%s", e.text);
  ck_assert_str_eq(s, text);
  ck_assert_uint_eq(n, strlen(text));
  free(s);
}

static int write_file(const char *path, const char *text, struct base_error *e)
{
  struct base_outfile o;
  if (base_outfile_open(&o, path, e))
    return -1;
  fputs(text, o.f);
  return base_outfile_commit(&o, e);
}

START_TEST(file_commit)
{
  struct base_error e = {0};
  struct base_outfile o;
  struct stat st;
  in_folder();
  ck_assert_int_eq(base_outfile_open(&o, "a", &e), 0);
  fputs("one", o.f);
  ck_assert_int_ne(access("a", F_OK), 0); /* not there before it is whole */
  ck_assert_int_eq(base_outfile_commit(&o, &e), 0);
  content_is("a", "one");
  ck_assert_int_eq(chmod("a", 0640), 0);
  ck_assert_int_eq(symlink("a", "link"), 0);
  ck_assert_int_eq(write_file("link", "two", &e), 0); /* the file is replaced, not the link */
  content_is("a", "two");
  ck_assert(!lstat("link", &st) && S_ISLNK(st.st_mode));
  ck_assert(!stat("a", &st) && (st.st_mode & 0777) == 0640);
  ck_assert_int_eq(count_and_remove(), 2);
  out_of_folder();
}
END_TEST

START_TEST(file_abandon)
{
  struct base_error e = {0};
  struct base_outfile o = {0};
  in_folder();
  base_outfile_abandon(&o);
  base_outfile_abandon(NULL);
  ck_assert_int_eq(write_file("a", "old", &e), 0);
  ck_assert_int_eq(base_outfile_open(&o, "a", &e), 0);
  fputs("new", o.f);
  base_outfile_abandon(&o);
  base_outfile_abandon(&o);
  content_is("a", "old");
  ck_assert_int_eq(count_and_remove(), 1);
  out_of_folder();
}
END_TEST

START_TEST(file_full_device)
{
  struct base_error e = {0};
  ck_assert_int_eq(write_file("/dev/full", "text", &e), -1);
  ck_assert_int_eq(e.code, BASE_ENV);
  ck_assert_ptr_nonnull(strstr(e.text, "'/dev/full': No space left"));
  struct stat st;
  ck_assert(!stat("/dev/full", &st) && S_ISCHR(st.st_mode));
  struct base_error n = {0};
  ck_assert_int_eq(write_file("/dev/null", "text", &n), 0);
}
END_TEST

/* A write that fails half-way: the old file stays, the temporary goes. */
START_TEST(file_write_error)
{
  struct base_error e = {0};
  struct base_outfile o;
  struct rlimit limit = {1024, 1024};
  in_folder();
  ck_assert_int_eq(write_file("a", "old", &e), 0);
  signal(SIGXFSZ, SIG_IGN);
  ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
  ck_assert_int_eq(base_outfile_open(&o, "a", &e), 0);
  for (int i = 0; i < 20000; i++)
    fputs("new", o.f);
  ck_assert_int_eq(base_outfile_commit(&o, &e), -1);
  ck_assert_int_eq(e.code, BASE_ENV);
  content_is("a", "old");
  ck_assert_int_eq(count_and_remove(), 1);
  out_of_folder();
}
END_TEST

START_TEST(file_bad_places)
{
  struct base_error none = {0}, dir = {0}, below = {0}, e = {0};
  in_folder();
  ck_assert_int_eq(write_file("missing/a", "x", &none), -1);
  ck_assert_int_eq(none.code, BASE_ENV);
  ck_assert_ptr_nonnull(strstr(none.text, "missing/a"));
  ck_assert_int_eq(write_file(".", "x", &dir), -1);
  ck_assert_ptr_nonnull(strstr(dir.text, "folder"));
  ck_assert_int_eq(write_file("a", "x", &e), 0);
  ck_assert_int_eq(write_file("a/b", "x", &below), -1);
  ck_assert_int_eq(below.code, BASE_ENV);
  ck_assert_int_eq(count_and_remove(), 1);
  if (geteuid() != 0) { /* for root every folder is writable */
    struct base_error ro = {0};
    ck_assert_int_eq(mkdir("ro", 0555), 0);
    ck_assert_int_eq(write_file("ro/a", "x", &ro), -1);
    ck_assert_int_eq(ro.code, BASE_ENV);
  }
  out_of_folder();
}
END_TEST

START_TEST(file_read)
{
  struct base_error e = {0}, missing = {0}, large = {0}, dir = {0}, env = {0};
  size_t n;
  in_folder();
  ck_assert_int_eq(write_file("a", "12345", &e), 0);
  ck_assert_int_eq(write_file("empty", "", &e), 0);
  content_is("empty", "");
  char *s = base_read_file("a", 5, &n, &e);
  ck_assert_ptr_nonnull(s);
  free(s);
  ck_assert_ptr_null(base_read_file("a", 4, &n, &large));
  ck_assert_ptr_nonnull(strstr(large.text, "larger than 4 bytes"));
  ck_assert_ptr_null(base_read_file("none", 4, &n, &missing));
  ck_assert_int_eq(missing.code, BASE_INPUT);
  ck_assert_str_eq(missing.text, "cannot read 'none': No such file or directory");
  ck_assert_ptr_null(base_read_file(".", 4, &n, &dir));
  ck_assert_int_eq(dir.code, BASE_INPUT);
  ck_assert_ptr_null(base_read_file("/proc/self/mem", 4, &n, &env));
  ck_assert_int_eq(env.code, BASE_ENV);
  s = base_read_file("/dev/zero", 1000000, &n, &(struct base_error){0});
  ck_assert_ptr_null(s); /* endless: ends at the limit */
  out_of_folder();
}
END_TEST

START_TEST(file_sha256)
{
  struct base_error e = {0};
  char hex[65];
  in_folder();
  ck_assert_int_eq(write_file("a", "abc", &e), 0);
  ck_assert_int_eq(base_sha256_file("a", hex, &e), 0);
  ck_assert_str_eq(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  ck_assert_int_eq(base_sha256_file("none", hex, &e), -1);
  ck_assert_int_eq(e.code, BASE_INPUT);
  out_of_folder();
}
END_TEST

static TCase *error_case(void)
{
  TCase *t = tcase_create("error");
  tcase_add_test(t, error_first_wins);
  tcase_add_test(t, error_is_one_line);
  tcase_add_test(t, error_errno_and_long_names);
  tcase_add_test(t, error_lists);
  tcase_add_test(t, error_nearest);
  return t;
}

static TCase *rng_case(void)
{
  TCase *t = tcase_create("rng");
  tcase_add_loop_test(t, rng_known_answers, 0, 3);
  tcase_add_test(t, rng_gsl_seed_is_key);
  tcase_add_test(t, rng_entities);
  tcase_add_test(t, rng_key_and_counter);
  tcase_add_test(t, rng_uniform);
  return t;
}

static TCase *file_case(void)
{
  TCase *t = tcase_create("file");
  tcase_add_test(t, file_commit);
  tcase_add_test(t, file_abandon);
  tcase_add_test(t, file_full_device);
  tcase_add_test(t, file_write_error);
  tcase_add_test(t, file_bad_places);
  tcase_add_test(t, file_read);
  tcase_add_test(t, file_sha256);
  return t;
}

int main(void)
{
  Suite *s = suite_create("base");
  suite_add_tcase(s, error_case());
  suite_add_tcase(s, rng_case());
  suite_add_tcase(s, file_case());
  return suite_run(s);
}
