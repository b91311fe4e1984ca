// StateStore in one SQLite file: write-ahead log, one connection, every commit synced.
//
// The file carries our application id and a schema version; what is not ours, newer, or
// damaged is refused and left as it is. Not for network file systems.
#ifndef CONTROLLER_STORE_SQLITE_STORE_H_
#define CONTROLLER_STORE_SQLITE_STORE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "controller/store/state_store.h"

struct sqlite3;
struct sqlite3_stmt;

namespace paceline {

class SqliteStore : public StateStore {
 public:
  // Opens the file, or makes it. Errors, with a line that names the file:
  // PermissionDenied: cannot be opened or written; OutOfRange: from a newer version;
  // DataLoss: damaged or not ours; ResourceExhausted: no space left.
  static absl::StatusOr<std::unique_ptr<SqliteStore>> Open(const std::string& path);

  ~SqliteStore() override;

  absl::Status Commit(const WriteBatch& batch) override;
  absl::StatusOr<std::map<std::string, std::string>> Load(const std::string& prefix) override;
  int64_t SizeBytes() override;

 private:
  struct Close {
    void operator()(sqlite3* db) const;
    void operator()(sqlite3_stmt* statement) const;
  };
  using Statement = std::unique_ptr<sqlite3_stmt, Close>;

  SqliteStore(std::string path, sqlite3* db);

  absl::Status Initialize();
  absl::Status CheckOrCreateSchema();
  absl::Status Execute(const char* sql);
  absl::StatusOr<int64_t> ReadNumber(const char* sql);
  absl::StatusOr<Statement> Prepare(const char* sql);
  absl::Status Apply(const WriteBatch& batch);
  absl::Status Error(int code) const;

  const std::string path_;
  const std::unique_ptr<sqlite3, Close> db_;
  // Prepared once; made in Initialize.
  Statement put_;
  Statement delete_;
  Statement load_;
};

}  // namespace paceline

#endif  // CONTROLLER_STORE_SQLITE_STORE_H_
