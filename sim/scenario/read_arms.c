/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Arms, their servers and candidates. */
#include <stdlib.h>
#include <string.h>

#include "sim/policies.h"
#include "sim/scenario/reader.h"

int arm_by_id(const struct scenario *s, const char *id)
{
  for (uint32_t i = 0; i < s->narms; i++)
    if (s->arm[i].id && !strcmp(s->arm[i].id, id))
      return (int)i;
  return -1;
}

static void set_if(int64_t *to, int64_t from)
{
  if (from != FIELD_UNSET)
    *to = from;
}

void engine_overlay(struct raw_engine *engine, const struct raw_engine *over)
{
  set_if(&engine->max_seqs, over->max_seqs);
  set_if(&engine->token_budget, over->token_budget);
  set_if(&engine->block, over->block);
  set_if(&engine->reserve, over->reserve);
  set_if(&engine->watermark, over->watermark);
  set_if(&engine->host_link, over->host_link);
  set_if(&engine->max_context, over->max_context);
  set_if(&engine->depth, over->depth);
  set_if(&engine->async, over->async);
  set_if(&engine->prefix_caching, over->prefix_caching);
  if (over->kv_blocks != FIELD_UNSET || over->memory_fraction != FIELD_UNSET) {
    engine->kv_blocks = over->kv_blocks;
    engine->memory_fraction = over->memory_fraction;
  }
}

/* One arm while it is read. */
struct arm_reading {
  struct scenario_arm *arm;
  const struct named_engine *engine;
  uint32_t nservers, nbacklogs;
  struct raw_server server[LULL_SERVERS];
  struct raw_analytic analytic[LULL_SERVERS]; /* costs by server, where the machine is analytic */
  struct world_backlog *backlog;              /* [nbacklogs]: the elements, in the arena */
  uint32_t mask[LULL_SERVERS];
  const xmlNode *node[LULL_SERVERS];
};

static void read_param(struct reader *r, const xmlNode *node, const struct arm_reading *a)
{
  struct scenario_arm *arm = a->arm;
  struct raw_param raw = {0};
  struct base_error e = {0};
  if (attributes_read(r, node, &raw))
    return;
  for (const xmlNode *p = node->prev; p; p = p->prev) {
    xmlChar *name = xmlStrEqual(p->name, node->name) ? xmlGetNoNsProp((xmlNode *)p, BAD_CAST "name")
                                                     : NULL;
    int same = name && xmlStrEqual(name, BAD_CAST raw.name);
    xmlFree(name);
    if (same) {
      node_fail(r, node, "<param> '%.60s' is set twice in this arm", raw.name);
      return;
    }
  }
  if (policies_set(arm->policy, arm->params, raw.name, raw.value, &e))
    node_fail_with(r, node, raw.name, &e);
  else
    engines_param_stated(r, node, a->engine, arm->policy, &raw);
}

static void read_policy(struct reader *r, const xmlNode *node, const char *name,
                        const struct arm_reading *a)
{
  struct scenario_arm *arm = a->arm;
  struct base_error e = {0};
  /* a file is named from the scenario's folder, as all files are */
  if (strchr(name, '/') && name[0] != '/' && r->folder && r->folder[0])
    name = arena_format(r->arena, "%s/%s", r->folder, name);
  const struct lull_policy *p = policies_find(name, &e);
  if (!p) {
    base_errors_at(r->errors, e.code, node_file(r, node), node_line(node), "<arm> policy: %s",
                   e.text);
    return;
  }
  size_t n = child_count(r, node, "param", p->nparams + 16);
  arm->params = arena_alloc(r->arena, p->nparams + 1, sizeof *arm->params);
  if (!arm->params)
    return;
  arm->policy = p;
  if (p->needs & LULL_NEED_FORESIGHT)
    node_fail(r, node,
              "<arm> policy '%s' needs foresight of arrivals: not supported by this device", name);
  if (policies_defaults(p, arm->params, &e) || engines_params(a->engine, arm, &e))
    node_fail_with(r, node, "policy", &e);
  const xmlNode *c = child_first(node, "param");
  for (size_t i = 0; c && i < n; i++, c = child_next(c))
    read_param(r, c, a);
}

static const char *class_names(struct reader *r)
{
  const char *names = "";
  for (uint32_t i = 0; i < r->whole->s.nclasses; i++)
    names = arena_format(r->arena, "%s%s%s", names, i ? " " : "", r->whole->s.cls[i].id);
  return names;
}

