// Models of which several ranks hold one copy together.
#include "absl/strings/str_cat.h"
#include "common/job_spec/problem_list.h"

namespace paceline {

using absl::StrCat;

void CheckShards(const v1::JobSpec& spec, ProblemList& problems) {
  const int shards = spec.shards();
  if (problems.Tells("shards") || shards <= 1) return;
  if (!problems.Tells("ranks") && spec.ranks() % shards != 0) {
    problems.Add("shards", StrCat("is ", shards, "; allowed are the divisors of ranks (",
                                  spec.ranks(), "): each replica has as many ranks"));
  }
  if (spec.command().empty()) {
    problems.Add("shards", StrCat("is ", shards,
                                  ", but the model is built in: only the program of a session can "
                                  "shard its own so far; give command and session: true, or "
                                  "shards: 1"));
  }
  const bool is_auto = spec.strategy().has_auto_();
  if (is_auto || spec.strategy().has_slipstream()) {
    problems.Add("shards",
                 StrCat("is ", shards, " beside strategy ", is_auto ? "auto" : "slipstream",
                        ", which only has whole models so far; give strategy ddp, "
                        "local_sgd or hsgd, or shards: 1"));
  }
  if (spec.stragglers().mode() == v1::STRAGGLER_MODE_AUTO) {
    problems.Add(
        "stragglers.mode",
        StrCat("is auto beside shards ", shards,
               ": ranks of a replica wait for each other within their passes, so it is not "
               "certain which one is slow; allowed are off, advise"));
  }
}

}  // namespace paceline
