// The record of how a trainer process ended, as its shim saw it: the file `<trainer dir>/exit`.
//
// It has one "key=value" per line. It appears whole (by a rename), and only after the trainer and
// everything left in its process group are gone.
#ifndef WORKER_SHIM_EXIT_RECORD_H_
#define WORKER_SHIM_EXIT_RECORD_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace paceline {

struct ExitRecord {
  int exit_code = 0;  // Meaningful when signal is 0.
  int signal = 0;     // 0: it exited by itself.
  // The kernel killed some process for lack of memory in the last half minute.
  bool out_of_memory = false;
  uint64_t end_ns = 0;  // CLOCK_MONOTONIC, in nanoseconds.
  // If not empty, the program was never started, for this reason.
  std::string start_error;
  // With start_error: the cause is something that the job names.
  bool is_input_error = false;
};

absl::Status WriteExitRecord(const std::string& trainer_dir, const ExitRecord& record);

// Reads the record; nothing when there is none. DataLoss when it cannot be parsed.
absl::StatusOr<std::optional<ExitRecord>> ReadExitRecord(const std::string& trainer_dir);

}  // namespace paceline

#endif  // WORKER_SHIM_EXIT_RECORD_H_
