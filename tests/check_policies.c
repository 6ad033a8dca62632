/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Finding policies: the registry, parameters by name, the loader against good and bad shared
 * objects, and what the objects of policies/ are made of. Compiles with $CC (cc) from $srcdir (.);
 * $LULL_INCLUDE: where <lull/policy.h> is, if elsewhere.
 */
#include <check.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim/policies.h"
#include "tests/suite.h"

static char folder[] = "check_policies_XXXXXX";

static const char *env(const char *name, const char *otherwise)
{
  const char *v = getenv(name);
  return v && *v ? v : otherwise;
}

static void make_folder(void)
{
  ck_assert_ptr_nonnull(mkdtemp(folder));
}

/* Also after a failed test: the fixture runs outside of the test's process. */
static void remove_folder(void)
{
  char path[512];
  DIR *d = opendir(folder);
  ck_assert_ptr_nonnull(d);
  for (struct dirent *f; (f = readdir(d));)
    if (snprintf(path, sizeof path, "%s/%s", folder, f->d_name) > 0 && f->d_name[0] != '.')
      remove(path);
  closedir(d);
  ck_assert_int_eq(rmdir(folder), 0);
  strcpy(folder + strlen(folder) - 6, "XXXXXX");
}

/* Compiles a source below the tree into folder/out. */
static void compile(const char *source, const char *flags, const char *out)
{
  char cmd[2048], include[512];
  snprintf(include, sizeof include, "%s/include", env("srcdir", "."));
  snprintf(cmd, sizeof cmd, "%s -w -I'%s' %s -o '%s/%s' '%s/%s'", env("CC", "cc"),
           env("LULL_INCLUDE", include), flags, folder, out, env("srcdir", "."), source);
  ck_assert_msg(system(cmd) == 0, "failed: %s", cmd);
}

static const char *in_folder(const char *name)
{
  static char path[512];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  return path;
}

/* --------------------------------------------------------------------------------- registry --- */

START_TEST(registry_order)
{
  static const char *const names[] = {"fcfs", "priority", "dedicated", "cap"};
  size_t n = 0;
  const struct lull_policy *const *p = policies_builtin(&n);
  ck_assert_uint_eq(n, 4);
  for (size_t i = 0; i < n; i++) {
    struct base_error e = {0};
    int64_t params[16];
    ck_assert_str_eq(p[i]->name, names[i]);
    ck_assert_ptr_eq(policies_find(names[i], &e), p[i]);
    ck_assert_ptr_nonnull(p[i]->summary);
    ck_assert_ptr_nonnull(p[i]->plan);
    ck_assert_uint_eq(p[i]->abi, LULL_POLICY_ABI);
    ck_assert_uint_eq(p[i]->size, sizeof(struct lull_policy));
    ck_assert_msg(!policies_defaults(p[i], params, &e), "%s", e.text);
    for (uint32_t k = 0; k < p[i]->nparams; k++)
      ck_assert_ptr_nonnull(p[i]->params[k].doc);
  }
}
END_TEST

static void unknown(const char *name, const char *says)
{
  struct base_error e = {0};
  ck_assert_ptr_null(policies_find(name, &e));
  ck_assert_int_eq(e.code, BASE_INPUT);
  ck_assert_msg(strstr(e.text, says), "%s", e.text);
}

START_TEST(registry_unknown)
{
  unsetenv("LULL_POLICY_PATH");
  unknown("fcsf", "unknown policy 'fcsf'; did you mean 'fcfs'?");
  unknown("Priority", "did you mean 'priority'?");
  unknown("harvester", "built in are: fcfs priority dedicated cap");
  unknown("harvester", "LULL_POLICY_PATH");
  unknown("", "unknown policy ''");
}
END_TEST

START_TEST(params_builtin)
{
  struct base_error e = {0}, unit = {0}, range = {0}, name = {0}, choice = {0}, far = {0};
  int64_t v[3] = {0};
  char buf[32];
  const struct lull_policy *p = policies_find("cap", &e);
  ck_assert_int_eq(policies_defaults(p, v, &e), 0);
  ck_assert_int_eq(v[0], 0);
  ck_assert_int_eq(v[1], 0);
  ck_assert_int_eq(v[2], 32);
  ck_assert_int_eq(policies_set(p, v, "limit", "8", &e), 0);
  ck_assert_int_eq(policies_set(p, v, "preempt", "swap", &e), 0);
  ck_assert_int_eq(policies_set(p, v, "evict", "no", &e), 0);
  ck_assert_int_eq(v[2], 8);
  ck_assert_str_eq(policies_format(&p->params[2], v[2], buf, sizeof buf), "8");
  ck_assert_str_eq(policies_format(&p->params[0], v[0], buf, sizeof buf), "swap");
  ck_assert_str_eq(policies_format(&p->params[1], v[1], buf, sizeof buf), "no");
  ck_assert_str_eq(policies_format(&p->params[1], 9, buf, sizeof buf), "?");
  ck_assert_int_eq(policies_set(p, v, "limit", "0", &range), -1);
  ck_assert_str_eq(range.text, "parameter 'limit' of policy 'cap': '0' is out of range; it goes "
                               "from 1 to 1000000");
  ck_assert_int_eq(policies_set(p, v, "limit", "8tok", &unit), -1);
  ck_assert_ptr_nonnull(strstr(unit.text, "parameter 'limit' of policy 'cap': '8tok'"));
  ck_assert_int_eq(policies_set(p, v, "limt", "8", &name), -1);
  ck_assert_str_eq(name.text, "policy 'cap' has no parameter 'limt'; did you mean 'limit'?");
  ck_assert_int_eq(policies_set(p, v, "watermark", "8", &far), -1);
  ck_assert_ptr_nonnull(strstr(far.text, "it has: preempt evict limit"));
  ck_assert_int_eq(policies_set(p, v, "preempt", "swa", &choice), -1);
  ck_assert_ptr_nonnull(strstr(choice.text, "'swa' is none of its choices: recompute swap"));
  ck_assert_int_eq(v[2], 8); /* nothing that failed was set */
  ck_assert_int_eq(v[0], 1);
}
END_TEST

