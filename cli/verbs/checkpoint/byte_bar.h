// A progress bar in bytes; only on a terminal.
//
// Thread-compatible.
#ifndef CLI_VERBS_CHECKPOINT_BYTE_BAR_H_
#define CLI_VERBS_CHECKPOINT_BYTE_BAR_H_

#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "cli/program.h"

namespace paceline {

class ByteBar {
 public:
  // `verb`: what is being done, such as "verifying".
  ByteBar(Program& program, std::string verb);
  ~ByteBar();  // Removes the bar.
  ByteBar(const ByteBar&) = delete;
  ByteBar& operator=(const ByteBar&) = delete;

  void Show(int64_t done, int64_t all);

 private:
  Program& program_;
  const std::string verb_;
  const bool enabled_;
  const absl::Time start_;
  absl::Time last_ = absl::InfinitePast();
};

}  // namespace paceline

#endif  // CLI_VERBS_CHECKPOINT_BYTE_BAR_H_
