// Operations on a whole state file while no controller uses it: create it, check it, restore a
// backup. Its size can be asked for at any time.
#ifndef CONTROLLER_STORE_STATE_FILE_H_
#define CONTROLLER_STORE_STATE_FILE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace paceline {

// Name of the state file in a controller's state directory.
inline constexpr char kStateFileName[] = "state.db";

// Creates an empty state at `path` if there is none; returns whether it did. The file appears
// completely or not at all, even after a power cut or on a full disk. The remains of a lost state
// are never taken for a new one: DataLoss for an empty file, a dangling link, or a log without its
// file. Other errors as in SqliteDb.
absl::StatusOr<bool> MakeStateIfNone(const std::string& path);

// Size of the state file in `directory` and its log, in bytes; a missing one counts as 0. Also
// while a controller uses them; any thread.
int64_t StateFileBytes(const std::string& directory);

// Reads the whole file without changing it. NotFound: it is missing; DataLoss: damaged, or not a
// state; OutOfRange: written by a newer version; other errors as in SqliteDb.
absl::Status CheckStateFile(const std::string& path);

// Returns the number of a restoration: seconds since the beginning of 2020. Starts and generations
// grow by less than one per second, so they cannot have reached it by themselves. Counting
// continues from it, so that no number is reused that the lost state, or an earlier restoration,
// has used.
int64_t RestorationNumber(absl::Time now);

struct Restoration {
  std::string kept;  // Where the old state was moved; empty: there was none.
  int64_t number = 0;
};

// Makes the backup `file` the state in `directory`, which is created if missing. An old state is
// only replaced with `force`; it is kept beside the new one, under a name with the time. A power
// cut leaves one or the other. Errors, all of which leave the state unchanged: those of
// CheckStateFile; FailedPrecondition: the directory is in use, or holds a state and `force` is
// false.
absl::StatusOr<Restoration> RestoreState(const std::string& file, const std::string& directory,
                                         bool force, absl::Time now);

}  // namespace paceline

#endif  // CONTROLLER_STORE_STATE_FILE_H_