/* ----------------------------------------------------------------------------------- loader --- */

START_TEST(loader_good)
{
  static const int64_t presets[] = {3, 10000000000, 4294967296, 200, 500000, 1};
  static const char *const texts[] = {"3", "10ms", "4GiB", "200tok", "0.5", "keep"};
  struct base_error e = {0}, low = {0};
  int64_t v[6];
  char buf[32], dirs[128];
  compile("tests/policies/good.c", "-shared -fPIC", "lull-good-policy.so");
  const struct lull_policy *p = policies_find(in_folder("lull-good-policy.so"), &e);
  ck_assert_msg(p != NULL, "%s", e.text);
  ck_assert_str_eq(p->name, "good");
  ck_assert_int_eq(policies_defaults(p, v, &e), 0);
  for (int i = 0; i < 6; i++) {
    ck_assert_int_eq(v[i], presets[i]);
    ck_assert_str_eq(policies_format(&p->params[i], v[i], buf, sizeof buf), texts[i]);
  }
  ck_assert_int_eq(policies_set(p, v, "window", "1ps", &low), -1);
  ck_assert_ptr_nonnull(strstr(low.text, "from 1us to 1s"));
  unsetenv("LULL_POLICY_PATH");
  unknown("good", "unknown policy 'good'");
  snprintf(dirs, sizeof dirs, "::missing:%s:.", folder);
  setenv("LULL_POLICY_PATH", dirs, 1);
  ck_assert_ptr_eq(policies_find("good", &e), p); /* by name: the same object */
}
END_TEST

START_TEST(loader_not_there)
{
  char dir[64];
  FILE *f;
  unknown("./nowhere/lull-x-policy.so", "there is no such file");
  snprintf(dir, sizeof dir, "%s/", folder);
  unknown(dir, "there is no such file");
  ck_assert_ptr_nonnull(f = fopen(in_folder("text.so"), "w"));
  fputs("this is no ELF file, however long it may be made to look\n", f);
  ck_assert_int_eq(fclose(f), 0);
  unknown(in_folder("text.so"), "cannot load policy");
  ck_assert_ptr_nonnull(f = fopen(in_folder("lull-empty-policy.so"), "w"));
  ck_assert_int_eq(fclose(f), 0);
  setenv("LULL_POLICY_PATH", folder, 1);
  unknown("empty", "lull-empty-policy.so': file too short");
}
END_TEST

START_TEST(loader_no_symbol)
{
  compile("tests/policies/no_symbol.c", "-shared -fPIC", "a.so");
  unknown(in_folder("a.so"), "has no symbol lull_policy");
  compile("tests/policies/good.c", "-shared -fPIC -DLULL_POLICY_BUILTIN", "b.so");
  unknown(in_folder("b.so"), "compile it without LULL_POLICY_BUILTIN");
}
END_TEST

static const char *const faults[] = {NULL,
                                     "built for ABI 999, this program has ABI 1",
                                     ".size is 8",
                                     ".name is missing",
                                     "not of lower case letters",
                                     "has no .plan function",
                                     ".needs 0x40",
                                     "bytes of state",
                                     ".params is missing",
                                     "never that long",
                                     "parameter 0 (Window): its name",
                                     "parameter 1 (window): its name is there twice",
                                     "its kind is unknown",
                                     "no doc line",
                                     "a choice without choices",
                                     "its range is empty",
                                     "empty or negative",
                                     "goes beyond its choices",
                                     "its preset is missing",
                                     "out of its range",
                                     "its preset is",
                                     "undefined symbol: lull_test_is_nowhere",
                                     "has no .summary"};
enum { FAULTS = sizeof faults / sizeof *faults };

START_TEST(loader_faults)
{
  char flags[64];
  struct base_error e = {0};
  snprintf(flags, sizeof flags, "-shared -fPIC -DFAULT=%d", _i);
  compile("tests/policies/faulty.c", flags, "f.so");
  if (faults[_i])
    unknown(in_folder("f.so"), faults[_i]);
  else
    ck_assert_msg(policies_find(in_folder("f.so"), &e) != NULL, "%s", e.text);
}
END_TEST

