// paceline data import-digits
#include <memory>
#include <string>

#include "cli/digits/digits.h"
#include "cli/text/neutral.h"
#include "cli/verbs/value_check.h"
#include "cli/verbs/verbs.h"

namespace paceline {
namespace {

struct ImportDigitsFlags {
  std::string csv;
  std::string out;
  int size = 32;
};

int ImportDigits(Program& program, const ImportDigitsFlags& flags) {
  const absl::StatusOr<std::vector<Digit>> digits = ReadDigits(flags.csv);
  if (!digits.ok()) return program.Fail(digits.status());
  const absl::StatusOr<DigitShards> shards = WriteDigitShards(*digits, flags.size, flags.out);
  if (!shards.ok()) return program.Fail(shards.status());
  program.out() << NeutralLine(shards->train) << "  " << shards->train_count << " images\n"
                << NeutralLine(shards->test) << "  " << shards->test_count << " images"
                << std::endl;
  return kCliOk;
}

}  // namespace

void AddImportDigits(CLI::App& parent, Program& program) {
  const auto flags = std::make_shared<ImportDigitsFlags>();
  CLI::App* verb = parent.add_subcommand(
      "import-digits", "Make image shards of the UCI handwritten digits (docs/image-shards.md)");
  verb->add_option("--csv", flags->csv, "The digits as CSV, plain or gzip")->required();
  verb->add_option("--out", flags->out, "Folder for digits-train.shard and digits-test.shard")
      ->required();
  verb->add_option("--size", flags->size, "Width and height of the images, in pixels")
      ->check(WholeNumber(8, 1024))
      ->capture_default_str();
  verb->callback([flags, &program] {
    program.action = [flags, &program] { return ImportDigits(program, *flags); };
  });
}

}  // namespace paceline
