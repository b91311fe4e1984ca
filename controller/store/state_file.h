// A state file as a whole, while no controller uses it: making one, is it sound, and putting a
// backup back.
#ifndef CONTROLLER_STORE_STATE_FILE_H_
#define CONTROLLER_STORE_STATE_FILE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace paceline {

// In a controller's state directory.
inline constexpr char kStateFileName[] = "state.db";

// Makes an empty state at `path` if there is none; true: it was made. It is there whole or not at
// all, also after a power cut or on a full disk. So what remains of a lost state is never taken for
// a new one: DataLoss for a file of no bytes, a link that leads nowhere, a log without its file.
// Else as SqliteDb.
absl::StatusOr<bool> MakeStateIfNone(const std::string& path);

// Reads all of it, changing nothing. NotFound: it is not there; DataLoss: damaged, or no state;
// OutOfRange: from a newer version; else as SqliteDb.
absl::Status CheckStateFile(const std::string& path);

// The number of a restoration: seconds since the begin of 2020. A number that grows by less than
// one a second, as those of starts and generations do, has not come there by itself: so what is
// counted from here on was never used in what the restoration took back, nor after another one.
int64_t RestorationNumber(absl::Time now);

struct Restoration {
  std::string kept;  // Where the state before is; empty: there was none.
  int64_t number = 0;
};

// Makes the backup `file` the state in `directory`, which is made if it is missing. What was there
// is kept beside it under a name with the time, and only `force` has it replaced. A power cut
// leaves the one or the other. Errors, in each of which the state is as it was: as CheckStateFile;
// FailedPrecondition: the directory is in use, or holds a state and `force` is not set.
absl::StatusOr<Restoration> RestoreState(const std::string& file, const std::string& directory,
                                         bool force, absl::Time now);

}  // namespace paceline

#endif  // CONTROLLER_STORE_STATE_FILE_H_
