// paceline data tokenize
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "cli/text/neutral.h"
#include "cli/tokenize/byte_corpus.h"
#include "cli/verbs/value_check.h"
#include "cli/verbs/verbs.h"
#include "cli/view/numbers.h"

namespace paceline {
namespace {

void PrintPart(Program& program, const std::string& path, const ByteCorpus::Part& part) {
  std::error_code error;
  const auto bytes = static_cast<int64_t>(std::filesystem::file_size(path, error));
  program.out() << NeutralLine(path) << "  " << part.files << " files, " << part.tokens
                << " tokens, " << BytesText(error ? 0 : bytes) << std::endl;
}

int Tokenize(Program& program, const ByteCorpusOptions& options) {
  const absl::StatusOr<ByteCorpus> corpus = WriteByteCorpus(options);
  if (!corpus.ok()) return program.Fail(corpus.status());
  PrintPart(program, options.out, corpus->train);
  if (!options.eval_out.empty()) PrintPart(program, options.eval_out, corpus->eval);
  if (corpus->binary_files > 0) {
    program.Note(absl::StrCat(corpus->binary_files, " binary files left out"));
  }
  return kCliOk;
}

}  // namespace

void AddTokenize(CLI::App& parent, Program& program) {
  const auto options = std::make_shared<ByteCorpusOptions>();
  options->eval_share = 0.05;
  CLI::App* verb = parent.add_subcommand(
      "tokenize", "Make a token file of text, each byte a token (docs/token-files.md)");
  verb->add_option("--bytes", options->directories, "Folders with the text")
      ->type_name("DIR")
      ->required();
  verb->add_option("--out", options->out, "The token file")->type_name("FILE")->required();
  verb->add_option("--include", options->include, "Only files of these names, such as '*.py'")
      ->type_name("PATTERN");
  CLI::Option* eval_out =
      verb->add_option("--eval-out", options->eval_out, "A token file for evaluation")
          ->type_name("FILE");
  verb->add_option("--eval-share", options->eval_share, "Share of the files that it gets")
      ->check(Number(0, 1))
      ->capture_default_str()
      ->needs(eval_out);
  verb->callback([options, &program] {
    program.action = [options, &program] { return Tokenize(program, *options); };
  });
}

}  // namespace paceline
