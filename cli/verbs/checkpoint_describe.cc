// paceline checkpoint describe CHECKPOINT|PATH
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "cli/verbs/checkpoint_place.h"
#include "cli/verbs/verbs.h"
#include "cli/view/checkpoint_page.h"
#include "common/checkpoint/checkpoint_files.h"
#include "common/export/export.h"
#include "proto/job_spec.pb.h"

namespace paceline {
namespace {

struct CheckpointDescribeFlags {
  std::string checkpoint;
  bool tensors = false;
};

int Show(Program& program, const CheckpointFacts& facts, bool tensors) {
  if (program.json()) {
    nlohmann::json json;
    json["checkpoint"] = nullptr;
    json["manifest"] = nullptr;
    if (facts.checkpoint.has_value()) {
      json["checkpoint"] = nlohmann::json::parse(program.JsonOf(*facts.checkpoint));
    }
    if (facts.manifest.has_value()) {
      json["manifest"] = nlohmann::json::parse(FormatManifest(*facts.manifest));
    }
    program.PrintJsonText(json.dump(1));
    return kCliOk;
  }
  program.out() << (tensors ? TensorTable(*facts.manifest, program.style())
                            : CheckpointPage(facts, absl::Now(), program.style()))
                << std::flush;
  return kCliOk;
}

int DescribeCheckpoint(Program& program, const CheckpointDescribeFlags& flags) {
  CheckpointPlace place;
  const int found = FindCheckpoint(program, flags.checkpoint, &place);
  if (found != kCliOk) return found;
  CheckpointFacts facts;
  facts.checkpoint = place.checkpoint;
  facts.directory = place.directory;
  const absl::StatusOr<CheckpointFiles> files = CheckpointFiles::Open(place.directory);
  if (files.ok()) {
    facts.manifest = files->manifest();
    const absl::StatusOr<v1::JobSpec> spec = SpecOf(*facts.manifest);
    if (!spec.ok()) return program.Fail(spec.status());
    facts.spec = *spec;
  } else if (!facts.checkpoint.has_value() || flags.tensors) {
    return program.Fail(Explained(files.status(), place));
  }
  const int exit = Show(program, facts, flags.tensors);
  if (!files.ok()) {
    program.Note(absl::StrCat("what the files hold is not shown: ",
                              std::string(Explained(files.status(), place).message())));
  }
  return exit;
}

}  // namespace

void AddCheckpointDescribe(CLI::App& parent, Program& program) {
  const auto flags = std::make_shared<CheckpointDescribeFlags>();
  CLI::App* verb = parent.add_subcommand(
      "describe", "Show everything about a checkpoint: step, ranks, tensors, files, job file");
  verb->add_option("CHECKPOINT", flags->checkpoint, kCheckpointHelp)->required();
  verb->add_flag("--tensors", flags->tensors, "List every tensor instead");
  verb->callback([flags, &program] {
    program.action = [flags, &program] { return DescribeCheckpoint(program, *flags); };
  });
}

}  // namespace paceline
