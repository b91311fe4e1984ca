#include "cli/tokenize/byte_corpus.h"

#include <fnmatch.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/core/status_macros.h"
#include "common/token_file/token_file_writer.h"

namespace paceline {
namespace {

namespace fs = std::filesystem;

constexpr size_t kPieceBytes = size_t{1} << 18u;

absl::Status CannotRead(const std::string& path, int error) {
  return absl::ErrnoToStatus(error, absl::StrCat("cannot read ", path));
}

bool IsIncluded(const std::string& name, const std::vector<std::string>& patterns) {
  return patterns.empty() ||
         std::any_of(patterns.begin(), patterns.end(), [&name](const std::string& pattern) {
           return ::fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
         });
}

// Appends the paths of the folder's files, sorted.
absl::Status ListFiles(const std::string& directory, const std::vector<std::string>& include,
                       std::vector<std::string>* paths) {
  std::error_code error;
  std::vector<std::string> found;
  for (fs::recursive_directory_iterator it(directory, error), end; !error && it != end;
       it.increment(error)) {
    if (fs::is_regular_file(it->symlink_status()) &&
        IsIncluded(it->path().filename().string(), include)) {
      found.push_back(it->path().string());
    }
  }
  if (error) return CannotRead(directory, error.value());
  std::sort(found.begin(), found.end());
  paths->insert(paths->end(), found.begin(), found.end());
  return absl::OkStatus();
}

// Calls `use` with one piece of the file after another, until it returns false.
template <typename Use>
absl::Status ForEachPiece(const std::string& path, std::string* buffer, const Use& use) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return CannotRead(path, errno);
  while (in) {
    in.read(&(*buffer)[0], static_cast<std::streamsize>(buffer->size()));
    if (in.bad()) return CannotRead(path, EIO);
    const auto size = static_cast<size_t>(in.gcount());
    if (size != 0 && !use(absl::string_view(buffer->data(), size))) break;
  }
  return absl::OkStatus();
}

// One of the output files.
class Output {
 public:
  static absl::StatusOr<Output> Create(const std::string& path) {
    PACELINE_ASSIGN_OR_RETURN(TokenFileWriter writer,
                              TokenFileWriter::Create(path, TokenType::kUint16, kByteVocabSize));
    return Output(std::move(writer));
  }

  absl::Status AppendFile(const std::string& path, std::string* buffer) {
    if (part_.files++ > 0) PACELINE_RETURN_IF_ERROR(writer_.Append({kFileSeparator}));
    absl::Status appended;
    PACELINE_RETURN_IF_ERROR(ForEachPiece(path, buffer, [&](absl::string_view piece) {
      tokens_.resize(piece.size());
      std::transform(piece.begin(), piece.end(), tokens_.begin(),
                     [](char byte) { return static_cast<uint8_t>(byte); });
      appended = writer_.Append(tokens_);
      return appended.ok();
    }));
    return appended;
  }

  absl::StatusOr<ByteCorpus::Part> Finish() {
    part_.tokens = writer_.size();
    PACELINE_RETURN_IF_ERROR(writer_.Finish());
    return part_;
  }

  int64_t files() const { return part_.files; }

 private:
  explicit Output(TokenFileWriter writer) : writer_(std::move(writer)) {}

  TokenFileWriter writer_;
  ByteCorpus::Part part_;
  std::vector<uint32_t> tokens_;
};

absl::StatusOr<std::vector<std::string>> ListAll(const ByteCorpusOptions& options) {
  std::vector<std::string> paths;
  for (const std::string& directory : options.directories) {
    PACELINE_RETURN_IF_ERROR(ListFiles(directory, options.include, &paths));
  }
  return paths;
}

// Number of evaluation files among the first `files` files.
int64_t EvalFiles(int64_t files, const ByteCorpusOptions& options) {
  return static_cast<int64_t>(static_cast<double>(files) * options.eval_share + 1e-9);
}

absl::Status NoText(const ByteCorpusOptions& options, int64_t binary_files) {
  std::string what = absl::StrCat("no text in ", absl::StrJoin(options.directories, ", "));
  if (!options.include.empty()) {
    absl::StrAppend(&what, " in files named ", absl::StrJoin(options.include, " or "));
  }
  if (binary_files > 0) absl::StrAppend(&what, "; ", binary_files, " binary files were left out");
  return absl::NotFoundError(what);
}

}  // namespace

absl::StatusOr<ByteCorpus> WriteByteCorpus(const ByteCorpusOptions& options) {
  if (options.out == options.eval_out) {
    return absl::InvalidArgumentError(absl::StrCat("both outputs are ", options.out));
  }
  PACELINE_ASSIGN_OR_RETURN(const std::vector<std::string> paths, ListAll(options));
  PACELINE_ASSIGN_OR_RETURN(Output train, Output::Create(options.out));
  std::optional<Output> eval;
  if (!options.eval_out.empty()) {
    PACELINE_ASSIGN_OR_RETURN(eval, Output::Create(options.eval_out));
  }
  ByteCorpus corpus;
  int64_t files = 0;
  std::string buffer(kPieceBytes, '\0');
  for (const std::string& path : paths) {
    bool is_empty = true;
    bool is_binary = false;
    PACELINE_RETURN_IF_ERROR(ForEachPiece(path, &buffer, [&](absl::string_view piece) {
      is_empty = false;
      is_binary = piece.find('\0') != absl::string_view::npos;
      return !is_binary;
    }));
    if (is_binary) ++corpus.binary_files;
    if (is_binary || is_empty) continue;
    ++files;
    const bool for_eval = eval && EvalFiles(files, options) > EvalFiles(files - 1, options);
    PACELINE_RETURN_IF_ERROR((for_eval ? *eval : train).AppendFile(path, &buffer));
  }
  if (files == 0) return NoText(options, corpus.binary_files);
  if (train.files() == 0) {
    return absl::InvalidArgumentError("all files would be for the evaluation");
  }
  if (eval && eval->files() == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("a share of ", options.eval_share, " of ", train.files(),
                     " files is none for the evaluation; take more files or a greater share"));
  }
  PACELINE_ASSIGN_OR_RETURN(corpus.train, train.Finish());
  if (eval) {
    PACELINE_ASSIGN_OR_RETURN(corpus.eval, eval->Finish());
  }
  return corpus;
}

}  // namespace paceline
