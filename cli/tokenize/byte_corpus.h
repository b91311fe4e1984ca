// Turns text files into one token file, with a token per byte (docs/token-files.md).
//
// The files come folder by folder, sorted by path within a folder, with the token 0 between two
// files; so the same files make the same tokens. Binary files (with a byte 0), empty files and
// symbolic links are left out.
#ifndef CLI_TOKENIZE_BYTE_CORPUS_H_
#define CLI_TOKENIZE_BYTE_CORPUS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace paceline {

inline constexpr int64_t kByteVocabSize = 256;
inline constexpr uint32_t kFileSeparator = 0;

struct ByteCorpusOptions {
  std::vector<std::string> directories;
  std::vector<std::string> include;  // Shell patterns of file names; empty: every name.
  std::string out;
  // Share of the files, evenly spread and regardless of size: 0.05 is every twentieth.
  double eval_share = 0;
  std::string eval_out;  // Empty: none.
};

struct ByteCorpus {
  struct Part {
    int64_t files = 0;
    int64_t tokens = 0;
  };
  Part train;
  Part eval;
  int64_t binary_files = 0;  // Left out.
};

// Writes `out` and `eval_out`, atomically. Errors name the file or folder: NotFound if one is
// missing or holds no text, InvalidArgument if both outputs are the same file or the share leaves
// one of them without a file; otherwise as AtomicFile.
absl::StatusOr<ByteCorpus> WriteByteCorpus(const ByteCorpusOptions& options);

}  // namespace paceline

#endif  // CLI_TOKENIZE_BYTE_CORPUS_H_
