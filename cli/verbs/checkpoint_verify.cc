// paceline checkpoint verify CHECKPOINT|PATH
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cli/text/neutral.h"
#include "cli/verbs/byte_bar.h"
#include "cli/verbs/checkpoint_place.h"
#include "cli/verbs/verbs.h"
#include "cli/view/numbers.h"
#include "common/checkpoint/checkpoint_files.h"

namespace paceline {
namespace {

// What was read, and what is wrong with it.
struct Verdict {
  int64_t bytes = 0;
  std::vector<std::string> damages;
};

absl::StatusOr<Verdict> Verify(Program& program, const std::string& directory) {
  Verdict verdict;
  ByteBar bar(program, "verifying");
  absl::StatusOr<std::vector<std::string>> damages =
      VerifyCheckpoint(directory, [&](int64_t done, int64_t all) {
        verdict.bytes = done;
        bar.Show(done, all);
      });
  if (!damages.ok()) return damages.status();
  verdict.damages = *std::move(damages);
  return verdict;
}

int Tell(Program& program, const std::string& directory, const Verdict& verdict) {
  const bool sound = verdict.damages.empty();
  if (program.json()) {
    const nlohmann::json json = {{"directory", directory},
                                 {"sound", sound},
                                 {"bytes_read", verdict.bytes},
                                 {"damages", verdict.damages}};
    program.PrintJsonText(json.dump(1));
    return sound ? kCliOk : kCliFailed;
  }
  for (const std::string& damage : verdict.damages) {
    program.out() << NeutralLine(damage) << "\n";
  }
  program.out() << std::flush;
  if (sound) {
    program.out() << NeutralLine(directory) << " is sound: all " << BytesText(verdict.bytes)
                  << " are as they were saved" << std::endl;
    return kCliOk;
  }
  const size_t count = verdict.damages.size();
  return program.Fail(kCliFailed,
                      absl::StrCat(NeutralLine(directory), " is damaged in ",
                                   count == 1 ? "one place" : absl::StrCat(count, " places")));
}

int VerifyNamed(Program& program, const std::string& text) {
  CheckpointPlace place;
  const int found = FindCheckpoint(program, text, &place);
  if (found != kCliOk) return found;
  const absl::StatusOr<Verdict> verdict = Verify(program, place.directory);
  if (!verdict.ok()) return program.Fail(Explained(verdict.status(), place));
  return Tell(program, place.directory, *verdict);
}

}  // namespace

void AddCheckpointVerify(CLI::App& parent, Program& program) {
  const auto checkpoint = std::make_shared<std::string>();
  CLI::App* verb =
      parent.add_subcommand("verify", "Read all of a checkpoint and compare it with its checksums");
  verb->add_option("CHECKPOINT", *checkpoint, kCheckpointHelp)->required();
  verb->callback([checkpoint, &program] {
    program.action = [checkpoint, &program] { return VerifyNamed(program, *checkpoint); };
  });
}

}  // namespace paceline
