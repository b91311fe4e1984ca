#include "cli/job_file/job_keys.h"

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "cli/job_file/job_file.h"
#include "common/job_spec/job_key.h"
#include "gtest/gtest.h"

namespace paceline {
namespace {

std::string KindOf(const JobKey& key) {
  return key.field.member == nullptr ? "" : key.field.member->name();
}

TEST(JobKeysTest, MembersOfAChoiceAreNoPartOfAPath) {
  for (const char* path : {"ranks", "optimizer", "optimizer.kind", "optimizer.momentum",
                           "strategy.ladder[].period", "chaos[].kind"}) {
    EXPECT_NE(FindJobKey(path), nullptr) << path;
  }
  for (const char* path : {"optimizer.sgd", "optimizer.sgd.momentum", "kind"}) {
    EXPECT_EQ(FindJobKey(path), nullptr) << path;
  }
}

TEST(JobKeysTest, WhatIsAllowedIsSaidOfBoundsAndChoices) {
  EXPECT_EQ(FindJobKey("ranks")->allowed, "1 to 4096");
  EXPECT_EQ(FindJobKey("optimizer.kind")->allowed, "sgd, adamw");
  EXPECT_EQ(FindJobKey("optimizer.momentum")->allowed, "0 <= x < 1");
  EXPECT_EQ(FindJobKey("schedule.gamma")->allowed, "0 < x <= 1");
  EXPECT_EQ(FindJobKey("model.hidden")->allowed, "each 1 to 2147483647");
  EXPECT_EQ(FindJobKey("stall_warning_s")->allowed, "more than 0; below hang_timeout_s");
}

TEST(JobKeysTest, ZeroIsNoValueWhereItMeansNotGiven) {
  for (const char* path : {"ranks", "schedule.steps", "stop_grace_s", "code.bytes"}) {
    EXPECT_TRUE(FindJobKey(path)->no_zero) << path;
  }
  for (const char* path : {"seed", "optimizer.beta1", "optimizer.epsilon", "recovery.spares"}) {
    EXPECT_FALSE(FindJobKey(path)->no_zero) << path;
  }
}

TEST(JobKeysTest, EveryKeyButAGroupHasAnExample) {
  for (const JobKey& key : JobKeys()) {
    EXPECT_EQ(key.example.empty(), key.type == KeyType::kGroup || key.type == KeyType::kGroups)
        << key.path;
  }
}

// Further keys of the same group that an example needs.
std::string Companions(const std::string& path) {
  if (path == "optimizer.nesterov") return "momentum: 0.9, ";
  if (absl::StartsWith(path, "recovery.") && path != "recovery.max_failures") {
    return "max_failures: 1, ";
  }
  if (absl::StartsWith(path, "checkpoint.") && path != "checkpoint.directory") {
    return "directory: /c, ";
  }
  if (path == "strategy.warmup_steps" || path == "strategy.gradient_group_size" ||
      path == "strategy.optimizer_state") {
    return "kind: local_sgd, ";
  }
  return "";
}

// Further keys of the file that an example needs.
std::string Surroundings(const std::string& path) {
  const std::string top = path.substr(0, path.find_first_of(".["));
  const v1::JobKey::Scope scope = KeyOf(*FindJobKey(top)->field.field).scope();
  if (scope == v1::JobKey::COMMAND || scope == v1::JobKey::SCRIPT) return "command: [a]\n";
  if (path == "ranks") return "steps: 500\n";
  if (path == "shards") return "command: [a]\nsession: true\nranks: 4\nsteps: 500\n";
  if (path == "recovery.copy_every_steps") {
    return "command: [a]\nsession: true\nranks: 4\nshards: 2\nsteps: 500\n";
  }
  if (path == "zero_stage") {
    return "ranks: 4\nshards: 2\nsteps: 500\nmodel: {kind: llama, checkpoint_activations: true}\n";
  }
  if (path == "steps") return "ranks: 4\n";
  if (path == "cuda_graph") return "steps: 500\ndevice: cuda\nmodel: mlp\n";
  if (path == "schedule.scale_with_ranks") {
    return "ranks: 4\nsteps: 500\nrecovery: {max_failures: 1, batch: keep_rank_batch}\n";
  }
  if (path == "recovery.max_ranks") return "ranks: 4\nsteps: 500\nbatch_per_rank: 8\n";
  if (path == "evaluation.every") return "steps: 500\ndata: {eval: e}\n";
  return "ranks: 4\nsteps: 500\n";
}

TEST(JobKeysTest, EveryExampleIsAccepted) {
  for (const JobKey& key : JobKeys()) {
    if (key.example.empty()) continue;
    // From the inside out: "period: 8", "ladder: [{period: 8}]", "strategy: {kind: hsgd, ladder:
    // ...}".
    std::string yaml;
    std::string path = key.path;
    for (bool inside = true; !path.empty(); inside = false) {
      const size_t cut = path.rfind('.');
      std::string name = path.substr(cut == std::string::npos ? 0 : cut + 1);
      const bool list = absl::EndsWith(name, "[]");
      if (list) {
        name.resize(name.size() - 2);
        path.resize(path.size() - 2);
      }
      const std::string value = inside ? key.example : absl::StrCat("{", yaml, "}");
      const std::string kind = KindOf(*FindJobKey(path));
      yaml = absl::StrCat(kind.empty() ? "" : absl::StrCat("kind: ", kind, ", "),
                          inside ? Companions(path) : "", name, ": ", list ? "[" : "", value,
                          list ? "]" : "");
      path.resize(cut == std::string::npos ? 0 : cut);
    }
    absl::StrAppend(&yaml, "\n", Surroundings(key.path));
    const std::string reported = absl::StrReplaceAll(key.path, {{"[]", "[0]"}});
    for (const FileProblem& problem : ParseJobFile(yaml, "/").problems) {
      EXPECT_FALSE(absl::StartsWith(problem.message, reported + " ") ||
                   absl::StrContains(problem.message, "unknown key") ||
                   absl::StrContains(problem.message, "not YAML"))
          << yaml << problem.message;
    }
  }
}

}  // namespace
}  // namespace paceline