/* Bits of the classes that a server names. */
static uint32_t read_mask(struct reader *r, const xmlNode *node, const char *text)
{
  char word[LULL_CLASSES][WORD_SIZE], near[WORD_SIZE];
  int n = split_words(text, word, LULL_CLASSES);
  uint32_t mask = 0;
  if (n < 0)
    node_fail(r, node, "<server> classes: name at most %d classes", LULL_CLASSES);
  for (int i = 0; i < n; i++) {
    int c = class_by_id(&r->whole->s, word[i]);
    if (c >= 0)
      mask |= UINT32_C(1) << c;
    else if (nearest_word(word[i], class_names(r), near))
      node_fail(r, node, "<server> unknown class '%s'; did you mean '%s'?", word[i], near);
    else
      node_fail(r, node, "<server> unknown class '%s'; classes are: %s", word[i], class_names(r));
  }
  return mask;
}

static int server_by_id(const struct arm_reading *a, const char *id)
{
  for (uint32_t i = 0; i < a->nservers; i++)
    if (!strcmp(a->server[i].id, id))
      return (int)i;
  return -1;
}

/* A server's own costs, in full: nothing is taken from the machine's. */
static void read_costs(struct reader *r, const xmlNode *server, struct raw_analytic *out)
{
  const xmlNode *node = child_first(server, "analytic");
  *out = r->analytic;
  if (node && r->whole->calib)
    node_fail(r, node, "<analytic> has no meaning with a calibration; remove it");
  else if (node)
    attributes_read(r, node, out);
}

static void read_server(struct reader *r, const xmlNode *node, struct arm_reading *a)
{
  struct raw_server *s = &a->server[a->nservers];
  if (attributes_read(r, node, s))
    return;
  if (server_by_id(a, s->id) >= 0)
    node_fail(r, node, "two servers of this arm are named '%s'; rename one", s->id);
  for (uint32_t i = 0; i < a->nservers; i++)
    if (a->server[i].gpu == s->gpu)
      node_fail(r, node,
                "<server> '%s': several servers on one GPU need a contention model, not "
                "supported by this device; give it a GPU of its own",
                s->id);
  if (s->engine.kv_blocks != FIELD_UNSET && s->engine.memory_fraction != FIELD_UNSET)
    node_fail(r, node, "<server> has both kv-blocks and memory-fraction; keep one");
  a->mask[a->nservers] = read_mask(r, node, s->classes);
  read_costs(r, node, &a->analytic[a->nservers]);
  a->node[a->nservers++] = node;
}

static void read_servers(struct reader *r, const xmlNode *node, struct arm_reading *a)
{
  int64_t most = -1;
  size_t n = child_count(r, node, "server", LULL_SERVERS);
  const xmlNode *c = child_first(node, "server");
  for (size_t i = 0; c && i < n; i++, c = child_next(c))
    read_server(r, c, a);
  for (uint32_t i = 0; i < a->nservers; i++)
    most = a->server[i].gpu > most ? a->server[i].gpu : most;
  if (a->nservers == n && most + 1 > (int64_t)n)
    node_fail(r, node,
              "<arm> '%s' has %zu servers but uses GPU %lld: number GPUs from 0 without "
              "holes",
              a->arm->id, n, (long long)most);
  a->arm->ngpus = (uint32_t)(most + 1);
}

/* Training in the background; the GPUs of the arm are known. */
static void read_job(struct reader *r, const xmlNode *node, struct scenario_arm *arm)
{
  struct raw_job raw = {0};
  if (attributes_read(r, node, &raw))
    return;
  for (uint32_t i = 0; i < arm->njobs; i++) {
    if (!strcmp(arm->job[i].name, raw.id))
      node_fail(r, node, "two jobs of this arm are named '%s'; rename one", raw.id);
    if (arm->job[i].gpu == raw.gpu)
      node_fail(r, node, "<job> '%s': GPU %d has a job already; give it a GPU of its own", raw.id,
                (int)raw.gpu);
  }
  if (raw.gpu >= arm->ngpus)
    node_fail(r, node, "<job> '%s': no server of this arm is on GPU %d; a job shares a server's",
              raw.id, (int)raw.gpu);
  arm->training[arm->njobs] = (struct scenario_training){.batch = (uint32_t)raw.batch,
                                                         .accumulate = (uint32_t)raw.accumulate,
                                                         .rank = (uint32_t)raw.rank,
                                                         .rate = (double)raw.rate / 1e6};
  arm->contended_ps[arm->njobs] = (raw.contention * LULL_TICK_PS + 500000) / 1000000;
  arm->job[arm->njobs++] = (struct world_job){.name = raw.id,
                                              .gpu = (int)raw.gpu,
                                              .micro_steps = (uint64_t)raw.micro_steps,
                                              .micro_ticks = (raw.micro_step + LULL_TICK_PS / 2) /
                                                             LULL_TICK_PS,
                                              .paused = raw.paused == 1};
}

