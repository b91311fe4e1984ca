// StateStore in one SQLite file: write-ahead log, one connection, every commit synced.
//
// Files that are damaged, not ours, or newer are refused and left unchanged; older ones are
// converted to the present form (state_schema.h). Not for network file systems.
#ifndef CONTROLLER_STORE_SQLITE_STORE_H_
#define CONTROLLER_STORE_SQLITE_STORE_H_

#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "controller/store/sqlite_db.h"
#include "controller/store/state_store.h"

namespace paceline {

class SqliteStore : public StateStore {
 public:
  // Opens the file, or creates it. Errors, with a line that names the file: PermissionDenied:
  // cannot be opened or written; OutOfRange: written by a newer version; DataLoss: damaged or not
  // ours; ResourceExhausted: no space left.
  static absl::StatusOr<std::unique_ptr<SqliteStore>> Open(const std::string& path);

  absl::Status Commit(const WriteBatch& batch) override;
  absl::StatusOr<std::map<std::string, std::string>> Load(const std::string& prefix) override;
  int64_t SizeBytes() override;

 private:
  explicit SqliteStore(SqliteDb db) : db_(std::move(db)) {}

  absl::Status Initialize();
  absl::Status Apply(const WriteBatch& batch);

  SqliteDb db_;
  // Prepared once, by Initialize.
  SqliteDb::Statement put_;
  SqliteDb::Statement delete_;
  SqliteDb::Statement load_;
};

}  // namespace paceline

#endif  // CONTROLLER_STORE_SQLITE_STORE_H_
