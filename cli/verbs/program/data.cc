// paceline data import-digits, import-hf and tokenize: data sets.
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cli/digits/digits.h"
#include "cli/text/sanitize.h"
#include "cli/tokenize/byte_corpus.h"
#include "cli/verbs/program/python_module.h"
#include "cli/verbs/program/value_check.h"
#include "cli/verbs/program/verb_parts.h"
#include "cli/verbs/verbs.h"
#include "cli/view/numbers.h"

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
  program.out() << SanitizeLine(shards->train) << "  " << shards->train_count << " images\n"
                << SanitizeLine(shards->test) << "  " << shards->test_count << " images"
                << std::endl;
  return kCliOk;
}

void AddImportDigits(CLI::App& parent, Program& program) {
  const auto flags = std::make_shared<ImportDigitsFlags>();
  CLI::App* verb = parent.add_subcommand(
      "import-digits", "Make image shards of the UCI handwritten digits (docs/image-shards.md)");
  verb->add_option("--csv", flags->csv, "The digits as CSV, plain or gzip")->required();
  verb->add_option("--out", flags->out, "Folder for digits-train.shard and digits-test.shard")
      ->check(PlainPath())
      ->required();
  verb->add_option("--size", flags->size, "Width and height of the images, in pixels")
      ->check(WholeNumber(8, 1024))
      ->capture_default_str();
  RunWith(*verb, program, flags, ImportDigits);
}

void PrintPart(Program& program, const std::string& path, const ByteCorpus::Part& part) {
  std::error_code error;
  const auto bytes = static_cast<int64_t>(std::filesystem::file_size(path, error));
  program.out() << SanitizeLine(path) << "  " << part.files << " files, " << part.tokens
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

void AddTokenize(CLI::App& parent, Program& program) {
  const auto options = std::make_shared<ByteCorpusOptions>();
  options->eval_share = 0.05;
  CLI::App* verb = parent.add_subcommand(
      "tokenize", "Make a token file of text, each byte a token (docs/token-files.md)");
  verb->add_option("--bytes", options->directories, "Folders with the text")
      ->check(PlainPath())
      ->type_name("DIR")
      ->required();
  verb->add_option("--out", options->out, "The token file")
      ->check(PlainPath())
      ->type_name("FILE")
      ->required();
  verb->add_option("--include", options->include, "Only files of these names, such as '*.py'")
      ->type_name("PATTERN");
  CLI::Option* eval_out =
      verb->add_option("--eval-out", options->eval_out, "A token file for evaluation")
          ->check(PlainPath())
          ->type_name("FILE");
  verb->add_option("--eval-share", options->eval_share, "Share of the files that it gets")
      ->check(Number(0, 1))
      ->capture_default_str()
      ->needs(eval_out);
  RunWith(*verb, program, options, Tokenize);
}

struct ImportHfFlags {
  std::vector<std::string> sources;
  std::string tokenizer;
  std::string out;
  std::string column;
  std::string split;
  CLI::Option* has_end_token = nullptr;  // Empty: given as ''.
  std::string end_token;
  std::string eval_out;
  double eval_share = 0.005;
  int workers = 0;
};

int ImportHf(Program& program, const ImportHfFlags& flags) {
  std::vector<std::string> arguments = {"--tokenizer", flags.tokenizer, "--out", flags.out};
  const auto add = [&arguments](const char* name, const std::string& value) {
    if (!value.empty()) arguments.insert(arguments.end(), {name, value});
  };
  add("--column", flags.column);
  add("--split", flags.split);
  if (flags.has_end_token->count() > 0) {
    // In one word, since it may begin with a hyphen.
    arguments.push_back(absl::StrCat("--end-token=", flags.end_token));
  }
  if (!flags.eval_out.empty()) {
    add("--eval-out", flags.eval_out);
    add("--eval-share", absl::StrCat(flags.eval_share));
  }
  if (flags.workers > 0) add("--workers", absl::StrCat(flags.workers));
  arguments.push_back("--");
  arguments.insert(arguments.end(), flags.sources.begin(), flags.sources.end());
  return RunPythonVerb(program, "data import-hf", "import_hf", arguments);
}

void AddImportHf(CLI::App& parent, Program& program) {
  const auto flags = std::make_shared<ImportHfFlags>();
  CLI::App* verb = parent.add_subcommand(
      "import-hf",
      "Make a token file of datasets, Parquet, Arrow or JSON lines (docs/own-data.md)");
  verb->add_option("SOURCE", flags->sources, "Files, or folders with files")
      ->check(PlainPath())
      ->required();
  verb->add_option("--tokenizer", flags->tokenizer, "A tokenizer.json, or the folder that has it")
      ->check(PlainPath())
      ->type_name("PATH")
      ->required();
  verb->add_option("--out", flags->out, "The token file")
      ->check(PlainPath())
      ->type_name("FILE")
      ->required();
  verb->add_option("--column", flags->column, "Column or key with the texts. Default: text");
  verb->add_option("--split", flags->split, "Of a saved dataset with several");
  flags->has_end_token =
      verb->add_option("--end-token", flags->end_token,
                       "Put behind each text; '': none. Default: the tokenizer's eos_token");
  CLI::Option* eval_out =
      verb->add_option("--eval-out", flags->eval_out, "A token file for evaluation")
          ->check(PlainPath())
          ->type_name("FILE");
  verb->add_option("--eval-share", flags->eval_share, "Share of the texts that it gets")
      ->check(Number(0, 1))
      ->capture_default_str()
      ->needs(eval_out);
  verb->add_option("--workers", flags->workers, "Processes. Default: one for each core")
      ->check(WholeNumber(1, 1024));
  RunWith(*verb, program, flags, ImportHf);
}

}  // namespace

void AddDataVerbs(CLI::App& parent, Program& program) {
  AddImportDigits(parent, program);
  AddImportHf(parent, program);
  AddTokenize(parent, program);
}

}  // namespace paceline
