// The tables of the state file, the conversion of older ones, and the detection of damage.
//
// The file has our application id and a schema version. Each step from a version to the next is a
// row of one table; all steps that a file needs form one transaction, and the old file is kept
// beside it as `<file>.v<version>`. Each record has a checksum of its key and value, so that bytes
// that changed on the medium are reported and never read as something else.
//
// Two versions so far:
//   1  key, value
//   2  key, value, checksum
#ifndef CONTROLLER_STORE_STATE_SCHEMA_H_
#define CONTROLLER_STORE_STATE_SCHEMA_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "controller/store/sqlite_db.h"

namespace paceline {

inline constexpr int64_t kStateSchemaVersion = 2;

// The checksum that is stored with a record.
int64_t RecordChecksum(absl::string_view key, absl::string_view value);

// Creates the tables in an empty file; checks any other file, and converts it to the present
// version. A refused file is left unchanged. OutOfRange: written by a newer version; DataLoss:
// another program's file, or damaged (the whole file is read to check that, at the speed of the
// disk).
absl::Status PrepareState(SqliteDb& db);

// Checks, without changing anything, that the file is a sound state of a known version; errors as
// above.
absl::Status CheckState(SqliteDb& db);

}  // namespace paceline

#endif  // CONTROLLER_STORE_STATE_SCHEMA_H_