static void read_jobs(struct reader *r, const xmlNode *node, struct scenario_arm *arm)
{
  size_t n = child_count(r, node, "job", LULL_SERVERS);
  arm->job = arena_alloc(r->arena, n + 1, sizeof *arm->job);
  arm->contended_ps = arena_alloc(r->arena, n + 1, sizeof *arm->contended_ps);
  arm->training = arena_alloc(r->arena, n + 1, sizeof *arm->training);
  const xmlNode *c = arm->job && arm->contended_ps && arm->training ? child_first(node, "job")
                                                                    : NULL;
  for (size_t i = 0; c && i < n; i++, c = child_next(c))
    read_job(r, c, arm);
}

/* Can items of the class be made? */
static int has_items(const struct scenario_class *c)
{
  return c->items.file.name || c->prompt.max_tokens;
}

static void read_backlog(struct reader *r, const xmlNode *node, struct arm_reading *a)
{
  struct raw_backlog raw = {0};
  const struct scenario *s = &r->whole->s;
  if (attributes_read(r, node, &raw))
    return;
  int server = server_by_id(a, raw.server), c = class_by_id(s, raw.cls);
  if (server < 0)
    node_fail(r, node, "<backlog> this arm has no server '%.60s'", raw.server);
  if (c < 0)
    node_fail(r, node, "<backlog> unknown class '%.60s'; classes are: %s", raw.cls, class_names(r));
  if (server < 0 || c < 0)
    return;
  if (!(a->mask[server] >> c & 1))
    node_fail(r, node, "<backlog> server '%s' does not serve class '%s'; name it in its classes",
              raw.server, raw.cls);
  if (!has_items(&s->cls[c]))
    node_fail(r, node,
              "<backlog> class '%s' says nothing of the lengths of its items; give it an <items> "
              "child",
              raw.cls);
  a->backlog[a->nbacklogs++] = (struct world_backlog){
      .cls = (uint8_t)c, .server = server, .below = (uint32_t)raw.below};
}

static void read_backlogs(struct reader *r, const xmlNode *node, struct arm_reading *a)
{
  size_t n = child_count(r, node, "backlog", LIMIT_BACKLOGS);
  a->backlog = arena_alloc(r->arena, n + 1, sizeof *a->backlog);
  const xmlNode *c = a->backlog ? child_first(node, "backlog") : NULL;
  for (size_t i = 0; c && i < n; i++, c = child_next(c))
    read_backlog(r, c, a);
}

/* Changes one overridable setting of a candidate's copy of a server. */
static void read_set(struct reader *r, const xmlNode *node, const struct arm_reading *a,
                     struct raw_server *copy)
{
  struct raw_set raw = {0};
  struct base_error e = {0};
  struct raw_server change;
  char names[256] = "", near[WORD_SIZE];
  const struct element *el = element_find("server");
  if (attributes_read(r, node, &raw))
    return;
  int i = server_by_id(a, raw.server);
  const struct field *f = element_field(el, raw.attribute);
  if (i < 0) {
    node_fail(r, node, "<set> this arm has no server '%.60s'", raw.server);
    return;
  }
  if (!f || f->offset < offsetof(struct raw_server, engine)) {
    for (size_t k = 0, n = 0; k < el->nfields; k++)
      if (el->field[k].offset >= offsetof(struct raw_server, engine))
        n += (size_t)snprintf(names + n, sizeof names - n, " %s", el->field[k].name);
    if (nearest_word(raw.attribute, names, near))
      node_fail(r, node, "<set> unknown attribute '%.60s'; did you mean '%s'?", raw.attribute,
                near);
    else
      node_fail(r, node, "<set> unknown attribute '%.60s'; one of:%s", raw.attribute, names);
    return;
  }
  attributes_default(r, "server", &change);
  if (field_parse(f, raw.value, (int64_t *)((char *)&change + f->offset), &e))
    node_fail_with(r, node, "value", &e);
  else
    engine_overlay(&copy[i].engine, &change.engine);
}

