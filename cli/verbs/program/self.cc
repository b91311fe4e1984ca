// paceline completion, man and version, and `paceline __names KIND`, which completion scripts call:
// verbs about the program itself.
#include <algorithm>
#include <iterator>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cli/completion/completion.h"
#include "cli/completion/man_page.h"
#include "cli/config/config_file.h"
#include "cli/rpc/known_names.h"
#include "cli/text/sanitize.h"
#include "cli/verbs/program/examples.h"
#include "cli/verbs/program/verb_parts.h"
#include "cli/verbs/verbs.h"
#include "common/version.h"
#include "proto/checkpoint.pb.h"

namespace paceline {
namespace {

// The user is waiting for the completion.
constexpr double kMostSeconds = 1;
constexpr int kMostNames = 1000;

std::vector<std::string> CheckpointNames(Program& program) {
  v1::ListCheckpointsRequest request;
  request.set_page_size(kMostNames);
  v1::ListCheckpointsResponse checkpoints;
  std::vector<std::string> names;
  if (!program.client().Call(methods::kCheckpointList, request, &checkpoints).ok()) return names;
  std::set<std::string> seen;
  for (const v1::Checkpoint& checkpoint : checkpoints.checkpoints()) {
    const std::string name = absl::StrCat(checkpoint.job_name(), "/", checkpoint.step());
    if (seen.insert(name).second) names.push_back(name);
  }
  return names;
}

std::vector<std::string> ContextNames(const Program& program) {
  std::vector<std::string> names;
  const absl::StatusOr<CliConfig> config = ReadConfig(program.config_path());
  if (!config.ok()) return names;
  for (const auto& [name, context] : config->contexts) names.push_back(name);
  return names;
}

// Prints one name per line; nothing if names cannot be had, since a shell cannot show messages.
int PrintNames(Program& program, const std::string& kind) {
  program.flags.timeout_s = std::min(program.flags.timeout_s, kMostSeconds);
  program.flags.quiet = true;
  const std::vector<std::string> names = kind == "jobs"    ? JobNames(program.client(), kMostNames)
                                         : kind == "nodes" ? NodeNames(program.client(), kMostNames)
                                         : kind == "checkpoints" ? CheckpointNames(program)
                                                                 : ContextNames(program);
  for (const std::string& name : names) program.out() << SanitizeLine(name) << "\n";
  return kCliOk;
}

void AddCompletion(CLI::App& parent, Program& program) {
  const auto shell = std::make_shared<std::string>();
  CLI::App* verb = parent.add_subcommand("completion", "Print a completion script for a shell");
  verb->add_option("SHELL", *shell, "The shell")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  verb->callback([shell, &parent, &program] {
    program.action = [shell, &parent, &program] {
      const std::vector<CompletionCommand> commands = CompletionCommands(parent);
      program.out() << (*shell == "bash"  ? BashCompletion(commands)
                        : *shell == "zsh" ? ZshCompletion(commands)
                                          : FishCompletion(commands));
      return kCliOk;
    };
  });
}

void AddCompletionNames(CLI::App& parent, Program& program) {
  const auto kind = std::make_shared<std::string>();
  CLI::App* verb = parent.add_subcommand("__names", "Names for completion");
  verb->group("");
  verb->add_option("KIND", *kind, "What names")
      ->required()
      ->check(
          CLI::IsMember(std::vector<std::string>(std::begin(kNameKinds), std::end(kNameKinds))));
  RunWith(*verb, program, kind, PrintNames);
}

void AddMan(CLI::App& parent, Program& program) {
  CLI::App* verb = parent.add_subcommand("man", "Print the manual page, paceline.1");
  verb->group("");
  verb->callback([&parent, &program] {
    program.action = [&parent, &program] {
      program.out() << ManPage(CompletionCommands(parent), kVersion, ExamplesText);
      return kCliOk;
    };
  });
}

int TellVersion(Program& program) {
  if (program.json()) {
    program.PrintJsonText(absl::StrCat("{\"version\": \"", kVersion, "\"}"));
  } else {
    program.out() << "paceline " << kVersion << std::endl;
  }
  return kCliOk;
}

void AddVersion(CLI::App& parent, Program& program) {
  CLI::App* verb = parent.add_subcommand("version", "Print the version of this program");
  Run(*verb, program, TellVersion);
}

}  // namespace

void AddSelfVerbs(CLI::App& parent, Program& program) {
  AddCompletion(parent, program);
  AddCompletionNames(parent, program);
  AddMan(parent, program);
  AddVersion(parent, program);
}

}  // namespace paceline
