// paceline version
#include "common/version.h"

#include "absl/strings/str_cat.h"
#include "cli/verbs/verbs.h"

namespace paceline {

void AddVersion(CLI::App& parent, Program& program) {
  CLI::App* verb = parent.add_subcommand("version", "Print the version of this program");
  verb->callback([&program] {
    program.action = [&program] {
      if (program.json()) {
        program.PrintJsonText(absl::StrCat("{\"version\": \"", kVersion, "\"}"));
      } else {
        program.out() << "paceline " << kVersion << std::endl;
      }
      return kCliOk;
    };
  });
}

}  // namespace paceline