/* Least blocks that any request of a class needs. */
static int64_t least_blocks(const struct scenario_class *c, int64_t block)
{
  int file = c->arrivals == ARRIVALS_TRACE || c->items.file.name;
  int64_t tokens = file ? 1 : c->prompt.min_tokens + c->output.min_tokens - 1;
  return (tokens + block - 1) / block;
}

/* Some request of each class must fit the server; told once a class. */
static void check_fit(struct reader *r, const xmlNode *node, const struct scenario_server *s)
{
  uint32_t before = r->unfit;
  for (uint32_t i = 0; i < r->whole->s.nclasses; i++) {
    const struct scenario_class *c = &r->whole->s.cls[i];
    if (!(s->class_mask >> i & 1) || c->arrivals == ARRIVALS_NONE || before >> i & 1)
      continue;
    int file = c->arrivals == ARRIVALS_TRACE || c->items.file.name;
    int64_t tokens = file ? 2 : c->prompt.min_tokens + c->output.min_tokens;
    int pool = least_blocks(c, s->engine.block_tokens) > s->engine.kv_blocks;
    int limit = tokens > s->engine.model_limit;
    r->unfit |= (uint32_t)(pool || limit) << i;
    if (pool)
      node_fail(r, node,
                "no request of class '%s' fits the KV pool of server '%s' (%u blocks of %u "
                "tokens); make the pool larger",
                c->id, s->id, s->engine.kv_blocks, s->engine.block_tokens);
    else if (limit)
      node_fail(r, node, "no request of class '%s' fits max-context of server '%s' (%u tokens)",
                c->id, s->id, s->engine.model_limit);
  }
}

/* One backlog for each server and backlog class that it serves, but for classes whose backlogs this
 * arm states; then those. */
static void build_backlogs(struct reader *r, const struct arm_reading *a,
                           struct scenario_candidate *c)
{
  const struct scenario *s = &r->whole->s;
  size_t most = (size_t)c->nservers * s->nclasses + a->nbacklogs + 1;
  uint32_t stated = 0;
  for (uint32_t i = 0; i < a->nbacklogs; i++)
    stated |= UINT32_C(1) << a->backlog[i].cls;
  c->backlog = arena_alloc(r->arena, most, sizeof *c->backlog);
  for (uint32_t i = 0; c->backlog && i < c->nservers; i++)
    for (uint32_t k = 0; k < s->nclasses; k++)
      if ((c->server[i].class_mask & ~stated) >> k & 1 && s->cls[k].arrivals == ARRIVALS_BACKLOG)
        c->backlog[c->nbacklogs++] = (struct world_backlog){
            .cls = (uint8_t)k, .server = (int)i, .below = s->cls[k].backlog_below};
  for (uint32_t i = 0; c->backlog && i < a->nbacklogs; i++)
    c->backlog[c->nbacklogs++] = a->backlog[i];
}

/* Servers by their raw settings, resolved. */
static void build_candidate(struct reader *r, const struct arm_reading *a, const xmlNode *node,
                            const struct raw_server *raw, struct scenario_candidate *c)
{
  c->server = arena_alloc(r->arena, a->nservers + 1, sizeof *c->server);
  if (!c->server)
    return;
  for (uint32_t i = 0; i < a->nservers; i++) {
    struct scenario_server *s = &c->server[c->nservers++];
    struct raw_engine engine = r->engine;
    const xmlNode *place = node ? node : a->node[i];
    engines_defaults(r, a->engine, &engine);
    engine_overlay(&engine, &raw[i].engine);
    int contradicts = engines_check(r, place, a->engine, &engine);
    s->id = a->server[i].id;
    s->gpu = (int)a->server[i].gpu;
    s->class_mask = a->mask[i];
    if (!contradicts && !resolve_engine(r, place, &engine, &a->analytic[i], &s->engine))
      check_fit(r, place, s);
  }
  build_backlogs(r, a, c);
}

