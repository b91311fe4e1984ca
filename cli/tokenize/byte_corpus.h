// Files of text as one token file, each byte a token (docs/token-files.md).
//
// The files follow one another folder by folder, within a folder sorted by their path below it,
// and the token 0 stands between two of them; so the same files make the same tokens. Left out
// are binary files (with a byte 0), empty ones and symbolic links.
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
  // Of the files, evenly spread, whatever their size: 0.05 is every twentieth.
  double eval_share = 0;
  std::string eval_out;  // Empty: there is none.
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

// Writes `out` and `eval_out`, atomically. Errors name the file or folder: NotFound when one is
// missing or holds no text, InvalidArgument when the outputs are the same file or the share
// leaves one of them without a file; else as AtomicFile.
absl::StatusOr<ByteCorpus> WriteByteCorpus(const ByteCorpusOptions& options);

}  // namespace paceline

#endif  // CLI_TOKENIZE_BYTE_CORPUS_H_
