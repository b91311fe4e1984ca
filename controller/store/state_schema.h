// The tables of the state file, how older ones become them, and what shows damage.
//
// The file carries our application id and a schema version. Each step from a version to the next
// is a row of one table; all steps that a file needs are one transaction, and the file as it was
// stays beside it as `<file>.v<version>`. Each record has a checksum of its key and value, so that
// bytes which changed on the medium are named and never read as something else.
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

// As it stands beside the record.
int64_t RecordChecksum(absl::string_view key, absl::string_view value);

// Makes the tables in a file of no bytes; checks one that has some, and brings it to the present
// version.
// A file that is refused is left as it is. OutOfRange: from a newer version; DataLoss: another
// program's, or damaged: the whole file is read for that, at the speed of the disk.
absl::Status PrepareState(SqliteDb& db);

// That the file is a sound state of a version that this program knows, changing nothing; else as
// above.
absl::Status CheckState(SqliteDb& db);

}  // namespace paceline

#endif  // CONTROLLER_STORE_STATE_SCHEMA_H_