static void read_candidate(struct reader *r, const struct arm_reading *a, const xmlNode *node,
                           struct scenario_candidate *c)
{
  struct raw_candidate raw = {0};
  struct raw_server copy[LULL_SERVERS];
  memcpy(copy, a->server, sizeof copy);
  c->id = "";
  if (node && !attributes_read(r, node, &raw)) {
    c->id = raw.id;
    for (const struct scenario_candidate *o = a->arm->candidate; o < c; o++)
      if (!strcmp(o->id, c->id))
        node_fail(r, node, "two candidates of this arm are named '%s'; rename one", c->id);
  }
  const xmlNode *set = node ? child_first(node, "set") : NULL;
  size_t n = node ? child_count(r, node, "set", 256) : 0;
  for (size_t i = 0; set && i < n; i++, set = child_next(set))
    read_set(r, set, a, copy);
  build_candidate(r, a, node, copy, c);
}

static void read_candidates(struct reader *r, const xmlNode *node, const struct arm_reading *a)
{
  struct scenario_arm *arm = a->arm;
  size_t n = child_count(r, node, "candidate", LIMIT_CANDIDATES);
  arm->candidate = arena_alloc(r->arena, n + 1, sizeof *arm->candidate);
  if (!arm->candidate)
    return;
  if (!n)
    read_candidate(r, a, NULL, &arm->candidate[arm->ncandidates++]);
  const xmlNode *c = child_first(node, "candidate");
  for (size_t i = 0; c && i < n; i++, c = child_next(c))
    read_candidate(r, a, c, &arm->candidate[arm->ncandidates++]);
}

static void read_arm(struct reader *r, const xmlNode *node, struct scenario_arm *arm)
{
  struct scenario *s = &r->whole->s;
  struct raw_arm raw = {0};
  struct arm_reading *a = calloc(1, sizeof *a);
  if (!a) {
    r->arena->failed = 1;
    return;
  }
  a->arm = arm;
  int bad = attributes_read(r, node, &raw);
  if (raw.id && arm_by_id(s, raw.id) >= 0)
    node_fail(r, node, "two arms are named '%s'; rename one", raw.id);
  arm->id = raw.id ? raw.id : "";
  arm->title = raw.title ? raw.title : "";
  a->engine = engines_find(raw.engine);
  arm->engine = engines_name(a->engine);
  const char *policy = bad && !raw.policy ? NULL : engines_policy(r, node, a->engine, raw.policy);
  if (policy)
    read_policy(r, node, policy, a);
  if (raw.baseline == 1 && s->baseline >= 0)
    node_fail(r, node, "two arms are the baseline ('%s' and '%s'); keep one",
              s->arm[s->baseline].id, arm->id);
  if (raw.baseline == 1) {
    s->baseline = (int)s->narms;
    s->qualify_attainment = (double)(raw.qualify > 0 ? raw.qualify : 0) / 1e6;
  } else if (raw.qualify > 0) {
    node_fail(r, node, "<arm> qualify has a meaning for the baseline only; remove it");
  }
  read_servers(r, node, a);
  read_jobs(r, node, arm);
  read_backlogs(r, node, a);
  read_candidates(r, node, a);
  free(a);
}

/* A class that nobody serves would wait for ever. */
static void check_served(struct reader *r, const xmlNode *root)
{
  const struct scenario *s = &r->whole->s;
  uint32_t served = 0, i = 0;
  for (uint32_t k = 0; k < s->narms; k++)
    for (uint32_t j = 0; s->arm[k].ncandidates && j < s->arm[k].candidate[0].nservers; j++)
      served |= s->arm[k].candidate[0].server[j].class_mask;
  for (const xmlNode *c = child_first(root, "class"); c && i < s->nclasses; c = child_next(c), i++)
    if (!(served >> i & 1))
      node_fail(r, c, "class '%s'%s is served by no server of any arm", s->cls[i].id,
                s->cls[i].arrivals == ARRIVALS_BACKLOG ? " (a backlog)" : "");
}

void read_arms(struct reader *r, const xmlNode *root)
{
  struct scenario *s = &r->whole->s;
  size_t n = child_count(r, root, "arm", LIMIT_ARMS);
  s->baseline = -1;
  s->arm = arena_alloc(r->arena, n + 1, sizeof *s->arm);
  const xmlNode *c = s->arm ? child_first(root, "arm") : NULL;
  for (; c && s->narms < n; c = child_next(c)) {
    read_arm(r, c, &s->arm[s->narms]);
    s->narms++;
  }
  if (s->narms && !r->errors->total)
    check_served(r, root);
}