/* ---------------------------------------------------------------------------------- objects --- */

/* Calls `line` for each line that a command prints. */
static void each_line(const char *cmd, void (*line)(char *))
{
  char text[512];
  FILE *f = popen(cmd, "r");
  ck_assert_ptr_nonnull(f);
  while (fgets(text, sizeof text, f))
    line(text);
  ck_assert_msg(pclose(f) == 0, "failed: %s", cmd);
}

static int bad_symbols, symbols, bad_sections, sections;

/* A line of `nm -u`: compilers may call these of their own accord, nothing else is allowed. */
static void undefined_line(char *line)
{
  static const char *const fine[] = {"memcpy", "memset", "memmove", "memcmp",
                                     "_GLOBAL_OFFSET_TABLE_"};
  char *name = strtok(line, " \n"), *more;
  while ((more = strtok(NULL, " \n")))
    name = more;
  symbols++;
  for (size_t i = 0; name && i < sizeof fine / sizeof *fine; i++)
    if (!strcmp(name, fine[i]))
      return;
  bad_symbols++;
}

/* A line of `size -A`: "section size address". Read-only data that holds addresses is fine. */
static void section_line(char *line)
{
  char name[64];
  unsigned long size;
  if (sscanf(line, "%63s %lu", name, &size) != 2 || name[0] != '.')
    return;
  sections++;
  if (!strncmp(name, ".data", 5) && strncmp(name, ".data.rel.ro", 12) && size)
    bad_sections++;
  if ((!strncmp(name, ".bss", 4) || !strncmp(name, ".tbss", 5) || !strncmp(name, ".tdata", 6)) &&
      size)
    bad_sections++;
}

static void look_at(const char *object)
{
  char cmd[1024];
  bad_symbols = symbols = bad_sections = sections = 0;
  snprintf(cmd, sizeof cmd, "nm -u '%s'", in_folder(object));
  each_line(cmd, undefined_line);
  snprintf(cmd, sizeof cmd, "size -A '%s'", in_folder(object));
  each_line(cmd, section_line);
}

static const char *const own[] = {"policies/fcfs.c", "policies/priority.c", "policies/dedicated.c",
                                  "policies/cap.c"};

/* A policy has no state but its host's, and calls nobody but its host. */
START_TEST(objects_are_pure)
{
  static const char *const flags[] = {"-O2 -fPIC -c", "-O0 -fPIC -c"};
  for (int i = 0; i < 2; i++) {
    compile(own[_i], flags[i], "p.o");
    look_at("p.o");
    ck_assert_int_gt(sections, 0);
    ck_assert_msg(!bad_symbols, "%s calls others", own[_i]);
    ck_assert_msg(!bad_sections, "%s has writable data", own[_i]);
  }
}
END_TEST

/* The test above can fail. */
START_TEST(objects_that_are_not)
{
  FILE *f = fopen(in_folder("bad.c"), "w");
  char cmd[1024];
  ck_assert_ptr_nonnull(f);
  fputs("#include <stdlib.h>\nint a, b = 1;\nstatic int c;\nvoid *f(void);\n"
        "void *f(void) { return malloc((size_t)(a + b + c++)); }\n",
        f);
  ck_assert_int_eq(fclose(f), 0);
  snprintf(cmd, sizeof cmd, "cd '%s' && %s -w -O2 -fPIC -c bad.c -o bad.o", folder,
           env("CC", "cc"));
  ck_assert_int_eq(system(cmd), 0);
  look_at("bad.o");
  ck_assert_int_ge(bad_symbols, 1);
  ck_assert_int_eq(bad_sections, 2);
}
END_TEST

/* Every policy of ours also works as a shared object of its own. */
START_TEST(objects_load)
{
  struct base_error e = {0};
  compile(own[_i], "-shared -fPIC -O2", "own.so");
  const struct lull_policy *p = policies_find(in_folder("own.so"), &e);
  ck_assert_msg(p != NULL, "%s", e.text);
  ck_assert_ptr_ne(p, policies_find(p->name, &e));
}
END_TEST

int main(void)
{
  Suite *s = suite_create("policies");
  TCase *found = tcase_create("registry"), *loaded = tcase_create("loader");
  tcase_add_test(found, registry_order);
  tcase_add_test(found, registry_unknown);
  tcase_add_test(found, params_builtin);
  tcase_set_timeout(loaded, 60);
  tcase_add_unchecked_fixture(loaded, make_folder, remove_folder);
  tcase_add_test(loaded, loader_good);
  tcase_add_test(loaded, loader_not_there);
  tcase_add_test(loaded, loader_no_symbol);
  tcase_add_loop_test(loaded, loader_faults, 0, FAULTS);
  tcase_add_loop_test(loaded, objects_are_pure, 0, 4);
  tcase_add_test(loaded, objects_that_are_not);
  tcase_add_loop_test(loaded, objects_load, 0, 4);
  suite_add_tcase(s, found);
  suite_add_tcase(s, loaded);
  return suite_run(s);
}
